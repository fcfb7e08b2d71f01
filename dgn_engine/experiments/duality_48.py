"""[DUAL] Experiment 1: 48 models per regime, all orders of the gates and two inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations, product

from dgn_engine.config import RunConfig
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
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._accuracy_figures import model_boxes, model_curves
from dgn_engine.experiments._claims import UNMEASURED, Sample, above, below, judge, within
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    net_option,
    paper_config,
    with_gating,
    with_training,
)
from dgn_engine.experiments._dual_networks import (
    CNN,
    CNN_EPOCHS,
    DESIGNS,
    FC,
    MARGIN,
    WIDTH,
    dual_config,
    fc_on_mnist,
    until_learnt,
)
from dgn_engine.experiments._grid import (
    Grid,
    TrainedCell,
    contrast,
    gate_source,
    pairwise_difference,
    training_unit,
)
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._published import comparable_number, find_printed, number_in
from dgn_engine.experiments._share_claims import PrintedGap, SharedGap, judge_share
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

ORDERS = tuple(permutations(range(4)))
# Each gate layer occurs twice at each position: the cyclic orders, forwards and backwards.
EIGHT = tuple(
    order
    for start in range(4)
    for order in (
        tuple((start + place) % 4 for place in range(4)),
        tuple((start - place) % 4 for place in range(4)),
    )
)
IDENTITY = ORDERS[0]
INPUTS = {"image": "x", "ones": "1"}
REGIMES = ("FR-II", "FR-DI", "FL", "DL")
TABLE, CNTK, CHANCE = "duality_experiment1", 77.43, 10.0
COLUMNS = ("FR-II", "FR-DI", "DL", "FL", "ReLU")  # as in the paper
SEEDS = (3, 3)
UNSEEN = (
    "small networks on the digits vary between seeds by as much as the margin, which hides a "
    "single bad order; use --full to decide"
)
NEARLY_ALL = 80.0  # percent of the gap from FR to ReLU; 'within 1 point' is 92 % for the CNN
TWO_THIRDS = 67.0  # likewise; 'within 3 points' is 77 % for the CNN

Order = tuple[int, ...]
Cells = dict[tuple[str, str, Order], TrainedCell]  # by regime, value input and order of the gates


def plan(request: Request) -> Plan:
    """Plan, per seed, a ReLU network, whose gates FL copies, and 4 × 24 × 2 gated ones."""
    units: list[Training] = []
    for row in _chosen_rows(request):
        config, prefix = _build_config(request, row), _cell_prefix(row)
        for seed in request.seed_range(*SEEDS):
            relu = gate_source(config, seed, f"{prefix}-ReLU")
            units.append(relu)
            units += [
                training_unit(
                    config,
                    regime,
                    seed,
                    _cell_name(prefix, regime, value_input, order),
                    gates_of=relu,
                    wiring=order,
                    value_input=value_input,
                )
                for regime, value_input, order in product(REGIMES, INPUTS, _gate_orders(request))
            ]
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "MNIST"),
            "four gate layers of 32 units instead of 128, not trained to 100 % train accuracy",
            "8 orders of the gates instead of 24: the cyclic ones, forwards and backwards, so 16 "
            "models per regime",
            "the CNN on CIFAR-10 is left out",
        ),
        (
            f"the width of the MNIST network is not in the paper: {WIDTH}",
            "the accuracy of a run is its best test accuracy; the models of one seed share the "
            "draw of gates and weights, so that their mean is one value and n counts seeds: each "
            "of the 48 models is run once for each of three seeds, in the paper only once",
            f"'no difference' and 'robust' mean a mean difference within ±{MARGIN[FC]:g} point on "
            f"MNIST and ±{MARGIN[CNN]:g} on CIFAR-10, for every regime; "
            "'far above chance' means more than half of the printed distance",
            "10,000 test images cannot tell the printed differences of 1.0 and 2.8 points from the "
            "claimed bounds of 1 and 3; judged is the share of the gap between FR and ReLU that is "
            f"recovered: by FL more than {NEARLY_ALL:g} %, by DL more than {TWO_THIRDS:g} %; nor "
            f"can they tell DL (printed: 77.6) from the CNTK ({CNTK:g}), which is not judged",
            "the mean over orders is compared with identity, and so is the worst order, which is "
            "chosen for each seed on the other seeds",
            "the neural path kernel of a dense network is the same in any order of the gate "
            "layers, that of a CNN changes by a few per cent",
        ),
    )


def _gate_orders(request: Request) -> tuple[Order, ...]:
    return EIGHT if request.quick else ORDERS


def findings(request: Request, results: UnitResults) -> Findings:
    rows: list[Row] = []
    judged: list[Claim] = []
    figures: list[Figure] = []
    for name in _chosen_rows(request):
        prefix = _cell_prefix(name)
        grid = Grid(results, request.seed_range(*SEEDS))
        relu = grid.read_trained(f"{prefix}-ReLU")
        keys = product(REGIMES, INPUTS, _gate_orders(request))
        cells = {key: grid.read_trained(_cell_name(prefix, *key)) for key in keys}
        rows += _report_rows(request, name, cells, relu)
        figures += _make_figures(request, name, cells, relu)
        judged += _judge_claims(request, name, cells, relu)
        if name == CNN:
            judged += _against_cntk(cells, relu)
    if CNN not in _chosen_rows(request):
        remark = "refers to networks on CIFAR-10; use --full --only CNN to train them"
        statistic = f"FR below {CNTK:g}; ReLU, FL above"
        judged.append(judge("dual-4", statistic, UNMEASURED, remark))
    return Findings(tuple(rows), tuple(judged), tuple(figures), columns=COLUMNS)


def _row_label(request: Request, name: str) -> str:
    if not request.quick:
        return name
    config = _build_config(request, name)
    return f"FC(w={net_option(config, 'width')},d={net_option(config, 'depth')})/{config.data.name}"


def _report_rows(request: Request, name: str, cells: Cells, relu: TrainedCell) -> Iterator[Row]:
    label = _row_label(request, name)

    def printed_number(regime: str) -> tuple[Printed | None, str]:
        return comparable_number(request, find_printed(TABLE, name, regime), name)

    for regime in REGIMES:
        models = _select_models(cells, regime)
        words = f"{label} {regime} ({len(models)} models)"
        yield _mean_row(words, models, *printed_number(regime), place=(label, regime))
        for value_input, word in INPUTS.items():
            place = (f"{label}, x^v = {word}", regime)
            words = f"{label} {regime}, x^v = {word}"
            yield _mean_row(words, _select_models(cells, regime, value_input), place=place)
    value, remark = printed_number("ReLU")
    words = "; ".join(part for part in (remark, _lowest_train_accuracy([relu])) if part)
    yield relu.row(f"{label} ReLU", value, words, place=(label, "ReLU"))


def _select_models(cells: Cells, *start: str) -> list[TrainedCell]:
    """Return the models of a regime, or of a regime and a value input."""
    return [cell for key, cell in cells.items() if key[: len(start)] == start]


def _mean_row(
    label: str,
    models: list[TrainedCell],
    value: Printed | None = None,
    remark: str = "",
    *,
    place: tuple[str, str],
) -> Row:
    """Return the row of means over the models, one value per seed."""
    means = [sum(of_seed) / len(models) for of_seed in zip(*(m.best for m in models), strict=True)]
    spread = _standard_deviation([sum(model.best) / len(model.best) for model in models])
    over = f"means over {len(models)} models (standard deviation {spread:.2f})"
    note = "; ".join(part for part in (remark, over, _lowest_train_accuracy(models)) if part)
    joined = TrainedCell([run for model in models for run in model.runs])
    return joined.row(label, value, note, values=means, place=place)


def _standard_deviation(values: list[float]) -> float:
    """Return the standard deviation; NaN if a value is NaN."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _lowest_train_accuracy(models: list[TrainedCell]) -> str:
    least = min(run.train_accuracy for model in models for run in model.runs)
    return f"train accuracy at least {100 * least:.1f} %"


