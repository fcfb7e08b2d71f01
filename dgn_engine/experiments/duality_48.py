"""[DUAL] Experiment 1: 48 models a regime, all orders of the gates and two inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import (
    Claim,
    Experiment,
    Figure,
    Findings,
    Plan,
    Printed,
    Request,
    Row,
)
from dgn_engine.experiments._accuracy_figures import model_boxes, model_curves
from dgn_engine.experiments._claims import UNMEASURED, above, below, judge, means, within
from dgn_engine.experiments._configurations import (
    base,
    data_of,
    dense,
    option,
    stands_in,
    with_gating,
    with_training,
)
from dgn_engine.experiments._grid import Grid, TrainedCell, gate_source, minus, training
from dgn_engine.experiments._published import comparable, printed
from dgn_engine.statistics import PERCENT
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

ORDERS = tuple(permutations(range(4)))
INPUTS = {"image": "x", "ones": "1"}
REGIMES = ("FR-II", "FR-DI", "FL", "DL")
FC, CNN = "FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"
TABLE, CNTK = "duality_experiment1", 77.43
COLUMNS = ("FR-II", "FR-DI", "DL", "FL", "ReLU")  # as printed
SEEDS, RELU_SEEDS = (1, 1), (3, 3)
SAME, ROBUST = 1.0, 2.0  # points that count as no difference: chosen here, printed nowhere

Order = tuple[int, ...]
Cells = dict[tuple[str, str, Order], TrainedCell]  # by regime, value input and order of the gates


def plan(request: Request) -> Plan:
    """Train ReLU networks, and for each seed 4 × 24 × 2 gated ones; FL takes ReLU's gates."""
    units: list[Training] = []
    for row in _rows(request):
        config, prefix = _config(request, row), _prefix(row)
        for seed in request.seed_range(*RELU_SEEDS):
            relu = gate_source(config, seed, f"{prefix}-ReLU")
            units.append(relu)
            if seed in request.seed_range(*SEEDS):
                units += [
                    training(
                        config, regime, seed, _cell(prefix, regime, seen, order),
                        gates_of=relu, wiring=order, value_input=seen,
                    )
                    for regime, seen, order in product(REGIMES, INPUTS, ORDERS)
                ]  # fmt: skip
    return Plan(
        tuple(units),
        (
            *stands_in(request, "MNIST"),
            "four gate layers of 32 units instead of 128, not trained to 100 % train accuracy",
            "the CNN on CIFAR-10 is left out",
        ),
        (
            "the width of the MNIST network is not printed: 128",
            f"'no difference' is a mean within ±{SAME:g} point, 'robust' one within ±{ROBUST:g}",
            "each of the 48 models is run once, as printed; a run's number is its best test "
            "accuracy",
            "ReLU has three seeds unless --seeds says otherwise, so that a difference to it has an "
            "interval (Welch's, of two independent samples)",
        ),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    rows: list[Row] = []
    judged: list[Claim] = []
    figures: list[Figure] = []
    for name in _rows(request):
        prefix = _prefix(name)
        relu = Grid(results, request.seed_range(*RELU_SEEDS)).trained(f"{prefix}-ReLU")
        grid = Grid(results, request.seed_range(*SEEDS))
        cells = {key: grid.trained(_cell(prefix, *key)) for key in product(REGIMES, INPUTS, ORDERS)}
        rows += _table(request, name, cells, relu)
        figures += _figures(request, name, cells, relu)
        judged += _claims(_label(request, name), cells, relu)
        if name == CNN:
            judged += _against_cntk(cells, relu)
    if CNN not in _rows(request):
        remark = "a number of networks on CIFAR-10: --full --only CNN trains them"
        statistic = f"FR below {CNTK:g}; ReLU, FL, DL above"
        judged.append(judge("dual-4", statistic, UNMEASURED, remark))
    return Findings(tuple(rows), tuple(judged), tuple(figures), columns=COLUMNS)


def _label(request: Request, name: str) -> str:
    if not request.quick:
        return name
    config = _config(request, name)
    return f"FC(w={option(config, 'width')},d={option(config, 'depth')})/{config.data.name}"


def _table(request: Request, name: str, cells: Cells, relu: TrainedCell) -> Iterator[Row]:
    label = _label(request, name)

    def joined(*start: str) -> TrainedCell:
        found = [cell for key, cell in cells.items() if key[: len(start)] == start]
        return TrainedCell([run for cell in found for run in cell.runs])

    def published(regime: str, words: str, cell: TrainedCell, of: str) -> Row:
        found = comparable(request, printed(TABLE, name, regime), name)
        return _row(f"{label} {regime}{words}", cell, *found, place=(label, regime), of=of)

    for regime in REGIMES:
        yield published(regime, " (48 models)", joined(regime), "models")
        for seen, word in INPUTS.items():
            place = (f"{label}, x^v = {word}", regime)
            yield _row(f"{label} {regime}, x^v = {word}", joined(regime, seen), place=place)
    yield published("ReLU", "", relu, "seeds")


def _row(
    label: str,
    cell: TrainedCell,
    value: Printed | None = None,
    remark: str = "",
    *,
    place: tuple[str, str],
    of: str = "models",
) -> Row:
    least = f"train accuracy {100 * min(run.train_accuracy for run in cell.runs):.1f} % at least"
    words = "; ".join(part for part in (remark, least) if part)
    return cell.row(label, value, words, place=place, of=of)


def _figures(request: Request, name: str, cells: Cells, relu: TrainedCell) -> Iterator[Figure]:
    """Yield the models of each regime as boxes and points, and the learning curves."""
    label, prefix, best = _label(request, name), _prefix(name), _means(cells)
    inputs = {
        f"x^v = {word}": {
            regime: [best[regime, seen, order] for order in ORDERS] for regime in REGIMES
        }
        for seen, word in INPUTS.items()
    }
    found = {
        regime: comparable(request, printed(TABLE, name, regime), name)[0] for regime in COLUMNS
    }
    yield model_boxes(f"models-{prefix}", label, COLUMNS, inputs, {"ReLU": relu.best}, found)
    models: dict[str, list[TrainedCell]] = {
        regime: [cell for key, cell in cells.items() if key[0] == regime] for regime in REGIMES
    }
    yield model_curves(f"learning-{prefix}", label, {**models, "ReLU": [relu]})


def _means(cells: Cells) -> dict[tuple[str, str, Order], float]:
    """Return the mean accuracy of each model over the seeds, in percent."""
    return {
        key: 100 * sum(run.best for run in cell.runs) / len(cell.runs)
        for key, cell in cells.items()
    }


def _claims(name: str, cells: Cells, relu: TrainedCell) -> Iterator[Claim]:
    best = _means(cells)

    def of(regime: str) -> list[float]:
        return [value for key, value in best.items() if key[0] == regime]

    same = within(minus(of("FR-II"), of("FR-DI")), SAME)
    yield judge("dual-1", f"{name}: FR-II − FR-DI over 48 models", same)
    sizes = f"{len(relu.best)} networks and 48 models"
    yield judge("dual-2", f"{name}: ReLU − DL, {sizes}", below(means(relu.best, of("DL")), 3.0))
    shared = "the 48 FL models of a seed share the gates of one ReLU network"
    near = within(means(relu.best, of("FL")), 1.0)
    yield judge("dual-3", f"{name}: ReLU − FL, {sizes}", near, shared)
    frozen = [value - 10.0 for value in of("FR-II") + of("FR-DI")]
    yield judge("comp-1", f"{name}: FR − chance", above(frozen))
    falls = [
        min(best[regime, seen, order] for order in ORDERS) - best[regime, seen, ORDERS[0]]
        for regime, seen in product(REGIMES, INPUTS)
    ]
    words = f"{name}: worst order − identity, 8 regimes and inputs"
    yield judge("dual-5", words, above(falls, -ROBUST))
    for regime in REGIMES:
        pairs = [best[regime, "image", order] - best[regime, "ones", order] for order in ORDERS]
        yield judge("dual-6", f"{name}: {regime}, x − 1 over 24 orders", within(pairs, ROBUST))


def _against_cntk(cells: Cells, relu: TrainedCell) -> Iterator[Claim]:
    """Judge that FR lies below the CNTK's accuracy, the others above."""
    best = _means(cells)
    for regimes, test in ((("FR-II", "FR-DI"), below), (("FL",), above), (("DL",), above)):
        values = [value for key, value in best.items() if key[0] in regimes]
        yield judge("dual-4", f"{CNN}: {' and '.join(regimes)}", test(values, CNTK, PERCENT))
    yield judge("dual-4", f"{CNN}: ReLU", above(relu.best, CNTK, PERCENT))


def _rows(request: Request) -> list[str]:
    offered = (FC,) if request.quick else (FC, CNN)
    return [row for row in offered if request.only in row]


def _prefix(row: str) -> str:
    return row[:3].strip("/ ").lower()


def _cell(prefix: str, regime: str, seen: str, order: Order) -> str:
    return f"{prefix}-{regime}-{seen}-{''.join(str(layer) for layer in order)}"


def _config(request: Request, row: str) -> RunConfig:
    if row == CNN:
        net, epochs = NetConfig("cnn4", (("channels", 128),)), 100
        data = data_of(request, "cifar10")
    else:
        net = dense(32 if request.quick else 128, 5)
        data, epochs = data_of(request, "mnist"), 60
    config = with_gating(base(request, net, data, request.epochs_or(20, epochs)), beta=10.0)
    if request.quick:  # fewer steps an epoch: a larger one, or nothing is learnt in time
        return with_training(config, learning_rate=1e-3)
    return config if request.epochs else with_training(config, until=0.999)


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
