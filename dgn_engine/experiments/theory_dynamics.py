"""[NPF]: e_{t+1} = e_t − αK_t e_t compared with gradient descent, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._gradient_descent import iterate_descent
from dgn_engine.experiments._grid import LOG_BAND, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import (
    dense_architecture,
    draw_network,
    draw_targets,
    unit_inputs,
)
from dgn_engine.kernels import tangent_kernels
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

N, INPUTS, DEPTH = 20, 5, 3
GATES = {"own": "standard (ReLU)", "fixed": "fixed gates (FR-II)"}
WIDTHS = (16, 64, 256, 1024)
SEEDS = (3, 5)
DRIFTS = {"parameters": "‖θ_t − θ_0‖/‖θ_0‖", "npf": "‖φ_t − φ_0‖/‖φ_0‖", "npv": "‖v_t − v_0‖/‖v_0‖"}


def plan(request: Request) -> Plan:
    """Plan both kinds of gates at every width, up to the wide regime."""
    steps, widths = 150 if request.quick else 1000, _widths(request)
    units = tuple(
        calculation_unit(
            f"{gates}-w{width}-s{seed}",
            dynamics,
            own=gates == "own",
            width=width,
            seed=seed,
            steps=steps,
        )
        for gates, width, seed in product(GATES, widths, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"{steps} steps instead of 1,000, widths to {widths[-1]}",),
        (
            f"{N} unit inputs of dimension {INPUTS}, d = {DEPTH}, y ~ U[-1, 1], all weights "
            "N(0, 2/fan-in), α = 0.1/ρ_max(K_0), full batch, float64",
            "a switching instant is a step that changes any gate of any example",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return WIDTHS[:-1] if request.quick else WIDTHS


def dynamics(work: CalculationInputs) -> dict[str, Any]:
    """Train, and return prediction errors, switching instants and drifts over the steps."""
    given = work.arguments
    width, seed = given["width"], given["seed"]
    architecture = dense_architecture(INPUTS, width, DEPTH)
    network = draw_network(architecture, seed, own=given["own"], init="kaiming")
    x, y = unit_inputs(N, (INPUTS,), seed), draw_targets(N, seed)
    kernel = tangent_kernels(network, x, trains=("value",)).total_kernel
    rate = 0.1 / float(torch.linalg.eigvalsh(kernel)[-1])
    first = [weight.detach().clone() for weight in network.value.parameters()]
    curves: dict[str, list[float]] = {"off": [], "loss": [], "switched": [], "npf": []}
    expected: Tensor | None = None
    before = y
    last: tuple[Tensor, ...] = ()
    start: tuple[Tensor, ...] = ()
    for step in iterate_descent(network, x, y, rate, given["steps"]):
        assert step.kernel is not None
        start = start or step.gates
        if expected is not None:
            moved = (expected - before).norm()
            curves["off"].append(float((step.error - expected).norm() / moved))
            curves["switched"].append(
                float(sum((a != b).sum() for a, b in zip(step.gates, last, strict=True)))
            )
        curves["loss"].append(float(0.5 * step.error.square().sum()))
        curves["npf"].append(_feature_drift(step.gates, start, x))
        expected = step.error - rate * step.kernel @ step.error
        before, last = step.error, step.gates
    now = [weight.detach() for weight in network.value.parameters()]
    return {
        "off": float(torch.tensor(curves["off"], dtype=torch.float64).median()),
        "worst": max(curves["off"]),
        "instants": [i for i, number in enumerate(curves["switched"]) if number],
        "switched": sum(curves["switched"]),
        "loss": curves["loss"][:: max(1, len(curves["loss"]) // 100)],
        "npf": curves["npf"][-1],
        "parameters": _relative_change(now, first),
        "npv": _value_drift(now, first),
    }


def _relative_change(now: Sequence[Tensor], first: Sequence[Tensor]) -> float:
    far = sum(float((a - b).square().sum()) for a, b in zip(now, first, strict=True))
    return math.sqrt(far / sum(float(b.square().sum()) for b in first))


def _feature_drift(now: Sequence[Tensor], first: Sequence[Tensor], x: Tensor) -> float:
    """Return ‖φ_t − φ_0‖/‖φ_0‖, using ⟨φ_t, φ_0⟩ = |x|² Π_l ⟨G_l(t), G_l(0)⟩ per example."""

    def inner(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
        product = x.square().sum(1)
        for a, b in zip(one, other, strict=True):
            product = product * (a * b).sum(1)
        return float(product.sum())

    return _relative_drift(inner(now, now), inner(now, first), inner(first, first))


def _value_drift(now: Sequence[Tensor], first: Sequence[Tensor]) -> float:
    """Return ‖v_t − v_0‖/‖v_0‖, where ⟨v_t, v_0⟩ is the matrix chain of W_l(t) ⊙ W_l(0)."""

    def inner(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
        total = torch.ones(one[0].shape[1], dtype=one[0].dtype)
        for a, b in zip(one, other, strict=True):
            total = (a * b) @ total
        return float(total.sum())

    return _relative_drift(inner(now, now), inner(now, first), inner(first, first))


def _relative_drift(now: float, both: float, first: float) -> float:
    """Return ‖a − b‖/‖b‖ from ⟨a, a⟩, ⟨a, b⟩ and ⟨b, b⟩."""
    return math.sqrt(max(0.0, now - 2 * both + first) / first)


def findings(request: Request, results: UnitResults) -> Findings:
    grid, widths = Grid(results, request.seed_range(*SEEDS)), _widths(request)
    cells = {key: grid.read_calculated("{}-w{}".format(*key)) for key in product(GATES, widths)}
    rows: list[Row] = []
    losses = []
    for (gates, width), cell in cells.items():
        name = f"{GATES[gates]}, w = {width}"
        switched = [float(len(instants)) for instants in cell["instants"]]
        rows += [
            cell.row(f"{name}: median ‖e − predicted‖/‖αKe‖", cell["off"]),
            cell.row(f"{name}: largest ‖e − predicted‖/‖αKe‖", cell["worst"]),
            cell.row(f"{name}: steps at which a gate switched", switched),
            *(cell.row(f"{name}: {word}", cell[key]) for key, word in DRIFTS.items()),
        ]
        losses.append(mean_line(name, range(len(cell["loss"][0])), cell["loss"], log=True))
    drifts = [
        mean_line(
            word,
            widths,
            list(zip(*(cells["own", w][key] for w in widths), strict=True)),
            log=True,
        )
        for key, word in DRIFTS.items()
    ]
    figures = (
        Figure(
            "drift",
            "Drift of a ReLU network by the end of training",
            "width",
            "relative drift",
            tuple(drifts),
            log_x=True,
            log_y=True,
            note=LOG_BAND,
        ),
        Figure(
            "loss",
            "Loss",
            "step (% of the run)",
            "½‖e‖²",
            tuple(losses),
            log_y=True,
            note=LOG_BAND,
        ),
    )
    remark = (
        "With fixed gates φ is constant, and the remaining error is only that of the finite step; "
        "with a network's own gates, switching adds to it."
    )
    return Findings(tuple(rows), figures=figures, remarks=(remark,))


EXPERIMENT = Experiment(
    question="Does the kernel predict the next training step?",
    title="Dynamics step by step",
    paper="[NPF]",
    about="The next step predicted by K_t and the actual one; switching gates; drift by width.",
    plan=plan,
    findings=findings,
    quick_minutes=0.13,
    full_hours=0.023,
)
