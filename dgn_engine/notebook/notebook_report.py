"""The result of a reproduced experiment in a notebook: its verdicts and its rows as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document, ReportRow, read
from dgn_engine.experiments.report.mathematics import rich
from dgn_engine.protocol.experiments import Claim
from dgn_engine.storage.runs.folder_layout import results_root

_LEFT = " style='text-align:left'"


def open_report(name: str | Path) -> NotebookReport:
    """A result of `dgn reproduce`, `dgn sweep` or `dgn gate-information`: its folder, its
    `results.json`, or the name of one of your results. Raises `UserError`."""
    here, there = Path(name), results_root() / name
    return NotebookReport(here if here.exists() or not there.exists() else there)


class NotebookReport:
    """One result as it was written. `path`: its folder or its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: Document = read(path)

    @property
    def rows(self) -> tuple[ReportRow, ...]:
        """What was measured, beside what was printed."""
        return self.document.rows

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the paper claims, with statistic, interval, p and verdict."""
        return self.document.claims

    @property
    def verdicts(self) -> dict[str, int]:
        """How many claims have each verdict, in words: {'held': 3, 'not decided': 1}."""
        return formatting.verdicts(self.document)

    def __repr__(self) -> str:
        found = ", ".join(f"{count} {words}" for words, count in self.verdicts.items())
        made = self.document
        return f"<report {made.name}: {made.state}, {len(made.rows)} rows; {found or 'no claims'}>"

    def _repr_html_(self) -> str:
        """Title, verdicts and rows, in a notebook; the report itself has the figures, too."""
        return "\n".join(self._parts())

    def _parts(self) -> Iterator[str]:
        made = self.document
        yield f"<p><b>{escape(made.title)}</b> · {escape(made.paper)}</p>"
        for sentence in (*made.notices, *made.answer, formatting.made_at(made)):
            if sentence:
                yield f"<p>{escape(sentence)}</p>"
        if made.claims:
            claims = [formatting.claim_cells(claim, made.scale) for claim in made.claims]
            yield _table(formatting.CLAIM_HEADS, claims)
        if made.rows:
            rows = [formatting.row_cells(made, row) for row in made.rows]
            yield _table(formatting.ROW_HEADS, rows)
            yield f"<p>{escape(formatting.rows_note(made))}</p>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Without the columns in which nothing stands."""
    shown, cells = formatting.table(heads, rows)
    head = "".join(f"<th{_LEFT}>{escape(each)}</th>" for each in shown)
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{rich(cell)}</td>' for cell in row)}</tr>" for row in cells
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
