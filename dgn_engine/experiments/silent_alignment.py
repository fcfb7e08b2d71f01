"""Silent alignment: with small weights the kernel turns to the labels before the loss falls.

Full-batch gradient descent on ½e² in float64, for two classes. 'Before the loss falls' is the last
step before it has fallen by a tenth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import above, below, judge
from dgn_engine.experiments._configurations import data_of, data_substitution
from dgn_engine.experiments._gradient_descent import iterate_descent
from dgn_engine.experiments._grid import (
    BAND,
    CalculatedCell,
    Grid,
    calculation_unit,
    mean_line,
    pairwise_difference,
)
from dgn_engine.experiments._initial_networks import dense_architecture, draw_network
from dgn_engine.experiments._power import Design
from dgn_engine.kernels import centred_alignment, shape_distance, tangent_kernels
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.text.written_numbers import format_percent

SMALL = {2: 0.03, 3: 0.1}  # by depth: initial weights as a multiple of the usual √(2/fan-in)
CELLS = {  # factor of the initial weights, None: the small one; whether the inputs are whitened
    "small": ("small weights", None, True),
    "usual": ("usual weights", 1.0, True),
    "plain": ("small weights, not whitened", None, False),
}
FALLEN, END, MOST = 0.9, 0.01, 4000  # of the first loss; steps at most
HELD_OUT = 200  # examples at most
RIDGE = 1e-8  # relative to the mean eigenvalue
TIMES = tuple(index / 10 for index in range(31))  # of readings, relative to the step of FALLEN
SEEDS = (10, 10)
_PILOT = "6 draws of other seeds at the quick scale, 2026-11"
DESIGNS: Mapping[int, Mapping[str, Design]] = {
    2: {
        "share": Design(0.95, 0.011, _PILOT),
        "scale": Design(0.045, 0.0012, _PILOT),
        "learnt": Design(0.30, 0.027, _PILOT),
        "whitened": Design(0.69, 0.57, _PILOT),
        "turn": Design(0.45, 0.012, _PILOT),
    },
    3: {
        "share": Design(0.77, 0.042, _PILOT),
        "scale": Design(0.028, 0.0018, _PILOT),
        "learnt": Design(0.38, 0.085, _PILOT),
        "whitened": Design(0.73, 0.43, _PILOT),
        "turn": Design(0.34, 0.028, _PILOT),
    },
}


def plan(request: Request) -> Plan:
    """Plan each depth with small and usual weights, and with inputs that are not whitened."""
    n, width = (100, 100) if request.quick else (1000, 500)
    data = data_of(request, "mnist")
    given = {"n": n, "width": width, "data": data.name, "root": data.root}
    given |= {"download": data.download}
    units = tuple(
        calculation_unit(
            f"{cell}-d{depth}-s{seed}", alignment_in_training, cell=cell, depth=depth, seed=seed,
            **given,
        )
        for cell, depth, seed in product(CELLS, SMALL, request.seed_range(*SEEDS))
    )  # fmt: skip
    factors = " and ".join(f"{factor:g} (d = {depth})" for depth, factor in SMALL.items())
    return Plan(
        units,
        (*data_substitution(request, "MNIST"), f"n = {n}, width {width} instead of 1,000, 500"),
        (
            "ReLU networks of two and three layers on the first two classes, ±1, with inputs and "
            "targets of mean 0; whitened: principal components of unit variance",
            f"small weights are {factors} times the usual √(2/fan-in); the learning rate is the "
            "smaller of 0.1 over the largest eigenvalue of the input covariance and 0.02·n over "
            f"that of K_0; until {format_percent(END, 0)} of the first loss, at most {MOST:,} "
            "steps",
            "'before the loss falls' is the last step before it has fallen by a tenth; the share "
            "of the change of shape is that of the cosine of K with the final K; the bar is half "
            "of it, as of the growth",
            "small and usual weights are compared by the change of the cosine; a pilot with other "
            "seeds compared the rise of CKA (a row), with the same verdict",
        ),
    )


def alignment_in_training(work: CalculationInputs) -> dict[str, Any]:
    """Train twice alike: to the end, then with K_t compared with the final kernel.

    Returns:
        NaN for what is before the loss falls if it does not.
        share: (cos_t − cos_0)/(1 − cos_0) of the cosine with the final kernel, at the last step
        before the loss falls; turn: not divided; scale: the share of ‖K‖; rise: of CKA with the
        labels, not divided; plain: the alignment without centring at the start, then, at the end;
        learnt: by how much the network is nearer to f_0 plus kernel regression of y − f_0 with the
        final kernel than with the initial one, relative to its held-out outputs; far: both
        distances; cosine, cka, norm, loss: by `TIMES`; steps: all, and those before the loss falls.
    """
    given = work.arguments
    _, factor, whitened = CELLS[given["cell"]]
    factor = SMALL[given["depth"]] if factor is None else factor
    config = DataConfig(name=given["data"], root=given["root"], download=given["download"])
    x, y, held_out = two_classes(config, given["n"], given["seed"], whitened)
    architecture = dense_architecture(x.shape[1], given["width"], given["depth"])

    def start() -> GatedNetwork:
        network = draw_network(architecture, given["seed"], own=True, init="kaiming")
        for weight in network.value.parameters():
            weight.mul_(factor)
        return network

    network, first = start(), start()
    k_first = value_kernel(first, x)
    spread = torch.linalg.eigvalsh(x.T @ x)[-1] / len(x)
    rate = min(0.1 / float(spread), 0.02 * len(x) / float(torch.linalg.eigvalsh(k_first)[-1]))
    losses: list[float] = []
    # descent on the mean ½Σe²/n: the rate of the sum is divided by n
    for step in iterate_descent(network, x, y, rate / len(x), MOST, kernels=False):
        losses.append(float(step.error.square().sum()))
        if losses[-1] <= END * losses[0]:
            break
    network.value.requires_grad_(False)
    k_last = value_kernel(network, x)
    silent = last_step_before(losses)
    times = [at for time in TIMES if (at := round(time * silent)) < len(losses)]
    read: dict[int, dict[str, float]] = {}
    again = start()
    for step in iterate_descent(again, x, y, rate / len(x), times[-1], kernels=False):
        if step.step in times:
            read[step.step] = _compare_kernels(value_kernel(again, x), k_last, y)
            read[step.step]["loss"] = losses[step.step] / losses[0]
    outputs = network.trace(held_out).value.output[:, 0]
    moved = outputs - first.trace(held_out).value.output[:, 0]
    residual = y - first.trace(x).value.output[:, 0]
    far = [
        float((moved - _regression(of, x, residual, held_out)).norm() / outputs.norm())
        for of in (first, network)
    ]
    before, now, last = read[0], read[silent], centred_alignment(k_last, y)
    has_fallen = losses[-1] <= FALLEN * losses[0]  # otherwise nothing was before the fall
    if not has_fallen:
        now = dict.fromkeys(now, math.nan)
    curve = [read[at] for at in times]
    return {
        "share": (now["cosine"] - before["cosine"]) / (1.0 - before["cosine"]),
        "scale": (now["norm"] - before["norm"]) / (1.0 - before["norm"]),
        "turn": now["cosine"] - before["cosine"],
        "rise": now["cka"] - before["cka"],
        "plain": [before["plain"], now["plain"], last.uncentred],
        "last_cka": last.centred,
        "learnt": far[0] - far[1],
        "far": far,
        "steps": [len(losses) - 1, silent],
        **{name: [point[name] for point in curve] for name in ("cosine", "cka", "norm", "loss")},
    }


@torch.no_grad()
def _compare_kernels(kernel: Tensor, final: Tensor, y: Tensor) -> dict[str, float]:
    """Return how near a kernel is to the final one and to the labels, and its relative norm."""
    aligned = centred_alignment(kernel, y)
    return {
        "cosine": 1.0 - shape_distance(kernel, final) ** 2 / 2.0,
        "cka": aligned.centred,
        "plain": aligned.uncentred,
        "norm": float(kernel.norm() / final.norm()),
    }


def last_step_before(losses: list[float]) -> int:
    """Return the last step before the loss has fallen by a tenth for the first time."""
    fallen = (step for step, loss in enumerate(losses) if loss <= FALLEN * losses[0])
    return next(fallen, len(losses)) - 1


def two_classes(
    config: DataConfig, n: int, seed: int, whitened: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return n inputs of the first two classes, their centred targets, and held-out inputs.

    All inputs are centred with the mean of the n. Whitened, X Xᵀ/n has eigenvalues 0 and 1 only;
    otherwise X has the same norm.
    """
    examples = load_examples(config)
    labels = torch.from_numpy(examples.train_y).long()
    pool = torch.from_numpy(examples.train_x)[labels < 2].flatten(1).double()
    targets = 2.0 * labels[labels < 2].double() - 1.0
    order = torch.randperm(len(pool), generator=random_stream("inputs", seed))[: n + HELD_OUT]
    train, rest = pool[order[:n]], pool[order[n:]]
    mean, y = train.mean(0), targets[order[:n]]
    _, sizes, directions = torch.linalg.svd(train - mean, full_matrices=False)
    sizes, directions = sizes[sizes > 1e-3 * sizes[0]], directions[sizes > 1e-3 * sizes[0]]
    if whitened:
        rotation = directions.T * (math.sqrt(len(train)) / sizes)
    else:
        rotation = directions.T * math.sqrt(len(sizes) * len(train)) / sizes.norm()
    return (train - mean) @ rotation, y - y.mean(), (rest - mean) @ rotation


