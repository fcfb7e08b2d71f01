"""Formatting of results, shared by reports and the window: numbers, cells, facts and colours."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from dgn_engine.experiments._power import GOAL
from dgn_engine.experiments._published import MARGINS
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.protocol.experiments import PRINTED_SPREAD, Claim, Figure, Outlier, Printed
from dgn_engine.scene.elements import Dash, Role
from dgn_engine.text import written_numbers
from dgn_engine.text.printable import printable
from dgn_engine.text.written_numbers import format_duration, format_percent

NOTHING = "–"
LEVEL = 0.025  # one-sided significance level that corresponds to the 95 % interval
MINUS = "−"
_ROUNDING = 1e-9  # share of an interval below which a value is a rounding error
VERDICTS = ("held", "not held", "not decided")
SERIES: tuple[Role, ...] = (
    "value",
    "feature",
    "cross",
    "compared",
    "text",
)  # in the order of the curves
# In turn, so that neighbours differ in grey print too. Dotted lines are printed or ideal values.
DASHES: tuple[Dash, ...] = ("solid", "dash", "dashdot")
ROW_HEADS = (
    "",
    "measured",
    "printed",
    "difference",
    "agreement",
    "n",
    "epochs",
    "scale",
    "protocol",
    "time",
    "remark",
)
CLAIM_HEADS = (
    "claim",
    "statistic",
    "value",
    "95 % interval",
    "sign-flip interval",
    "n",
    "p",
    "verdict",
    "after Holm",
    "power",
    "remark",
)
ROW_NOTE = "Mean ± half-width of the 95 % interval over n replicates (Student’s t)."
PRINTED_NOTE = (
    f"A printed ± is {PRINTED_SPREAD}, not the half-width of an interval. "
    "Agreement: the smallest margin within which both means agree (two one-sided Welch tests at "
    "5 %), beside the margin declared before the run: "
    f"{', '.join(f'{margin:g} points on {data}' for data, margin in MARGINS.items())}."
)
CLAIM_NOTE = (
    "p: probability of at least this much evidence for the verdict if the opposite were true; a "
    f"verdict needs p ≤ {LEVEL:g}. After Holm: the verdict after correction for all claims of this "
    "table. Power: how often the claim would be held with this n if the paper, or the pilot that "
    "is named, were exactly right. Sign-flip interval: also 95 %, for replicates that are "
    "symmetric but not normal; six are needed. With an outlier, both intervals must decide the "
    "same. Even if there is none among five replicates, 45 % of all may be far off; among ten, "
    "26 %."
)


def format_number(value: float, unit: str = "", signed: bool = False) -> str:
    if not math.isfinite(value):
        return NOTHING
    sign = "+" if signed else ""
    if unit == "%":
        text = f"{value:{sign}.2f}"
    elif 1000 <= abs(value) < 1e6:
        text = f"{value:{sign},.0f}"
    elif value == 0 or 0.001 <= abs(value) < 1000:
        text = f"{value:{sign}.4g}"
    else:
        return written_numbers.format_number(value, 3, signed)
    return text.replace("-", MINUS)


def format_measured(row: ReportRow) -> str:
    mean = format_number(row.mean, row.unit)
    if not math.isfinite(row.half_width) or mean == NOTHING:
        return mean
    return f"{mean} ± {format_number(row.half_width, row.unit)}"


def format_measured_with_unit(row: ReportRow) -> str:
    text = format_measured(row)
    return f"{text} {row.unit}" if row.unit and text != NOTHING else text


def format_printed(found: Printed | None, unit: str) -> str:
    if found is None:
        return NOTHING
    text = format_number(found.value, unit)
    half = found.half_width
    return text if half is None else f"{text} ± {format_number(half, unit)}"


def format_agreement(row: ReportRow, scale: str = "") -> str:
    """Format as '±0.15 ≤ 0.5: agrees', or '±0.15' if no margin was declared."""
    found = row.agreement
    if not math.isfinite(found.within):
        return NOTHING
    text = f"±{format_number(found.within, row.unit)}"
    if not found.verdict:
        return text
    sign = "≤" if found.verdict == "agrees" else ">"
    return f"{text} {sign} {found.margin:g}: {found.verdict}{_at_scale(scale)}"


def format_outlier(found: Outlier | None, of: str) -> str:
    """Format as 'seed 3 is an outlier: 91.2, 14 standard deviations from the others'."""
    if found is None:
        return ""
    return (
        f"{of.removesuffix('s')} {found.number} is an outlier: {format_number(found.value)}, "
        f"{found.distance:.3g} standard deviations from the others"
    )


def _format_value(claim: Claim) -> str:
    """Format the value of a claim; rounding errors, far below its interval, are 0."""
    rounding = not claim.exact and abs(claim.value) < _ROUNDING * (claim.high - claim.low)
    return format_number(0.0 if rounding else claim.value)


def format_interval(claim: Claim) -> str:
    return "exact" if claim.exact else _format_ends(claim.low, claim.high)


def _format_ends(low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return NOTHING
    return f"[{format_number(low)}, {format_number(high)}]"


def format_epochs(value: float) -> str:
    """Format epochs: 0 for an untrained network, NaN if not trained in epochs."""
    return f"{value:g}" if math.isfinite(value) else NOTHING


def row_cells(document: Document, row: ReportRow) -> tuple[str, ...]:
    return (
        row.label,
        format_measured_with_unit(row),
        format_printed(row.printed, row.unit),
        format_number(row.difference, row.unit, signed=True),
        format_agreement(row, document.scale),
        format_replicates(len(row.values), row.of),
        format_epochs(row.epochs),
        document.scale,
        document.protocol,
        format_duration(row.seconds) if row.seconds else NOTHING,
        "; ".join(part for part in (row.remark, format_outlier(row.outlier, row.of)) if part),
    )


def claim_cells(claim: Claim, scale: str = "") -> tuple[str, ...]:
    return (
        f"{claim.id}: {claim.statement}",
        claim.statistic,
        _format_value(claim),
        format_interval(claim),
        _format_ends(claim.flip_low, claim.flip_high),
        format_replicates(claim.n, claim.of),
        format_p_value(claim.p),
        format_verdict(claim, scale),
        after_holm(claim),
        format_power(claim),
        "; ".join(part for part in _claim_remarks(claim) if part),
    )


def _claim_remarks(claim: Claim) -> Iterator[str]:
    yield claim.remark
    yield format_outlier(claim.outlier, claim.of)
    if math.isfinite(claim.power) and claim.power_from:
        yield f"power based on {claim.power_from}"


def format_replicates(n: int, of: str) -> str:
    """Format as '5 seeds' or '1 seed'."""
    return f"{n} {of.removesuffix('s') if n == 1 else of}"


def format_p_value(p: float) -> str:
    """Format a p value as '0.03' or '< 0.001'."""
    if not math.isfinite(p):
        return NOTHING
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def format_verdict(claim: Claim, scale: str = "") -> str:
    """Format as 'held', or 'held with an outlier at quick scale' if the scale is not the paper's.

    An exact claim does not depend on the scale.
    """
    word = plain_verdict(claim)
    if claim.outlier is not None and word != "not decided":
        word += " with an outlier"
    return word + ("" if claim.exact else _at_scale(scale))


def plain_verdict(claim: Claim) -> str:
    """Return 'held', 'not held' or 'not decided'."""
    return claim.verdict.removesuffix(" at this scale")


def _at_scale(scale: str) -> str:
    return "" if scale in ("", "full") else f" at {scale} scale"


def after_holm(claim: Claim) -> str:
    """Format the verdict after Holm's correction; exact claims need none.

    It stands beside the verdict, which names the scale.
    """
    if claim.exact:
        return plain_verdict(claim)
    if not math.isfinite(claim.p_holm):
        return NOTHING
    stands = claim.p_holm <= LEVEL and claim.verdict in ("held", "not held")
    return format_verdict(claim if stands else replace(claim, verdict="not decided"))


def format_power(claim: Claim) -> str:
    """Format as '92 %', adding below 80 % how many replicates would be enough."""
    if not math.isfinite(claim.power):
        return NOTHING
    text = format_percent(claim.power, 0)
    if claim.power < GOAL:
        more = f"{claim.enough:,} {claim.of}" if claim.enough else f"no number of {claim.of}"
        text += f"; {more} would be enough"
    return text


def figure_caption(figure: Figure) -> str:
    """Return the caption of a figure: its title and its note."""
    return " ".join(part for part in (f"{figure.title}.", figure.note) if part)


def report_facts(document: Document) -> Iterator[tuple[str, str]]:
    """Yield names and values of the facts of a result: state, options, machine, versions."""
    yield from ((name, printable(value)) for name, value in _raw_facts(document))


def _raw_facts(document: Document) -> Iterator[tuple[str, str]]:
    yield "state", _format_state(document)
    if document.scale:
        yield "scale", document.scale
        yield "protocol", document.protocol
    options = _format_options(document.request)
    if options:
        yield "requested options", options
    count = len(document.units)
    estimate = document.estimated
    known = math.isfinite(estimate) and document.machine.get("device") == "cpu"
    yield (
        "runs and calculations",
        f"{count:,}, {format_duration(document.seconds)} of computing time"
        + (f" ({format_duration(estimate)} estimated)" if known else ""),
    )
    wall = document.machine.get("wall_seconds")
    if isinstance(wall, (int, float)) and wall > 1:
        yield "last session", format_duration(float(wall))
    machine = document.machine
    yield "machine", f"{machine.get('processor')}, {machine.get('cores')} cores"
    yield "device", str(machine.get("device"))
    yield "versions", ", ".join(f"{name} {value}" for name, value in document.versions.items())
    yield "created at", document.made
    if document.command:
        yield "created by", shlex.join(("dgn", *document.command))


def made_at(document: Document) -> str:
    """Return a sentence on scale and protocol; '' if it reproduces no paper."""
    departs = document.scale in ("reduced", "changed")
    reduction = f" ({', '.join(document.scaled_down)})" if departs else ""
    return f"Scale: {document.scale}{reduction}, {document.protocol}." if document.scale else ""


def rows_note(document: Document) -> str:
    """Return a note that explains the ± of the rows."""
    has_printed = any(row.printed is not None for row in document.rows)
    return f"{ROW_NOTE} {PRINTED_NOTE}" if has_printed else ROW_NOTE


def rows_title(document: Document) -> str:
    has_printed = any(row.printed is not None for row in document.rows)
    return "Measured and printed" if has_printed else "Measured"


def drop_empty_columns(
    heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows without the empty columns."""
    shown = [p for p in range(len(heads)) if any(row[p] not in ("", NOTHING) for row in rows)]
    return tuple(heads[p] for p in shown), [tuple(row[p] for p in shown) for row in rows]


