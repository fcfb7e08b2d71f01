"""[NPF] Proposition 3.3: the path kernel bounds the speed of training; paths are enumerated.

While no gate of a ReLU network switches, K = Φᵀ ∇v ∇vᵀ Φ and ė = −Ke, so that
ρ_min(K) ≤ ρ_min(H) ρ_max(∇v ∇vᵀ) with H = ΦᵀΦ. The paper omits the minus sign of ė.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from torch import Tensor

from dgn_engine.experiments import Claim, Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import at_most, judge
from dgn_engine.experiments._gradient_descent import iterate_descent
from dgn_engine.experiments._grid import Grid, calculation_unit
from dgn_engine.experiments._initial_networks import (
    dense_architecture,
    draw_network,
    draw_targets,
    unit_inputs,
)
from dgn_engine.kernels import neural_path_kernel, tangent_kernels
from dgn_engine.model.network import GatedNetwork
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

N, INPUTS = 4, 3
SIZES = ((4, 3), (3, 4), (6, 3))  # width and depth: 48, 81 and 108 paths
STEPS, EVERY = 40, 10  # of descent, at 0.1/ρ_max(K_0)
NUDGE = 1e-5  # step of the central difference for ė, relative to 1/ρ_max(K)
SEEDS = (3, 5)


def plan(request: Request) -> Plan:
    """Plan the evaluation of the bound at the start and during training."""
    networks = _network_count(request)
    units = tuple(
        calculation_unit(f"bound-s{seed}", bound_while_training, seed=seed, networks=networks)
        for seed in request.seed_range(*SEEDS)
    )
    return Plan(
        units,
        (f"{networks} networks of each size and seed instead of 20",),
        (
            f"ReLU networks without biases, N(0, 2/fan-in), one logit, {N} unit inputs of "
            f"dimension {INPUTS}, y ~ U[-1, 1], widths and depths "
            f"{', '.join(f'{width} × {depth}' for width, depth in SIZES)}, float64",
            f"{STEPS} steps of gradient descent with α = 0.1/ρ_max(K_0), evaluated every {EVERY} "
            "steps; ė is a central difference along the gradient, left out if a gate "
            "switches within it",
        ),
    )


def _network_count(request: Request) -> int:
    return 5 if request.quick else 20


def bound_while_training(work: CalculationInputs) -> dict[str, Any]:
    """Evaluate `parts_of_bound` for every network and time; return lists by name."""
    values_by_name: dict[str, list[float]] = {}
    seed, count = work.arguments["seed"], work.arguments["networks"]
    for width, depth in SIZES:
        for draw in range(count):
            draw_seed = 1000 * seed + draw
            network = draw_network(
                dense_architecture(INPUTS, width, depth), draw_seed, own=True, init="kaiming"
            )
            x, y = unit_inputs(N, (INPUTS,), draw_seed), draw_targets(N, draw_seed)
            largest = tangent_kernels(network, x, trains=("value",)).total_kernel
            rate = 0.1 / max(float(torch.linalg.eigvalsh(largest)[-1]), 1e-12)
            for step in iterate_descent(network, x, y, rate, STEPS, kernels=False):
                if step.step % EVERY == 0:
                    for name, value in parts_of_bound(network, x, y).items():
                        values_by_name.setdefault(name, []).append(value)
    return values_by_name


def parts_of_bound(network: GatedNetwork, x: Tensor, y: Tensor) -> dict[str, float]:
    """Compare K with its path decomposition, and both sides of the bound.

    Args:
        network: the network.
        x: inputs (n, d_in).
        y: targets (n,).

    Returns:
        factors: ‖K − Φᵀ∇v∇vᵀΦ‖/‖K‖; paths: ‖H − ΦᵀΦ‖/‖H‖; excess: (ρ_min(K) −
        ρ_min(H) ρ_max(∇v∇vᵀ))/ρ_max(K), at most zero; ratio: ρ_min(K) divided by the bound, NaN if
        H is singular; speed: ‖ė + Ke‖/(‖K‖‖e‖), NaN if a gate switches. If K = 0, all are 0 or NaN.
    """
    with torch.no_grad():
        trace = network.trace(x)
        gates = [gate.detach() for gate in trace.value.gates]
        kernel = tangent_kernels(network, x, trains=("value",)).total_kernel.detach()
        h = neural_path_kernel(network.architecture, tuple(gates), x)
        error = trace.value.output[:, 0] - y
    phi = path_features(x, gates)
    slopes = path_value_slopes(network)
    squares = torch.linalg.eigvalsh(slopes @ slopes.T)
    k_values, h_values = torch.linalg.eigvalsh(kernel), torch.linalg.eigvalsh(phi.T @ phi)
    bound = float(h_values[0].clamp(min=0) * squares[-1])
    largest = float(k_values[-1])
    singular = float(h_values[0]) <= 1e-12 * float(h_values[-1])
    return {
        "factors": _relative_error(kernel, phi.T @ slopes @ slopes.T @ phi),
        "paths": _relative_error(h, phi.T @ phi),
        "excess": (float(k_values[0]) - bound) / largest if largest > 0 else 0.0,
        "ratio": math.nan if singular else float(k_values[0]) / bound,
        "speed": _speed_error(network, x, error, kernel, gates),
    }


def path_features(x: Tensor, gates: list[Tensor]) -> Tensor:
    """Return Φ (P, n): x(p_0) times the gates along the path p = (p_0, …, p_{d−1})."""
    phi = x.T
    for gate in gates:
        phi = (phi[:, None, :] * gate.T[None, :, :]).flatten(0, 1)
    return phi


def path_value_slopes(network: GatedNetwork) -> Tensor:
    """Return ∇v (P, d_net), where v is the product of the weights along each path."""

    def path_values(*weights: Tensor) -> Tensor:
        v = torch.ones(weights[0].shape[1], dtype=weights[0].dtype)
        for weight in weights:  # (outputs, inputs); the last unit of a path varies fastest
            v = (v.reshape(-1, weight.shape[1], 1) * weight.T).flatten()
        return v

    weights = tuple(weight.detach() for weight in network.value.weights)
    parts = torch.func.jacrev(path_values, argnums=tuple(range(len(weights))))(*weights)
    return torch.cat([part.flatten(1) for part in parts], dim=1)


def _speed_error(
    network: GatedNetwork, x: Tensor, error: Tensor, kernel: Tensor, gates: list[Tensor]
) -> float:
    """Return ‖ė + Ke‖/(‖K‖‖e‖), where ‖K‖ = ρ_max.

    NaN if a gate switches within the difference, or the divisor is 0. It is not ‖Ke‖, which
    may consist of rounding errors only.
    """
    wanted, largest = -kernel @ error, float(torch.linalg.eigvalsh(kernel)[-1])
    size = largest * float(error.norm())
    if not size > 0:
        return math.nan
    weights = [weight.detach() for weight in network.value.weights]
    copies = [weight.clone().requires_grad_(True) for weight in weights]
    output, _ = _relu_output(x, copies)
    slopes = torch.autograd.grad((output * error).sum(), copies)
    rate = NUDGE / largest
    ends = []
    for sign in (1, -1):
        moved = [w - sign * rate * slope for w, slope in zip(weights, slopes, strict=True)]
        moved_output, open_now = _relu_output(x, moved)
        if not all(torch.equal(a, b) for a, b in zip(open_now, gates, strict=True)):
            return math.nan
        ends.append(moved_output)
    moving = (ends[0] - ends[1]) / (2 * rate)
    return float((moving - wanted).norm()) / size


def _relu_output(x: Tensor, weights: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return the logit (n,) and the gates of each hidden layer."""
    z, gates = x, []
    for weight in weights[:-1]:
        q = z @ weight.T
        gates.append((q > 0).to(q.dtype).detach())
        z = q * gates[-1]
    return (z @ weights[-1].T)[:, 0], gates