def value_kernel(network: GatedNetwork, x: Tensor, other: Tensor | None = None) -> Tensor:
    return tangent_kernels(network, x, trains=("value",), other=other).total_kernel.detach()


def _regression(network: GatedNetwork, x: Tensor, y: Tensor, held_out: Tensor) -> Tensor:
    """Predict by kernel regression with the kernel of a network."""
    kernel = value_kernel(network, x)
    kernel.diagonal().add_(RIDGE * float(kernel.trace()) / len(x))
    predicted: Tensor = value_kernel(network, held_out, x) @ torch.linalg.solve(kernel, y)
    return predicted


Cells = Mapping[tuple[str, int], CalculatedCell]  # by name and depth


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {
        (cell, depth): grid.read_calculated(f"{cell}-d{depth}")
        for depth, cell in product(SMALL, CELLS)
    }
    rows = [
        cell.row(f"{CELLS[name][0]}, d = {depth}: {words}", values)
        for (name, depth), cell in cells.items()
        for words, values in (
            ("share of the change of shape before the loss falls", cell["share"]),
            ("CKA of K with the labels at the start", [curve[0] for curve in cell["cka"]]),
            ("CKA, rise before the loss falls", cell["rise"]),
            ("CKA at the end", cell["last_cka"]),
            ("alignment without centring at the start", [some[0] for some in cell["plain"]]),
            ("the same, at the end", [some[2] for some in cell["plain"]]),
            ("distance from regression with the initial K", [far[0] for far in cell["far"]]),
            ("distance from regression with the final K", [far[1] for far in cell["far"]]),
            ("steps before the loss falls", [float(steps[1]) for steps in cell["steps"]]),
        )
    ]
    judged = tuple(claim for depth in SMALL for claim in _judge_depth(cells, depth))
    return Findings(tuple(rows), judged, tuple(_draw_figures(cells)))


