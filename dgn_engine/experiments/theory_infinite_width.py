"""[NPF], [WS], [COMP]: the NTK of increasingly wide networks and its closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
)
from dgn_engine.experiments._claims import Sample, above, below, judge
from dgn_engine.experiments._grid import (
    BAND,
    LOG_BAND,
    CalculatedCell,
    Grid,
    calculation_unit,
    mean_line,
)
from dgn_engine.experiments._initial_networks import (
    draw_normal_network,
    relative_distance,
    unit_inputs,
)
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._width_rate import MARGIN, THEORY, rate_claim
from dgn_engine.kernels import expected_value_kernel, relu_limit, tangent_kernels
from dgn_engine.model.network import GatedNetwork
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

WIDTHS = (32, 64, 128, 256, 512, 1024, 2048)
DEPTH, LAYERS = 4, 12
SEEDS = (5, 10)
DRAWS = 8  # draws of all weights per distance
_PILOT = "4 to 6 draws of other seeds, widths to 1024, 2026-11"
RATE = Design(THEORY, 0.06, _PILOT)
APART = Design(0.46, 0.05, f"the closed forms of both limits; spread: {_PILOT}")
ANGLE = Design(-0.3, 0.04, f"the arc-cosine recursion; spread: {_PILOT}")
OVERLAP = Design(-0.05, 0.02, f"the arc-cosine recursion; spread: {_PILOT}")


def plan(request: Request) -> Plan:
    """Plan, per seed, the distances by width and the angles of a deep wide network."""
    widths = list(_widths(request))
    units: list[Calculation] = []
    for seed in request.seed_range(*SEEDS):
        units += [
            calculation_unit(f"limit-s{seed}", distances, widths=widths, seed=seed, draws=DRAWS),
            calculation_unit(f"angles-s{seed}", angles, width=widths[-1], seed=seed),
        ]
    return Plan(
        tuple(units),
        (f"widths to {widths[-1]} instead of {WIDTHS[-1]}",),
        (
            f"10 unit inputs of dimension 10, d = {DEPTH}; hidden weights N(0, 2/w), output "
            "N(0, 1/w), for which K^(d) = (K̃ + Σ)/2 is the limit",
            f"each distance is the root mean square over {DRAWS} draws of all weights; in theory, "
            f"that from K^(d) falls as w^{THEORY:g}, and a slope within ±{MARGIN:g} of that counts "
            "as agreement; 'not to βH' means that, at the largest width, the distance from it is "
            "at least half of the distance between the two limits",
            "'falls' and 'goes to ½' mean less than half as much in the last layer as in the first",
            f"angles: a ReLU network of {LAYERS} layers at initialisation",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return WIDTHS[:-1] if request.quick else WIDTHS


def _draw_wide_network(width: int, depth: int, seed: int) -> GatedNetwork:
    """Draw a ReLU network with N(0, 2/w), and N(0, 1/w) in the last layer."""
    network = draw_normal_network(10, width, depth, seed, own=True)
    network.value.folded_tensors()[0][-1].mul_(math.sqrt(0.5))
    return network


def distances(work: CalculationInputs) -> dict[str, Any]:
    """Return the distances of K_0 from K^(d) and from βH of its own gates, for each width.

    They are root mean squares over draws of the weights. 'apart' is the distance between K^(d) and
    the limit of βH, from their closed forms.
    """
    seed, draws = work.arguments["seed"], work.arguments["draws"]
    x = unit_inputs(10, (10,), seed)
    limit = relu_limit(x, DEPTH).average_kernel
    distances_by_limit: dict[str, Any] = {"limit": [], "beta": []}
    for width in work.arguments["widths"]:
        networks = (_draw_wide_network(width, DEPTH, draws * seed + draw) for draw in range(draws))
        squares = [_squared_distances(network, x, limit) for network in networks]
        for key, of_key in zip(("limit", "beta"), zip(*squares, strict=True), strict=True):
            distances_by_limit[key].append(math.sqrt(sum(of_key) / draws))
    distances_by_limit["apart"] = relative_distance(limit, expected_limit(x, DEPTH))
    return distances_by_limit


def _squared_distances(network: GatedNetwork, x: Tensor, limit: Tensor) -> tuple[float, float]:
    """Return the squared relative distances of K_0 from K^(d) and from βH."""
    width = network.value.folded_tensors()[0][0].shape[0]
    kernel = tangent_kernels(network, x).total_kernel
    sigmas = [math.sqrt(2 / width)] * (DEPTH - 1) + [math.sqrt(1 / width)]
    gates = network.trace(x).value.gates
    expected = expected_value_kernel(network.architecture, gates, x, sigmas)
    return relative_distance(kernel, limit) ** 2, relative_distance(kernel, expected) ** 2


def expected_limit(x: Tensor, depth: int) -> Tensor:
    """Return the limit of βH of a ReLU network at initialisation (see `_draw_wide_network`).

    τ_l/w tends to (π − θ_l)/2π, where the angle θ_l between the inputs of layer l follows the
    arc-cosine recursion; β w^(d−1) = (d − 1) 2^(d−2) + 2^(d−1).

    Args:
        x: inputs (n, d_in) of unit norm.
        depth: number of layers d.
    """
    cosine = (x @ x.T).clamp(-1, 1)
    kernel = x @ x.T
    for _ in range(depth - 1):
        theta = torch.arccos(cosine).fill_diagonal_(0.0)
        kernel = kernel * (math.pi - theta) / (2 * math.pi)
        cosine = ((theta.sin() + (math.pi - theta) * theta.cos()) / math.pi).clamp(-1, 1)
    constant = (depth - 1) * 2 ** (depth - 2) + 2 ** (depth - 1)
    scaled: Tensor = constant * kernel
    return scaled


def angles(work: CalculationInputs) -> dict[str, Any]:
    """Return the mean over pairs of the angle between layer inputs and of τ_l/w, by layer."""
    seed, width = work.arguments["seed"], work.arguments["width"]
    x = unit_inputs(10, (10,), seed)
    trace = _draw_wide_network(width, LAYERS, seed).trace(x).value
    pairs = torch.triu_indices(10, 10, 1)
    curves: dict[str, list[float]] = {"angle": [], "overlap": [], "predicted": []}
    for inputs, gates in zip(trace.inputs, trace.gates, strict=False):
        theta = _pairwise_angles(inputs)[pairs[0], pairs[1]]
        overlap = (gates @ gates.T / gates.shape[1])[pairs[0], pairs[1]]
        curves["angle"].append(float(theta.mean()))
        curves["overlap"].append(float(overlap.mean()))
        curves["predicted"].append(float(((math.pi - theta) / (2 * math.pi)).mean()))
    return curves


def _pairwise_angles(z: Tensor) -> Tensor:
    unit = z / z.norm(dim=1, keepdim=True)
    return torch.arccos((unit @ unit.T).clamp(-1, 1))


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    limit, angle = grid.read_calculated("limit"), grid.read_calculated("angles")
    widths, layers = _widths(request), list(range(1, LAYERS))
    words = {"limit": "K^(d)", "beta": "βH"}
    rows = tuple(
        limit.row(
            f"distance of K_0 from {words[key]}, width {width}",
            [curve[index] for curve in limit[key]],
            of="draws",
        )
        for key in words
        for index, width in enumerate(widths)
    )
    judged = tuple(_judge_claims(widths, limit, angle))
    figures = (
        Figure(
            "distance",
            "K_0 with its own gates tends to K^(d), not to βH",
            "width",
            "relative distance",
            tuple(mean_line(word, widths, limit[key], log=True) for key, word in words.items()),
            log_x=True,
            log_y=True,
            note=LOG_BAND,
        ),
        Figure(
            "angles",
            "Angles shrink with depth",
            "layer",
            "angle (radians)",
            (mean_line("angle", layers, angle["angle"]),),
            note=BAND,
        ),
        Figure(
            "overlap",
            "τ/w tends to ½",
            "layer",
            "τ/w",
            (
                mean_line("measured", layers, angle["overlap"]),
                mean_line("(π − θ)/2π", layers, angle["predicted"]),
                PlottedLine("½", (), (0.5,), style="printed"),
            ),
            note=BAND,
        ),
    )
    return Findings(rows, judged, figures)


def _judge_claims(
    widths: Sequence[int], limit: CalculatedCell, angle: CalculatedCell
) -> Iterator[Claim]:
    """Judge the limit of K_0 (ws-4), and angles and overlaps by layer (comp-4)."""
    yield rate_claim("K_0 and K^(d)", widths, limit["limit"], RATE, "ws-4")
    half = [beta[-1] - apart / 2 for beta, apart in zip(limit["beta"], limit["apart"], strict=True)]
    yield judge(
        "ws-4",
        "distance of K_0 from βH at the largest width − half of the distance of their limits",
        above(Sample(tuple(half), "draws")),
        design=APART,
    )
    gaps = [[0.5 - tau for tau in curve] for curve in angle["overlap"]]
    for quantity, curves, design in (
        ("angle", angle["angle"], ANGLE),
        ("½ − τ/w", gaps, OVERLAP),
    ):
        fallen = Sample(tuple(curve[-1] - curve[0] / 2 for curve in curves), "draws")
        statistic = f"{quantity}: layer {LAYERS - 1} − half of layer 1"
        yield judge("comp-4", statistic, below(fallen), design=design)


EXPERIMENT = Experiment(
    question="What becomes of the kernels in an infinitely wide network?",
    title="Infinite width",
    paper="[NPF], [WS], [COMP]",
    about="Tangent kernels of wide ReLU networks, K^(d) and βH; angles and overlaps by layer.",
    plan=plan,
    findings=findings,
    quick_minutes=0.12,
    full_hours=0.0067,
    claims=("ws-4", "comp-4"),
)
