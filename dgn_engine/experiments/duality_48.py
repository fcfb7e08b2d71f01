"""[DUAL] Experiment 1: 48 models a regime, all orders of the gates and two inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Findings, Printed, Row
from dgn_engine.experiments._judging import (
    Side,
    judge,
    judge_means,
    judge_means_within,
    judge_within,
    unmeasured,
)
from dgn_engine.experiments._published import claim, regime_numbers
from dgn_engine.experiments._scaled import beside, option, stands_in
from dgn_engine.experiments._training import base, data_of, row_of, trained_with, under
from dgn_engine.statistics import PERCENT
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

ORDERS = tuple(permutations(range(4)))
INPUTS = ("image", "ones")
REGIMES = ("FR-II", "FR-DI", "FL", "DL")
FC, CNN = "FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"
CNTK = 77.43
SAME, ROBUST = 1.0, 2.0  # points that count as no difference: chosen here, printed nowhere


def plan(request: Request) -> Plan:
    """ReLU networks, and for each seed 4 × 24 × 2 gated ones; FL takes the gates of ReLU's."""
    units: list[Training] = []
    for row in _rows(request):
        config = _config(request, row)
        for seed in _relu_seeds(request):
            relu = Training(
                _id(row, "ReLU", "", (), seed),
                trained_with(under(config, "ReLU", seed), keep_best=True),
            )
            units.append(relu)
            if seed in _seeds(request):
                units += _gated(row, config, seed, relu)
    return Plan(
        tuple(units),
        (
            *stands_in(request, "MNIST"),
            "four gate layers of 32 units instead of 128, not trained to 100 % train accuracy",
            "the CNN on CIFAR-10 is left out",
        )
        if request.quick
        else (),
        (
            "the width of the MNIST network is not printed: 128",
            f"'no difference' is a mean within ±{SAME:g} point, 'robust' one within ±{ROBUST:g}",
            "each of the 48 models is run once, as printed; a run's number is its best test "
            "accuracy",
            "ReLU has three seeds unless --seeds says otherwise, so that a difference to it has an "
            "interval (Welch's, of two independent samples)",
        ),
    )


def _seeds(request: Request) -> range:
    return range(request.seeds_or(1, 1))


def _relu_seeds(request: Request) -> range:
    return range(request.seeds_or(3, 3))


def _gated(row: str, config: RunConfig, seed: int, relu: Training) -> Iterator[Training]:
    for regime in REGIMES:
        for seen in INPUTS:
            for order in ORDERS:
                yield Training(
                    _id(row, regime, seen, order, seed),
                    under(config, regime, seed, wiring=order, value_input=seen),
                    gates_from=UnitFile(relu.id, f"{KEPT}/{BEST}") if regime == "FL" else None,
                )


def findings(request: Request, results: UnitResults) -> Findings:
    """Mean over the 48 models of each regime, and the differences between them."""
    rows: list[Row] = []
    judged: list[Claim] = []
    for name in _rows(request):
        relu = [results.trained(_id(name, "ReLU", "", (), seed)) for seed in _relu_seeds(request)]
        cells = {
            (regime, seen, order): [
                results.trained(_id(name, regime, seen, order, seed)) for seed in _seeds(request)
            ]
            for regime in REGIMES
            for seen in INPUTS
            for order in ORDERS
        }
        rows += _table(request, name, cells, relu)
        judged += _claims(request, _label(request, name), cells, relu)
        if name == CNN:
            judged += _against_cntk(request, cells, relu)
    if CNN not in _rows(request):
        remark = "a number of networks on CIFAR-10: --full --only CNN trains them"
        statistic = f"FR below {CNTK:g}; ReLU, FL, DL above"
        judged.append(unmeasured(request, claim("dual-4"), statistic, remark))
    return Findings(tuple(rows), tuple(judged))


Cells = dict[tuple[str, str, tuple[int, ...]], list[TrainedRun]]


def _label(request: Request, name: str) -> str:
    """The paper's name of the row; on the quick scale that of what is trained."""
    if not request.quick:
        return name
    config = _config(request, name)
    return f"FC(w={option(config, 'width')},d={option(config, 'depth')})/{config.data.name}"


def _table(request: Request, name: str, cells: Cells, relu: list[TrainedRun]) -> Iterator[Row]:
    numbers, label = regime_numbers("duality_experiment1", name), _label(request, name)
    for regime in REGIMES:
        runs = [run for key, found in cells.items() if key[0] == regime for run in found]
        value = beside(request, Printed(numbers[regime]), name)
        yield _row(f"{label} {regime} (48 models)", runs, *value)
        for seen in INPUTS:
            part = [
                run for key, found in cells.items() if key[:2] == (regime, seen) for run in found
            ]
            yield _row(f"{label} {regime}, x^v = {'x' if seen == 'image' else '1'}", part)
    yield _row(f"{label} ReLU", relu, *beside(request, Printed(numbers["ReLU"]), name))


