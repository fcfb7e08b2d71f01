"""Write the page of `make gpu` from its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import format_case, format_machine

HEAD = """\
# On a CUDA card
"""
METHOD = """
`make gpu` runs the tests marked `gpu`, then these cases. The tests compare kernels, training steps
and CUDA graphs on the card with the CPU, and check what happens if memory or a card fails.

The **floor** of a case is the least time that this card needs for the work:

    floor = max(FLOPs / rate, bytes / bandwidth)

Rates and bandwidth are measured first, by products of matrices and a copy of 1 GiB. Only weights,
optimiser state, inputs and results count as bytes, each once. So a case whose data fit in a cache
can be faster than its floor. 'Ratio' is the median divided by the floor. The first method of a case
is ours.

Two findings make the exit code 1: **DISAGREE**, if the results of the methods differ by more than
the case allows, and **steps were eager**, if our steps could not be captured as CUDA graphs.
"""
RECORDED = """
**Not measured: these figures are made up, to try the page.**
"""
DRY_HEAD = """\
# Dry run of `make gpu`

**Dry: everything here ran on a CPU, small, to see that it runs. No figure is of a card.**
"""
RATES = {
    "float32": ("float32", "FLOP/s"),
    "tf32": ("TF32", "FLOP/s"),
    "bf16": ("bf16", "FLOP/s"),
    "float64": ("float64", "FLOP/s"),
    "copy": ("copy", "B/s"),
}


def format_page(content: Mapping[str, Any]) -> str:
    """Return the page for the JSON of `make gpu`."""
    return (DRY_HEAD if content.get("dry") else HEAD) + METHOD + format_results(content)


def format_results(content: Mapping[str, Any], level: int = 2) -> str:
    """Return machine, tests, rates and cases, which are sections of this level."""
    dry = bool(content.get("dry"))
    mark = "dry: " if dry else ""
    parts = [] if dry or content.get("measured") else [RECORDED]
    parts.append(
        f"\n{format_machine(content['machine'])}, {content['seconds']:.0f} s in all"
        f"{', quick' if content['quick'] else ''}.\n"
    )
    if content.get("stopped"):
        parts.append("\nIt was stopped before it had all.\n")
    if (tests := content["tests"]) is not None:
        word = {"passed": "passed: ", "failed": "**failed**: ", "stopped": ""}[tests["word"]]
        parts.append(f"\n{mark}Tests: {word}{tests['summary']}.\n")
    if rates := content.get("rates"):
        each = (f"{name} {format_rate(rates[key], unit)}" for key, (name, unit) in RATES.items())
        parts.append(f"\n{mark}Rates: {'; '.join(each)}.\n")
    parts += [format_case(case, level) for case in content["cases"]]
    return "".join(parts)


def format_rate(value: float, unit: str) -> str:
    """Format a rate with three significant digits and a suitable prefix: '49.8 TFLOP/s'."""
    prefix, size = next(
        (pair for pair in (("T", 1e12), ("G", 1e9), ("M", 1e6)) if value >= pair[1]), ("", 1.0)
    )
    return f"{value / size:.3g} {prefix}{unit}"