def _relative_error(one: Tensor, other: Tensor) -> float:
    size = float(one.norm())
    return float((one - other).norm()) / size if size > 0 else float(other.norm())


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cell = grid.read_calculated("bound")
    ratios = [_without_nan(values) for values in cell["ratio"]]
    speeds = [_without_nan(values) for values in cell["speed"]]
    rows: tuple[Row, ...] = (
        cell.row("median ρ_min(K) over the bound", [_median_or_nan(values) for values in ratios]),
        cell.row("largest ρ_min(K) over the bound", [_largest_or_nan(values) for values in ratios]),
        cell.row("cases", [float(len(values)) for values in cell["excess"]]),
        cell.row("of these, with H invertible", [float(len(values)) for values in ratios]),
        cell.row(
            "of these, with no gate switch within ė", [float(len(values)) for values in speeds]
        ),
    )
    judged = (
        _judge_exact("largest (ρ_min(K) − bound)/ρ_max(K)", cell["excess"], 1e-12),
        _judge_exact("largest ‖K − Φᵀ∇v∇vᵀΦ‖/‖K‖", cell["factors"], 1e-12),
        _judge_exact("largest ‖H − ΦᵀΦ‖/‖H‖", cell["paths"], 1e-12),
        _judge_exact("largest ‖ė + Ke‖/(‖K‖‖e‖)", speeds, 1e-6),
    )
    remark = (
        "The bound is an inequality, which may be far from tight; see the first row. If H is "
        "singular, both sides are zero."
    )
    return Findings(rows, judged, remarks=(remark,))


def _judge_exact(statistic: str, by_seed: list[list[float]], tolerance: float) -> Claim:
    cases = [value for values in by_seed for value in values]
    return judge("npf-6", statistic, at_most(_largest_or_nan(cases), tolerance, len(cases)))


def _without_nan(values: list[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _median_or_nan(values: list[float]) -> float:
    return statistics.median(values) if values else math.nan


def _largest_or_nan(values: list[float]) -> float:
    return max(values, default=math.nan)


EXPERIMENT = Experiment(
    question="Does the path kernel limit how fast a network trains?",
    title="The path kernel bounds the speed of training",
    paper="[NPF] Proposition 3.3",
    about="The smallest eigenvalue of the tangent kernel against that of the path kernel.",
    plan=plan,
    findings=findings,
    quick_minutes=0.13,
    full_hours=0.0034,
    claims=("npf-6",),
)
