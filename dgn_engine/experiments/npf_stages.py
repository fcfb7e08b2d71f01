"""[NPF] Figure 2: gates copied at later stages of training carry more (FLNPF-1 … FLNPF-6)."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.stats import spearmanr

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import _training
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, PlottedLine, Printed, Row
from dgn_engine.experiments._judging import judge, unmeasured
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import beside, option, stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._training import data_of, row_of, trained_with, under
from dgn_engine.statistics import PERCENT, rank_correlation
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.training.weight_keeper import KEPT, epoch_file

STAGES = 6
PRINTED = {1: 72.0, 6: 79.68}
FROZEN, CNTK = 67.08, 77.43


def plan(request: Request) -> Plan:
    """A ReLU network whose gates are copied at six stages, and a frozen random one."""
    every = _every(request)
    config = _config(request)
    kept = tuple(every * stage for stage in range(1, STAGES + 1))
    units = []
    for seed in range(request.seeds_or(3, 5)):
        relu = Training(
            f"relu-s{seed}",
            trained_with(under(config, "ReLU", seed), epochs=kept[-1], keep_epochs=kept),
        )
        units += [relu, Training(f"fr-s{seed}", under(config, "FR-II", seed))]
        units += [
            Training(
                f"fl{stage}-s{seed}",
                under(config, "FL", seed),
                gates_from=UnitFile(relu.id, f"{KEPT}/{epoch_file(epoch)}"),
            )
            for stage, epoch in enumerate(kept, start=1)
        ]
    return Plan(
        tuple(units),
        (
            *stands_in(request, "CIFAR-10"),
            f"fc ({option(config, 'width')} units, d = {option(config, 'depth')}) stands for GCONV",
            f"stages {every} epochs apart instead of 10, each FLNPF trained for "
            f"{config.training.epochs} epochs",
        )
        if request.quick
        else (),
        ("FLNPF is trained for 80 epochs in the authors' code; that is not printed",),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    """Each stage beside frozen random gates and the ReLU network itself."""
    seeds = range(request.seeds_or(3, 5))

    def best(name: str) -> tuple[float, ...]:
        return tuple(100 * results.trained(f"{name}-s{seed}").best for seed in seeds)

    def row(label: str, name: str, printed: float | None) -> Row:
        runs = [results.trained(f"{name}-s{seed}") for seed in seeds]
        found = None if printed is None else Printed(printed)
        return row_of(label, runs, *beside(request, found, "GCONV on CIFAR-10"))

    stages = range(1, STAGES + 1)
    rows = [row("FRNPF (frozen random gates)", "fr", FROZEN)]
    rows += [row(f"FLNPF-{stage}", f"fl{stage}", PRINTED.get(stage)) for stage in stages]
    rows.append(row("ReLU", "relu", None))
    by_seed = [[best(f"fl{stage}")[seed] for stage in stages] for seed in seeds]
    epochs = [stage * _every(request) for stage in stages]
    lines = [
        averaged("FLNPF", epochs, by_seed),
        PlottedLine("FRNPF", (), (sum(best("fr")) / len(best("fr")),)),
    ]
    if not request.quick:
        lines.append(PlottedLine("CNTK (Arora et al. 2019)", (), (CNTK,), style="printed"))
    figure = Figure(
        "stages",
        "Gates of later stages carry more",
        "epoch of the copied gates",
        "test accuracy (%)",
        tuple(lines),
    )
    return Findings(tuple(rows), tuple(_claims(request, by_seed, best("fr"))), (figure,))


def _claims(
    request: Request, by_seed: list[list[float]], frozen: tuple[float, ...]
) -> Iterator[Claim]:
    stages = list(range(1, STAGES + 1))
    rises = [float(spearmanr(stages, curve).statistic) for curve in by_seed]
    yield judge(
        request,
        claim("npf-3"),
        "Spearman of accuracy with the stage",
        rises,
        "above",
        0.0,
        bounds=rank_correlation(STAGES),
    )
    starts = [curve[0] - fr for curve, fr in zip(by_seed, frozen, strict=True)]
    yield judge(request, claim("npf-3"), "FLNPF-1 − FRNPF", starts, "above", 0.0)
    if request.quick:
        remark = "a number of networks on CIFAR-10, which --full trains"
        yield unmeasured(request, claim("npf-3"), f"FLNPF-6; above {CNTK:g}", remark)
    else:
        last = [curve[-1] for curve in by_seed]
        yield judge(request, claim("npf-3"), "FLNPF-6", last, "above", CNTK, bounds=PERCENT)


def _every(request: Request) -> int:
    return 2 if request.quick else 10


def _config(request: Request) -> RunConfig:
    net = NetConfig("gconv")
    if request.quick:
        net = NetConfig("fc", tuple(_training.QUICK_FC.items()))
    return _training.base(request, net, data_of(request, "cifar10"), request.epochs_or(15, 80))


EXPERIMENT = Experiment(
    title="Gates of later stages carry more",
    paper="[NPF] Figure 2 (middle)",
    about="The gates of one ReLU network, copied at six stages of its training.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=1400,
    claims=("npf-3",),
    protocols=("as-published", "as-in-code"),
)
