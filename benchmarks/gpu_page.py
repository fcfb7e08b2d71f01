"""Write docs/gpu.md from the results of `make gpu`, or state that nothing was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import format_duration

HEAD = """\
# On a CUDA card

What `make gpu` measures on a machine with a card: the tests marked `gpu` (at most 200 seconds),
then the table in the order of this page, while there is time. It ends before eight minutes are
over and rewrites this page and `build/gpu.json` after each result, so a run that is stopped keeps
what it has; what was not reached is listed. How training uses a card is described in
[scale.md](scale.md#on-a-cuda-card).

The tests check that every kernel in float32 on the card agrees with float64 on the CPU, to 1e-4 in
norm, and products and convolutions to 2e-6; that steps of every regime and optimiser agree with the
CPU, to 1e-3 of the distance that the weights move (RMSprop in DL-linear, whose first steps follow
the sign of tiny gradients, to 1e-2); that captured steps agree with eager ones, also after a swap,
a new order and another rate at any step of warm-up or capture; that nothing in a step waits for the
card (torch's own check of that); that a resumed run has the same bits as an uninterrupted one; that
a stack trains as its single networks do; that a probe read during training reads the step it
states; that two processes on one card give the same bits as one; that what does not fit is refused;
that an assertion that fails on the card costs the engine's process and not the run.

Every row of the table has its **floor**, the least time that the card needs for the work:

    floor = max(FLOPs / rate, bytes / bandwidth)

The rates are measured in the same session: products of square matrices in float32, TF32, bf16 and
float64, and a copy of 1 GiB, read and written. FLOPs are those of the method (a multiply-add is
two; a training step is a forward pass, the gradients of the weights and those of the activations);
bytes are weights, what the optimiser keeps of them, inputs and results, each read and written once.
Activations count as if they never left the card's caches, and launches as if they were free. What
fits in a cache may move faster than the copy does, and what ran with a higher clock than the
products may compute faster: such a row may fall below its floor. 'Ratio' is the median over the
floor. Methods whose results differ by more than their case allows are marked **DISAGREE**, and one
of our methods whose steps were not captured as graphs says so: either makes the exit code 1.

Two more commands:

- `make gpu-dry` does all of `make gpu` on the CPU in less than two minutes, with a few examples and
  one round: the same tests, every case, and a page in `build/gpu-dry.md` on which everything is
  marked 'dry'. It shows that all of it runs with the torch, numpy and Python at hand, whose
  warnings it prints.
- `bash benchmarks/gpu_session.sh --data FOLDER --out FOLDER` is for fifteen minutes of a rented
  card: `make gpu`, then DavidNet at the 24 epochs of its author in the regimes of [COMP], on the
  CIFAR-10 in the folder (torchvision's `cifar-10-batches-py`, or images as `train/CLASS/…` and
  `test/CLASS/…`, also in a `.tar.gz` or `.zip`). It stops after `--seconds` (560) with what it has:
  `gpu.json`, `gpu.md`, `davidnet.json`, `davidnet.md` and `session.log`. `--only davidnet` goes
  straight to the training, `--only gpu` leaves it out, `--dry` tries all of it on a CPU. On an
  H100 the first part took 257 s, 24 epochs of ReLU 67 s and 22.8 of DL 101 s with reading the
  images, so that 560 seconds are about enough for ReLU and two pairs of networks. `--only
  davidnet` in a second call does the rest; into the same folder it takes the rates of the first.
"""
NOTHING = """
**Not measured yet.** No figure on this page or elsewhere in the documentation was taken on a card.
On a machine with one:

    make gpu                      # makes its own environment first, from the network
    make GPU_PYTHON=python3 gpu   # an interpreter that has torch for the card, numpy, scipy,
                                  # scikit-learn, safetensors, Pillow, rich and pytest; nothing is
                                  # installed or fetched
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


def format_page(content: Mapping[str, Any] | None) -> str:
    """Return the page for the JSON of `make gpu`, or for None if nothing was measured."""
    if content is None:
        return HEAD + NOTHING
    dry = bool(content.get("dry"))
    mark = "dry: " if dry else ""
    parts = [DRY_HEAD if dry else HEAD]
    if not dry and not content.get("measured"):
        parts.append(RECORDED)
    about = content["machine"]
    parts.append(
        f"\n{about['device']}, torch {about['torch']}, CUDA {about.get('cuda')}, "
        f"{about['processor']} with {about['cores']} cores, load {_format_load(about)}; "
        f"{about['date']}, "
        f"{content['seconds']:.0f} s in all{', quick' if content['quick'] else ''}.\n"
    )
    if content.get("stopped"):
        parts.append("\nIt was stopped before it had all.\n")
    if (tests := content["tests"]) is not None:
        word = {"passed": "passed: ", "failed": "**failed**: ", "stopped": ""}[tests["word"]]
        parts.append(f"\n{mark}Tests: {word}{tests['summary']}.\n")
    if rates := content.get("rates"):
        each = (f"{name} {format_rate(rates[key], unit)}" for key, (name, unit) in RATES.items())
        parts.append(f"\n{mark}Rates: {'; '.join(each)}.\n")
    parts.append("\nMedians, with quartiles; ours is the first of each case.\n")
    parts += [_format_case(case) for case in content["cases"]]
    return "".join(parts)


def _format_case(case: Mapping[str, Any]) -> str:
    if why := case.get("failed") or case.get("skipped"):
        return f"\n## {case['title']}\n\nNot measured: {why}.\n"
    mark = "dry: " if case.get("dry") else ""
    of = f" instead of {case['full_n']:,}" if case["full_n"] != case["n"] else ""
    lines = [f"\n## {mark}{case['title']}", "", f"n = {case['n']:,}{of}", ""]
    lines += ["| | median | quartiles | floor | ratio |", "| --- | --- | --- | --- | --- |"]
    for method in case["methods"]:
        _, low, middle, high = method["quantiles_seconds"]
        lines.append(
            f"| {mark}{method['name']} | {format_duration(middle)} "
            f"| {format_duration(low)} – {format_duration(high)} | {format_floor(method)} |"
        )
    lines.append("")
    lines += [f"- {mark}{bar['verdict']}: {bar['text']}" for bar in case["bars"]]
    lines.append(
        f"- {mark}largest relative difference of the results: {case['relative_difference']:.1e}"
        + ("" if case["agrees"] else ", **DISAGREE**")
    )
    lines += [f"- {mark}**steps were eager**: {reason}" for reason in case.get("eager", ())]
    return "\n".join(lines) + "\n"


def format_floor(method: Mapping[str, Any]) -> str:
    """Return two table cells: the floor with its bound, and the ratio to it."""
    if "floor_seconds" not in method:
        return "not known | "
    floor = format_duration(method["floor_seconds"])
    return f"{floor} ({method['bound']}) | {method['ratio_to_floor']:.3g}"


def format_rate(value: float, unit: str) -> str:
    """Format a rate with three significant digits and a suitable prefix: '49.8 TFLOP/s'."""
    prefix, size = next(
        (pair for pair in (("T", 1e12), ("G", 1e9), ("M", 1e6)) if value >= pair[1]), ("", 1.0)
    )
    return f"{value / size:.3g} {prefix}{unit}"


def _format_load(about: Mapping[str, Any]) -> str:
    return "unknown" if about["load"] is None else f"{about['load']:.1f}"
