"""One case measured: agreement first, which warms up, then seconds in turns, then memory."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import machine, memory
from benchmarks.case import Case, Measured
from benchmarks.report import Row
from benchmarks.timing import alternate, timed
from dgn_engine.kernels.precision import use_full_products


def measure(
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
        budget: seconds after which no more rounds are begun.
        dry: as few examples as there can be, one round, no memory.
    """
    n = (case.dry or case.quick) if dry else case.quick if quick else case.n
    use_full_products()  # cuDNN rounds to TF32 unless told not to: plain torch is float32 as well
    works = [method.prepare(device, n) for method in case.methods]
    results = [
        method.comparable(work()).detach().to("cpu", torch.float64)
        for method, work in zip(case.methods, works, strict=True)
    ]
    difference = max((_difference(results[0], other) for other in results[1:]), default=0.0)
    rounds = 1 if dry else 3 if quick else case.most_rounds
    seconds = alternate([timed(work, device) for work in works], rounds, budget)
    load = machine.load()
    measured = []
    for index, (method, raw) in enumerate(zip(case.methods, seconds, strict=True)):
        peak = None
        if case.memory and not dry:
            on_card = device.type == "cuda"
            peak = (
                memory.peak_on_card(works[index])
                if on_card
                else memory.peak(name, index, n, device)
            )
        processor, wall = (tuple(s / method.share for s in each) for each in zip(*raw, strict=True))
        measured.append(Measured(method, processor, wall, peak))
    return Row(name, case, n, measured, difference, load)


def _difference(one: Tensor, two: Tensor) -> float:
    if not two.numel():  # a piece of work without a result to compare, such as a training step
        return 0.0
    return float((one - two).norm() / one.norm())
