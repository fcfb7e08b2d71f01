"""[WS] Table 4: gates learnt with true labels, random labels and random pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dgn_engine.config import NetConfig, Optimiser, RunConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim, printed
from dgn_engine.experiments._scaled import beside, option, stands_in
from dgn_engine.experiments._training import (
    SGD_STEPS,
    TrainedCell,
    base,
    cell_of,
    data_of,
    five_regimes,
    row_of,
    trained_with,
    under,
)
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

TABLE = "npf_workshop_table4"
QUICK_WIDTH = 64
PIXELS = "NPF trained, random pixels"
COLUMNS = {
    "ReLU": "ReLU",
    "Twin (decoupled)": "DL",
    "NPF(II)": "FR-II",
    "NPF(DI)": "FR-DI",
    "NPF trained, true labels": "FL",
    "NPF trained, random labels": "labels",
    PIXELS: "pixels",
}


@dataclass(frozen=True)
class _Arch:
    """A row; Arch-5 is VCONV on CIFAR-10 with SGD only."""

    row: str
    width: int
    depth: int
    optimiser: Optimiser

    @property
    def id(self) -> str:
        return f"{self.row.split()[0]}-{self.optimiser}"


_OPTIMISERS: tuple[tuple[str, Optimiser], ...] = (("Adam", "adam"), ("SGD", "sgd"))
ARCHES = (
    *(
        _Arch(f"Arch-{number} w={width} d={depth} {name} MNIST", width, depth, optimiser)
        for number, width, depth in ((1, 128, 6), (2, 128, 10), (3, 256, 6), (4, 256, 10))
        for name, optimiser in _OPTIMISERS
    ),
    _Arch("Arch-5 VCONV SGD CIFAR-10", 0, 0, "sgd"),
)
GATES = {
    "labels": "random-label gates",
    "pixels": "random-pixel gates",
    "FR-II": "random gates (FR-II)",
    "FR-DI": "random gates (FR-DI)",
    "FL": "true gates",
}
ORDER = tuple(
    pair
    for frozen in ("FR-II", "FR-DI")
    for pair in (("labels", frozen), ("pixels", frozen), (frozen, "FL"))
)  # each below the other


def plan(request: Request) -> Plan:
    """Seven columns for each architecture, step and seed."""
    units = [
        unit
        for arch in _chosen(request)
        for step in _steps(request, arch)
        for seed in range(request.seeds_or(3, 5))
        for unit in _columns(f"{arch.id}-{step:g}", _config(request, arch, step), seed)
    ]
    scaled = (
        *stands_in(request, "MNIST"),
        "only one row of those with Adam",
        f"{QUICK_WIDTH} units a layer instead of {' or '.join(_widths(request))}",
    )
    return Plan(
        tuple(units),
        scaled if request.quick else (),
        (
            "epochs are printed nowhere: see the column; a run's number is its best test accuracy",
            "the gates of the random columns are those of a ReLU network after as many epochs on "
            "uniformly drawn labels, or on Gaussian pixels with the true labels; the value network "
            "then learns the true data",
        ),
    )


def _columns(prefix: str, config: RunConfig, seed: int) -> Iterator[Training]:
    yield from five_regimes(prefix, config, seed)
    for name, data in (
        ("labels", replace(config.data, label_noise=1.0, variant_seed=seed)),
        ("pixels", replace(config.data, pixels="random", variant_seed=seed)),
    ):
        upstream = replace(under(config, "ReLU", seed), data=data)
        made = Training(f"{prefix}-{name}-gates-s{seed}", upstream)
        yield made
        yield Training(
            f"{prefix}-{name}-s{seed}",
            under(config, "FL", seed),
            gates_from=UnitFile(made.id, WEIGHTS),
        )


def findings(request: Request, results: UnitResults) -> Findings:
    """Each cell at the step with the highest mean, and the upstream networks' train accuracy."""
    rows: list[Row] = []
    judged: list[Claim] = []
    remarks: list[str] = []
    for arch in _chosen(request):
        cells = {name: _best(request, results, arch, name) for name in COLUMNS.values()}
        label = _label(request, arch)
        for column, name in COLUMNS.items():
            of_paper = None if column == PIXELS else printed(TABLE, arch.row, column)
            value, remark = beside(request, of_paper, arch.row)
            rows.append(row_of(f"{label} {column}", cells[name].runs, value, remark))
        judged += _claims(request, label, {name: cell.runs for name, cell in cells.items()})
        for name in ("labels", "pixels"):
            of_cell = (cells[name].step,)  # the step whose FL row is reported
            runs = _best(request, results, arch, f"{name}-gates", of_cell).runs
            shares = ", ".join(f"{100 * run.train_accuracy:.1f} %" for run in runs)
            remarks.append(
                f"{label}: the network on random {name} reached {shares} train accuracy."
            )
    return Findings(tuple(rows), tuple(judged), (), tuple(remarks))