def _make_figures(request: Request, name: str, cells: Cells, relu: TrainedCell) -> Iterator[Figure]:
    """Yield the models of each regime as box plots and points, and learning curves."""
    label, prefix, best = _row_label(request, name), _cell_prefix(name), _mean_accuracies(cells)
    inputs = {
        f"x^v = {word}": {
            regime: [best[regime, value_input, order] for order in _gate_orders(request)]
            for regime in REGIMES
        }
        for value_input, word in INPUTS.items()
    }
    printed_numbers = {
        regime: comparable_number(request, find_printed(TABLE, name, regime), name)[0]
        for regime in COLUMNS
    }
    yield model_boxes(
        f"models-{prefix}", label, COLUMNS, inputs, {"ReLU": relu.best}, printed_numbers
    )
    models: dict[str, list[TrainedCell]] = {
        regime: _select_models(cells, regime) for regime in REGIMES
    }
    yield model_curves(f"learning-{prefix}", label, {**models, "ReLU": [relu]})


def _mean_accuracies(cells: Cells) -> dict[tuple[str, str, Order], float]:
    """Return the mean accuracy of each model over seeds, in percent."""
    return {
        key: 100 * sum(run.best for run in cell.runs) / len(cell.runs)
        for key, cell in cells.items()
    }


