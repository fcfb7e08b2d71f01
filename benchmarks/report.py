"""Format the table as text, as JSON, and the JSON as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.case import Case, Measured, Method

LIMIT = """
The **limit** of a case is the least time that this device needs for the work:

    limit = max(FLOPs / rate, words / rate, bytes / bandwidth)

Rates and bandwidth are measured first: products of matrices, words of 64 gates whose common bits
are counted, and a copy larger than any cache. Only what the best method known to us has to do
counts: products, and weights, optimiser state, inputs and results as bytes, each once. So a case
whose data fit in a cache can be faster than its limit. 'Reached' is the limit divided by the
median. The first method of a case is ours.
"""
RATES = {
    "float32": ("float32", "FLOP/s"),
    "tf32": ("TF32", "FLOP/s"),
    "bf16": ("bf16", "FLOP/s"),
    "float64": ("float64", "FLOP/s"),
    "copy": ("copy", "B/s"),
    "popcount": ("counting bits", "words/s"),
}


@dataclass(frozen=True)
class Row:
    """One measured case."""

    name: str
    case: Case
    n: int
    measured: Sequence[Measured]
    disagreement: float
    load: float | None

    @property
    def agrees(self) -> bool:
        """Whether the results of all methods agree within the tolerance of the case."""
        allowed = self.case.agreement
        return math.isinf(allowed) or self.disagreement <= allowed

    def judge_bars(self) -> list[tuple[str, float | None, str]]:
        """Return, for each bar, its text, its figure, and 'met', 'missed' or 'not judged' (not
        measured, or measured with fewer examples than the bar is defined for)."""
        ours = self.measured[0]
        others = {each.method.name: each for each in self.measured}
        verdicts = []
        for bar in self.case.bars:
            value = bar.value(ours, others[bar.against])
            word = "not judged"
            if value is not None and self.n == self.case.n:
                word = "met" if bar.is_met(value) else "missed"
            verdicts.append((bar.text(value), value, word))
        return verdicts


def compute_quantiles(seconds: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the minimum, lower quartile, median and upper quartile."""
    points = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64)
    least, low, middle, high = torch.tensor(seconds, dtype=torch.float64).quantile(points).tolist()
    return least, low, middle, high


