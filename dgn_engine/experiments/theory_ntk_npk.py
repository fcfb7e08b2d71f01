"""[NPF] Theorem 5.1, [COMP], [WS], [DGN]: K^V_0 goes to βH with the width, and is it on average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import at_most, below, judge, within
from dgn_engine.experiments._grid import CalculatedCell, Grid, averaged, calculation
from dgn_engine.experiments._initial_networks import (
    bernoulli_gates,
    convolutional,
    dense,
    gated,
    log_slope,
    relative_distance,
    residual,
    unit_inputs,
)
from dgn_engine.experiments._sign_enumeration import TINY, feature_kernel_error, value_kernel_error
from dgn_engine.kernels import (
    expected_value_kernel,
    neural_path_kernel,
    tangent_kernels,
    weight_sigmas,
)
from dgn_engine.model.architecture import Architecture
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

WIDTHS = {
    "fc": (16, 32, 64, 128, 256, 512),
    "cnn": (8, 16, 32, 64, 128),
    "resnet": (16, 32, 64, 128, 256),
}
DRAWS = 4  # of everything, for each seed
SPREAD_WIDTHS, SPREAD_DEPTHS = (32, 64, 128, 256), (3, 4, 6, 9, 13)
EXACT = 1e-10
SEEDS = (5, 10)
DEPTH_REMARK = (
    "the logarithms of the norms of d layers add up, each with variance about 2/(w/2), so that "
    "Var K_0/(βH)² grows as d/w and Var K_0 as d³/w: faster than d²/w"
)


def plan(request: Request) -> Plan:
    """Take distances against width for each seed, variances, and three exact expectations."""
    seeds = request.seed_range(*SEEDS)
    draws = 60 if request.quick else 400
    units = [
        calculation(
            f"{name}-s{seed}", distances, name=name, widths=list(_widths(request, name)), seed=seed
        )
        for name in WIDTHS
        for seed in seeds
    ]
    units += [calculation(f"spread-s{seed}", spreads, seed=seed, draws=draws) for seed in seeds]
    units.append(calculation("exact", exact))
    return Plan(
        tuple(units),
        (
            f"widths to {WIDTHS['fc'][-2]} (fc), {WIDTHS['cnn'][-2]} channels (cnn) and "
            f"{WIDTHS['resnet'][-2]} (resnet); {draws} draws for each variance",
        ),
        (
            "8 unit inputs; gates of an independent random network (FR-II); value weights ±σ with "
            "σ = √(2/fan-in); fc d = 4, cnn 3 convolutions on 6×6, resnet b = 2, d_blk = 2",
            f"each distance is the mean over {DRAWS} draws",
            "the variance is that of K_0(s,s) with σ = √(2/w) over draws of the weights, under "
            "coins p = ½ that stay as they fell",
        ),
    )


def _widths(request: Request, name: str) -> Sequence[int]:
    return WIDTHS[name][:-1] if request.quick else WIDTHS[name]


def _architecture(name: str, width: int) -> Architecture:
    if name == "cnn":
        return convolutional(width, 6)
    if name == "resnet":
        return residual(10, width, 2, 2)
    return dense(10, width, 4)


def distances(work: CalculationInputs) -> list[float]:
    """Return ‖K^V_0 - βH‖/‖βH‖ for each width, mean over some draws of all weights."""
    name, seed = work.arguments["name"], work.arguments["seed"]
    return [
        sum(_distance(_architecture(name, width), DRAWS * seed + draw) for draw in range(DRAWS))
        / DRAWS
        for width in work.arguments["widths"]
    ]


def _distance(architecture: Architecture, seed: int) -> float:
    network = gated(architecture, seed)
    x = unit_inputs(8, architecture.input_shape, seed)
    trace = network.trace(x)
    sigmas = weight_sigmas(network.value.tensors()[0])
    expected = expected_value_kernel(architecture, trace.value.gates, x, sigmas)
    kernel = tangent_kernels(network, x, trains=("value",), trace=trace).whole
    return relative_distance(kernel, expected)


def spreads(work: CalculationInputs) -> dict[str, list[float]]:
    """Return Var(K_0/βH) over draws of the weights, by width at d = 3 and by depth at w = 256."""
    seed, draws = work.arguments["seed"], work.arguments["draws"]
    return {
        "widths": [_spread(width, 3, seed, draws) for width in SPREAD_WIDTHS],
        "depths": [_spread(256, depth, seed, draws) for depth in SPREAD_DEPTHS],
    }


def _spread(width: int, depth: int, seed: int, draws: int) -> float:
    """Of one example, under gates that are drawn once: the theorem holds the gates fixed."""
    architecture = dense(10, width, depth)
    x = unit_inputs(1, (10,), seed)
    sigma = (2.0 / width) ** 0.5
    gates = bernoulli_gates(1, width, depth, 0.5, torch.Generator().manual_seed(seed))
    expected = expected_value_kernel(architecture, gates, x, [sigma] * depth)
    values = []
    for draw in range(draws):
        network = gated(architecture, 1000 * seed + draw, sigma=sigma)
        kernel = tangent_kernels(network.with_gates(gates), x, trains=("value",)).whole
        values.append(float(kernel / expected))
    return float(torch.tensor(values, dtype=torch.float64).var())


def exact(_work: CalculationInputs) -> dict[str, float]:
    """Return the largest relative errors of what holds exactly."""
    found = {name: max(value_kernel_error(name, s) for s in range(2)) for name in TINY}
    found["feature"] = max(feature_kernel_error(seed) for seed in range(2))
    found["rotation"] = _rotation_error()
    return found


def _rotation_error() -> float:
    """Compare H(rot x, x') with H(x, x') for every cyclic shift, gates of the same convolutions."""
    architecture = convolutional(4, 4)
    network = gated(architecture, 3)
    x = unit_inputs(3, architecture.input_shape, 3)
    errors = []
    straight = None
    for rows in range(4):
        for columns in range(4):
            both = torch.cat([torch.roll(x, (rows, columns), (2, 3)), x])
            gates = network.trace(both).value.gates
            kernel = neural_path_kernel(architecture, gates, both)[: len(x), len(x) :]
            straight = kernel if straight is None else straight
            errors.append(relative_distance(kernel, straight))
    return max(errors)


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    judged: list[Claim] = []
    lines = []
    for name in WIDTHS:
        widths, cell = _widths(request, name), grid.calculated(name)
        lines.append(averaged(name, widths, cell.results))
        rows += [
            cell.row(
                f"‖K^V_0 − βH‖/‖βH‖, {name}, width {width}",
                [curve[place] for curve in cell.results],
            )
            for place, width in enumerate(widths)
        ]
        slopes = [log_slope(widths, curve) for curve in cell.results]
        judged.append(judge("comp-5", f"{name}: log-log slope against width", below(slopes)))
    judged += _exact_claims(results.calculated("exact"))
    judged += _spread_claims(grid.calculated("spread"))
    figure = Figure(
        "distance",
        "K^V_0 goes to βH",
        "width",
        "relative distance",
        tuple(lines),
        log_x=True,
        log_y=True,
    )
    return Findings(tuple(rows), tuple(judged), (figure,))


def _exact_claims(errors: dict[str, float]) -> Iterator[Claim]:
    for name in TINY:
        words = f"{name}: mean over all signs against βH"
        yield judge("comp-5", words, at_most(errors[name], EXACT, 2))
    words = "mean of K^F over all signs against σ^{2d} Σ ⊙ δ"
    yield judge("dgn-8", words, at_most(errors["feature"], EXACT, 2))
    words = "H(rot x, x') against H(x, x'), all shifts"
    yield judge("comp-3", words, at_most(errors["rotation"], EXACT, 15))


def _spread_claims(spreads: CalculatedCell) -> Iterator[Claim]:
    """Judge K_0/βH; βH grows as d, so that d²/w of Var K_0 is 1/w here."""
    by_width = [log_slope(SPREAD_WIDTHS, spread) + 1 for spread in spreads["widths"]]
    by_depth = [log_slope(SPREAD_DEPTHS, spread) for spread in spreads["depths"]]
    words = "slope of Var K_0 against w at d = 3, plus 1"
    yield judge("ws-2", words, within(by_width, 0.25))
    words = "slope of Var K_0 against d at w = 256, less 2"
    yield judge("ws-2", words, within(by_depth, 0.5), DEPTH_REMARK)


EXPERIMENT = Experiment(
    title="K^V_0 and βH",
    paper="[NPF] Theorem 5.1, [COMP], [WS] Theorem 4.1, [DGN] Lemma 3.1",
    about="The value kernel at the start against the path kernel as the width grows.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=0.2,
    claims=("comp-5", "comp-3", "dgn-8", "ws-2"),
)
