"""[COMP] Lemma 4.2: a residual network's path kernel is a sum over its 2^b sub-networks."""

from __future__ import annotations

from itertools import product
from typing import Any

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import at_most, below, judge
from dgn_engine.experiments._grid import Grid, averaged, calculation
from dgn_engine.experiments._initial_networks import (
    gated,
    log_slope,
    relative_distance,
    residual,
    unit_inputs,
)
from dgn_engine.kernels import (
    expected_value_kernel,
    neural_path_kernel,
    sub_network,
    sub_network_kernel,
    sub_network_shares,
    tangent_kernels,
    value_kernel_constant,
    weight_sigmas,
)
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

BLOCKS, BLOCK_DEPTH = 4, 2
SEEDS = (5, 10)
EXACT = 1e-10


def plan(request: Request) -> Plan:
    """Draw one network for each seed and width."""
    units = tuple(
        calculation(f"w{width}-s{seed}", shares, width=width, seed=seed)
        for width, seed in product(_widths(request), request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"widths to {_widths(request)[-1]}",),
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
    """Return shares of H and of βH by the number of blocks kept, and how exactly the sums agree."""
    width, seed = work.arguments["width"], work.arguments["seed"]
    architecture = residual(10, width, BLOCKS, BLOCK_DEPTH)
    network = gated(architecture, seed)
    x = unit_inputs(8, (10,), seed)
    trace = network.trace(x)
    gates = trace.value.gates
    sigmas = weight_sigmas(network.value.tensors()[0])
    whole = neural_path_kernel(architecture, gates, x)
    expected = expected_value_kernel(architecture, gates, x, sigmas)
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
    kernel = tangent_kernels(network, x, trains=("value",), trace=trace).whole
    return {
        "paths": paths,
        "weighted": weighted,
        "sum": relative_distance(sums, whole),
        "weighted_sum": relative_distance(sums_weighted, expected),
        "distance": relative_distance(kernel, expected),
    }


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    widths = _widths(request)
    cells = {width: grid.calculated(f"w{width}") for width in widths}
    rows = [
        cell.row(
            f"w = {width}: share of sub-networks with {kept} of {BLOCKS} blocks",
            [100 * shares[kept] for shares in cell["weighted"]],
            unit="%",
        )
        for width, cell in cells.items()
        for kept in range(BLOCKS + 1)
    ]
    rows += [
        cell.row(f"w = {width}: ‖K^V_0 − Σβ_J H^J‖/‖Σβ_J H^J‖", cell["distance"])
        for width, cell in cells.items()
    ]
    sums, weighted_sums = (
        [error for cell in cells.values() for error in cell[key]] for key in ("sum", "weighted_sum")
    )
    by_seed = zip(*(cell["distance"] for cell in cells.values()), strict=True)
    slopes = [log_slope(widths, distances) for distances in by_seed]
    judged = (
        judge(
            "comp-5",
            f"resnet: H against the sum of 2^{BLOCKS} kernels",
            at_most(max(sums), EXACT, len(sums)),
        ),
        judge(
            "comp-5",
            f"resnet: βH against the weighted sum of 2^{BLOCKS}",
            at_most(max(weighted_sums), EXACT, len(weighted_sums)),
        ),
        judge("comp-5", "resnet: log-log slope of the distance against width", below(slopes)),
    )
    lines = tuple(
        averaged(
            f"β_J H^J, w = {width}",
            range(BLOCKS + 1),
            [[100 * share for share in shares] for shares in cell["weighted"]],
        )
        for width, cell in cells.items()
    )
    figure = Figure("shares", "What sub-networks make of K^V_0", "blocks kept", "share (%)", lines)
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
