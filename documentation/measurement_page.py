"""The page of kept measurements, from the JSON that the benchmarks write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import davidnet_page, gpu_page
from benchmarks.report import LIMIT, format_case, format_machine, format_rates
from documentation.generated_page import GeneratedPage

PAGE = "reference/measurements.md"
KEPT = Path("docs/measurements")  # below the root of the sources
HEAD = """\
# All measurements

Written by the benchmarks. [How fast](../how-fast.md) says what the figures mean for you and how to
measure them yourself. Times are medians of processor time on a CPU, and of the clock on a card.
"""
HEAD += LIMIT
TRANSCRIBED = "Transcribed from the printed page: rounded values, without the single rounds."


def _format_bench(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what `python -m benchmarks` and `python -m benchmarks.peers` write."""
    for run in runs:
        loads = [case["load"] for case in run["cases"] if case.get("load") is not None]
        load = f"{min(loads):.1f} to {max(loads):.1f}" if loads else ""
        yield f"\n{format_machine(run['machine'], load)}.\n"
        if rates := run.get("rates"):
            yield f"\nRates: {format_rates(rates)}.\n"
        yield _format_remarks(run)
        yield from (format_case(case, level=3) for case in run["cases"])


def _format_gpu(content: Mapping[str, Any]) -> Iterator[str]:
    yield gpu_page.METHOD
    yield _format_remarks(content)
    yield gpu_page.format_results(content, level=3)


def _format_davidnet(content: Mapping[str, Any]) -> Iterator[str]:
    yield _format_remarks(content)
    yield davidnet_page.format_results(content)


def _format_remarks(content: Mapping[str, Any]) -> str:
    remarks = [TRANSCRIBED] * bool(content.get("transcribed")) + list(content.get("remarks", ()))
    return "".join(f"\n{remark}\n" for remark in remarks)


# Name of a kept file → heading, and how its content is drawn.
SECTIONS: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "bench.json": ("Kernels and training steps on a CPU", _format_bench),
    "peers.json": ("Kernels against neural-tangents", _format_bench),
    "gpu.json": ("On a CUDA card", _format_gpu),
    "davidnet.json": ("DavidNet in the regimes of [COMP]", _format_davidnet),
}
ON_OTHER_PAGES = {"worlds.json"}  # see docs/results.md


def generate(root: Path) -> Iterator[GeneratedPage]:
    """Make the page of what is kept in docs/measurements.

    Raises:
        ValueError: a file has no section, or holds a dry run.
    """
    kept = {path.name: json.loads(path.read_text("utf-8")) for path in (root / KEPT).glob("*")}
    if unknown := sorted(kept.keys() - SECTIONS.keys() - ON_OTHER_PAGES):
        raise ValueError(f"{KEPT}/{unknown[0]} is none of {', '.join(SECTIONS)}")
    parts = [HEAD]
    for name, (heading, draw) in SECTIONS.items():
        if name not in kept:
            continue
        if isinstance(kept[name], dict) and kept[name].get("dry"):
            raise ValueError(f"{KEPT}/{name} is of a dry run")
        parts += [f"\n## {heading}\n", *draw(kept[name])]
    yield GeneratedPage(PAGE, "".join(parts))
