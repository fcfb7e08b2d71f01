"""[NPF] §3: e_{t+1} = e_t − αK_t e_t against what gradient descent does, step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dgn_engine.experiments import _initial
from dgn_engine.experiments._descent import descend
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, Row
from dgn_engine.experiments._random_gates import targets
from dgn_engine.experiments._series import averaged
from dgn_engine.kernels import tangent_kernels
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.theory_dynamics"
N, INPUTS, DEPTH = 20, 5, 3
REGIMES = {"standard (ReLU)": True, "fixed gates (FR-II)": False}
WIDTHS = (16, 64, 256, 1024)
DRIFTS = {"parameters": "‖θ_t − θ_0‖/‖θ_0‖", "npf": "‖φ_t − φ_0‖/‖φ_0‖", "npv": "‖v_t − v_0‖/‖v_0‖"}


def plan(request: Request) -> Plan:
    """Both regimes at every width: the widest are the wide regime."""
    steps = 150 if request.quick else 1000
    units = tuple(
        Calculation(
            f"{'own' if own else 'fixed'}-w{width}-s{seed}",
            f"{HERE}:dynamics",
            {"own": own, "width": width, "seed": seed, "steps": steps},
        )
        for own in REGIMES.values()
        for width in _widths(request)
        for seed in range(request.seeds_or(3, 5))
    )
    return Plan(
        units,
        (f"{steps} steps instead of 1,000, widths to {_widths(request)[-1]}",)
        if request.quick
        else (),
        (
            f"{N} unit inputs of dimension {INPUTS}, d = {DEPTH}, y ~ U[-1, 1], all weights "
            "N(0, 2/fan-in), α = 0.1/ρ_max(K_0), full batch, float64",
            "a switching instant is a step after which some gate of some example is another one",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return WIDTHS[:-1] if request.quick else WIDTHS


def dynamics(work: CalculationInputs) -> dict[str, Any]:
    """Prediction errors, switching instants and drifts over the steps."""
    given = work.arguments
    width, seed = given["width"], given["seed"]
    architecture = _initial.dense(INPUTS, width, DEPTH)
    network = _initial.gated(architecture, seed, own=given["own"], init="kaiming")
    x, y = _initial.unit_inputs(N, (INPUTS,), seed), targets(N, seed)
    kernel = tangent_kernels(network, x, feature_trained=False).value
    rate = 0.1 / float(torch.linalg.eigvalsh(kernel)[-1])
    first = [weight.detach().clone() for weight in network.value.parameters()]
    found: dict[str, list[float]] = {"off": [], "loss": [], "switched": [], "npf": []}
    expected: Tensor | None = None
    before = y
    last: tuple[Tensor, ...] = ()
    start: tuple[Tensor, ...] = ()
    for moment in descend(network, x, y, rate, given["steps"]):
        assert moment.kernel is not None
        start = start or moment.gates
        if expected is not None:
            moved = (expected - before).norm()
            found["off"].append(float((moment.error - expected).norm() / moved))
            found["switched"].append(
                float(sum((a != b).sum() for a, b in zip(moment.gates, last, strict=True)))
            )
        found["loss"].append(float(0.5 * moment.error.square().sum()))
        found["npf"].append(_feature_drift(moment.gates, start, x))
        expected = moment.error - rate * moment.kernel @ moment.error
        before, last = moment.error, moment.gates
    now = [weight.detach() for weight in network.value.parameters()]
    return {
        "off": _median(found["off"]),
        "worst": max(found["off"]),
        "instants": [i for i, number in enumerate(found["switched"]) if number],
        "switched": sum(found["switched"]),
        "loss": found["loss"][:: max(1, len(found["loss"]) // 100)],
        "npf": found["npf"][-1],
        "parameters": _moved(now, first),
        "npv": _value_drift(now, first),
    }


def _median(values: Sequence[float]) -> float:
    return float(torch.tensor(values, dtype=torch.float64).median())


def _moved(now: Sequence[Tensor], first: Sequence[Tensor]) -> float:
    far = sum(float((a - b).square().sum()) for a, b in zip(now, first, strict=True))
    return math.sqrt(far / sum(float(b.square().sum()) for b in first))


def _feature_drift(now: Sequence[Tensor], first: Sequence[Tensor], x: Tensor) -> float:
    """‖φ_t − φ_0‖/‖φ_0‖ over all paths: ⟨φ_t, φ_0⟩ of an example is |x|² Π_l ⟨G_l(t), G_l(0)⟩."""

    def inner(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
        product = x.square().sum(1)
        for a, b in zip(one, other, strict=True):
            product = product * (a * b).sum(1)
        return float(product.sum())

    square = inner(now, now) - 2 * inner(now, first) + inner(first, first)
    return math.sqrt(max(0.0, square) / inner(first, first))


def _value_drift(now: Sequence[Tensor], first: Sequence[Tensor]) -> float:
    """‖v_t − v_0‖/‖v_0‖ over all paths: ⟨v_t, v_0⟩ is the chain of the products W(t) ⊙ W(0)."""

    def inner(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
        total = torch.ones(one[0].shape[1], dtype=one[0].dtype)
        for a, b in zip(one, other, strict=True):
            total = (a * b) @ total
        return float(total.sum())

    square = inner(now, now) - 2 * inner(now, first) + inner(first, first)
    return math.sqrt(max(0.0, square) / inner(first, first))


def findings(request: Request, results: UnitResults) -> Findings:
    """How far predictions were off, how often gates switched, how far things drifted."""
    seeds = range(request.seeds_or(3, 5))
    rows: list[Row] = []
    drifts: dict[str, list[list[float]]] = {key: [] for key in DRIFTS}
    losses = []
    for label, own in REGIMES.items():
        prefix = "own" if own else "fixed"
        for width in _widths(request):
            cells = [results.calculated(f"{prefix}-w{width}-s{seed}") for seed in seeds]
            seconds = results.seconds_of(*(f"{prefix}-w{width}-s{seed}" for seed in seeds))
            name = f"{label}, w = {width}"
            for word, key in (("median", "off"), ("largest", "worst")):
                rows.append(
                    Row(
                        f"{name}: {word} ‖e − predicted‖/‖αKe‖",
                        tuple(c[key] for c in cells),
                        unit="",
                        seconds=seconds,
                    )
                )
            rows.append(
                Row(
                    f"{name}: steps at which a gate switched",
                    tuple(float(len(c["instants"])) for c in cells),
                    unit="",
                    seconds=seconds,
                )
            )
            rows += [
                Row(f"{name}: {word}", tuple(c[key] for c in cells), unit="", seconds=seconds)
                for key, word in DRIFTS.items()
            ]
            losses.append(averaged(name, range(len(cells[0]["loss"])), [c["loss"] for c in cells]))
    for key in DRIFTS:
        drifts[key] = [
            [results.calculated(f"own-w{width}-s{seed}")[key] for width in _widths(request)]
            for seed in seeds
        ]
    figures = (
        Figure(
            "drift",
            "Drift of a ReLU network by the end of training",
            "width",
            "relative drift",
            tuple(averaged(word, _widths(request), drifts[key]) for key, word in DRIFTS.items()),
            log_x=True,
            log_y=True,
        ),
        Figure("loss", "Loss", "step (hundredths of the run)", "½‖e‖²", tuple(losses), log_y=True),
    )
    return Findings(
        tuple(rows),
        (),
        figures,
        (
            "With fixed gates the error left is that of the finite step alone (φ does not move); "
            "with a network's own gates switching instants add to it.",
        ),
    )


EXPERIMENT = Experiment(
    title="Dynamics step by step",
    paper="[NPF] §3",
    about="What K_t predicts for the next step, and what happens; switching gates; drift by width.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=0.2,
)
