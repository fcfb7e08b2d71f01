"""[NPF]: e_{t+1} = e_t − αK_t e_t compared with gradient descent, step by step.

With soft gates, φ moves too ([NPF] Propositions 3.4 and 4.1). For one network

    ė = −(K^V + K^F + K^X) e,

and for a pair, whose gates have weights of their own, ⟨φ, v̇⟩ = −K^V e and ⟨φ̇, v⟩ = −K^F e. A kernel
is the right one if a step of length α leaves a remainder of order α²; one that lacks a part leaves
a remainder of order α. The feature network of a pair has hard ReLUs between its layers, and the
equations hold between their switching instants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dgn_engine.experiments import (
    Claim,
    Experiment,
    Figure,
    Findings,
    Plan,
    PlottedLine,
    Request,
    Row,
)
from dgn_engine.experiments._claims import at_most, judge
from dgn_engine.experiments._gradient_descent import iterate_descent
from dgn_engine.experiments._grid import LOG_BAND, CalculatedCell, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import (
    dense_architecture,
    draw_network,
    draw_targets,
    unit_inputs,
)
from dgn_engine.kernels import TangentKernels, tangent_kernels
from dgn_engine.model.network import GatedNetwork, NetworkTrace
from dgn_engine.regimes import Trained
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

N, INPUTS, DEPTH = 20, 5, 3
GATES = {"own": "standard (ReLU)", "fixed": "fixed gates (FR-II)"}
WIDTHS = (16, 64, 256, 1024)
SEEDS = (3, 5)
DRIFTS = {"parameters": "‖θ_t − θ_0‖/‖θ_0‖", "npf": "‖φ_t − φ_0‖/‖φ_0‖", "npv": "‖v_t − v_0‖/‖v_0‖"}

SOFT = {"own": "one network, soft gates", "pair": "pair, soft gates"}
SOFT_WIDTHS, SHOWN_WIDTH = (16, 64, 256), 64
SOFT_STEPS = (50, 500)
HALVINGS = 7  # of α = 0.1/ρ_max(K_0); the last one gives the order of the remainder
ORDER_ERROR = 0.05  # around 1 and 2; higher orders (large α) and rounding (small α) reach 0.02
WHOLE, NO_FEATURE, NO_CROSS = "K", "K − K^F", "K − K^X"
VALUES, FEATURES = "K^V, only Θ^v moved", "K^F, only Θ^f moved"


def plan(request: Request) -> Plan:
    """Plan both kinds of gates at every width, up to the wide regime, and soft gates."""
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
    units += tuple(
        calculation_unit(
            f"soft-{kind}-w{width}-s{seed}",
            soft_dynamics,
            own=kind == "own",
            width=width,
            seed=seed,
            steps=SOFT_STEPS[not request.quick],
        )
        for kind, width, seed in product(SOFT, SOFT_WIDTHS, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (
            f"{steps} steps instead of 1,000, widths to {widths[-1]}; with soft gates "
            f"{SOFT_STEPS[0]} steps instead of {SOFT_STEPS[1]}",
        ),
        (
            f"{N} unit inputs of dimension {INPUTS}, d = {DEPTH}, y ~ U[-1, 1], all weights "
            "N(0, 2/fan-in), α = 0.1/ρ_max(K_0), full batch, float64",
            "a switching instant is a step that changes any gate of any example",
            f"soft gates have β = 8, widths {SOFT_WIDTHS[0]} to {SOFT_WIDTHS[-1]}, and both "
            "networks of a pair train; the order of a remainder is its change when "
            f"α/{2 ** (HALVINGS - 1)} is halved, before the first step and after the last, unless "
            "that step switches a ReLU of the feature network",
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


def soft_dynamics(work: CalculationInputs) -> dict[str, Any]:
    """Train with soft gates, and return prediction errors, drifts and remainders.

    The remainders ‖e(α) − e + αK'e‖/‖αKe‖ are by K', at the start and the end, for α = α_0/2^k.
    """
    given = work.arguments
    width, seed, own = given["width"], given["seed"], given["own"]
    network = draw_network(
        dense_architecture(INPUTS, width, DEPTH), seed, own=own, soft=True, init="kaiming"
    )
    trains: Trained = ("value",) if own else ("value", "feature")
    x, y = unit_inputs(N, (INPUTS,), seed), draw_targets(N, seed)
    kernel = tangent_kernels(network, x, trains=trains).total_kernel
    rate = 0.1 / float(torch.linalg.eigvalsh(kernel)[-1])
    values = list(network.value.parameters())
    features = [] if own else list(network.feature.parameters())[:-1]  # the last makes no gate
    weights, first = [*values, *features], [weight.detach().clone() for weight in values]
    curves: dict[str, list[float]] = {"off": [], "loss": [], "npf": []}
    remainders: dict[str, list[list[float]]] = {}
    switched: list[bool] = []
    expected: Tensor | None = None
    before, start = y, network.trace(x).value.gates
    for step in range(given["steps"] + 1):
        trace = network.trace(x)
        error = trace.value.output[:, 0] - y
        kernels = tangent_kernels(network, x, trains=trains, trace=trace)
        change = rate * kernels.total_kernel @ error
        if expected is not None:
            curves["off"].append(float((error - expected).norm() / (expected - before).norm()))
        curves["loss"].append(float(0.5 * error.square().sum()))
        curves["npf"].append(_feature_drift(trace.value.gates, start, x))
        expected, before = error - change, error
        slopes = _loss_slopes(network, x, y, weights)
        if step in (0, given["steps"]):
            found = _measure_remainders(
                network, x, error, kernels, (values, features), slopes, rate
            )
            for name, sizes in found.items():
                remainders.setdefault(name, []).append(sizes)
            after = _trace_moved(network, x, weights, slopes, rate / 2 ** (HALVINGS - 1))
            switched.append(trace.feature is not None and _has_switched(trace, after))
        if step < given["steps"]:
            for weight, slope in zip(weights, slopes, strict=True):
                weight.sub_(rate * slope)
    return {
        "off": float(torch.tensor(curves["off"], dtype=torch.float64).median()),
        "worst": max(curves["off"]),
        "loss": curves["loss"][:: max(1, len(curves["loss"]) // 100)],
        "npf": curves["npf"][-1],
        "parameters": _relative_change(values, first),
        "npv": _value_drift(values, first),
        "remainders": remainders,
        "switched": switched,
    }


def _measure_remainders(
    network: GatedNetwork,
    x: Tensor,
    error: Tensor,
    kernels: TangentKernels,
    weights: tuple[Sequence[Tensor], Sequence[Tensor]],
    slopes: Sequence[Tensor],
    rate: float,
) -> dict[str, list[float]]:
    """Return ‖e(α) − e + αK'e‖/‖αKe‖ for each kernel K', α = `rate`/2^k, k = 0 … HALVINGS."""
    assert kernels.value is not None
    assert kernels.feature is not None
    (values, features), both = weights, [*weights[0], *weights[1]]
    whole, count = kernels.total_kernel, len(values)
    moves: dict[str, tuple[Tensor, Sequence[Tensor], Sequence[Tensor]]] = {
        WHOLE: (whole, both, slopes),
        NO_FEATURE: (whole - kernels.feature, both, slopes),
    }
    if kernels.cross is not None:
        moves[NO_CROSS] = (whole - kernels.cross, both, slopes)
    else:
        moves[VALUES] = (kernels.value, values, slopes[:count])
        moves[FEATURES] = (kernels.feature, features, slopes[count:])
    before, scale = network.trace(x).value.output[:, 0], (whole @ error).norm()
    remainders: dict[str, list[float]] = {}
    for name, (part, moved, along) in moves.items():
        remainders[name] = []
        for alpha in (rate / 2**k for k in range(HALVINGS + 1)):
            change = _trace_moved(network, x, moved, along, alpha).value.output[:, 0] - before
            remainders[name].append(float((change / alpha + part @ error).norm() / scale))
    return remainders


def _loss_slopes(
    network: GatedNetwork, x: Tensor, y: Tensor, weights: Sequence[Tensor]
) -> list[Tensor]:
    """Return the gradient of ½Σe²."""
    for weight in weights:
        weight.requires_grad_(True)
    error = network.trace(x).value.output[:, 0] - y
    slopes = torch.autograd.grad(0.5 * error.square().sum(), list(weights))
    for weight in weights:
        weight.requires_grad_(False)
    return list(slopes)


def _trace_moved(
    network: GatedNetwork,
    x: Tensor,
    weights: Sequence[Tensor],
    slopes: Sequence[Tensor],
    rate: float,
) -> NetworkTrace:
    """Return the forward pass after a step of these weights, which is then taken back."""
    before = [weight.clone() for weight in weights]
    for weight, slope in zip(weights, slopes, strict=True):
        weight.sub_(rate * slope)
    trace = network.trace(x)
    for weight, old in zip(weights, before, strict=True):
        weight.copy_(old)
    return trace


def _has_switched(trace: NetworkTrace, other: NetworkTrace) -> bool:
    """Return whether the sign of a pre-activation that makes a gate differs."""
    return any(
        bool(((a > 0) != (b > 0)).any())
        for a, b in zip(trace.gate_pre, other.gate_pre, strict=True)
    )


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
        percents = torch.linspace(0, 100, len(cell["loss"][0]), dtype=torch.float64).tolist()
        losses.append(mean_line(name, percents, cell["loss"], log=True))
    soft = {
        key: grid.read_calculated("soft-{}-w{}".format(*key)) for key in product(SOFT, SOFT_WIDTHS)
    }
    rows += _soft_rows(soft)
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
        _draw_remainders(soft),
    )
    remark = (
        "With fixed gates φ is constant, and the remaining error is only that of the finite step; "
        "with a network's own gates, switching adds to it."
    )
    return Findings(tuple(rows), tuple(_judge_orders(soft)), figures, (remark,))


SoftCells = dict[tuple[str, int], CalculatedCell]  # by kind and width


def _soft_rows(cells: SoftCells) -> Iterator[Row]:
    for (kind, width), cell in cells.items():
        name = f"{SOFT[kind]}, w = {width}"
        yield cell.row(f"{name}: median ‖e − predicted‖/‖αKe‖", cell["off"])
        yield cell.row(f"{name}: largest ‖e − predicted‖/‖αKe‖", cell["worst"])
        for label, part in (
            (f"{name}: without K^F", NO_FEATURE),
            (f"{name}: without K^X", NO_CROSS),
        ):
            if part in cell["remainders"][0]:
                ends = [remainders[part][-1][-1] for remainders in cell["remainders"]]
                yield cell.row(f"{label}, at the end, for small α", ends)
        for key, word in DRIFTS.items():
            yield cell.row(f"{name}: {word}", cell[key])


def _draw_remainders(cells: SoftCells) -> Figure:
    """Draw the remainders after the last step against α, at one width."""
    alphas = tuple(2.0**-k for k in range(HALVINGS + 1))
    lines = []
    for kind, label in (("own", "one"), ("pair", "pair")):
        runs = cells[kind, SHOWN_WIDTH]["remainders"]
        for part in runs[0]:
            columns = zip(*(run[part][-1] for run in runs), strict=True)
            means = tuple(math.exp(sum(map(math.log, column)) / len(runs)) for column in columns)
            lines.append(PlottedLine(f"{label}: {part}", alphas, means))
    return Figure(
        "remainders",
        f"Soft gates: what a step leaves unexplained, w = {SHOWN_WIDTH}",
        "α/α_0",
        "‖e(α) − e + αK'e‖/‖αKe‖",
        tuple(lines),
        log_x=True,
        log_y=True,
        note="Geometric means over the seeds, after the last step.",
    )


def _judge_orders(cells: SoftCells) -> Iterator[Claim]:
    """Judge the order in α of what each kernel leaves: 2 if it is complete, 1 if not."""
    for statistic, kind, parts, order in (
        (f"{SOFT['own']}: K^V + K^F + K^X", "own", (WHOLE,), 2),
        (f"{SOFT['pair']}: K^V + K^F", "pair", (WHOLE,), 2),
        (f"{SOFT['pair']}: K^V for v alone and K^F for φ alone", "pair", (VALUES, FEATURES), 2),
        (f"{SOFT['own']}: without K^F, and without K^X", "own", (NO_FEATURE, NO_CROSS), 1),
        (f"{SOFT['pair']}: without K^F", "pair", (NO_FEATURE,), 1),
    ):
        orders = [
            1 + math.log2(sizes[-2] / sizes[-1])  # ‖αKe‖, by which they are divided, is of order 1
            for width in SOFT_WIDTHS
            for run in cells[kind, width].results
            for part in parts
            for sizes, switched in zip(run["remainders"][part], run["switched"], strict=True)
            if not switched
        ]
        error = max((abs(found - order) for found in orders), default=math.nan)
        yield judge(
            "npf-9",
            f"{statistic}: |order of the remainder − {order}|",
            at_most(error, ORDER_ERROR, len(orders), "remainders"),
        )


EXPERIMENT = Experiment(
    question="Does the kernel predict the next training step?",
    title="Dynamics step by step",
    paper="[NPF]",
    about="The next step predicted by K_t and the actual one; hard and soft gates; drift by width.",
    plan=plan,
    findings=findings,
    quick_minutes=0.13,
    full_hours=0.023,
    claims=("npf-9",),
)
