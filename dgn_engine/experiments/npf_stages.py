"""[NPF] Figure 2, left: gates copied at later stages of training carry more (FLNPF-1 … FLNPF-6)."""

from __future__ import annotations

from collections.abc import Iterator

from scipy.stats import spearmanr

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import (
    Claim,
    Experiment,
    Figure,
    Findings,
    Plan,
    PlottedLine,
    Printed,
    Request,
)
from dgn_engine.experiments._claims import UNMEASURED, above, judge
from dgn_engine.experiments._configurations import (
    base,
    data_of,
    dense,
    option,
    stands_in,
    with_training,
)
from dgn_engine.experiments._grid import Grid, averaged, minus, training
from dgn_engine.experiments._published import comparable
from dgn_engine.statistics import PERCENT, rank_correlation
from dgn_engine.sweep.unit import UnitFile
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.training.weight_keeper import KEPT, best_until_file, epoch_file

STAGES = range(1, 7)
PRINTED = {1: 72.0, 6: 79.68}
FROZEN, CNTK = 67.08, 77.43
SEEDS = (3, 5)


def plan(request: Request) -> Plan:
    """Train a ReLU network whose gates are copied at six stages, and a frozen random one."""
    config = _config(request)
    kept = tuple(_every(request) * stage for stage in STAGES)
    best = request.protocol == "as-in-code"
    watched = with_training(config, epochs=kept[-1], keep_epochs=kept, keep_best=best)
    units = []
    for seed in request.seed_range(*SEEDS):
        relu = training(watched, "ReLU", seed, "relu")
        units += [relu, training(config, "FR-II", seed, "fr")]
        for stage, epoch in zip(STAGES, kept, strict=True):
            file = best_until_file(epoch) if best else epoch_file(epoch)
            gates = UnitFile(relu.id, f"{KEPT}/{file}")
            units.append(training(config, "FL", seed, f"fl{stage}", gates_from=gates))
    return Plan(
        tuple(units),
        _scaled_down(request, config),
        tuple(_choices(request)),
    )


def _choices(request: Request) -> Iterator[str]:
    yield "FLNPF is trained for 80 epochs in the authors' code; that is not printed"
    if request.protocol == "as-in-code":
        yield (
            "the gates of a stage are those of the weights that did best on the test set until "
            "then, not those at that epoch: the notebook validates on the test set and goes "
            "on copying the best weights it has seen"
        )


def _scaled_down(request: Request, config: RunConfig) -> tuple[str, ...]:
    if not request.quick:
        return ()
    return (
        *stands_in(request, "CIFAR-10"),
        f"fc ({option(config, 'width')} units, d = {option(config, 'depth')}) stands for GCONV",
        f"stages {_every(request)} epochs apart instead of 10, each FLNPF trained for "
        f"{config.training.epochs} epochs",
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    frozen, relu = grid.trained("fr"), grid.trained("relu")
    cells = {
        "FRNPF (frozen random gates)": frozen,
        **{f"FLNPF-{stage}": grid.trained(f"fl{stage}") for stage in STAGES},
        "ReLU": relu,
    }
    numbers = {"FRNPF (frozen random gates)": FROZEN}
    numbers |= {f"FLNPF-{stage}": number for stage, number in PRINTED.items()}
    printed = {label: Printed(number) for label, number in numbers.items()}
    rows = tuple(
        cell.row(label, *comparable(request, printed.get(label), "GCONV on CIFAR-10"))
        for label, cell in cells.items()
    )
    by_stage = [cells[f"FLNPF-{stage}"].best for stage in STAGES]
    by_seed = [list(curve) for curve in zip(*by_stage, strict=True)]
    lines = [
        averaged("FLNPF", [stage * _every(request) for stage in STAGES], by_seed),
        PlottedLine("FRNPF", (), (sum(frozen.best) / len(frozen.best),)),
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
    return Findings(rows, tuple(_claims(request, by_seed, frozen.best)), (figure,))


def _claims(request: Request, by_seed: list[list[float]], frozen: list[float]) -> Iterator[Claim]:
    rises = [float(spearmanr(STAGES, curve).statistic) for curve in by_seed]
    rising = above(rises, bounds=rank_correlation(len(STAGES)))
    yield judge("npf-3", "Spearman of accuracy with the stage", rising)
    starts = minus([curve[0] for curve in by_seed], frozen)
    yield judge("npf-3", "FLNPF-1 − FRNPF", above(starts))
    if request.quick:
        remark = "a number of networks on CIFAR-10, which --full trains"
        yield judge("npf-3", f"FLNPF-6; above {CNTK:g}", UNMEASURED, remark)
    else:
        last = [curve[-1] for curve in by_seed]
        yield judge("npf-3", "FLNPF-6", above(last, CNTK, PERCENT))


def _every(request: Request) -> int:
    return 2 if request.quick else 10


def _config(request: Request) -> RunConfig:
    net = dense(64, 6) if request.quick else NetConfig("gconv")
    return base(request, net, data_of(request, "cifar10"), request.epochs_or(15, 80))


EXPERIMENT = Experiment(
    title="Gates of later stages carry more",
    paper="[NPF] Figure 2 (left)",
    about="The gates of one ReLU network, copied at six stages of its training.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=1400,
    claims=("npf-3",),
    protocols=("as-published", "as-in-code"),
)
