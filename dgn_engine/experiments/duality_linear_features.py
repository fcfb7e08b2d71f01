"""[DUAL] §5: the feature network can be entirely linear."""

from __future__ import annotations

from collections.abc import Iterator

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._accuracy_figures import plot_groups
from dgn_engine.experiments._claims import judge, within
from dgn_engine.experiments._dual_networks import (
    ADDED_ROW,
    CNN,
    FC,
    MARGIN,
    DualNetwork,
    dual_networks,
    dual_scaled_down,
)
from dgn_engine.experiments._grid import Grid, contrast, gate_source, training_unit
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

PAIRS = (("FR-II", "FR-linear"), ("FL", "FL-linear"), ("DL", "DL-linear"))
NAMES = ("ReLU", *(name for pair in PAIRS for name in pair))
SEEDS, QUICK_EPOCHS = (3, 5), 25


def plan(request: Request) -> Plan:
    """Plan each regime with ReLU features and with linear features.

    FL copies the gates of ReLU, FL-linear those of DL-linear at its best test score.
    """
    units = [
        unit
        for network in dual_networks(request, QUICK_EPOCHS)
        for seed in request.seed_range(*SEEDS)
        for unit in _seed_runs(network, seed)
    ]
    return Plan(
        tuple(units),
        dual_scaled_down(request),
        (
            f"'as well' means a mean difference within ±{MARGIN[CNN]:g} points (CNN and quick "
            f"scale) or ±{MARGIN[FC]:g} point (FC/MNIST)",
            ADDED_ROW,
        ),
    )


def _seed_runs(network: DualNetwork, seed: int) -> Iterator[Training]:
    config, cell = network.config, network.cell_name
    relu = gate_source(config, seed, cell("ReLU"))
    linear = gate_source(config, seed, cell("DL-linear"), "DL-linear")
    yield relu
    yield linear
    for regime in ("FR-II", "FR-linear", "DL"):
        yield training_unit(config, regime, seed, cell(regime))
    yield training_unit(config, "FL", seed, cell("FL"), gates_of=relu)
    yield training_unit(config, "FL-linear", seed, cell("FL-linear"), gates_of=linear)


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    judged: list[Claim] = []
    figures: list[Figure] = []
    for network in dual_networks(request, QUICK_EPOCHS):
        cells = {name: grid.read_trained(network.cell_name(name)) for name in NAMES}
        line = {name: cell.row(network.prefix_label(name)) for name, cell in cells.items()}
        rows += line.values()
        features = {
            "ReLU features": {usual: line[usual] for usual, _ in PAIRS},
            "linear features": {usual: line[linear] for usual, linear in PAIRS},
        }
        title = network.prefix_label("Linear feature networks")
        figures.append(plot_groups(network.cell_name("accuracy"), title, features, line["ReLU"]))
        judged += [
            judge(
                "dual-8",
                network.prefix_statistic(f"{usual} − {linear}"),
                within(contrast((1.0, cells[usual]), (-1.0, cells[linear])), network.margin),
                network.remark,
                designs.of_regimes(0.0, network.design, usual, usual),
            )
            for usual, linear in PAIRS
        ]
    return Findings(tuple(rows), tuple(judged), tuple(figures))


EXPERIMENT = Experiment(
    question="Are the gates of a linear network good enough?",
    title="Linear feature networks",
    paper="[DUAL] §5",
    about="Gates of a linear feature network: random and frozen, learnt and frozen, or trained.",
    plan=plan,
    findings=findings,
    quick_minutes=0.17,
    full_hours=1300,
    claims=("dual-8",),
    rows=("FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"),
)
