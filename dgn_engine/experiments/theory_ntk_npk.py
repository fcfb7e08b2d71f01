"""[NPF] Theorem 5.1, [COMP], [WS], [DGN]: K^V_0 goes to βH with the width, and is it on average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from dgn_engine.experiments import _initial, _signs
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, Row
from dgn_engine.experiments._judging import judge, judge_exact, judge_within
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._series import averaged
from dgn_engine.kernels import (
    neural_path_kernel,
    predicted_value_kernel,
    tangent_kernels,
    weight_sigmas,
)
from dgn_engine.model.architecture import Architecture
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.theory_ntk_npk"
WIDTHS = {
    "fc": (16, 32, 64, 128, 256, 512),
    "cnn": (8, 16, 32, 64, 128),
    "resnet": (16, 32, 64, 128, 256),
}
DRAWS = 4  # of everything, for each seed
SPREAD_WIDTHS, SPREAD_DEPTHS = (32, 64, 128, 256), (3, 4, 6, 9, 13)
EXACT = 1e-10
DEPTH_REMARK = (
    "the logarithms of the norms of d layers add up, each with variance about 2/(w/2), so that "
    "Var K_0/(βH)² grows as d/w and Var K_0 as d³/w: faster than d²/w"
)


def plan(request: Request) -> Plan:
    """Distances against width for each seed; variances; three exact expectations."""
    seeds = range(request.seeds_or(5, 10))
    draws = 60 if request.quick else 400
    units = [
        Calculation(
            f"{name}-s{seed}",
            f"{HERE}:distances",
            {"name": name, "widths": list(_widths(request, name)), "seed": seed},
        )
        for name in WIDTHS
        for seed in seeds
    ]
    units += [
        Calculation(f"spread-s{seed}", f"{HERE}:spreads", {"seed": seed, "draws": draws})
        for seed in seeds
    ]
    units.append(Calculation("exact", f"{HERE}:exact", {}))
    return Plan(
        tuple(units),
        (
            f"widths to {WIDTHS['fc'][-2]} (fc), {WIDTHS['cnn'][-2]} channels (cnn) and "
            f"{WIDTHS['resnet'][-2]} (resnet); {draws} draws for each variance",
        )
        if request.quick
        else (),
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
        return _initial.convolutional(width, 6)
    if name == "resnet":
        return _initial.residual(10, width, 2, 2)
    return _initial.dense(10, width, 4)


def distances(work: CalculationInputs) -> list[float]:
    """‖K^V_0 - βH‖/‖βH‖ for each width, mean over some draws of all weights."""
    name, seed = work.arguments["name"], work.arguments["seed"]
    return [
        sum(_distance(_architecture(name, width), DRAWS * seed + draw) for draw in range(DRAWS))
        / DRAWS
        for width in work.arguments["widths"]
    ]


def _distance(architecture: Architecture, seed: int) -> float:
    network = _initial.gated(architecture, seed)
    x = _initial.unit_inputs(8, architecture.input_shape, seed)
    trace = network.trace(x)
    sigmas = weight_sigmas(network.value.tensors()[0])
    expected = predicted_value_kernel(architecture, trace.value.gates, x, sigmas)
    kernel = tangent_kernels(network, x, feature_trained=False, trace=trace).value
    return _initial.relative(kernel, expected)


def spreads(work: CalculationInputs) -> dict[str, list[float]]:
    """Var(K_0/βH) over draws of the weights, for widths at d = 3 and for depths at w = 256."""
    seed, draws = work.arguments["seed"], work.arguments["draws"]
    return {
        "widths": [_spread(width, 3, seed, draws) for width in SPREAD_WIDTHS],
        "depths": [_spread(256, depth, seed, draws) for depth in SPREAD_DEPTHS],
    }


def _spread(width: int, depth: int, seed: int, draws: int) -> float:
    """Of one example, under coins that are thrown once: the theorem holds the gates fixed."""
    architecture = _initial.dense(10, width, depth)
    x = _initial.unit_inputs(1, (10,), seed)
    sigma = (2.0 / width) ** 0.5
    coins = torch.Generator().manual_seed(seed)
    gates = tuple((torch.rand(1, width, generator=coins) < 0.5).double() for _ in range(depth - 1))
    expected = predicted_value_kernel(architecture, gates, x, [sigma] * depth)
    values = []
    for draw in range(draws):
        network = _initial.gated(architecture, 1000 * seed + draw, sigma=sigma)
        kernel = tangent_kernels(network.with_gates(gates), x, feature_trained=False).value
        values.append(float(kernel / expected))
    return float(torch.tensor(values, dtype=torch.float64).var())


def exact(_work: CalculationInputs) -> dict[str, float]:
    """Largest relative errors of what holds exactly."""
    found = {
        name: max(_signs.value_kernel_error(name, s) for s in range(2)) for name in _signs.TINY
    }
    found["feature"] = max(_signs.feature_kernel_error(seed) for seed in range(2))
    found["rotation"] = _rotation_error()
    return found


def _rotation_error() -> float:
    """H(rot x, x') against H(x, x') for every cyclic shift, gates of the same convolutions."""
    architecture = _initial.convolutional(4, 4)
    network = _initial.gated(architecture, 3)
    x = _initial.unit_inputs(3, architecture.input_shape, 3)
    errors = []
    straight = None
    for rows in range(4):
        for columns in range(4):
            both = torch.cat([torch.roll(x, (rows, columns), (2, 3)), x])
            gates = network.trace(both).value.gates
            kernel = neural_path_kernel(architecture, gates, both)[: len(x), len(x) :]
            straight = kernel if straight is None else straight
            errors.append(_initial.relative(kernel, straight))
    return max(errors)


def findings(request: Request, results: UnitResults) -> Findings:
    """Distances, variances, exact errors."""
    seeds = range(request.seeds_or(5, 10))
    rows: list[Row] = []
    judged: list[Claim] = []
    lines = []
    for name in WIDTHS:
        widths = _widths(request, name)
        curves = [results.calculated(f"{name}-s{seed}") for seed in seeds]
        lines.append(averaged(name, widths, curves))
        rows += [
            Row(
                f"‖K^V_0 − βH‖/‖βH‖, {name}, width {width}",
                tuple(c[place] for c in curves),
                unit="",
                seconds=results.seconds_of(*(f"{name}-s{seed}" for seed in seeds)),
            )
            for place, width in enumerate(widths)
        ]
        slopes = [_initial.slope(widths, curve) for curve in curves]
        judged.append(
            judge(
                request,
                claim("comp-5"),
                f"{name}: log-log slope against width",
                slopes,
                "below",
                0.0,
            )
        )
    errors = results.calculated("exact")
    judged += _exact_claims(errors)
    judged += _spread_claims(request, [results.calculated(f"spread-s{s}") for s in seeds])
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
    for name in _signs.TINY:
        yield judge_exact(
            claim("comp-5"), f"{name}: mean over all signs against βH", errors[name], EXACT, 2
        )
    yield judge_exact(
        claim("dgn-8"),
        "mean of K^F over all signs against σ^{2d} Σ ⊙ δ",
        errors["feature"],
        EXACT,
        2,
    )
    yield judge_exact(
        claim("comp-3"), "H(rot x, x') against H(x, x'), all shifts", errors["rotation"], EXACT, 15
    )


def _spread_claims(request: Request, spreads: list[dict[str, Any]]) -> Iterator[Claim]:
    """K_0/βH is compared; βH grows as d, so that d²/w of Var K_0 is 1/w here."""
    by_width = [_initial.slope(SPREAD_WIDTHS, found["widths"]) for found in spreads]
    by_depth = [_initial.slope(SPREAD_DEPTHS, found["depths"]) for found in spreads]
    yield judge_within(
        request,
        claim("ws-2"),
        "slope of Var K_0 against w at d = 3, plus 1",
        [value + 1 for value in by_width],
        0.25,
    )
    yield judge_within(
        request,
        claim("ws-2"),
        "slope of Var K_0 against d at w = 256, less 2",
        by_depth,
        0.5,
        remark=DEPTH_REMARK,
    )


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