def _row(label: str, runs: list[TrainedRun], value: Printed | None = None, remark: str = "") -> Row:
    least = f"train accuracy {100 * min(run.train_accuracy for run in runs):.1f} % at least"
    return row_of(label, runs, value, "; ".join(part for part in (remark, least) if part))


def _means(cells: Cells) -> dict[tuple[str, str, tuple[int, ...]], float]:
    """Of each model over the seeds, in percent."""
    return {key: 100 * sum(run.best for run in runs) / len(runs) for key, runs in cells.items()}


def _claims(request: Request, name: str, cells: Cells, relu: list[TrainedRun]) -> Iterator[Claim]:
    best, top = _means(cells), [100 * run.best for run in relu]

    def of(regime: str) -> list[float]:
        return [value for key, value in best.items() if key[0] == regime]

    def differences(one: str, other: str) -> list[float]:
        return [a - b for a, b in zip(of(one), of(other), strict=True)]

    yield judge_within(
        request,
        claim("dual-1"),
        f"{name}: FR-II − FR-DI over 48 models",
        differences("FR-II", "FR-DI"),
        SAME,
    )
    words = f"{name}: ReLU − DL, {len(top)} networks and 48 models"
    yield judge_means(request, claim("dual-2"), words, top, of("DL"), "below", 3.0)
    words = f"{name}: ReLU − FL, {len(top)} networks and 48 models"
    shared = "the 48 FL models of a seed share the gates of one ReLU network"
    yield judge_means_within(request, claim("dual-3"), words, top, of("FL"), 1.0, shared)
    frozen = of("FR-II") + of("FR-DI")
    yield judge(
        request, claim("comp-1"), f"{name}: FR − chance", [v - 10.0 for v in frozen], "above", 0.0
    )
    identity = ORDERS[0]
    falls = [
        min(best[regime, seen, order] for order in ORDERS) - best[regime, seen, identity]
        for regime in REGIMES
        for seen in INPUTS
    ]
    yield judge(
        request,
        claim("dual-5"),
        f"{name}: worst order − identity, 8 regimes and inputs",
        falls,
        "above",
        -ROBUST,
    )
    for regime in REGIMES:
        pairs = [best[regime, "image", o] - best[regime, "ones", o] for o in ORDERS]
        yield judge_within(
            request, claim("dual-6"), f"{name}: {regime}, x − 1 over 24 orders", pairs, ROBUST
        )


def _against_cntk(request: Request, cells: Cells, relu: list[TrainedRun]) -> Iterator[Claim]:
    """FR below the CNTK's accuracy, the others above."""
    best = _means(cells)
    sides: dict[tuple[str, ...], Side] = {
        ("FR-II", "FR-DI"): "below",
        ("FL",): "above",
        ("DL",): "above",
    }
    for regimes, side in sides.items():
        values = [value for key, value in best.items() if key[0] in regimes]
        words = f"{CNN}: {' and '.join(regimes)}"
        yield judge(request, claim("dual-4"), words, values, side, CNTK, bounds=PERCENT)
    top = [100 * run.best for run in relu]
    yield judge(request, claim("dual-4"), f"{CNN}: ReLU", top, "above", CNTK, bounds=PERCENT)


def _rows(request: Request) -> list[str]:
    offered = (FC,) if request.quick else (FC, CNN)
    return [row for row in offered if request.only in row]


def _id(row: str, regime: str, seen: str, order: tuple[int, ...], seed: int) -> str:
    place = "-".join(("", seen, "".join(str(layer) for layer in order))) if order else ""
    return f"{row[:3].strip('/ ').lower()}-{regime}{place}-s{seed}"


def _config(request: Request, row: str) -> RunConfig:
    if row == CNN:
        net, epochs = NetConfig("cnn4", (("channels", 128),)), 100
        data = data_of(request, "cifar10")
    else:
        net = NetConfig("fc", (("width", 32 if request.quick else 128), ("depth", 5)))
        data, epochs = data_of(request, "mnist"), 60
    config = base(request, net, data, request.epochs_or(20, epochs))
    training = config.training
    if request.quick:  # fewer steps an epoch: a larger one, or nothing is learnt in time
        training = replace(training, learning_rate=1e-3)
    elif not request.epochs:
        training = replace(training, until=0.999)
    return replace(config, training=training, gating=replace(config.gating, beta=10.0))


EXPERIMENT = Experiment(
    title="48 models a regime: orders of the gates, and input 1",
    paper="[DUAL] Experiment 1",
    about="Every order of four gate layers, with the image and with ones as the value input.",
    plan=plan,
    findings=findings,
    quick_minutes=2.0,
    full_hours=17000,
    claims=("dual-1", "dual-2", "dual-3", "dual-4", "dual-5", "dual-6", "comp-1"),
    rows=("FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"),
)
