"""The parts of a report as words: what the HTML, the Markdown and the window print alike."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.protocol.results import Claim

ROW_HEADS = (
    "", "measured", "printed", "difference", "n", "epochs", "scale", "protocol", "time", "remark",
)  # fmt: skip
CLAIM_HEADS = ("claim", "statistic", "value", "95 % interval", "n", "verdict", "remark")


def row_cells(document: Document, row: ReportRow) -> tuple[str, ...]:
    """One row under `ROW_HEADS`."""
    unit = f" {row.unit}" if row.unit else ""
    return (
        row.label,
        formatting.measured(row) + unit,
        formatting.printed(row.printed, row.unit),
        formatting.number(row.difference, row.unit, signed=True),
        str(len(row.values)),
        formatting.epochs(row.epochs),
        document.scale,
        document.protocol,
        formatting.duration(row.seconds) if row.seconds else formatting.NOTHING,
        row.remark,
    )


def claim_cells(claim: Claim) -> tuple[str, ...]:
    """One claim under `CLAIM_HEADS`."""
    return (
        f"{claim.id}: {claim.statement}",
        claim.statistic,
        formatting.number(claim.value),
        formatting.interval(claim),
        str(claim.n),
        claim.verdict,
        claim.remark,
    )


def facts(document: Document) -> Iterator[tuple[str, str]]:
    """What was asked, where and with what it was made."""
    yield "state", _state(document)
    yield "scale", document.scale
    yield "protocol", document.protocol
    asked = _asked(document.request)
    if asked:
        yield "asked for", asked
    count = len(document.units)
    yield (
        "runs and calculations",
        f"{count:,}, {formatting.duration(document.seconds)} of computing",
    )
    wall = document.machine.get("wall_seconds")
    if isinstance(wall, (int, float)) and wall > 1:
        yield "this sitting", formatting.duration(float(wall))
    machine = document.machine
    yield "machine", f"{machine.get('processor')}, {machine.get('cores')} cores"
    yield "device", str(machine.get("device"))
    yield "versions", ", ".join(f"{name} {value}" for name, value in document.versions.items())
    yield "made", document.made
    if document.command:
        yield "made by", shlex.join(("dgn", *document.command))


def verdicts(document: Document) -> dict[str, int]:
    """How many claims came to which verdict."""
    counts: dict[str, int] = {}
    for claim in document.claims:
        counts[claim.verdict] = counts.get(claim.verdict, 0) + 1
    return counts


def _state(document: Document) -> str:
    failed = sum(unit.state == "failed" for unit in document.units)
    return f"{document.state}, {failed} failed" if failed else document.state


def _asked(request: Mapping[str, Any]) -> str:
    parts = [
        f"{name} {value}"
        for name, value in request.items()
        if name not in ("scale", "protocol", "device") and value not in (0, "", "none", [], ())
    ]
    return ", ".join(parts)
