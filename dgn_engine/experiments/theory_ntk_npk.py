"""[NPF], [COMP], [WS], [DGN]: K^V_0 tends to βH with the width, and equals it on average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import Sample, at_most, below, judge
from dgn_engine.experiments._grid import LOG_BAND, CalculatedCell, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import (
    conv_architecture,
    dense_architecture,
    draw_network,
    log_slope,
    relative_distance,
    residual_architecture,
    unit_inputs,
)
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._sign_enumeration import TINY, feature_kernel_error, value_kernel_error
from dgn_engine.experiments._width_rate import ABOUT, THEORY, mean_square_distance, rate_claim
from dgn_engine.kernels import neural_path_kernel, tangent_kernels
from dgn_engine.model.architecture import Architecture
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

WIDTHS = {
    "fc": (32, 64, 128, 256, 512),
    "cnn": (16, 32, 64, 128, 256),
    "resnet": (32, 64, 128, 256, 512),
}
SHALLOW, WIDE = 3, 256
SPREAD_WIDTHS, SPREAD_DEPTHS = (32, 64, 128, 256), (3, 4, 6, 9, 13)
EXACT = 1e-10
SEEDS = (5, 10)
_PILOT = "6 draws of other seeds, 2026-11"
RATES = {
    "fc": Design(THEORY, 0.03, _PILOT),
    "cnn": Design(THEORY, 0.07, _PILOT),
    "resnet": Design(THEORY, 0.04, _PILOT),
}
EXCESS = 0.25  # tolerated excess of the slope of Var K_0 over that of its bound
BOUNDS = {
    "widths": Design(0.0, 0.13, "the bound itself; spread: 4 draws of other seeds, 2026-11"),
    "depths": Design(0.0, 0.17, "the bound itself; spread: 4 draws of other seeds, 2026-11"),
}
DEPTH_REMARK = (
    "the log norms of the d layers add up, each with variance about 2/w, so that Var K_0/(βH)² "
    "grows as d/w and Var K_0 as d³/w: faster than d²/w"
)


def plan(request: Request) -> Plan:
    """Plan distances by width and variances, per seed, and three exact expectations."""
    seeds = request.seed_range(*SEEDS)
    draws = 60 if request.quick else 400
    units = [
        calculation_unit(
            f"{name}-s{seed}", distances, name=name, widths=list(_widths(request, name)), seed=seed
        )
        for name in WIDTHS
        for seed in seeds
    ]
    units += [
        calculation_unit(f"variance-s{seed}", variances, seed=seed, draws=draws) for seed in seeds
    ]
    units.append(calculation_unit("exact", exact))
    return Plan(
        tuple(units),
        (
            f"widths to {WIDTHS['fc'][-2]} (fc), {WIDTHS['cnn'][-2]} channels (cnn) and "
            f"{WIDTHS['resnet'][-2]} (resnet); {draws} draws for each variance",
        ),
        (
            "8 unit inputs; gates of an independent random network (FR-II); value weights ±σ with "
            "σ = √(2/fan-in); fc d = 4, cnn 3 convolutions on 6×6, resnet b = 2, d_blk = 2",
            ABOUT,
            "the variance is that of K_0(s,s) over draws of the weights ±√(1/w) with all gates "
            "open, for which the theorem's bound is max(d²/w, d³/w²) up to a constant; its slope "
            f"may exceed that of the bound by {EXCESS:g}",
        ),
    )


def _widths(request: Request, name: str) -> Sequence[int]:
    return WIDTHS[name][:-1] if request.quick else WIDTHS[name]


def _make_architecture(name: str, width: int) -> Architecture:
    if name == "cnn":
        return conv_architecture(width, 6)
    if name == "resnet":
        return residual_architecture(10, width, 2, 2)
    return dense_architecture(10, width, 4)


def distances(work: CalculationInputs) -> list[float]:
    """Return the distance of K^V_0 from βH for each width, for one draw of gates and inputs."""
    name, seed = work.arguments["name"], work.arguments["seed"]
    result = []
    for width in work.arguments["widths"]:
        architecture = _make_architecture(name, width)
        x = unit_inputs(8, architecture.input_shape, seed)
        result.append(mean_square_distance(draw_network(architecture, seed), x, seed))
    return result


def variances(work: CalculationInputs) -> dict[str, list[float]]:
    """Return Var K_0 over draws of the weights, by width at d = 3 and by depth at w = 256."""
    seed, draws = work.arguments["seed"], work.arguments["draws"]
    return {
        "widths": [_kernel_variance(width, SHALLOW, seed, draws) for width in SPREAD_WIDTHS],
        "depths": [_kernel_variance(WIDE, depth, seed, draws) for depth in SPREAD_DEPTHS],
    }


def _kernel_variance(width: int, depth: int, seed: int, draws: int) -> float:
    """Return Var K_0 for one example with all gates open and σ = √(1/w).

    The theorem holds for any gates.
    """
    architecture = dense_architecture(10, width, depth)
    x = unit_inputs(1, (10,), seed)
    open_gates = tuple(torch.ones(1, width, dtype=x.dtype) for _ in range(depth - 1))
    network = draw_network(architecture, seed).with_gates(open_gates)
    values = []
    for draw in range(draws):
        stream = random_stream("value", draws * seed + draw)
        network.value.init_weights("bernoulli", stream, width**-0.5)
        values.append(float(tangent_kernels(network, x, trains=("value",)).total_kernel))
    return float(torch.tensor(values, dtype=torch.float64).var())


def exact(_work: CalculationInputs) -> dict[str, float]:
    """Return the largest relative errors of the exact identities."""
    errors = {name: max(value_kernel_error(name, s) for s in range(2)) for name in TINY}
    errors["feature"] = max(feature_kernel_error(seed) for seed in range(2))
    errors["rotation"] = _rotation_error()
    return errors


def _rotation_error() -> float:
    """Return the largest relative error of H(rot x, x') = H(x, x') over all cyclic shifts."""
    architecture = conv_architecture(4, 4)
    network = draw_network(architecture, 3)
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
        widths, cell = _widths(request, name), grid.read_calculated(name)
        lines.append(mean_line(name, widths, cell.results, log=True))
        rows += [
            cell.row(
                f"‖K^V_0 − βH‖/‖βH‖, {name}, width {width}",
                [curve[index] for curve in cell.results],
                of="draws",
            )
            for index, width in enumerate(widths)
        ]
        judged.append(rate_claim(name, widths, cell.results, RATES[name]))
    judged += _exact_claims(results.calculation_result("exact"))
    judged += _spread_claims(grid.read_calculated("variance"))
    figure = Figure(
        "distance",
        "K^V_0 tends to βH",
        "width",
        "relative distance",
        tuple(lines),
        log_x=True,
        log_y=True,
        note=LOG_BAND,
    )
    return Findings(tuple(rows), tuple(judged), (figure,))


def _exact_claims(errors: dict[str, float]) -> Iterator[Claim]:
    for name in TINY:
        statistic = f"{name}: mean over all signs against βH"
        yield judge("comp-5", statistic, at_most(errors[name], EXACT, 2))
    statistic = "mean of K^F over all signs against σ^{2d} Σ ⊙ δ"
    yield judge("dgn-8", statistic, at_most(errors["feature"], EXACT, 2))
    statistic = "H(rot x, x') against H(x, x'), all shifts"
    yield judge("comp-3", statistic, at_most(errors["rotation"], EXACT, 15))


def _spread_claims(spreads: CalculatedCell) -> Iterator[Claim]:
    """Judge that Var K_0 grows no faster than the theorem's bound."""
    for quantity, key, along, points in (
        (f"w at d = {SHALLOW}", "widths", SPREAD_WIDTHS, [(SHALLOW, w) for w in SPREAD_WIDTHS]),
        (f"d at w = {WIDE}", "depths", SPREAD_DEPTHS, [(d, WIDE) for d in SPREAD_DEPTHS]),
    ):
        bounds = [max(d**2 / w, d**3 / w**2) for d, w in points]
        excess = [
            log_slope(along, [v / bound for v, bound in zip(measured, bounds, strict=True)])
            for measured in spreads[key]
        ]
        statistic = f"log-log slope of Var K_0/max(d²/w, d³/w²) against {quantity}"
        remark = DEPTH_REMARK if key == "depths" else ""
        test = below(Sample(tuple(excess), "draws"), EXCESS)
        yield judge("ws-2", statistic, test, remark, BOUNDS[key])


EXPERIMENT = Experiment(
    question="Does a wide network start with the path kernel?",
    title="K^V_0 and βH",
    paper="[NPF], [COMP], [WS] Theorem 4.1, [DGN] Lemma 3.1",
    about="The initial value kernel compared with the path kernel as the width grows.",
    plan=plan,
    findings=findings,
    quick_minutes=0.23,
    full_hours=0.017,
    claims=("comp-5", "comp-3", "dgn-8", "ws-2"),
)
