"""The result of a reproduced experiment in a notebook: its verdicts and rows as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document, ReportRow, read_document
from dgn_engine.experiments.report.mathematics import label_as_html
from dgn_engine.protocol.experiments import Claim
from dgn_engine.storage.runs.folder_layout import results_root

_LEFT = " style='text-align:left'"


def open_report(name: str | Path) -> NotebookReport:
    """Open a result of `dgn reproduce`, `dgn sweep` or `dgn gate-information`.

    Args:
        name: Its folder, its `results.json`, or its name in your results folder.

    Returns:
        The result; a notebook shows it as tables.

    Raises:
        UserError: There is no such result, or it cannot be read.
    """
    here, there = Path(name), results_root() / name
    return NotebookReport(here if here.exists() or not there.exists() else there)


class NotebookReport:
    """One result, as it was written.

    Args:
        path: Its folder, or its `results.json`.

    Attributes:
        path: The same.
        document: Everything in the file.

    Raises:
        UserError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: Document = read_document(path)

    @property
    def rows(self) -> tuple[ReportRow, ...]:
        """The measured values, next to the printed ones.

        Returns:
            The rows of the report's table.
        """
        return self.document.rows

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The paper's claims, each with its statistic, confidence interval, p-value and verdict.

        Returns:
            The claims, in the order of the report.
        """
        return self.document.claims

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of claims with each verdict.

        Returns:
            For example {'held': 3, 'not decided': 1}.
        """
        return formatting.count_verdicts(self.document)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{count} {words}" for words, count in self.verdicts.items())
        doc = self.document
        return f"<report {doc.name}: {doc.state}, {len(doc.rows)} rows; {verdicts or 'no claims'}>"

    def _repr_html_(self) -> str:
        """Return title, verdicts and rows as HTML; the report itself also has the figures."""
        return "\n".join(self._html_parts())

    def _html_parts(self) -> Iterator[str]:
        """Yield the paragraphs and tables as HTML."""
        document = self.document
        yield f"<p><b>{escape(document.title)}</b> · {escape(document.paper)}</p>"
        for sentence in (*document.notices, *document.answer, formatting.made_at(document)):
            if sentence:
                yield f"<p>{escape(sentence)}</p>"
        if document.claims:
            claims = [formatting.claim_cells(claim, document.scale) for claim in document.claims]
            yield f"<p>{escape(formatting.summarize_verdicts(document.claims, document.scale))}</p>"
            yield _html_table(formatting.CLAIM_HEADS, claims)
        if document.rows:
            rows = [formatting.row_cells(document, row) for row in document.rows]
            yield _html_table(formatting.ROW_HEADS, rows)
            yield f"<p>{escape(formatting.rows_note(document))}</p>"


def _html_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table, without empty columns."""
    shown, cells = formatting.drop_empty_columns(heads, rows)
    head = "".join(f"<th{_LEFT}>{escape(name)}</th>" for name in shown)
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{label_as_html(cell)}</td>' for cell in row)}</tr>"
        for row in cells
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
