"""Keeps results of `dgn reproduce` in docs/results and writes docs/results.md from them.

    python -m documentation.results_page keep FOLDER…   # results.json, without runs and figures
    python -m documentation.results_page write          # docs/results.md

The rows and claims of each result are on the page of its experiment (`experiment_pages`).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments._published import claim_ids, published_claim, table_rows
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.formatting import (
    format_interval,
    format_number,
    join_verdicts,
    plain_verdict,
    summarize_verdicts,
)
from dgn_engine.protocol.experiments import Claim
from dgn_engine.text.written_numbers import format_duration
from documentation.generated_page import table

ROOT = Path(__file__).parents[1]
PAGE, KEPT = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
WORLDS = ROOT / "docs" / "measurements" / "worlds.json"
SCALES = ("full", "changed", "reduced", "quick")  # the best first
HOW = {
    "full": "full scale",
    "changed": "changed scale",
    "reduced": "reduced scale",
    "quick": "quick scale",
}
# Rows of [WS] Table 4 with the networks, settings and printed numbers of [NPF] Table 2, in the five
# columns that both have.
SAME_NETWORKS = {
    "Arch-1 w=128 d=6 Adam MNIST": "FC(w=128,d=6)/Adam/MNIST",
    "Arch-1 w=128 d=6 SGD MNIST": "FC(w=128,d=6)/SGD/MNIST",
}
SHARE = "(FL − FR)/(ReLU − FR)"
AGREEING = {  # what rows do with the margin declared before their run
    "agrees": "agree within it",
    "differs": "differ by more",
    "open": "are open",
    "": "had none",
}
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


TABLE_2 = PrintedTable("npf_npk_2020_table2", "[NPF] Table 2", "npf-table2")
WORKSHOP = PrintedTable("npf_workshop_table4", "[WS] Table 4", "workshop-table4")
TABLES = (
    TABLE_2,
    PrintedTable(
        "npf_npk_2020_figure2",
        "[NPF] Figure 2",
        "npf-stages",
        of_others=("CNTK (Arora et al. 2019)",),
    ),
    WORKSHOP,
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
    yield (
        "[Reproduce the papers](guide/papers.md) explains scales, protocols and verdicts; "
        "[decision 0014](decisions/0014-verdicts-that-can-fail.md) has the rules.\n"
    )
    yield "## Verdicts\n"
    yield from _verdicts(results)
    yield from _agreeing(results)
    yield ""
    yield from _claim_table(results)
    yield "\n## Every printed row\n"
    yield from _printed_means(results)
    yield from _rows_by_scale(results)
    yield "\n## Every kept result\n"
    yield "Each name leads to rows, claims and a figure; times are those of all runs added up.\n"
    for scale in there:
        there_at = [result for result in results if result.scale == scale]
        listed = (
            f"{len(there_at)} [experiments](experiments/index.md)"
            if scale == "quick"  # of seconds or minutes
            else "; ".join(map(_kept_result, there_at))
        )
        yield f"- **{HOW[scale].capitalize()}**: {listed}."


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
        claims = _claims_at(results, scale)
        if claims:
            yield f"- **{HOW[scale].capitalize()}**: {summarize_verdicts(claims)}"
    found = {claim.id for result in results for claim in result.claims if claim.n}
    found |= {claim.id for claim in taken_claims(results)}
    missing = [claim_id for claim_id in claim_ids() if claim_id not in found]
    if missing:
        yield f"- No verdict yet: {', '.join(missing)}."


def _claims_at(results: Sequence[Document], scale: str) -> list[Claim]:
    return [claim for result in results if result.scale == scale for claim in result.claims]


def _agreeing(results: Sequence[Document]) -> Iterator[str]:
    """Yield within which margins our means agree with the printed ones, at the paper's scale."""
    for protocol in ("as-published", "as-in-code"):
        rows = [
            row
            for result in results
            if (result.scale, result.protocol) == ("full", protocol)
            for row in result.rows
            if math.isfinite(row.agreement.within)
        ]
        if not rows:
            continue
        margins = sorted(row.agreement.within for row in rows)
        verdicts = Counter(row.agreement.verdict for row in rows)
        judged = ", ".join(
            f"{verdicts[word]} {words}" for word, words in AGREEING.items() if verdicts[word]
        )
        ends = dict.fromkeys(f"±{margin:.2f}" for margin in (margins[0], margins[-1]))
        yield (
            f"- **Printed means, {protocol}, full scale**: {len(rows)} agree with ours within "
            f"{' to '.join(ends)} points (two one-sided Welch tests at 5 %). As to the margin "
            f"declared before the run, {judged}."
        )


