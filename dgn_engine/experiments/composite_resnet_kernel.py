"""[COMP] Lemma 4.2: a residual network's path kernel is a sum over its 2^b sub-networks.

It is tested without normalisation (γ = 1), as in the lemma, and with constants γ before and after
each addition, z ← γ^post (γ^pre block(z) + z), as a model of normalisation.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from torch import Tensor

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import at_most, judge
from dgn_engine.experiments._grid import (
    BAND,
    LOG_BAND,
    CalculatedCell,
    Grid,
    calculation_unit,
    mean_line,
)
from dgn_engine.experiments._initial_networks import (
    draw_network,
    relative_distance,
    residual_architecture,
    unit_inputs,
)
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._width_rate import (
    ABOUT,
    DRAWS,
    THEORY,
    mean_square_distance,
    rate_claim,
)
from dgn_engine.kernels import (
    expected_value_kernel,
    neural_path_kernel,
    sub_network,
    sub_network_kernel,
    sub_network_shares,
    value_kernel_constant,
    weight_sigmas,
)
from dgn_engine.model import architecture as arch
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

BLOCKS, BLOCK_DEPTH = 4, 2
SEEDS = (5, 10)
EXACT = 1e-10
SLOPE = Design(THEORY, 0.06, "a pilot of 12 draws, widths 32 to 512, 2026-11")
KINDS = {"": "γ = 1", "gamma-": "γ drawn"}  # prefix of unit ids → label


def plan(request: Request) -> Plan:
    """Plan one network per seed and width, without and with factors γ."""
    units = tuple(
        _shares_unit(prefix, width, seed)
        for prefix, width, seed in product(KINDS, _widths(request), request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"widths to {_widths(request)[-1]}",),
        (
            f"b = {BLOCKS} skips, d_blk = {BLOCK_DEPTH}, 8 unit inputs of dimension 10, gates of "
            "an independent random network, σ = √(2/fan-in)",
            "γ^pre and γ^post of each block are 1, or drawn log-uniformly between ½ and 2",
            "the share of a sub-network is that of β_J trace H^J, its mean contribution to K^V_0",
            ABOUT,
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return (32, 64, 128, 256) if request.quick else (32, 64, 128, 256, 512)


def _shares_unit(prefix: str, width: int, seed: int) -> Calculation:
    draw = random.Random(f"gamma {seed}")
    pre, post = (
        [round(2 ** draw.uniform(-1, 1), 3) if prefix else 1.0 for _ in range(BLOCKS)]
        for _ in range(2)
    )
    unit_id = f"{prefix}w{width}-s{seed}"
    return calculation_unit(unit_id, shares, width=width, seed=seed, pre=pre, post=post)


def shares(work: CalculationInputs) -> dict[str, Any]:
    """Return shares of H and βH by the number of blocks kept, and the errors of their sums."""
    width, seed = work.arguments["width"], work.arguments["seed"]
    pre, post = work.arguments["pre"], work.arguments["post"]
    architecture = _with_factors(residual_architecture(10, width, BLOCKS, BLOCK_DEPTH), pre, post)
    network = draw_network(architecture, seed)
    x = unit_inputs(8, (10,), seed)
    gates = network.trace(x).value.gates
    sigmas = weight_sigmas(network.value.folded_tensors()[0])
    total = neural_path_kernel(architecture, gates, x)
    expected = expected_value_kernel(architecture, gates, x, sigmas)
    counts = sub_network_shares(architecture, gates, x)
    paths, weighted = [0.0] * (BLOCKS + 1), [0.0] * (BLOCKS + 1)
    sums, sums_weighted = total * 0, total * 0
    for blocks, share in counts.items():
        part = sub_network_kernel(architecture, gates, x, blocks)
        chain = sub_network(architecture, blocks)
        beta = value_kernel_constant(chain.architecture, [sigmas[layer] for layer in chain.weights])
        sums += part
        sums_weighted += beta * part
        paths[len(blocks)] += share
        weighted[len(blocks)] += float(beta * part.trace() / expected.trace())
    return {
        "paths": paths,
        "weighted": weighted,
        "sum": relative_distance(sums, total),
        "weighted_sum": relative_distance(sums_weighted, expected),
        "product": relative_distance(_product_kernel(gates, x, pre, post), total),
        "distance": mean_square_distance(network, x, seed, DRAWS),
    }


def _with_factors(
    architecture: arch.Architecture, pre: Sequence[float], post: Sequence[float]
) -> arch.Architecture:
    factors = zip(pre, post, strict=True)
    nodes = [
        arch.Merge(*next(factors)) if isinstance(node, arch.Merge) else node
        for node in architecture.nodes
    ]
    return arch.Architecture(architecture.input_shape, tuple(nodes))


def _product_kernel(
    gates: Sequence[Tensor], x: Tensor, pre: Sequence[float], post: Sequence[float]
) -> Tensor:
    """Return H = Σ ⊙ B_0 ⊙ Π_i γ^post_i² (1 + γ^pre_i² B_i) ⊙ B_{b+1} (theory §3).

    B_i is the product of the overlaps of block i; the last block has d_blk − 1 gate layers.
    """
    overlaps = [gate @ gate.T for gate in gates]
    kernel = x @ x.T
    for overlap in (*overlaps[:BLOCK_DEPTH], *overlaps[BLOCK_DEPTH * (BLOCKS + 1) :]):
        kernel = kernel * overlap
    for block in range(BLOCKS):
        begin = BLOCK_DEPTH * (block + 1)
        inner = kernel * 0 + 1
        for overlap in overlaps[begin : begin + BLOCK_DEPTH]:
            inner = inner * overlap
        kernel = kernel * post[block] ** 2 * (1 + pre[block] ** 2 * inner)
    return kernel


Cells = dict[int, CalculatedCell]  # by width


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells_by_kind: dict[str, Cells] = {
        kind: {width: grid.read_calculated(f"{prefix}w{width}") for width in _widths(request)}
        for prefix, kind in KINDS.items()
    }
    rows = [
        cell.row(
            f"{kind}, w = {width}: share of sub-networks with {blocks} of {BLOCKS} blocks",
            [100 * shares[blocks] for shares in cell["weighted"]],
            unit="%",
        )
        for kind, cells in cells_by_kind.items()
        for width, cell in cells.items()
        for blocks in range(BLOCKS + 1)
    ]
    rows += [
        cell.row(f"{kind}, w = {width}: ‖K^V_0 − Σβ_J H^J‖/‖Σβ_J H^J‖", cell["distance"])
        for kind, cells in cells_by_kind.items()
        for width, cell in cells.items()
    ]
    judged = tuple(
        claim for kind, cells in cells_by_kind.items() for claim in _judge_claims(kind, cells)
    )
    return Findings(tuple(rows), judged, _make_figures(cells_by_kind))


def _judge_claims(kind: str, cells: Cells) -> Iterator[Claim]:
    exact = {
        "sum": f"H against the sum of 2^{BLOCKS} kernels",
        "weighted_sum": f"βH against the weighted sum of 2^{BLOCKS}",
        "product": "H against the product over the blocks",
    }
    for key, statistic in exact.items():
        errors = [error for cell in cells.values() for error in cell[key]]
        yield judge(
            "comp-5", f"resnet, {kind}: {statistic}", at_most(max(errors), EXACT, len(errors))
        )
    by_seed = zip(*(cell["distance"] for cell in cells.values()), strict=True)
    yield rate_claim(f"resnet, {kind}", tuple(cells), by_seed, SLOPE, of="seeds")


def _make_figures(found: dict[str, Cells]) -> tuple[Figure, ...]:
    lines = tuple(
        mean_line(
            f"{kind}, w = {width}",
            range(BLOCKS + 1),
            [[100 * share for share in shares] for shares in cell["weighted"]],
        )
        for kind, cells in found.items()
        for width, cell in cells.items()
        if width in (min(cells), max(cells))
    )
    distances = tuple(
        mean_line(
            kind,
            tuple(cells),
            list(zip(*(c["distance"] for c in cells.values()), strict=True)),
            log=True,
        )
        for kind, cells in found.items()
    )
    distance = "‖K^V_0 − Σβ_J H^J‖/‖Σβ_J H^J‖"
    return (
        Figure("shares", "Contributions to K^V_0", "blocks kept", "share (%)", lines, note=BAND),
        Figure(
            "distance",
            "K^V_0 approaches its mean with width",
            "width",
            distance,
            distances,
            log_x=True,
            log_y=True,
            note=LOG_BAND,
        ),
    )


EXPERIMENT = Experiment(
    question="Is a ResNet's kernel the sum of those of its sub-networks?",
    title="The 2^b sub-networks of a ResNet",
    paper="[COMP] Lemma 4.2",
    about="Contributions of the sub-networks to the path kernel and the value kernel.",
    plan=plan,
    findings=findings,
    quick_minutes=0.14,
    full_hours=0.0051,
    claims=("comp-5",),
)
