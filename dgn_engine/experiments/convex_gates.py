"""Mishkin, Sahiner, Pilanci 2022: training against the global optimum of its gates.

Two layers with given gates and weight decay are a convex problem (theory §7), solved here up to a
certified gap. Gradient descent trains the same network from random weights, and a ReLU network of
the same width, whose optimum nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import above, at_most, below, judge
from dgn_engine.experiments._configurations import data_of, data_substitution
from dgn_engine.experiments._grid import LOG_BAND, CalculatedCell, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import dense_architecture, draw_network
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._two_layers import Descent, Weights, forward, train_two_layers
from dgn_engine.kernels.convex_gates import (
    ConvexOptimum,
    convex_optimum,
    gated_as_relu,
    largest_penalty,
    regularised_loss,
    two_layer_gates,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

PAIR = (4, 7)
SHARES = (0.1, 0.01)  # λ, of the least one at which the optimum is zero
NEAR = 0.01  # relative excess over the optimum that counts as reaching it
RATES: Mapping[Descent, tuple[float, ...]] = {
    "sgd": (0.03, 0.1, 0.3),
    "adam": (0.003, 0.01, 0.03),
}
NAMES: Mapping[Descent, str] = {"sgd": "gradient descent", "adam": "Adam"}
SEEDS = (5, 10)
_PILOT = "5 draws of other seeds at the quick scale, 2026-11"
FASTER: Mapping[tuple[Descent, float], Design] = {
    ("sgd", 0.1): Design(0.9, 0.3, _PILOT),
    ("sgd", 0.01): Design(1.0, 0.05, _PILOT),
    ("adam", 0.1): Design(0.15, 0.05, _PILOT),
    ("adam", 0.01): Design(0.36, 0.21, _PILOT),
}
REACHED: Mapping[float, Design] = {
    0.1: Design(-5.1, 1.1, _PILOT),
    0.01: Design(-3.5, 0.9, _PILOT),
}


def key_of(share: float) -> str:
    """Return the name of a share of λ_max in the results."""
    return f"{100 * share:g}%"


def plan(request: Request) -> Plan:
    """Plan one comparison per seed: its examples, gates and initial weights."""
    data = data_of(request, "mnist")
    n = request.train_limit or (100 if request.quick else 300)
    width, steps = (30, 2000) if request.quick else (50, 3000)
    units = tuple(
        calculation_unit(
            f"optimum-s{seed}",
            compare,
            data={"name": data.name, "root": data.root, "download": data.download},
            n=n,
            width=width,
            steps=steps,
            seed=seed,
        )
        for seed in request.seed_range(*SEEDS)
    )
    return Plan(
        units,
        (
            *data_substitution(request, "MNIST"),
            f"{n} examples, {width} hidden units, {steps:,} steps instead of 300, 50, 3,000",
        ),
        (
            f"the digits {PAIR[0]} and {PAIR[1]} as ±1, one logit, squared loss, no biases; each "
            "seed draws its examples, gates and initial weights; sizes are ours at both scales",
            "λ is 0.1 and 0.01 of the least λ at which the optimum is zero",
            "the whole batch in each step; a pass is one forward and one backward, and the line "
            "search of the proximal method pays for its forwards. Of three learning rates the "
            f"quickest counts ({', '.join(map(str, RATES['sgd']))}; Adam "
            f"{', '.join(map(str, RATES['adam']))}); a training that does not get there counts as "
            "if it did in its last step",
        ),
    )


def compare(work: CalculationInputs) -> dict[str, Any]:
    """Solve and train at each λ; see the rows for what the numbers are."""
    given = work.arguments
    seed, steps = given["seed"], given["steps"]
    x, y = _draw_examples(given["data"], given["n"], seed)
    architecture = dense_architecture(x.shape[1], given["width"], 2)
    network = draw_network(architecture, seed, init="kaiming")
    inputs, gates = two_layer_gates(network, x)
    start: Weights = (network.value.weights[0].clone(), network.value.weights[1].clone())
    found: dict[str, Any] = {"passes": shown_steps(steps)}
    for share in SHARES:
        penalty = share * largest_penalty(inputs, gates, y)
        optimum = convex_optimum(inputs, gates, y, penalty, tolerance=1e-7)
        best = optimum.to_weights()
        as_relu = forward(x, None, gated_as_relu(x, network.feature.weights[0], *best))
        curves = {
            name: [
                train_two_layers(
                    start, x, y, gates, optimiser=name, rate=rate, steps=steps, penalty=penalty
                )[0]
                for rate in rates
            ]
            for name, rates in RATES.items()
        }
        found[key_of(share)] = {
            "gap": optimum.gap,
            "factored": _relative_difference(network, best, x, y, penalty, optimum.value),
            "as_relu": float((as_relu - optimum.outputs).norm() / optimum.outputs.norm()),
            "units": int((best[0].norm(dim=1) > 0).sum()),
            **_compare_training(optimum, curves),
            **_compare_relu(start, x, y, penalty, steps, optimum.value),
        }
    return found


def _compare_training(
    optimum: ConvexOptimum, curves: Mapping[Descent, Sequence[Sequence[float]]]
) -> dict[str, Any]:
    """Compare objectives by step, of each optimiser and learning rate, with the optimum."""
    passes, values, _ = optimum.history.T
    steps = len(curves["sgd"][0]) - 1
    near = (1 + NEAR) * optimum.value
    solved = [float(values[passes <= at][-1]) for at in shown_steps(steps)]
    found: dict[str, Any] = {
        "proximal": float(passes[values <= near][0]),
        "late": [
            name
            for name, of_rates in curves.items()
            if all(min(curve) > near for curve in of_rates)
        ],
    }
    shown = {"proximal": solved}
    for name, of_rates in curves.items():
        reached = [_steps_to(curve, near) for curve in of_rates]
        found[name] = min(reached)
        quickest = of_rates[reached.index(min(reached))]
        shown[name] = [quickest[at] for at in shown_steps(steps)]
    end = min(curve[-1] for of_rates in curves.values() for curve in of_rates)
    return found | {
        "curves": {
            name: [max(value / optimum.value - 1, 1e-9) for value in of_name]
            for name, of_name in shown.items()
        },
        "excess": end / optimum.value - 1,
        "below": (optimum.bound - end) / optimum.value,
    }


def _compare_relu(
    start: Weights, x: Tensor, y: Tensor, penalty: float, steps: int, value: float
) -> dict[str, float]:
    """Train a ReLU network by Adam; divide its end and the optimum of its gates by a value."""
    trained = [
        train_two_layers(
            start, x, y, None, optimiser="adam", rate=rate, steps=steps, penalty=penalty
        )
        for rate in RATES["adam"]
    ]
    curve, weights = min(trained, key=lambda run: run[0][-1])
    learnt = (x @ weights[0].T > 0).to(x.dtype)
    own = convex_optimum(x, learnt, y, penalty)
    return {"relu": curve[-1] / value, "learnt": own.value / value}


def _draw_examples(data: Mapping[str, Any], n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return n images (n, d) of two digits and their ±1 labels (n,), float64."""
    examples = load_examples(DataConfig(**data, binary=PAIR))
    order = torch.randperm(len(examples.train_y), generator=random_stream("examples", seed))[:n]
    x = torch.from_numpy(examples.train_x)[order].double().flatten(1)
    return x, 2.0 * torch.from_numpy(examples.train_y)[order].double() - 1.0


