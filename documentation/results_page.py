"""Keeps results of `dgn reproduce` in docs/results and writes docs/results.md from them.

    python -m documentation.results_page keep FOLDER…   # results.json, without runs and figures
    python -m documentation.results_page write          # docs/results.md

The rows and claims of each result are on the page of its experiment (`experiment_pages`).
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments._published import claim_ids, table_rows
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.formatting import format_number, format_printed
from dgn_engine.protocol.experiments import Claim
from dgn_engine.sweep.statistics import adjust_holm
from dgn_engine.text.written_numbers import format_duration
from documentation.generated_page import table

ROOT = Path(__file__).parents[1]
PAGE, KEPT = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
SIGNIFICANT = 0.05  # two-sided, after Holm over all printed means of one protocol
SCALES = ("full", "changed", "reduced", "quick")  # the best first
HOW = {
    "full": "full scale",
    "changed": "changed scale",
    "reduced": "reduced scale",
    "quick": "quick",
}
MEANINGS = {
    "full": "the epochs, seeds and data of the paper, or of the authors' notebooks.",
    "changed": "`--full` with something other than the paper's.",
    "reduced": "`--full` with less of something: epochs, seeds, images.",
    "quick": "smaller networks, fewer seeds, digits in place of MNIST and CIFAR-10. Its verdicts "
    "are on these networks, not on the paper.",
}
VERDICTS = ("held", "not held", "not decided")
SHARED_TIMES_SINCE = "2026-11-24"  # before it, each network counts the time of its whole stack
HERE = ("--data-root", "--out")  # options that say where things lie on this machine


@dataclass(frozen=True)
class PrintedTable:
    """A table of a paper, the experiment that measures it, and how that names a row."""

    key: str  # in published.json
    title: str
    experiment: str
    label: Callable[[str], str] = str
    of_others: tuple[str, ...] = ()  # numbers that another paper measured

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(name for name in table_rows(self.key) if name not in self.of_others)


TABLES = (
    PrintedTable("npf_npk_2020_table2", "[NPF] Table 2", "npf-table2"),
    PrintedTable(
        "npf_npk_2020_figure2",
        "[NPF] Figure 2",
        "npf-stages",
        of_others=("CNTK (Arora et al. 2019)",),
    ),
    PrintedTable("npf_workshop_table4", "[WS] Table 4", "workshop-table4"),
    PrintedTable("duality_experiment1", "[DUAL] Experiment 1", "duality-48"),
    PrintedTable(
        "duality_experiment2", "[DUAL] Experiment 2", "duality-noise", lambda row: f"γ = {row} %"
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="store results in docs/results")
    keeping.add_argument("folder", nargs="+", type=Path)
    commands.add_parser("write", help="write docs/results.md")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "keep":
            for folder in asked.folder:
                keep(document.read_document(folder))
        else:
            PAGE.write_text(written(kept()), "utf-8")
    except UserError as refusal:
        print(refusal, file=sys.stderr)
        return 2
    return 0


def keep(result: Document) -> Path:
    """Store a result that is done, without its runs and figures."""
    if result.state != "done":
        raise UserError(f"The result of {result.name} is {result.state}; only whole ones are kept.")
    elsewhere = replace(
        result,
        units=(),
        figures=(),
        details={},
        request={**result.request, "data_root": ""},
        command=tuple(_without(result.command, HERE)),
    )
    path = KEPT / f"{_file_name(result)}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(document.to_bytes(elsewhere))
    return path


def _without(command: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command without these options and their values."""
    words = iter(command)
    for word in words:
        if word in options:
            next(words, None)
        else:
            yield word


def kept() -> list[Document]:
    return [document.read_document(path) for path in sorted(KEPT.glob("*.json"))]


