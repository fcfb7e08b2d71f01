"""Write the page of `make gpu` from its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import LIMIT, format_case, format_machine, format_rates

HEAD = """\
# On a CUDA card
"""
METHOD = """
`make gpu` runs the tests marked `gpu`, then these cases. The tests compare kernels, training steps
and CUDA graphs on the card with the CPU, and check what happens if memory or a card fails.

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


def format_page(content: Mapping[str, Any]) -> str:
    """Return the page for the JSON of `make gpu`."""
    head = DRY_HEAD if content.get("dry") else HEAD
    return head + METHOD + LIMIT + format_results(content)


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
        parts.append(f"\n{mark}Rates: {format_rates(rates)}.\n")
    parts += [format_case(case, level) for case in content["cases"]]
    return "".join(parts)