def _relative_difference(
    network: GatedNetwork, weights: Weights, x: Tensor, y: Tensor, penalty: float, value: float
) -> float:
    """Return how far the objective of a network with these weights is from a value."""
    changed = deepcopy(network)
    for weight, new in zip(changed.value.weights, weights, strict=True):
        weight.copy_(new)
    return abs(regularised_loss(changed, x, y, penalty) / value - 1)


def _steps_to(curve: Sequence[float], level: float) -> int:
    """Return the first step at or below a level; the last one if there is none."""
    return next((at for at, value in enumerate(curve) if value <= level), len(curve) - 1)


def shown_steps(steps: int) -> list[int]:
    """Return the steps of the curves, evenly spaced on a logarithmic axis from 1."""
    return sorted({round(steps ** (part / 40)) for part in range(41)})


def findings(request: Request, results: UnitResults) -> Findings:
    cell = Grid(results, request.seed_range(*SEEDS)).read_calculated("optimum")
    rows = [row for share in SHARES for row in _iterate_rows(cell, share)]
    figures = tuple(_draw_curves(cell, share) for share in SHARES)
    remark = (
        "A ReLU network also moves its gates, so that it may end below the optimum of random ones; "
        "the optimum through the gates that it learnt is never above what it reached."
    )
    remarks = (remark, *_late_remarks(cell))
    return Findings(tuple(rows), tuple(_judge_claims(cell)), figures, remarks)