@dataclass(frozen=True)
class ClaimGroup:
    """What was judged of one claim: its statement, and tables of cells that share a remark."""

    statement: str
    parts: tuple[tuple[tuple[tuple[str, ...], ...], str], ...]


def claim_groups(document: Document) -> tuple[tuple[str, ...], tuple[ClaimGroup, ...]]:
    """Return the heads of a table of claims, and its rows by statement.

    Statements and remarks are sentences, which are set above and below the rows: as columns they
    would be no wider than a word.
    """
    claims = [claim_cells(claim, document.scale) for claim in document.claims]
    heads, lines = drop_empty_columns(CLAIM_HEADS, claims)
    columns = [place for place, head in enumerate(heads) if head not in ("claim", "remark")]
    remark = heads.index("remark") if "remark" in heads else None
    groups = []
    statements: dict[str, list[tuple[str, ...]]] = {}
    for line in lines:
        statements.setdefault(line[heads.index("claim")], []).append(line)
    for statement, rows in statements.items():
        parts = tuple(
            (tuple(tuple(line[place] for place in columns) for line in same), words)
            for words, same in groupby(
                rows, key=lambda line: "" if remark is None else line[remark]
            )
        )
        groups.append(ClaimGroup(statement, parts))
    return tuple(heads[place] for place in columns), tuple(groups)