def _file_name(result: Document) -> str:
    chosen = [str(result.request.get("only") or "")]
    words = [result.name, result.scale, result.protocol, *chosen]
    return "-".join(re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-") for word in words if word)


def written(results: Sequence[Document]) -> str:
    """Return docs/results.md, made of these results alone."""
    return "\n".join(_page(results)) + "\n"


def _page(results: Sequence[Document]) -> Iterator[str]:
    there = [scale for scale in SCALES if any(result.scale == scale for result in results)]
    yield "# Which results are kept\n"
    yield _introduction(results) + "\n"
    yield from (f"- **{HOW[scale].capitalize()}**: {MEANINGS[scale]}" for scale in there)
    yield (
        "\n[Reproduce the papers](guide/papers.md) explains scales, protocols and verdicts; "
        "[decision 0014](decisions/0014-verdicts-that-can-fail.md) has the rules.\n"
    )
    yield "## Verdicts\n"
    yield from _verdicts(results)
    yield from _differing(results)
    yield "\n## Every printed row\n"
    yield from _printed_means(results)
    yield from _rows_by_scale(results)
    yield "\n## Every kept result\n"
    yield "Each name leads to the rows, claims and a figure. The time is that of all runs added up."
    if any(result.made < SHARED_TIMES_SINCE for result in results):
        yield "Networks that were trained together as one stack each count the time of the stack."
    for scale in there:
        yield f"\n### {HOW[scale].capitalize()}\n"
        yield from table(
            ("experiment", "time", *VERDICTS),
            [_kept_row(result) for result in results if result.scale == scale],
        )


def _introduction(results: Sequence[Document]) -> str:
    """Return what the results know of themselves: when, where and with what they were made."""
    days = sorted({result.made[:10] for result in results})
    machines = sorted({str(result.machine["processor"]) for result in results})
    cores = sorted({str(result.machine["cores"]) for result in results})
    devices = sorted({str(result.machine["device"]) for result in results})
    torch = sorted({result.versions["torch"] for result in results})
    return (
        f"[docs/results](results) has {len(results)} results of `dgn reproduce`, without their "
        "runs. This page is written from them alone. They were made on "
        f"{' to '.join(dict.fromkeys((days[0], days[-1])))} with torch {', '.join(torch)} on "
        f"{', '.join(cores)} cores ({', '.join(machines)}), device {', '.join(devices)}."
    )


def _verdicts(results: Sequence[Document]) -> Iterator[str]:
    """Yield how many claims held, by scale."""
    for scale in SCALES:
        claims = [claim for result in results if result.scale == scale for claim in result.claims]
        if not claims:
            continue
        counts = Counter(_word(claim) for claim in claims)
        words = ", ".join(f"{counts[word]} {word}" for word in VERDICTS)
        ids = {claim.id for claim in claims} & set(claim_ids())
        counted = f"{len(claims)} verdicts on {len(ids)} claims"
        yield f"- **{HOW[scale].capitalize()}**: {words} ({counted})."
    found = {claim.id for result in results for claim in result.claims}
    missing = [claim_id for claim_id in claim_ids() if claim_id not in found]
    if missing:
        yield f"- No verdict yet: {', '.join(missing)}."


def _differing(results: Sequence[Document]) -> Iterator[str]:
    """Yield which printed means differ significantly from ours, at the paper's scale."""
    for protocol in ("as-published", "as-in-code"):
        rows = [
            row
            for result in results
            if (result.scale, result.protocol) == ("full", protocol)
            for row in result.rows
            if math.isfinite(row.welch_p)
        ]
        if not rows:
            continue
        adjusted = adjust_holm([row.welch_p for row in rows])
        differ = [
            f"{row.label} ({format_number(row.difference, row.unit, signed=True)})"
            for row, p in zip(rows, adjusted, strict=True)
            if p <= SIGNIFICANT
        ]
        yield (
            f"- **Printed means, {protocol}, full scale**: {len(differ)} of {len(rows)} differ "
            f"from ours (Welch, p ≤ {SIGNIFICANT:g} after Holm)"
            + (f": {'; '.join(differ)}." if differ else ".")
        )


def _link(result: Document) -> str:
    return f"[{result.name}](experiments/{result.name}.md)"


def _printed_means(results: Sequence[Document]) -> Iterator[str]:
    """Yield a table of the means beside which the paper prints one, under the paper's names."""
    for printed in TABLES:
        found = {}
        for name in printed.rows:
            _, result, rows = _best_run(results, printed, name)
            if result and any(row.printed and row.place for row in rows):
                found[name] = (result, {row.place[1]: row for row in rows if row.place})
        if not found:
            continue
        heads = list(dict.fromkeys(head for _, row in found.values() for head in row))
        yield (
            f"Means of {printed.title} in %, the printed one in brackets. Ours has the half-width "
            "of its 95 % interval, the printed one the standard deviation of its runs.\n"
        )
        yield from table(
            ("row", *heads),
            [
                (
                    f"{name} ({HOW[result.scale]}, {result.protocol}, "
                    f"{max(len(row.values) for row in cells.values())} seeds)",
                    *(_mean(cells[head]) if head in cells else "–" for head in heads),
                )
                for name, (result, cells) in found.items()
            ],
        )
        yield ""


def _mean(row: ReportRow) -> str:
    measured = f"{format_number(row.mean, '%')} ± {format_number(row.half_width, '%')}"
    return f"{measured} ({format_printed(row.printed, '%')})" if row.printed else measured


def _rows_by_scale(results: Sequence[Document]) -> Iterator[str]:
    """Yield which rows of each printed table were run, by the best scale of each."""
    for printed in TABLES:
        by_scale: dict[str, list[str]] = {}
        for name in printed.rows:
            by_scale.setdefault(_best_run(results, printed, name)[0], []).append(name)
        parts = [
            f"{HOW[scale].capitalize()}: {', '.join(map(printed.label, by_scale[scale]))}."
            for scale in SCALES
            if scale in by_scale
        ]
        if "" in by_scale:
            parts.append(f"No kept result: {len(by_scale[''])} of {len(printed.rows)} rows.")
        yield f"- **{printed.title}.** {' '.join(parts)}"


def _best_run(
    results: Sequence[Document], printed: PrintedTable, name: str
) -> tuple[str, Document | None, list[ReportRow]]:
    label = printed.label(name)
    for scale in SCALES:
        for result in results:
            if (result.name, result.scale) != (printed.experiment, scale):
                continue
            rows = [row for row in result.rows if _is_of(row, label)]
            if scale == "quick" and not rows:  # there a row is named as what was trained
                rows = [row for row in result.rows if row.remark.startswith(_remarks_on(name))]
            if any(math.isfinite(row.mean) for row in rows):
                return scale, result, rows
    return "", None, []


def _remarks_on(name: str) -> tuple[str, ...]:
    """Return how the remark on a number printed for this network begins, now and in old results."""
    return f"published for {name}", f"printed of {name}"


def _is_of(row: ReportRow, label: str) -> bool:
    return row.place[0] == label if row.place is not None else row.label.startswith(label)


def _kept_row(result: Document) -> tuple[str, ...]:
    counts: dict[str, Counter[str]] = {word: Counter() for word in VERDICTS}
    for claim in result.claims:
        counts[_word(claim)][claim.id] += 1
    chosen = [str(result.request.get("only") or "")]
    if result.scale != "quick":
        chosen.append(result.protocol)
    return (
        ", ".join([_link(result), *filter(None, chosen)]),
        format_duration(result.seconds),
        *(
            ", ".join(f"{one} ×{n}" if n > 1 else one for one, n in found.items())
            for found in counts.values()
        ),
    )


def _word(claim: Claim) -> str:
    return claim.verdict if claim.verdict in ("held", "not held") else "not decided"


if __name__ == "__main__":
    sys.exit(main())