def _claim_table(results: Sequence[Document]) -> Iterator[str]:
    """Yield a table of the claims: how often each is held in made-up worlds, and its verdict."""
    worlds = read_worlds()
    heads = ["claim", "null world, %", "paper world, %", "verdict"]
    rows = []
    for claim_id in claim_ids():
        verdict = _best_verdict(results, claim_id)
        if verdict:
            rows.append((claim_id, *worlds.get(claim_id, ("–", "–")), verdict))
    if worlds:
        yield (
            "How often each [claim](experiments/index.md) is held in simulated worlds: at most "
            "where it is just false, at least where the paper (or the pilot that reports name) is "
            "exactly right; and its worst verdict at the best scale.\n"
        )
        yield from table(heads, rows)
    else:
        yield "The worst verdict on each [claim](experiments/index.md) at its best scale:\n"
        yield from table((heads[0], heads[-1]), [(row[0], row[-1]) for row in rows])


def _best_verdict(results: Sequence[Document], claim_id: str) -> str:
    """Return the verdict at the best scale at which a claim was judged, with that scale."""
    for scale in SCALES:
        claims = [
            claim
            for claim in (*_claims_at(results, scale), *taken_claims(results, scale))
            if claim.id == claim_id
        ]
        if any(claim.n for claim in claims):  # others say only how to measure it
            word = joint_verdicts(claims)[claim_id]
            exact = all(claim.exact for claim in claims)
            return word if exact or scale == "full" else f"{word} at {HOW[scale]}"
    return ""


def joint_verdicts(claims: Sequence[Claim]) -> dict[str, str]:
    """Return the worst verdict on each claim."""
    words: dict[str, set[str]] = {}
    for claim in claims:
        words.setdefault(claim.id, set()).add(plain_verdict(claim))
    return {claim_id: join_verdicts(found) for claim_id, found in words.items()}


def read_worlds() -> dict[str, tuple[str, str]]:
    """Return the percentages of null and paper worlds in which each claim is held; the worst."""
    if not WORLDS.is_file():
        return {}
    entries = json.loads(WORLDS.read_text("utf-8"))
    rates = {}
    for claim_id in dict.fromkeys(entry["claim"] for entry in entries):
        own = [entry for entry in entries if entry["claim"] == claim_id]
        null = [100 * entry["null"] for entry in own if entry.get("null") is not None]
        paper = [100 * entry["paper"] for entry in own if entry.get("paper") is not None]
        rates[claim_id] = (
            f"{max(null):.0f}" if null else "–",
            f"{min(paper):.0f}" if paper else "–",
        )
    return rates


def taken_claims(results: Sequence[Document], scale: str = "full") -> list[Claim]:
    """Return the claims on [WS] Table 4 that are judged for the same networks in [NPF] Table 2.

    Both papers print the same numbers there, so that the share of the gap that true gates recover
    has one bar.
    """
    return [
        replace(
            claim,
            id=claim_id,
            statement=published_claim(claim_id)[1],
            statistic=claim.statistic.replace(same, row, 1),
        )
        for row, same in _taken_rows(results).items()
        for claim in (_claims_at(results, "full") if scale == "full" else ())
        if claim.statistic.startswith(f"{same}: {SHARE}")
        for claim_id in ("ws-5" if "; above" in claim.statistic else "ws-6",)
    ]


def _taken_rows(results: Sequence[Document]) -> dict[str, str]:
    """Return the rows of [WS] Table 4 that were run at full scale only for [NPF] Table 2."""
    return {
        row: same
        for row, same in SAME_NETWORKS.items()
        if _best_run(results, WORKSHOP, row)[0] != "full"
        and _best_run(results, TABLE_2, same)[0] == "full"
    }


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
            f"Means of {printed.title} in %, the printed one in brackets, and the margin within "
            "which they agree.\n"
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
    text = format_number(row.mean, "%")
    if row.printed is None:
        return text
    within = row.agreement.within
    margin = f", ±{format_number(within, '%')}" if math.isfinite(within) else ""
    return f"{text} ({format_number(row.printed.value, '%')}){margin}"


def _rows_by_scale(results: Sequence[Document]) -> Iterator[str]:
    """Yield which rows of each printed table were run, by the best scale of each."""
    taken = _taken_rows(results)
    for printed in TABLES:
        by_scale: dict[str, list[str]] = {}
        for name in printed.rows:
            if printed is WORKSHOP and name in taken:
                continue
            by_scale.setdefault(_best_run(results, printed, name)[0], []).append(name)
        parts = [
            f"{HOW[scale].capitalize()}: {', '.join(map(printed.label, by_scale[scale]))}."
            for scale in SCALES
            if scale in by_scale
        ]
        if printed is WORKSHOP and taken:
            judged = "".join(
                f"; {claim.id} {plain_verdict(claim)} ({claim.statistic.partition(': ')[2]}: "
                f"{format_number(claim.value)} {format_interval(claim)})"
                for claim in taken_claims(results)
            )
            parts.insert(
                0,
                f"Five columns from [NPF] Table 2, whose networks are the same: {', '.join(taken)}"
                f"{judged}.",
            )
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


def _kept_result(result: Document) -> str:
    chosen = [str(result.request.get("only") or ""), result.protocol]
    named = ", ".join([_link(result), *filter(None, chosen)])
    return f"{named} ({format_duration(result.seconds)})"


if __name__ == "__main__":
    sys.exit(main())