def _judge_depth(cells: Cells, depth: int) -> Iterator[Claim]:
    small, usual, plain = (cells[name, depth] for name in CELLS)
    designs = DESIGNS[depth]
    start = f"d = {depth}, small weights"
    yield judge(
        "silent-1",
        f"{start}: share of the change of shape before the loss falls",
        above(small["share"], 0.5),
        design=designs["share"],
    )
    yield judge(
        "silent-2",
        f"{start}: share of the growth of ‖K‖ before the loss falls",
        below(small["scale"], 0.5),
        design=designs["scale"],
    )
    yield judge(
        "silent-3",
        f"{start}: distance from regression with the initial K − with the final K",
        above(small["learnt"]),
        design=designs["learnt"],
    )
    yield judge(
        "silent-4",
        f"{start}: share of the change of shape, whitened − not whitened",
        above(pairwise_difference(small["share"], plain["share"])),
        design=designs["whitened"],
    )
    yield judge(
        "silent-5",
        f"d = {depth}: change of the cosine before the loss falls, small − usual weights",
        above(pairwise_difference(small["turn"], usual["turn"])),
        design=designs["turn"],
    )


def _draw_figures(cells: Cells) -> Iterator[Figure]:
    x = "step / last step before the loss has fallen by a tenth"
    for depth in SMALL:
        cell = cells["small", depth]
        lines = tuple(
            mean_line(label, TIMES, cell[name])
            for name, label in (
                ("cosine", "cosine of K with the final K"),
                ("cka", "CKA of K with the labels"),
                ("norm", "norm of K / final norm"),
                ("loss", "loss / first loss"),
            )
        )
        title = f"Small weights, whitened inputs, d = {depth}"
        yield Figure(f"silent-d{depth}", title, x, "", lines, note=BAND)
    cka = {
        (depth, words): mean_line(words, TIMES, cells[name, depth]["cka"])
        for depth, (name, (words, *_)) in product(SMALL, CELLS.items())
    }
    lines = tuple(
        line if depth == 2 else replace(line, label=f"d = {depth}, {words}", style="printed")
        for (depth, words), line in cka.items()
    )
    title = "Alignment with the labels, d = 2 (d = 3 dotted)"
    yield Figure("alignment", title, x, "CKA", lines, note=BAND)


EXPERIMENT = Experiment(
    question="Does the kernel learn before the loss falls?",
    title="Silent alignment",
    paper="[SILENT]",
    about="Shape and scale of the tangent kernel against the loss, small and usual weights.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=1.7,
    claims=("silent-1", "silent-2", "silent-3", "silent-4", "silent-5"),
)