def _label(request: Request, arch: _Arch) -> str:
    """The paper's name of the row; on the quick scale that of what is trained."""
    if not request.quick:
        return arch.row
    config = _config(request, arch, 1.0)
    name, *_, optimiser, _ = arch.row.split()
    width, depth = option(config, "width"), option(config, "depth")
    return f"{name} w={width} d={depth} {optimiser} {config.data.name}"


def _claims(request: Request, label: str, cells: dict[str, list[TrainedRun]]) -> Iterator[Claim]:
    for lower, upper in ORDER:
        values = [
            100 * (above.best - below.best)
            for above, below in zip(cells[upper], cells[lower], strict=True)
        ]
        named = f"{label}: {GATES[upper]} − {GATES[lower]}"
        yield judge(request, claim("ws-1"), named, values, "above", 0.0)


def _widths(request: Request) -> list[str]:
    return list(dict.fromkeys(str(arch.width) for arch in _chosen(request)))


def _chosen(request: Request) -> list[_Arch]:
    found = [arch for arch in ARCHES if request.only in arch.row]
    return [arch for arch in found if arch.optimiser == "adam"][:1] if request.quick else found


def _steps(request: Request, arch: _Arch) -> tuple[float, ...]:
    return (3e-4,) if arch.optimiser == "adam" else request.steps or SGD_STEPS


def _config(request: Request, arch: _Arch, step: float) -> RunConfig:
    if not arch.width:
        net, data, epochs = NetConfig("vconv"), data_of(request, "cifar10"), 80
    else:
        width = QUICK_WIDTH if request.quick else arch.width
        net = NetConfig("fc", (("width", width), ("depth", arch.depth)))
        data, epochs = data_of(request, "mnist"), 20 if arch.optimiser == "adam" else 50
    config = base(request, net, data, request.epochs_or(40, epochs))
    return trained_with(config, optimiser=arch.optimiser, learning_rate=step)


def _best(
    request: Request, results: UnitResults, arch: _Arch, name: str, steps: tuple[float, ...] = ()
) -> TrainedCell:
    seeds = range(request.seeds_or(3, 5))
    return cell_of(results, arch.id, steps or _steps(request, arch), name, seeds)


EXPERIMENT = Experiment(
    title="Gates from true labels, random labels and random pixels",
    paper="[WS] Table 4",
    about="Gates learnt on noise do worse than random ones; gates learnt on the truth as ReLU.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=5500,
    claims=("ws-1",),
    protocols=("as-published", "as-in-code"),
    rows=(
        "Arch-1 w=128 d=6 Adam MNIST",
        "Arch-1 w=128 d=6 SGD MNIST",
        "Arch-2 w=128 d=10 Adam MNIST",
        "Arch-2 w=128 d=10 SGD MNIST",
        "Arch-3 w=256 d=6 Adam MNIST",
        "Arch-3 w=256 d=6 SGD MNIST",
        "Arch-4 w=256 d=10 Adam MNIST",
        "Arch-4 w=256 d=10 SGD MNIST",
        "Arch-5 VCONV SGD CIFAR-10",
    ),
    asks=("steps",),
)
