"""[WS] Table 4: gates learnt with true labels, random labels and random pixels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dgn_engine.config import NetConfig, Optimiser, RunConfig
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._accuracy_designs import of_printed
from dgn_engine.experiments._accuracy_figures import plot_measured_and_printed
from dgn_engine.experiments._claims import UNMEASURED, above, judge
from dgn_engine.experiments._configurations import (
    BEST_STEP,
    data_of,
    data_substitution,
    dense_net_config,
    net_option,
    paper_config,
    step_remark,
    steps_of,
    with_training,
)
from dgn_engine.experiments._experiment import NOTEBOOKS
from dgn_engine.experiments._grid import Grid, TrainedCell, contrast, five_regimes, training_unit
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._published import comparable_number, find_printed, number_in
from dgn_engine.experiments._share_claims import (
    AROUND,
    MOST_OF_GAP,
    PrintedGap,
    judge_share,
    region_of,
    shared_gap,
)
from dgn_engine.storage.runs.folder_layout import WEIGHTS
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

SEEDS = (3, 5)
TABLE = "npf_workshop_table4"
QUICK_WIDTH = 64
MEMORISED = 0.999  # train accuracy of an epoch
LONGER, MOST = 10, 500  # epochs to memorise noise: factor on those of the row, and maximum
AS_PRINTED = "ws-6"  # claim from the printed numbers instead of a sentence
SMALLEST = "Arch-1 w=128 d=6 Adam MNIST"  # smallest printed loss due to random labels
SHARE = "(true gates − random gates)/(ReLU − random gates)"
LEARNT = "NPF trained, "  # with …
PIXELS = f"{LEARNT}random pixels"
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
    """A row of the table; Arch-5 is VCONV on CIFAR-10, with SGD only."""

    row: str
    width: int
    depth: int
    optimiser: Optimiser
    epochs: int  # in the notebooks of [NPF] Table 2, which includes Arch-1 and Arch-5
    step: float  # learning rate, likewise

    @property
    def id(self) -> str:
        return f"{self.row.split()[0]}-{self.optimiser}"


_OPTIMISERS: tuple[tuple[str, Optimiser, int, float], ...] = (
    ("Adam", "adam", 100, 1e-4),
    ("SGD", "sgd", 300, 1e-2),
)
ARCHES = (
    *(
        _Arch(
            f"Arch-{number} w={width} d={depth} {name} MNIST", width, depth, optimiser, epochs, step
        )
        for number, width, depth in ((1, 128, 6), (2, 128, 10), (3, 256, 6), (4, 256, 10))
        for name, optimiser, epochs, step in _OPTIMISERS
    ),
    _Arch("Arch-5 VCONV SGD CIFAR-10", 0, 0, "sgd", 80, 1e-2),
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
)  # (lower, upper)


def plan(request: Request) -> Plan:
    """Plan seven columns per architecture, learning rate and seed."""
    units = [
        unit
        for arch in _chosen_arches(request)
        for step in _steps_to_try(request, arch)
        for seed in request.seed_range(*SEEDS)
        for unit in _column_runs(f"{arch.id}-{step:g}", _build_config(request, arch, step), seed)
    ]
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "MNIST"),
            "only one of the rows with Adam",
            f"{QUICK_WIDTH} units per layer instead of {' or '.join(_widths(request))}",
        ),
        (
            "the paper does not give epochs: --full uses those of the notebooks of [NPF] Table 2, "
            "which includes Arch-1 and Arch-5, and 'as-in-code' also their learning rates for all "
            "rows; the accuracy of a run is its best test accuracy",
            "the gates of the random columns are those of a ReLU network trained on uniformly "
            "drawn labels, or on Gaussian pixels with the true labels, until it has memorised "
            f"them: a train accuracy of {100 * MEMORISED:g} % in an epoch, within {LONGER} times "
            f"the epochs of the row and at most {MOST}; the value network is then trained on the "
            "true data",
            f"'about as well as ReLU' means that true gates recover more than {MOST_OF_GAP:g} % of "
            "the gap between random gates (the mean of both) and ReLU; where the printed share is "
            f"below two thirds, it is tested within ±{AROUND:g} points of that",
            BEST_STEP,
        ),
        epochs_from=NOTEBOOKS,
    )


def _column_runs(prefix: str, config: RunConfig, seed: int) -> Iterator[Training]:
    yield from five_regimes(config, seed, prefix)
    for name, data in (
        ("labels", replace(config.data, label_noise=1.0, variant_seed=seed)),
        ("pixels", replace(config.data, pixels="random", variant_seed=seed)),
    ):
        noise = with_training(
            replace(config, data=data), until=MEMORISED, epochs=_noise_epochs(config)
        )
        upstream = training_unit(noise, "ReLU", seed, f"{prefix}-{name}-gates")
        yield upstream
        gates = UnitFile(upstream.id, WEIGHTS)
        yield training_unit(config, "FL", seed, f"{prefix}-{name}", gates_from=gates)


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    judged: list[Claim] = []
    figures: list[Figure] = []
    remarks: list[str] = []
    for arch in _chosen_arches(request):
        label, steps = _row_label(request, arch), _steps_to_try(request, arch)
        step, cells = grid.best_step(arch.id, steps, tuple(COLUMNS.values()))
        remarks += step_remark(label, step, steps)
        line: dict[str, Row] = {}
        for column, name in COLUMNS.items():
            of_paper = None if column == PIXELS else find_printed(TABLE, arch.row, column)
            printed_and_remark = comparable_number(request, of_paper, arch.row)
            place = (label, column)
            line[column] = cells[name].row(f"{label} {column}", *printed_and_remark, place=place)
        rows += line.values()
        short_names = {column.removeprefix(LEARNT): row for column, row in line.items()}
        figures.append(plot_measured_and_printed(f"accuracy-{arch.id}", label, short_names))
        most = _noise_epochs(_build_config(request, arch, step))
        short = {}
        for name in ("labels", "pixels"):
            noise = grid.read_trained(f"{arch.id}-{step:g}-{name}-gates")
            reached = f"the network on random {name} reached {_describe_train_accuracy(noise)}"
            remarks.append(f"{label}: {reached}.")
            if not _has_memorised(noise, most):
                short[name] = f"{reached} and has not memorised them, so this is not judged"
        judged += _judge_claims(arch, label, cells, short)
    if request.quick:
        statistic, remark = (
            f"Arch-5: {SHARE}",
            "refers to a network on CIFAR-10; use --full to train it",
        )
        judged.append(judge(AS_PRINTED, statistic, UNMEASURED, remark))
    return Findings(
        tuple(rows), tuple(judged), tuple(figures), tuple(remarks), columns=tuple(COLUMNS)
    )


def _row_label(request: Request, arch: _Arch) -> str:
    if not request.quick:
        return arch.row
    config = _build_config(request, arch, 1.0)
    name, *_, optimiser, _ = arch.row.split()
    width, depth = net_option(config, "width"), net_option(config, "depth")
    return f"{name} w={width} d={depth} {optimiser} {config.data.name}"


def _describe_train_accuracy(noise: TrainedCell) -> str:
    shares = ", ".join(f"{100 * run.train_accuracy:.1f} %" for run in noise.runs)
    return f"{shares} train accuracy in {noise.last_epoch:g} epochs at most"


def _has_memorised(noise: TrainedCell, most: int) -> bool:
    """Return whether all networks memorised the noise, that is, stopped before their last epoch."""

    def run_has_memorised(run: TrainedRun) -> bool:
        if run.diverged_at is not None or not run.epochs:
            return False
        return run.epochs[-1] < most or run.train_accuracy >= MEMORISED

    return all(run_has_memorised(run) for run in noise.runs)


def _judge_claims(
    arch: _Arch, label: str, cells: dict[str, TrainedCell], short: dict[str, str]
) -> Iterator[Claim]:
    """Judge the contrasts of a row.

    Args:
        arch: the row.
        label: its label.
        cells: its cells.
        short: reasons not to judge gates of networks that have not memorised the noise.
    """
    for lower, upper in ORDER:
        statistic = f"{label}: {GATES[upper]} − {GATES[lower]}"
        if lower in short:
            yield judge("ws-1", statistic, UNMEASURED, short[lower])
            continue
        better = above(contrast((1, cells[upper]), (-1, cells[lower])))
        yield judge("ws-1", statistic, better, design=_difference_design(arch, upper, lower))
    printed = printed_share(arch.row)
    region = region_of(printed.share)
    claim_id = "ws-5" if region[0] == MOST_OF_GAP else AS_PRINTED
    gap = shared_gap(cells["FL"], cells["ReLU"], cells["FR-II"], cells["FR-DI"])
    of_row = "" if label == arch.row else f" for {arch.row}"
    remark = f"printed{of_row}: {printed.share:.1f}"
    yield judge_share(claim_id, f"{label}: {SHARE}", gap, region, printed, remark)


def printed_share(row: str) -> PrintedGap:
    """Return the printed accuracies of true gates, ReLU and both kinds of random gates."""
    columns = {name: column for column, name in COLUMNS.items()}
    learnt, relu, *frozen = (
        number_in(TABLE, row, columns[name]) for name in ("FL", "ReLU", "FR-II", "FR-DI")
    )
    return PrintedGap(learnt, relu, tuple(frozen))


def _difference_design(arch: _Arch, upper: str, lower: str) -> Design | None:
    """Return the design of a difference; None for gates from noise on CIFAR-10.

    Where the accuracy with gates from noise is not printed on MNIST, the smallest printed
    difference stands in.
    """
    columns = {name: column for column, name in COLUMNS.items()}
    row, source = arch.row, ""
    if lower == "pixels" or find_printed(TABLE, row, columns[lower]) is None:
        if not arch.width:
            return None
        row, source, lower = (
            SMALLEST,
            f"the printed numbers of random labels in {SMALLEST}",
            "labels",
        )
    upper_cell, lower_cell = (number_in(TABLE, row, columns[name]) for name in (upper, lower))
    design = of_printed((1, upper_cell), (-1, lower_cell))
    return replace(design, source=source or design.source)


def _noise_epochs(config: RunConfig) -> int:
    epochs = config.training.epochs
    return max(epochs, min(LONGER * epochs, MOST))


def _widths(request: Request) -> list[str]:
    return list(dict.fromkeys(str(arch.width) for arch in _chosen_arches(request)))


def _chosen_arches(request: Request) -> list[_Arch]:
    matching = [arch for arch in ARCHES if request.only in arch.row]
    return (
        [arch for arch in matching if arch.optimiser == "adam"][:1] if request.quick else matching
    )


def _steps_to_try(request: Request, arch: _Arch) -> tuple[float, ...]:
    return steps_of(request, arch.optimiser, arch.step)


def _build_config(request: Request, arch: _Arch, step: float) -> RunConfig:
    if not arch.width:
        net, data = NetConfig("vconv"), data_of(request, "cifar10")
    else:
        net = dense_net_config(QUICK_WIDTH if request.quick else arch.width, arch.depth)
        data = data_of(request, "mnist")
    config = paper_config(request, net, data, request.epochs_or(40, arch.epochs))
    return with_training(config, optimiser=arch.optimiser, learning_rate=step)


EXPERIMENT = Experiment(
    question="Are gates learnt from noise worse than random ones?",
    title="Gates from true labels, random labels and random pixels",
    paper="[WS] Table 4",
    about="Gates learnt on noise are worse than random ones; true gates do as well as ReLU.",
    plan=plan,
    findings=findings,
    quick_minutes=0.44,
    full_hours=4600,
    claims=("ws-1", "ws-5", "ws-6"),
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
