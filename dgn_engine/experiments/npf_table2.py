"""[NPF] Table 2: test accuracy of frozen, decoupled, fixed learnt gates and ReLU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dgn_engine.config import NetConfig, Optimiser, RunConfig
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._accuracy_figures import beside_printed
from dgn_engine.experiments._claims import above, judge, within
from dgn_engine.experiments._configurations import (
    BEST_STEP,
    SGD_STEPS,
    base,
    data_of,
    dense,
    option,
    stands_in,
    step_remark,
    with_training,
)
from dgn_engine.experiments._grid import Grid, TrainedCell, five_regimes, learning_curves, minus
from dgn_engine.experiments._published import comparable, printed
from dgn_engine.sweep.unit_results import UnitResults

TABLE = "npf_npk_2020_table2"
WIDTH, QUICK_WIDTH, DEPTH = 128, 64, 6
SEEDS = (3, 5)
COLUMNS = {"FRNPF(II)": "FR-II", "FRNPF(DI)": "FR-DI", "DNPFL": "DL", "FLNPF": "FL", "ReLU": "ReLU"}


@dataclass(frozen=True)
class _Setting:
    """A row of the table with how it is trained on either scale and in the authors' code."""

    row: str
    net: str
    paper_data: str
    optimiser: Optimiser
    epochs: int  # of the notebooks, also where they have another step
    step: float  # of the notebooks

    @property
    def id(self) -> str:
        return f"{self.net}-{self.optimiser}"


SETTINGS = (
    _Setting("FC(w=128,d=6)/SGD/MNIST", "fc", "mnist", "sgd", 300, 1e-2),
    _Setting("FC(w=128,d=6)/Adam/MNIST", "fc", "mnist", "adam", 100, 1e-4),
    _Setting("VCONV/SGD/CIFAR-10", "vconv", "cifar10", "sgd", 80, 1e-2),
    _Setting("VCONV/Adam/CIFAR-10", "vconv", "cifar10", "adam", 80, 3e-4),
    _Setting("GCONV/SGD/CIFAR-10", "gconv", "cifar10", "sgd", 100, 1e-1),
    _Setting("GCONV/Adam/CIFAR-10", "gconv", "cifar10", "adam", 200, 3e-4),
)


def plan(request: Request) -> Plan:
    """Train five regimes for each row, step and seed; on the quick scale MNIST's two rows."""
    units = [
        unit
        for setting in _chosen(request)
        for step in _steps(request, setting)
        for seed in request.seed_range(*SEEDS)
        for unit in five_regimes(_config(request, setting, step), seed, f"{setting.id}-{step:g}")
    ]
    return Plan(
        tuple(units),
        tuple(_scaled_down(request)),
        (
            "epochs are printed nowhere: --full takes those of the authors' notebooks",
            BEST_STEP,
            "FL takes the gates of the ReLU network with the same step and seed, at its best test "
            "accuracy, as the authors' code does",
            "the number of a run is its best test accuracy over the epochs",
        ),
    )


def _scaled_down(request: Request) -> Iterator[str]:
    yield from stands_in(request, "MNIST")
    yield f"FC has {QUICK_WIDTH} units a layer instead of {WIDTH}"
    yield "the rows of CIFAR-10 are left out"
    for setting in _chosen(request):
        steps = _steps(request, setting)
        if setting.optimiser == "sgd" and request.protocol == "as-published" and len(steps) == 1:
            yield f"SGD has one step, {steps[0]:g}, instead of the best of three"


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    judged: list[Claim] = []
    figures: list[Figure] = []
    remarks: list[str] = []
    for setting in _chosen(request):
        steps, label = _steps(request, setting), _label(request, setting)
        step, cells = grid.best_step(setting.id, steps, tuple(COLUMNS.values()))
        remarks += step_remark(label, step, steps)
        line = {}
        for column, regime in COLUMNS.items():
            found = comparable(request, printed(TABLE, setting.row, column), setting.row)
            row = cells[regime].row(f"{label} {column}", *found, place=(label, column))
            rows.append(row)
            line[column] = row
        judged += _claims(label, cells)
        figures.append(beside_printed(f"accuracy-{setting.id}", label, line))
        curves = {column: cells[regime] for column, regime in COLUMNS.items()}
        figures.append(learning_curves(f"{label}: learning", curves, f"learning-{setting.id}"))
    return Findings(
        tuple(rows), tuple(judged), tuple(figures), tuple(remarks), columns=tuple(COLUMNS)
    )


def _label(request: Request, setting: _Setting) -> str:
    if not request.quick:
        return setting.row
    config = _config(request, setting, 1.0)
    network = f"FC(w={option(config, 'width')},d={option(config, 'depth')})"
    return "/".join((network, setting.row.split("/")[1], config.data.name))


def _claims(label: str, cells: dict[str, TrainedCell]) -> Iterator[Claim]:
    best = {regime: cell.best for regime, cell in cells.items()}
    for learnt in ("DL", "ReLU"):
        for frozen in ("FR-II", "FR-DI"):
            better = above(minus(best[learnt], best[frozen]))
            yield judge("npf-1", f"{label}: {learnt} − {frozen}", better)
    yield judge("npf-2", f"{label}: ReLU − FL", within(minus(best["ReLU"], best["FL"]), 1.0))


def _chosen(request: Request) -> list[_Setting]:
    found = [setting for setting in SETTINGS if request.only in setting.row]
    return [s for s in found if s.net == "fc"] if request.quick else found


def _steps(request: Request, setting: _Setting) -> tuple[float, ...]:
    if request.protocol == "as-in-code":
        return (setting.step,)
    if setting.optimiser == "adam":
        return (3e-4,)
    return request.steps or ((0.1,) if request.quick else SGD_STEPS)


def _config(request: Request, setting: _Setting, step: float) -> RunConfig:
    net = NetConfig(setting.net)
    if setting.net == "fc":
        net = dense(QUICK_WIDTH if request.quick else WIDTH, DEPTH)
    config = base(
        request, net, data_of(request, setting.paper_data), request.epochs_or(40, setting.epochs)
    )
    return with_training(config, optimiser=setting.optimiser, learning_rate=step)


EXPERIMENT = Experiment(
    title="Test accuracy of the gating regimes",
    paper="[NPF] Table 2",
    about="Frozen random gates against learnt ones: where the information sits.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=10000,
    claims=("npf-1", "npf-2"),
    protocols=("as-published", "as-in-code"),
    rows=(
        "FC(w=128,d=6)/SGD/MNIST",
        "FC(w=128,d=6)/Adam/MNIST",
        "VCONV/SGD/CIFAR-10",
        "VCONV/Adam/CIFAR-10",
        "GCONV/SGD/CIFAR-10",
        "GCONV/Adam/CIFAR-10",
    ),
    asks=("steps",),
)
