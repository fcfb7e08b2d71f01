"""[DGN]: adaptive and learnt gates are better than frozen ones on CIFAR-10, too."""

from __future__ import annotations

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments._accuracy_designs import CNN
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
    with_training,
)
from dgn_engine.experiments._gate_adaptation import (
    CURVES,
    adaptation_cells,
    adaptation_claims,
    printed_designs,
    six_regimes,
)
from dgn_engine.experiments._grid import Grid, learning_curves, loss_curves
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.unit_results import UnitResults

ROWS = {"dense": "dense", "conv": "convolutional"}
SEEDS = (3, 5)


def plan(request: Request) -> Plan:
    """Plan dense and convolutional networks with six kinds of gates."""
    chosen = _chosen_configs(request)
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        for row, config in chosen.items():
            units += six_regimes(config, seed, row)
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "CIFAR-10"),
            "dense: 64 units a layer instead of 256; convolutional: 8 channels instead of 32",
            "Adam's learning rate is 1e-3 (dense) and 3e-3 (convolutional) instead of 3e-4",
        ),
        (
            "the numbers of this figure are missing from our copy of the text; dense w = 256, "
            "d = 5 and four convolutions of 32 channels with pooling, all ten classes, cross "
            "entropy, Adam 3e-4, batch 32 and 50 epochs were chosen here",
            "Evidence I is read as 'adaptable gates are better than frozen ones', Evidence II as "
            "'learnt gates are better than unlearnt ones' (claim dgn-5)",
            "the test accuracy is the best over all epochs, for every regime",
            CURVES,
        ),
    )


def _chosen_configs(request: Request) -> dict[str, RunConfig]:
    """Return the configurations of the rows whose label contains the request's `only`."""
    return {row: _build_config(request, row) for row in ROWS if request.only in ROWS[row]}


def _build_config(request: Request, row: str) -> RunConfig:
    data = data_of(request, "cifar10")
    if row == "dense":
        net, step, epochs = dense_net_config(64 if request.quick else 256, 5), 1e-3, 30
    else:
        net, step, epochs = NetConfig("cnn4", (("channels", 8 if request.quick else 32),)), 3e-3, 20
    config = paper_config(request, net, data, request.epochs_or(epochs, 50))
    return with_training(config, learning_rate=step) if request.quick else config


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows, judged, figures = [], [], []
    designs = printed_designs(CNN)
    for row in _chosen_configs(request):
        name, cells = ROWS[row], adaptation_cells(grid, row)
        rows += [cell.row(f"{name}: {label}") for label, cell in cells.items()]
        judged += list(adaptation_claims(cells, designs, name))
        title = f"{name.capitalize()} networks"
        figures.append(learning_curves(title, cells, f"learning-{row}"))
        figures.append(loss_curves(f"{title}: training loss", cells, name=f"loss-{row}"))
    return Findings(tuple(rows), tuple(judged), tuple(figures))


EXPERIMENT = Experiment(
    question="Do gates that adapt beat frozen ones on CIFAR-10?",
    title="Adaptive gates on CIFAR-10",
    paper="[DGN]",
    about="Six kinds of gates in a dense and a convolutional network.",
    plan=plan,
    findings=findings,
    quick_minutes=0.57,
    full_hours=46,
    claims=("dgn-5",),
    rows=("dense", "convolutional"),
)