Term = tuple[float, TrainedCell]


def _mean_terms(models: list[TrainedCell], sign: float = 1.0) -> list[Term]:
    return [(sign / len(models), model) for model in models]


def _judge_claims(request: Request, name: str, cells: Cells, relu: TrainedCell) -> Iterator[Claim]:
    label = _row_label(request, name)
    yield from _judge_differences(request, name, cells, relu)
    frozen = ("FR-II", "FR-DI")
    far = contrast(
        *_mean_terms([model for regime in frozen for model in _select_models(cells, regime)])
    )
    number = _printed_value(name, "FR-II")
    yield judge(
        "comp-1",
        f"{label}: FR",
        above(far, (number + CHANCE) / 2),
        f"the threshold is halfway from chance to the printed {number:g}",
        designs.of_regimes(number, DESIGNS[name], "FR-II"),
    )
    margin = MARGIN[name]
    for regime, (value_input, word) in product(REGIMES, INPUTS.items()):
        identity = cells[regime, value_input, IDENTITY]
        others = [
            model for model in _select_models(cells, regime, value_input) if model is not identity
        ]
        yield judge(
            "dual-5",
            f"{label}: {regime}, x^v = {word}: mean of {len(others)} orders − identity",
            within(contrast(*_mean_terms(others), (-1.0, identity)), margin),
            design=designs.of_regimes(0.0, DESIGNS[name], regime, regime),
        )
    for regime in REGIMES:
        statistic = f"{label}: {regime}, worst order (chosen on the other seeds) − identity"
        if request.quick:
            yield judge("dual-5", statistic, UNMEASURED, UNSEEN)
        else:
            design = designs.of_regimes(0.0, DESIGNS[name], regime, regime)
            yield judge(
                "dual-5", statistic, above(_worst_order_gap(cells, regime), -margin), design=design
            )
    for regime in REGIMES:
        image, ones = (_select_models(cells, regime, value_input) for value_input in INPUTS)
        yield judge(
            "dual-6",
            f"{label}: {regime}, x − 1, mean over {len(ones)} orders",
            within(contrast(*_mean_terms(image), *_mean_terms(ones, -1.0)), margin),
            design=designs.of_regimes(0.0, DESIGNS[name], regime, regime),
        )


def _worst_order_gap(cells: Cells, regime: str) -> Sample:
    """Return the accuracy of the worst order of a regime minus that of identity.

    The order and input are chosen for each seed by the mean of the other seeds; the worst one on
    the same seed would be below identity by noise alone.
    """
    pairs = [
        (cells[regime, value_input, order], cells[regime, value_input, IDENTITY])
        for value_input, order in ((key[1], key[2]) for key in cells if key[0] == regime)
        if order != IDENTITY
    ]
    gaps = [pairwise_difference(order.best, identity.best) for order, identity in pairs]
    chosen = [
        min(range(len(pairs)), key=lambda pair: sum(gaps[pair]) - gaps[pair][seed])
        for seed in range(len(gaps[0]))
    ]
    order, identity = (
        TrainedCell([pairs[pair][part].runs[seed] for seed, pair in enumerate(chosen)])
        for part in (0, 1)
    )
    return contrast((1.0, order), (-1.0, identity))


