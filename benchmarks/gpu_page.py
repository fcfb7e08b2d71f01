"""docs/gpu.md, made of what `make gpu` has measured, or saying that nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import duration

HEAD = """\
# On a CUDA card

What `make gpu` measures on a machine with a card: the tests marked `gpu` (at most 200 seconds),
then the table in the order of this page, while there is time. It ends before eight minutes are
over and writes this page and `build/gpu.json`; what found no time is said. How training uses a
card stands in [scale.md](scale.md#on-a-cuda-card).

The tests: every kernel in float32 on the card is the one in float64 on the CPU, to 1e-4 in norm;
products and convolutions to 2e-6; steps of every regime and optimiser are those of the CPU, to
1e-3 of the way that the weights move; captured steps are eager ones, also after a swap, a new
order and another rate at any step of warming up or capture; nothing in a step waits for the card
(torch's own check of that); a run that goes on has the bits of one that was not interrupted; a
stack trains as its networks by themselves do; a probe read beside training reads the step it
says; two processes on one card give the bits of one; what does not fit is refused in a sentence;
an assertion that fails on the card costs the engine's process and not the run.
"""
NOTHING = """
**Not measured yet.** No figure on this page or elsewhere in the documentation was taken on a card.
On a machine with one:

    make gpu                      # makes its own environment first, from the network
    make GPU_PYTHON=python3 gpu   # an interpreter that has torch for the card, numpy, safetensors,
                                  # scikit-learn and pytest; nothing is installed or fetched
"""
RECORDED = """
**Not measured: these figures are made up, to try the page.**
"""


def page(found: Mapping[str, Any] | None) -> str:
    """The page for the JSON of `make gpu`; None: nothing was measured."""
    if found is None:
        return HEAD + NOTHING
    parts = [HEAD]
    if not found.get("measured"):
        parts.append(RECORDED)
    about = found["machine"]
    parts.append(
        f"\n{about['device']}, torch {about['torch']}, CUDA {about.get('cuda')}, "
        f"{about['processor']} with {about['cores']} cores, load {_load(about)}; {about['date']}, "
        f"{found['seconds']:.0f} s in all{', quick' if found['quick'] else ''}.\n"
    )
    if (tests := found["tests"]) is not None:
        word = "passed" if tests["code"] == 0 else "**failed**"
        parts.append(f"\nTests: {word}: {tests['summary']}.\n")
    parts.append("\nMedians, with quartiles; ours is the first of each case.\n")
    parts += [_case(case) for case in found["cases"]]
    return "".join(parts)


def _case(case: Mapping[str, Any]) -> str:
    if why := case.get("failed") or case.get("skipped"):
        return f"\n## {case['title']}\n\nNot measured: {why}.\n"
    lines = [f"\n## {case['title']}", "", f"n = {case['n']:,}", ""]
    lines += ["| | median | quartiles |", "| --- | --- | --- |"]
    for method in case["methods"]:
        _, low, middle, high = method["quantiles_seconds"]
        lines.append(
            f"| {method['name']} | {duration(middle)} | {duration(low)} – {duration(high)} |"
        )
    lines.append("")
    lines += [f"- {bar['verdict']}: {bar['text']}" for bar in case["bars"]]
    lines.append(f"- largest relative difference of the results: {case['relative_difference']:.1e}")
    return "\n".join(lines) + "\n"


def _load(about: Mapping[str, Any]) -> str:
    return "unknown" if about["load"] is None else f"{about['load']:.1f}"
