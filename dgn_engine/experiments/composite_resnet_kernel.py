"""[COMP] Lemma 4.2: a residual network's path kernel is a sum over its 2^b sub-networks."""

from __future__ import annotations

from typing import Any

from dgn_engine.experiments import _initial
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, PlottedLine, Row
from dgn_engine.experiments._judging import judge, judge_exact
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._series import averaged
from dgn_engine.kernels import (
    neural_path_kernel,
    predicted_value_kernel,
    sub_network,
    sub_network_kernel,
    sub_network_shares,
    tangent_kernels,
    value_kernel_constant,
    weight_sigmas,
)
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.composite_resnet_kernel"
BLOCKS, BLOCK_DEPTH = 4, 2
EXACT = 1e-10


def plan(request: Request) -> Plan:
    """One network for each seed and width."""
    units = tuple(
        Calculation(f"w{width}-s{seed}", f"{HERE}:shares", {"width": width, "seed": seed})
        for width in _widths(request)
        for seed in range(request.seeds_or(5, 10))
    )
    return Plan(
        units,
        (f"widths to {_widths(request)[-1]}",) if request.quick else (),
        (
            f"b = {BLOCKS} skips, d_blk = {BLOCK_DEPTH}, γ = 1, 8 unit inputs of dimension 10, "
            "gates of an independent random network, σ = √(2/fan-in)",
            "the share of a sub-network is that of β_J trace H^J: how much of K^V_0 it makes on "
            "average",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return (32, 64) if request.quick else (32, 64, 128, 256)


def shares(work: CalculationInputs) -> dict[str, Any]:
    """Shares of H and of βH by the number of blocks kept, and how exactly the sums agree."""
    width, seed = work.arguments["width"], work.arguments["seed"]
    architecture = _initial.residual(10, width, BLOCKS, BLOCK_DEPTH)
    network = _initial.gated(architecture, seed)
    x = _initial.unit_inputs(8, (10,), seed)
    trace = network.trace(x)
    gates = trace.value.gates
    sigmas = weight_sigmas(network.value.tensors()[0])
    whole = neural_path_kernel(architecture, gates, x)
    expected = predicted_value_kernel(architecture, gates, x, sigmas)
    counts = sub_network_shares(architecture, gates, x)
    paths, weighted = [0.0] * (BLOCKS + 1), [0.0] * (BLOCKS + 1)
    sums, sums_weighted = whole * 0, whole * 0
    for kept, share in counts.items():
        part = sub_network_kernel(architecture, gates, x, kept)
        chain = sub_network(architecture, kept)
        beta = value_kernel_constant(chain.architecture, [sigmas[place] for place in chain.weights])
        sums += part
        sums_weighted += beta * part
        paths[len(kept)] += share
        weighted[len(kept)] += float(beta * part.trace() / expected.trace())
    kernel = tangent_kernels(network, x, feature_trained=False, trace=trace).value
    return {
        "paths": paths,
        "weighted": weighted,
        "sum": _initial.relative(sums, whole),
        "weighted_sum": _initial.relative(sums_weighted, expected),
        "distance": _initial.relative(kernel, expected),
    }


def findings(request: Request, results: UnitResults) -> Findings:
    """Shares by blocks kept; both sums; K^V_0 against the prediction."""
    seeds = range(request.seeds_or(5, 10))
    widths = _widths(request)
    found = {width: [results.calculated(f"w{width}-s{seed}") for seed in seeds] for width in widths}
    rows = [
        Row(
            f"w = {width}: share of sub-networks with {kept} of {BLOCKS} blocks",
            tuple(100 * c["weighted"][kept] for c in cells),
            seconds=results.seconds_of(*(f"w{width}-s{seed}" for seed in seeds)),
        )
        for width, cells in found.items()
        for kept in range(BLOCKS + 1)
    ]
    rows += [
        Row(
            f"w = {width}: ‖K^V_0 − Σβ_J H^J‖/‖Σβ_J H^J‖",
            tuple(c["distance"] for c in cells),
            unit="",
            seconds=results.seconds_of(*(f"w{width}-s{seed}" for seed in seeds)),
        )
        for width, cells in found.items()
    ]
    every = [c for cells in found.values() for c in cells]
    slopes = [
        _initial.slope(widths, [found[width][place]["distance"] for width in widths])
        for place in range(len(seeds))
    ]
    judged = (
        judge_exact(
            claim("comp-5"),
            f"resnet: H against the sum of 2^{BLOCKS} kernels",
            max(c["sum"] for c in every),
            EXACT,
            len(every),
        ),
        judge_exact(
            claim("comp-5"),
            f"resnet: βH against the weighted sum of 2^{BLOCKS}",
            max(c["weighted_sum"] for c in every),
            EXACT,
            len(every),
        ),
        judge(
            request,
            claim("comp-5"),
            "resnet: log-log slope of the distance against width",
            slopes,
            "below",
            0.0,
        ),
    )
    blocks = tuple(float(kept) for kept in range(BLOCKS + 1))
    lines: list[PlottedLine] = [
        averaged(f"β_J H^J, w = {width}", blocks, [[100 * s for s in c["weighted"]] for c in cells])
        for width, cells in found.items()
    ]
    figure = Figure(
        "shares", "What sub-networks make of K^V_0", "blocks kept", "share (%)", tuple(lines)
    )
    return Findings(tuple(rows), judged, (figure,))


EXPERIMENT = Experiment(
    title="The 2^b sub-networks of a ResNet",
    paper="[COMP] Lemma 4.2",
    about="Shares of the sub-networks in the path kernel and in the value kernel.",
    plan=plan,
    findings=findings,
    quick_minutes=0.3,
    full_hours=0.05,
    claims=("comp-5",),
)
