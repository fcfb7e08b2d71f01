"""Measure one case: agreement of the results (which warms up), then time, then memory."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import machine, memory
from benchmarks.case import Case, Measured
from benchmarks.report import Row
from benchmarks.timing import make_timer, time_in_turns
from dgn_engine.kernels.precision import use_full_products


def measure_case(
    name: str,
    case: Case,
    device: torch.device,
    quick: bool,
    budget: float = 60.0,
    dry: bool = False,
) -> Row:
    """Run every method of a case.

    Args:
        quick: fewer examples and three rounds.
                budget: seconds after which no further round starts.
        dry: use as few examples as possible and one round, and do not measure memory.
    """
    n = (case.dry or case.quick) if dry else case.quick if quick else case.n
    use_full_products()  # cuDNN defaults to TF32; plain torch is compared in float32 as well
    works = [method.prepare(device, n) for method in case.methods]
    results = [
        method.comparable(work()).detach().to("cpu", torch.float64)
        for method, work in zip(case.methods, works, strict=True)
    ]
    difference = max(
        (_relative_difference(results[0], other) for other in results[1:]), default=0.0
    )
    rounds = 1 if dry else 3 if quick else case.most_rounds
    seconds = time_in_turns([make_timer(work, device) for work in works], rounds, budget)
    load = machine.read_load()
    measured = []
    for index, (method, raw) in enumerate(zip(case.methods, seconds, strict=True)):
        peak = None
        if case.memory and not dry:
            on_card = device.type == "cuda"
            peak = (
                memory.measure_peak_on_card(works[index])
                if on_card
                else memory.measure_peak(name, index, n, device)
            )
        processor, wall = (tuple(s / method.share for s in each) for each in zip(*raw, strict=True))
        measured.append(Measured(method, processor, wall, peak))
    return Row(name, case, n, measured, difference, load)


def _relative_difference(one: Tensor, two: Tensor) -> float:
    if not two.numel():  # a piece of work without a result to compare, such as a training step
        return 0.0
    return float((one - two).norm() / one.norm())
