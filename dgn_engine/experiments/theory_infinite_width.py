"""[NPF] §2, [WS], [COMP]: the NTK of ever wider networks against its closed form."""

from __future__ import annotations

import math
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, PlottedLine, Request
from dgn_engine.experiments._claims import above, below, judge
from dgn_engine.experiments._grid import Grid, averaged, calculation, minus
from dgn_engine.experiments._initial_networks import (
    log_slope,
    normal,
    relative_distance,
    unit_inputs,
)
from dgn_engine.kernels import expected_value_kernel, relu_limit, tangent_kernels
from dgn_engine.model.network import GatedNetwork
from dgn_engine.statistics import rank_correlation
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

WIDTHS = (32, 64, 128, 256, 512, 1024, 2048)
DEPTH, LAYERS = 4, 12
SEEDS = (5, 10)


def plan(request: Request) -> Plan:
    """For each seed take the distances against width, and the angles of a deep wide network."""
    widths = list(_widths(request))
    units: list[Calculation] = []
    for seed in request.seed_range(*SEEDS):
        units += [
            calculation(f"limit-s{seed}", distances, widths=widths, seed=seed),
            calculation(f"angles-s{seed}", angles, width=widths[-1], seed=seed),
        ]
    return Plan(
        tuple(units),
        (f"widths to {widths[-1]} instead of {WIDTHS[-1]}",),
        (
            f"10 unit inputs of dimension 10, d = {DEPTH}; hidden weights N(0, 2/w), output "
            "N(0, 1/w), for which K^(d) = (K̃ + Σ)/2 is the limit",
            f"angles: a ReLU network of {LAYERS} layers at its start",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return WIDTHS[:-1] if request.quick else WIDTHS


def _wide(width: int, depth: int, seed: int) -> GatedNetwork:
    """Draw ReLU with N(0, 2/w) in every layer and N(0, 1/w) in the last (FR-DI at its start)."""
    network = normal(10, width, depth, seed, own=True)
    network.value.tensors()[0][-1].mul_(math.sqrt(0.5))
    return network


def distances(work: CalculationInputs) -> dict[str, list[float]]:
    """Return the distances of K_0 from K^(d) and from βH of its own gates, for each width."""
    seed = work.arguments["seed"]
    x = unit_inputs(10, (10,), seed)
    limit = relu_limit(x, DEPTH).averaged
    found: dict[str, list[float]] = {"limit": [], "beta": []}
    for width in work.arguments["widths"]:
        network = _wide(width, DEPTH, seed)
        kernel = tangent_kernels(network, x).whole
        sigmas = [math.sqrt(2 / width)] * (DEPTH - 1) + [math.sqrt(1 / width)]
        gates = network.trace(x).value.gates
        expected = expected_value_kernel(network.architecture, gates, x, sigmas)
        found["limit"].append(relative_distance(kernel, limit))
        found["beta"].append(relative_distance(kernel, expected))
    return found


def angles(work: CalculationInputs) -> dict[str, Any]:
    """Return means over pairs of the angle between the layers' inputs, and of τ_l/w, by layer."""
    seed, width = work.arguments["seed"], work.arguments["width"]
    x = unit_inputs(10, (10,), seed)
    trace = _wide(width, LAYERS, seed).trace(x).value
    pairs = torch.triu_indices(10, 10, 1)
    found: dict[str, list[float]] = {"angle": [], "overlap": [], "predicted": []}
    for inputs, gates in zip(trace.inputs, trace.gates, strict=False):
        theta = _angles(inputs)[pairs[0], pairs[1]]
        overlap = (gates @ gates.T / gates.shape[1])[pairs[0], pairs[1]]
        found["angle"].append(float(theta.mean()))
        found["overlap"].append(float(overlap.mean()))
        found["predicted"].append(float(((math.pi - theta) / (2 * math.pi)).mean()))
    return found


def _angles(z: Tensor) -> Tensor:
    unit = z / z.norm(dim=1, keepdim=True)
    return torch.arccos((unit @ unit.T).clamp(-1, 1))


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    limit, angle = grid.calculated("limit"), grid.calculated("angles")
    widths, layers = _widths(request), list(range(1, LAYERS))
    words = {"limit": "K^(d)", "beta": "βH"}
    rows = tuple(
        limit.row(
            f"distance of K_0 from {words[key]}, width {width}",
            [curve[place] for curve in limit[key]],
        )
        for key in words
        for place, width in enumerate(widths)
    )
    last = {key: [curve[-1] for curve in limit[key]] for key in words}
    ranks = {
        key: [float(spearmanr(layers, curve).statistic) for curve in angle[key]]
        for key in ("angle", "overlap")
    }
    bounds = rank_correlation(len(layers))
    judged = (
        judge(
            "ws-4",
            "log-log slope of the distance from K^(d) against width",
            below([log_slope(widths, curve) for curve in limit["limit"]]),
        ),
        judge(
            "ws-4",
            "distance from βH − distance from K^(d), largest width",
            above(minus(last["beta"], last["limit"])),
        ),
        judge("comp-4", "Spearman of angle with the layer", below(ranks["angle"], bounds=bounds)),
        judge("comp-4", "Spearman of τ/w with the layer", above(ranks["overlap"], bounds=bounds)),
    )
    figures = (
        Figure(
            "distance",
            "K_0 with its own gates goes to K^(d), not to βH",
            "width",
            "relative distance",
            tuple(averaged(word, widths, limit[key]) for key, word in words.items()),
            log_x=True,
            log_y=True,
        ),
        Figure(
            "angles",
            "Angles close with depth",
            "layer",
            "angle (radians)",
            (averaged("angle", layers, angle["angle"]),),
        ),
        Figure(
            "overlap",
            "τ/w goes to ½",
            "layer",
            "τ/w",
            (
                averaged("measured", layers, angle["overlap"]),
                averaged("(π − θ)/2π", layers, angle["predicted"]),
                PlottedLine("½", (), (0.5,), style="printed"),
            ),
        ),
    )
    return Findings(rows, judged, figures)


EXPERIMENT = Experiment(
    title="Infinite width",
    paper="[NPF] §2, [WS], [COMP]",
    about="The tangent kernel of wide ReLU networks, K^(d) and βH; angles and overlaps by layer.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.1,
    claims=("ws-4", "comp-4"),
)
