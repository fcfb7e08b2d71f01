"""docs/gpu.md, made of what `make gpu` has measured, or saying that nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import duration

HEAD = """\
# On a CUDA card

What `make gpu` measures on a machine with a card: the tests marked `gpu`, then the table. It takes
less than eight minutes and writes this page. How training uses a card stands in
[scale.md](scale.md#on-a-cuda-card).
"""
NOTHING = """
**Not measured yet.** No figure on this page or elsewhere in the documentation was taken on a card.
On a machine with one:

    make gpu
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
    if "failed" in case:
        return f"\n## {case['title']}\n\nNot measured: {case['failed']}.\n"
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