def _late_remarks(cell: CalculatedCell) -> Iterator[str]:
    """Yield how many trainings never came near the optimum, whose passes are a lower bound."""
    for share in SHARES:
        for name, words in NAMES.items():
            late = sum(name in one["late"] for one in cell[key_of(share)])
            if late:
                yield (
                    f"λ = {share:g} λ_max: {words} did not come within 1 % in {late} of "
                    f"{len(cell.results)} draws, which count with their last step."
                )


def _iterate_rows(cell: CalculatedCell, share: float) -> Iterator[Row]:
    found = cell[key_of(share)]
    for label, key in (
        ("hidden units that the optimum uses", "units"),
        ("proximal method: passes to within 1 %", "proximal"),
        ("gradient descent: passes to within 1 %", "sgd"),
        ("Adam: passes to within 1 %", "adam"),
        ("log10 of the relative excess after training", "excess"),
        ("ReLU, trained, over the optimum of random gates", "relu"),
        ("optimum of the gates ReLU learnt, over that of random gates", "learnt"),
    ):
        values = _log_excess(found) if key == "excess" else [one[key] for one in found]
        yield cell.row(f"λ = {share:g} λ_max: {label}", values)


def _log_excess(found: Sequence[Mapping[str, Any]]) -> list[float]:
    return [math.log10(max(one["excess"], 1e-12)) for one in found]


def _judge_claims(cell: CalculatedCell) -> Iterator[Claim]:
    by_share = {share: cell[key_of(share)] for share in SHARES}
    every = [one for found in by_share.values() for one in found]
    for statistic, key, tolerance in (
        ("largest |objective of the optimum's weights/optimum − 1|", "factored", 1e-9),
        ("largest relative duality gap", "gap", 1e-6),
        ("largest (lower bound − trained objective)/optimum", "below", 1e-9),
    ):
        largest = max(one[key] for one in every)
        yield judge("cvx-1", statistic, at_most(largest, tolerance, len(every)))
    largest = max(one["as_relu"] for one in every)
    statistic = "largest ‖outputs of ReLU units − outputs of gated units‖/‖outputs‖"
    yield judge("cvx-2", statistic, at_most(largest, 1e-6, len(every)))
    for share, found in by_share.items():
        for name, words in NAMES.items():
            ratios = [math.log10(max(one[name], 1) / max(one["proximal"], 1)) for one in found]
            statistic = f"λ = {share:g} λ_max: log10 of passes to within 1 %, {words}/proximal"
            yield judge("cvx-3", statistic, above(ratios), design=FASTER[name, share])
    for share, found in by_share.items():
        statistic = f"λ = {share:g} λ_max: log10 of the relative excess after training"
        near = below(_log_excess(found), math.log10(NEAR))
        yield judge("cvx-4", statistic, near, design=REACHED[share])


def _draw_curves(cell: CalculatedCell, share: float) -> Figure:
    found = cell[key_of(share)]
    passes = cell["passes"][0]
    lines = tuple(
        mean_line(label, passes, [one["curves"][key] for one in found], log=True)
        for key, label in (("proximal", "proximal method"), *NAMES.items())
    )
    return Figure(
        f"excess-{round(100 * share)}",
        f"Excess over the global optimum, λ = {share:g} λ_max",
        "passes over the examples",
        "objective/optimum − 1",
        lines,
        log_x=True,
        log_y=True,
        note=LOG_BAND,
    )


EXPERIMENT = Experiment(
    question="How far does training stay from the best that its gates allow?",
    title="Training and the global optimum of its gates",
    paper="[CONVEX]",
    about="Two layers with random gates and weight decay: a convex problem, solved and trained.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.84,
    claims=("cvx-1", "cvx-2", "cvx-3", "cvx-4"),
)
