"""Phases of local complexity while a ReLU network trains (Humayun et al. 2023, arXiv:2310.12977).

Local complexity is the mean number of gate boundaries that cross a small neighbourhood of a
training example. The paper reports a fall after the start, a rise, and a final fall.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dgn_engine.config import RunConfig, TrainingConfig
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
)
from dgn_engine.experiments._grid import (
    BAND,
    CalculatedCell,
    Grid,
    calculation_unit,
    mean_line,
    training_unit,
)
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.experiments._power import Design
from dgn_engine.kernels.gate_boundaries import (
    input_spread,
    local_complexity,
    orthonormal_directions,
)
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults

SEEDS = (5, 5)
EXAMPLES, BATCH = (500, 1000), (100, 200)  # 5 steps per epoch
WIDTHS = (64, 200)
KEPT = (0, 1, 2, 4, 8, 20, 40, 80, 200, 400, 800, 2000, 4000, 8000, 20000)  # epochs
LOW, HIGH = 20, (800, 2000)  # epochs that end the first fall and the rise: declared, not extremes
LAST = (800, 20000)
PER_CLASS = 10
DIRECTIONS, RADIUS = 25, 0.1  # of the root mean square distance of the inputs from their mean
_PILOT = "5 other seeds at the quick scale, 2026-11"
FALL = Design(0.34, 0.12, _PILOT)
RISE = Design(0.55, 0.09, _PILOT)


def plan(request: Request) -> Plan:
    """Plan one ReLU network per seed, and local complexity at its kept epochs."""
    config = _build_config(request)
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        run = training_unit(config, "ReLU", seed, "relu")
        units += [run, calculation_unit(f"regions-s{seed}", complexity_of_stages, run)]
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "MNIST"),
            f"{EXAMPLES[0]} examples instead of {EXAMPLES[1]:,}, width {WIDTHS[0]} instead of "
            f"{WIDTHS[1]}, {LAST[0]:,} epochs of 5 steps instead of {LAST[1]:,}: the last fall is "
            "not judged",
        ),
        (
            "three hidden layers with biases, squared loss, step 1e-3, batch 200, 1,000 examples "
            "of MNIST: from the authors' code, which uses AdamW with weight decay 0.01 and torch's "
            "initial weights; here Adam and Glorot's",
            f"r = {RADIUS:g} of the root mean square distance of the examples from their mean, "
            f"{DIRECTIONS} directions, the first {PER_CLASS} training examples of each class; the "
            "outputs, which the authors' code counts too, are left out",
            "the phases end at epochs that we chose after a pilot of other seeds at the quick "
            f"scale: {LOW}, {HIGH[1]:,} (quick: {HIGH[0]:,}) and {LAST[1]:,}",
        ),
    )


def _build_config(request: Request) -> RunConfig:
    full = not request.quick
    epochs = request.epochs_or(LAST[0], LAST[1])
    data = data_of(request, "mnist")
    data = replace(data, train_limit=data.train_limit or EXAMPLES[full])
    if full:
        data = replace(data, test_limit=data.test_limit or EXAMPLES[full])
    net = replace(dense_net_config(WIDTHS[full], 4), bias=True, init="glorot")
    settings = TrainingConfig(
        loss="squared",
        optimiser="adam",
        learning_rate=1e-3,
        batch=BATCH[full],
        epochs=epochs,
        keep_epochs=tuple(epoch for epoch in KEPT if epoch <= epochs),
    )
    return replace(paper_config(request, net, data, epochs), net=net, training=settings)


def complexity_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """Return local complexity at each kept epoch, by layer and in total, in float64."""
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, int(work.arguments.get("per_class", PER_CLASS)))
    radius = RADIUS * input_spread(networks.x)
    directions = orthonormal_directions(tuple(networks.x.shape[1:]), DIRECTIONS).to(networks.x)
    curves: dict[str, Any] = {"epochs": [], "complexity": [], "layers": []}
    for epoch, network in networks:
        layers = local_complexity(network, networks.x, directions, radius)
        means = [float(layer.double().mean()) for layer in layers]
        curves["epochs"].append(epoch)
        curves["complexity"].append(sum(means))
        curves["layers"].append(means)
    return curves


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cell, runs = grid.read_calculated("regions"), grid.read_trained("relu")
    epochs = cell["epochs"][0]
    rows = [
        cell.row(f"boundaries near an example, epoch {epoch:,}", _at(cell, epoch))
        for epoch in _phase_ends(request, epochs)
    ]
    rows.append(runs.row("test accuracy"))
    places = [epoch + 1 for epoch in epochs]  # 0 has no place on a logarithmic axis
    lines = [mean_line("all layers", places, cell["complexity"])]
    for layer in range(len(cell["layers"][0][0])):
        curves = [[means[layer] for means in run] for run in cell["layers"]]
        lines.append(mean_line(f"layer {layer + 1}", places, curves))
    figure = Figure(
        "complexity",
        "Local complexity at training examples",
        "epoch + 1",
        "boundaries that cross",
        tuple(lines),
        log_x=True,
        note=BAND,
    )
    return Findings(tuple(rows), tuple(_judge_phases(request, cell)), (figure,))


def _phase_ends(request: Request, epochs: Sequence[int]) -> tuple[int, ...]:
    """Return the epochs at which phases start and end, as far as they were trained."""
    full = not request.quick
    ends = (0, LOW, HIGH[full], *((LAST[1],) if full else ()))
    return tuple(epoch for epoch in ends if epoch in epochs)


def _at(cell: CalculatedCell, epoch: int) -> list[float]:
    return [run["complexity"][run["epochs"].index(epoch)] for run in cell.results]


def _judge_phases(request: Request, cell: CalculatedCell) -> Iterator[Claim]:
    """Judge the ratio of both ends of each phase, as log2; nothing if one was not trained."""
    ends = _phase_ends(request, cell["epochs"][0])
    phases = (
        ("regions-1", "falls at first", False, FALL),
        ("regions-2", "then rises", True, RISE),
        ("regions-3", "falls in the end", False, None),
    )
    for (claim, words, rises, design), start, end in zip(phases, ends, ends[1:], strict=False):
        first, last = _at(cell, start), _at(cell, end)
        ratios = [
            _log_ratio(b, a) if rises else _log_ratio(a, b)
            for a, b in zip(first, last, strict=True)
        ]
        statistic = f"{words}: log2 of the ratio of epochs {start:,} and {end:,}"
        yield judge(claim, statistic, above(ratios), design=design)


def _log_ratio(one: float, other: float) -> float:
    """Return log2 one/other; NaN if there is no boundary near any example."""
    return math.log2(one / other) if one > 0 and other > 0 else math.nan


EXPERIMENT = Experiment(
    question="Do linear regions leave the training examples?",
    title="Phases of local complexity",
    paper="[LOCAL]",
    about="Gate boundaries near training examples of a ReLU network, over steps.",
    plan=plan,
    findings=findings,
    quick_minutes=0.2,
    full_hours=0.38,
    claims=("regions-1", "regions-2", "regions-3"),
)