def _judge_differences(
    request: Request, name: str, cells: Cells, relu: TrainedCell
) -> Iterator[Claim]:
    """Judge the differences between the means of two regimes."""
    label, network = _row_label(request, name), DESIGNS[name]

    def difference_design(one: str, other: str) -> Design:
        expected = _printed_value(name, one) - _printed_value(name, other)
        return designs.of_regimes(expected, network, one, other)

    frozen = contrast(
        *_mean_terms(_select_models(cells, "FR-II")),
        *_mean_terms(_select_models(cells, "FR-DI"), -1.0),
    )
    yield judge(
        "dual-1",
        f"{label}: FR-II − FR-DI",
        within(frozen, MARGIN[name]),
        design=difference_design("FR-II", "FR-DI"),
    )
    random = [model for one in ("FR-II", "FR-DI") for model in _select_models(cells, one)]
    for claim, regime, threshold, points in (
        ("dual-2", "DL", TWO_THIRDS, 3),
        ("dual-3", "FL", NEARLY_ALL, 1),
    ):
        printed = _printed_gap(name, regime)
        of_row = "" if label == name else f" for {name}"
        remark = f"printed{of_row}: {printed.share:.1f}"
        if not of_row:
            claimed = 100 - 100 * points / printed.size
            remark += f"; 'within {points}' is a share above {claimed:.1f}"
        gap = SharedGap(
            _mean_terms(_select_models(cells, regime)), [(1.0, relu)], _mean_terms(random)
        )
        statistic = f"{label}: ({regime} − FR)/(ReLU − FR)"
        yield judge_share(claim, statistic, gap, (threshold, math.inf), printed, remark)


def _printed_gap(name: str, regime: str) -> PrintedGap:
    """Return the printed accuracies of a share, with the ± of [NPF] Table 2."""
    learnt, relu, *frozen = (
        designs.with_spread(_printed_value(name, one), DESIGNS[name], one)
        for one in (regime, "ReLU", "FR-II", "FR-DI")
    )
    return PrintedGap(learnt, relu, tuple(frozen))


def _printed_value(name: str, regime: str) -> float:
    return number_in(TABLE, name, regime).value


def _against_cntk(cells: Cells, relu: TrainedCell) -> Iterator[Claim]:
    """Judge that FR is below the accuracy of the CNTK, and FL and ReLU above."""
    models = {regime: _select_models(cells, regime) for regime in REGIMES} | {"ReLU": [relu]}
    for regimes, test in (
        (("FR-II", "FR-DI"), below),
        (("FL",), above),
        (("ReLU",), above),
    ):
        accuracy = contrast(*_mean_terms([model for regime in regimes for model in models[regime]]))
        yield judge(
            "dual-4",
            f"{CNN}: {' and '.join(regimes)}",
            test(accuracy, CNTK),
            design=designs.of_regimes(_printed_value(CNN, regimes[0]), designs.CNN, regimes[0]),
        )


def _chosen_rows(request: Request) -> list[str]:
    offered = (FC,) if request.quick else (FC, CNN)
    return [row for row in offered if request.only in row]


def _cell_prefix(row: str) -> str:
    return row[:3].strip("/ ").lower()


def _cell_name(prefix: str, regime: str, value_input: str, order: Order) -> str:
    return f"{prefix}-{regime}-{value_input}-{''.join(str(layer) for layer in order)}"


def _build_config(request: Request, row: str) -> RunConfig:
    if row == CNN:
        return until_learnt(request, dual_config(request, 0, CNN_EPOCHS))
    if not request.quick:
        return fc_on_mnist(request)
    config = paper_config(
        request, dense_net_config(32, 5), data_of(request, "mnist"), request.epochs or 20
    )
    # fewer steps per epoch need a larger learning rate
    return with_training(with_gating(config, beta=10.0), learning_rate=1e-3)


EXPERIMENT = Experiment(
    question="Does a network need its gates in order, or its values to see the image?",
    title="48 models per regime: orders of the gates, and constant input",
    paper="[DUAL] Experiment 1",
    about="All orders of four gate layers, with the image or ones as the value input.",
    plan=plan,
    findings=findings,
    quick_minutes=0.28,
    full_hours=23000,
    claims=("dual-1", "dual-2", "dual-3", "dual-4", "dual-5", "dual-6", "comp-1"),
    rows=("FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"),
)
