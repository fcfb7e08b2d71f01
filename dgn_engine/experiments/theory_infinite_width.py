"""[NPF] §2, [WS], [COMP]: the NTK of ever wider networks against its closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor

from dgn_engine.experiments import _initial
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, PlottedLine, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._series import averaged
from dgn_engine.kernels import predicted_value_kernel, relu_limit, tangent_kernels
from dgn_engine.model.network import GatedNetwork
from dgn_engine.statistics import rank_correlation
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.theory_infinite_width"
WIDTHS = (32, 64, 128, 256, 512, 1024, 2048)
DEPTH, LAYERS = 4, 12


def plan(request: Request) -> Plan:
    """For each seed the distances against width, and the angles of a deep wide network."""
    widths = list(_widths(request))
    units: list[Calculation] = []
    for seed in range(request.seeds_or(5, 10)):
        units.append(
            Calculation(f"limit-s{seed}", f"{HERE}:distances", {"widths": widths, "seed": seed})
        )
        units.append(
            Calculation(f"angles-s{seed}", f"{HERE}:angles", {"width": widths[-1], "seed": seed})
        )
    return Plan(
        tuple(units),
        (f"widths to {widths[-1]} instead of {WIDTHS[-1]}",) if request.quick else (),
        (
            f"10 unit inputs of dimension 10, d = {DEPTH}; hidden weights N(0, 2/w), output "
            "N(0, 1/w), for which K^(d) = (K̃ + Σ)/2 is the limit",
            f"angles: a ReLU network of {LAYERS} layers at its start",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return WIDTHS[:-1] if request.quick else WIDTHS


def _wide(width: int, depth: int, seed: int) -> GatedNetwork:
    """ReLU with N(0, 2/w) in every layer and N(0, 1/w) in the last (FR-DI at its start)."""
    network = _initial.normal(10, width, depth, seed, own=True)
    network.value.tensors()[0][-1].mul_(math.sqrt(0.5))
    return network


def distances(work: CalculationInputs) -> dict[str, list[float]]:
    """Of K_0 from K^(d) and from βH of its own gates, for each width."""
    seed = work.arguments["seed"]
    x = _initial.unit_inputs(10, (10,), seed)
    limit = relu_limit(x, DEPTH).averaged
    found: dict[str, list[float]] = {"limit": [], "beta": []}
    for width in work.arguments["widths"]:
        network = _wide(width, DEPTH, seed)
        kernel = tangent_kernels(network, x).value
        sigmas = [math.sqrt(2 / width)] * (DEPTH - 1) + [math.sqrt(1 / width)]
        gates = network.trace(x).value.gates
        predicted = predicted_value_kernel(network.architecture, gates, x, sigmas)
        found["limit"].append(_initial.relative(kernel, limit))
        found["beta"].append(_initial.relative(kernel, predicted))
    return found


def angles(work: CalculationInputs) -> dict[str, Any]:
    """Mean over pairs of the angle between the layers' inputs, and of τ_l/w, layer by layer."""
    seed, width = work.arguments["seed"], work.arguments["width"]
    x = _initial.unit_inputs(10, (10,), seed)
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
    """Both distances against width; angle and overlap against depth."""
    seeds = range(request.seeds_or(5, 10))
    limits = [results.calculated(f"limit-s{seed}") for seed in seeds]
    turns = [results.calculated(f"angles-s{seed}") for seed in seeds]
    widths, layers = _widths(request), list(range(1, LAYERS))
    words = {"limit": "K^(d)", "beta": "βH"}
    rows = [
        Row(
            f"distance of K_0 from {words[key]}, width {width}",
            tuple(c[key][place] for c in limits),
            unit="",
            seconds=results.seconds_of(*(f"limit-s{seed}" for seed in seeds)),
        )
        for key in words
        for place, width in enumerate(widths)
    ]
    figures = (
        Figure(
            "distance",
            "K_0 with its own gates goes to K^(d), not to βH",
            "width",
            "relative distance",
            tuple(averaged(words[key], widths, [c[key] for c in limits]) for key in words),
            log_x=True,
            log_y=True,
        ),
        Figure(
            "angles",
            "Angles close with depth",
            "layer",
            "angle (radians)",
            (averaged("angle", layers, [c["angle"] for c in turns]),),
        ),
        Figure(
            "overlap",
            "τ/w goes to ½",
            "layer",
            "τ/w",
            (
                averaged("measured", layers, [c["overlap"] for c in turns]),
                averaged("(π − θ)/2π", layers, [c["predicted"] for c in turns]),
                PlottedLine("½", (), (0.5,), style="printed"),
            ),
        ),
    )
    return Findings(tuple(rows), tuple(_claims(request, limits, turns)), figures)


def _claims(
    request: Request, limits: list[dict[str, Any]], turns: list[dict[str, Any]]
) -> Iterator[Claim]:
    widths, layers = _widths(request), list(range(1, LAYERS))
    yield judge(
        request,
        claim("ws-4"),
        "log-log slope of the distance from K^(d) against width",
        [_initial.slope(widths, c["limit"]) for c in limits],
        "below",
        0.0,
    )
    yield judge(
        request,
        claim("ws-4"),
        "distance from βH − distance from K^(d), largest width",
        [c["beta"][-1] - c["limit"][-1] for c in limits],
        "above",
        0.0,
    )
    for key, side, word in (("angle", "below", "angle"), ("overlap", "above", "τ/w")):
        values = [float(spearmanr(layers, c[key]).statistic) for c in turns]
        yield judge(
            request,
            claim("comp-4"),
            f"Spearman of {word} with the layer",
            values,
            "below" if side == "below" else "above",
            0.0,
            bounds=rank_correlation(len(layers)),
        )


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