def format_duration(seconds: float) -> str:
    """Format seconds with three significant digits and a suitable unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def format_row(row: Mapping[str, Any]) -> str:
    """Return a row of the JSON as text: times, memory and limit of each method, verdicts."""
    lines = [f"{row['title']}, n = {row['n']:,}"]
    for method in row["methods"]:
        least, low, middle, high = method["quantiles_seconds"]
        spread = f"[{format_duration(low)} – {format_duration(high)}], min {format_duration(least)}"
        line = f"  {method['name']:<42} {format_duration(middle):>9}  {spread}"
        line += f", {len(method['processor_seconds'])} rounds"
        if method["peak_bytes"] is not None:
            line += f", {method['peak_bytes'] / 2**20:.0f} MiB"
        if "floor_seconds" in method:
            limit, reached = _format_limit(method)
            line += f", limit {limit}, {reached} reached"
        if method["share_timed"] < 1:
            line += f" (extrapolated from {method['share_timed']:.1%} of the work)"
        lines.append(line)
    if row["no_floor"]:
        lines.append(f"  limit not known: {row['no_floor']}")
    lines += [f"  {bar['verdict']:>12}: {bar['text']}" for bar in row["bars"]]
    lines += [
        f"  round by round {name} took {middle:.3g} times as long [{low:.3g} – {high:.3g}]"
        for name, (_, low, middle, high) in row["ratios"].items()
    ]
    if len(row["methods"]) > 1:
        same = "the methods agree" if row["agrees"] else "THE METHODS DISAGREE"
        lines.append(f"  {same}: relative difference {row['relative_difference']:.1e}")
    return "\n".join(lines)


def encode_row(row: Row) -> dict[str, Any]:
    """Return the row as a JSON object, including the raw seconds."""
    ours, *others = row.measured
    return {
        "name": row.name,
        "title": row.case.title,
        "n": row.n,
        "full_n": row.case.n,
        "load": row.load,
        "relative_difference": row.disagreement,
        "agrees": row.agrees,
        "no_floor": row.case.no_floor,
        "methods": [
            {
                "name": each.method.name,
                "arithmetic": each.method.arithmetic,
                "needs": _least_work(row, each.method),
                "median_seconds": each.median,
                "quantiles_seconds": compute_quantiles(each.seconds),
                "processor_seconds": list(each.seconds),
                "wall_seconds": list(each.wall),
                "share_timed": each.method.share,
                "peak_bytes": each.memory,
            }
            for each in row.measured
        ],
        "ratios": {  # quantiles of each other method's time relative to ours, round by round
            each.method.name: list(compute_quantiles(ours.ratios(each))) for each in others
        },
        "bars": [
            {"text": words, "value": value, "verdict": word}
            for words, value, word in row.judge_bars()
        ],
    }


def _least_work(row: Row, method: Method) -> dict[str, float] | None:
    """Return the least work of a method, or None if it is not known."""
    floor = method.floor or row.case.floor
    return None if floor is None else asdict(floor(row.n))


def format_machine(about: Mapping[str, Any], load: str = "") -> str:
    """Return what ran a measurement and when, as the beginning of a sentence.

    Args:
        about: The machine in the JSON.
        load: Load average to show in place of the one in `about`.
    """
    if not load:
        given = about["load"]
        load = f"{given:.1f}" if isinstance(given, float) else given or "unknown"
    device = "" if about["device"] == "cpu" else f"{about['device']}, CUDA {about.get('cuda')}, "
    versions = zip(("neural-tangents", "jax"), about.get("peer", "").split()[-2:], strict=False)
    peer = "".join(f"{name} {version}, " for name, version in versions)
    return (
        f"{device}{about['processor']} with {about['cores']} cores, torch {about['torch']}, "
        f"{peer}load {load}; {about['date']}"
    )


def format_case(case: Mapping[str, Any], level: int = 2) -> str:
    """Return a case of the JSON as a Markdown section.

    Args:
        case: As `encode_row` returns it, with floors if they are known; or a row that says why it
            was not measured.
        level: Level of its heading.
    """
    mark = "dry: " if case.get("dry") else ""
    heading = f"\n{'#' * level} {mark}{case['title']}"
    if why := case.get("failed") or case.get("skipped"):
        return f"{heading}\n\nNot measured: {why}.\n"
    of = f" instead of {case['full_n']:,}" if case["full_n"] != case["n"] else ""
    methods = case["methods"]
    floors = any("floor_seconds" in method for method in methods)
    memory = any(method.get("peak_bytes") is not None for method in methods)
    heads = ["", "median", "quartiles"] + ["memory"] * memory + ["limit", "reached"] * floors
    load = "" if case.get("load") is None else f"; load {case['load']:.1f}"
    lines = [heading, "", f"n = {case['n']:,}{of}{load}", ""]
    lines += [f"| {' | '.join(heads)} |".replace("|  |", "| |"), "|" + " --- |" * len(heads)]
    for method in methods:
        _, low, middle, high = method["quantiles_seconds"]
        cells = [f"{mark}{method['name']}", format_duration(middle)]
        cells.append(f"{format_duration(low)} – {format_duration(high)}")
        if memory:
            peak = method.get("peak_bytes")
            cells.append("" if peak is None else f"{peak / 2**20:.0f} MiB")
        if floors:
            cells += _format_limit(method)
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    lines += [f"- {mark}{_stress(bar['verdict'])}: {bar['text']}" for bar in case["bars"]]
    if len(methods) > 1 and case["relative_difference"] is not None:
        lines.append(
            f"- {mark}largest relative difference of the results: "
            f"{case['relative_difference']:.1e}" + ("" if case["agrees"] else ", **DISAGREE**")
        )
    if why := case.get("no_floor"):
        lines.append(f"- {mark}limit not known: {why}")
    lines += [f"- {mark}**steps were eager**: {reason}" for reason in case.get("eager", ())]
    for method in methods:
        if (share := method.get("share_timed", 1)) < 1:
            lines.append(f"- {mark}{method['name']}: extrapolated from {share:.1%} of the work")
    return "\n".join(lines) + "\n"


def _stress(verdict: str) -> str:
    return f"**{verdict}**" if verdict == "missed" else verdict


def _format_limit(method: Mapping[str, Any]) -> list[str]:
    """Return two table cells: the limit with what bounds it, and the share of it in the median."""
    if "floor_seconds" not in method:
        return ["not known", ""]
    floor = method["floor_seconds"]
    reached = floor / method["median_seconds"]
    return [f"{format_duration(floor)} ({method['bound']})", f"{reached:.2g}"]


def format_rates(rates: Mapping[str, float]) -> str:
    """Return the rates of a device as text: 'float32 107 GFLOP/s; …'."""
    return "; ".join(
        f"{name} {format_rate(rates[key], unit)}"
        for key, (name, unit) in RATES.items()
        if key in rates
    )


def format_rate(value: float, unit: str) -> str:
    """Format a rate with three significant digits and a suitable prefix: '49.8 TFLOP/s'."""
    prefix, size = next(
        (pair for pair in (("T", 1e12), ("G", 1e9), ("M", 1e6)) if value >= pair[1]), ("", 1.0)
    )
    return f"{value / size:.3g} {prefix}{unit}"