def count_verdicts(document: Document) -> dict[str, int]:
    counts: dict[str, int] = {}
    for claim in document.claims:
        sentence = format_verdict(claim, document.scale)
        counts[sentence] = counts.get(sentence, 0) + 1
    return counts


def list_verdicts(document: Document) -> str:
    """Return '2 held, 1 not decided at quick scale, 3 exact held'; '' without claims."""
    parts = []
    for exact, before, after in ((False, "", _at_scale(document.scale)), (True, "exact ", "")):
        words = [plain_verdict(claim) for claim in document.claims if claim.exact == exact]
        counts = [f"{words.count(w)} {before}{w}" for w in VERDICTS if w in words]
        parts += [", ".join(counts) + after] if counts else []
    return ", ".join(parts)


def summarize_verdicts(claims: Sequence[Claim], scale: str = "") -> str:
    """Return sentences that count claims by id, the statistical and the exact ones apart.

    A claim that is judged several times is held if all its verdicts are, and not held if one is
    not held.
    """
    return " ".join(
        f"{title}: {_summarize_kind([claim for claim in claims if claim.exact == exact])}."
        for title, exact in (
            (f"Statistical claims{_at_scale(scale)}", False),
            ("Exact claims", True),
        )
        if any(claim.exact == exact for claim in claims)
    )


def _summarize_kind(claims: Sequence[Claim]) -> str:
    verdicts: dict[str, set[str]] = {}
    for claim in claims:
        verdicts.setdefault(claim.id, set()).add(plain_verdict(claim))
    joint = [join_verdicts(words) for words in verdicts.values()]
    counted = ", ".join(f"{joint.count(word)} {word}" for word in VERDICTS if word in joint)
    text = f"{_count(len(claims), 'verdict')} on {_count(len(verdicts), 'claim')}"
    outliers = sum(claim.outlier is not None for claim in claims)
    if outliers:
        text += f", {outliers} with an outlier"
    return f"{counted} ({text})"


def join_verdicts(verdicts: Collection[str]) -> str:
    """Return the verdict on a claim from those on its parts: the worst of them."""
    return next(word for word in ("not held", "not decided", "held") if word in verdicts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _format_state(document: Document) -> str:
    failed = sum(unit.state == "failed" for unit in document.units)
    return f"{document.state}, {failed} failed" if failed else document.state


def _format_options(request: Mapping[str, Any]) -> str:
    parts = [
        f"{name} {value}"
        for name, value in request.items()
        if name not in ("scale", "protocol", "device") and value not in (0, "", "none", [], ())
    ]
    return ", ".join(parts)


@cache
def theme_colours(theme: str) -> dict[str, str]:
    """Return the colours ('#RRGGBB') of the theme 'light' or 'dark' by name."""
    text = (files("dgn_resources") / "tokens.json").read_text(encoding="utf-8")
    colours: dict[str, str] = json.loads(text)[theme]
    return colours


def series_of(index: int) -> tuple[Role, Dash]:
    """Return colour token and dash of a curve; the first 15 are all different."""
    return SERIES[index % len(SERIES)], DASHES[index % len(DASHES)]
