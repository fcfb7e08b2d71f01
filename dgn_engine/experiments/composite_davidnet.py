"""[COMP]: DavidNet under the gating regimes, trained by SGD with learning rate 0.5.

No number of these networks is at hand. Their claims have the margins and expected values of the
CNN on CIFAR-10 in [DUAL].
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Claim, Experiment, Findings, Plan, Request
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._claims import UNMEASURED, above, judge, within
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    paper_config,
    with_gating,
    with_training,
)
from dgn_engine.experiments._dual_networks import CNN, MARGIN
from dgn_engine.experiments._grid import (
    Grid,
    TrainedCell,
    contrast,
    gate_source,
    learning_curves,
    training_unit,
)
from dgn_engine.experiments._published import number_in
from dgn_engine.experiments._share_claims import MOST_OF_GAP, PrintedGap, SharedGap, judge_share
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

FR = ("FR-II", "FR-DI")
REGIMES = (*FR, "FL", "DL")
INPUTS = {"image": "x", "ones": "1"}
SEEDS = (3, 5)
STEP = 0.5
CHANCE = 10.0
PRINTED = {
    regime: number_in("duality_experiment1", CNN, regime).value
    for regime in ("FR-II", "FR-DI", "DL", "FL", "ReLU")
}
BAR = (CHANCE + PRINTED["FR-II"]) / 2
NOT_QUICK = "not measured at this scale; use --full"
AUGMENTED = {
    "none": "no augmentation",
    "davidnet": "DavidNet's augmentation (pad by 1/8 of the side and crop, flip, cut out a square "
    "of 1/4 of the side: 4 and 8×8 pixels for 32×32)",
}


def plan(request: Request) -> Plan:
    """Plan the published network, and each regime with both value inputs."""
    config = _build_config(request)
    units: list[Training] = []
    for seed in request.seed_range(*SEEDS):
        relu = gate_source(config, seed)
        units.append(relu)
        units += [
            training_unit(
                config,
                regime,
                seed,
                f"{regime}-{value_input}",
                gates_of=relu,
                value_input=value_input,
            )
            for regime, value_input in _cell_keys(request)
        ]
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "CIFAR-10"),
            "width 4 instead of 64",
            "FR-II and FL only, with the image as the value input",
        ),
        (
            "gated pair: the published network with its own BatchNorm statistics as feature "
            "network, whose normalised pre-activations give the gates and whose pooling masks are "
            "used; value network without BatchNorm, with a learnable γ per channel",
            f"{AUGMENTED[request.augmentation]}; SGD with a constant learning rate of 0.5 and "
            "batch 256 as in the paper, mean loss over the batch; diverged runs are reported, not "
            "retuned",
        ),
        epochs_from="those of DavidNet",
    )


def _build_config(request: Request) -> RunConfig:
    net = NetConfig("davidnet", (("width", 4 if request.quick else 64),))
    config = paper_config(request, net, data_of(request, "cifar10"), request.epochs_or(10, 24))
    config = with_training(
        config,
        optimiser="sgd",
        learning_rate=STEP,
        batch=256,
        augmentation=request.augmentation,
    )
    return with_gating(config, beta=10.0)


def _cell_keys(request: Request) -> list[tuple[str, str]]:
    if request.quick:
        return [("FR-II", "image"), ("FL", "image")]
    return [(regime, value_input) for regime in REGIMES for value_input in INPUTS]


Cells = dict[tuple[str, str], TrainedCell]  # by regime and value input


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    relu = grid.read_trained("ReLU")
    cells = {key: grid.read_trained("-".join(key)) for key in _cell_keys(request)}
    labelled = {"ReLU (published network)": relu} | {
        f"{regime}, x^v = {INPUTS[value_input]}": cell
        for (regime, value_input), cell in cells.items()
    }
    return Findings(
        tuple(cell.row(label) for label, cell in labelled.items()),
        tuple(_judge_claims(relu, cells)),
        (learning_curves("DavidNet under the gating regimes", labelled),),
        ("The paper's numbers for DavidNet are missing from our copy of the text.",),
    )


def _judge_claims(relu: TrainedCell, cells: Cells) -> Iterator[Claim]:
    remark = (
        f"the threshold is halfway from chance to {PRINTED['FR-II']:g}, the accuracy of the CNN in "
        "[DUAL]; a seed with a run that diverged before its first score has no value"
    )
    design = designs.of_regimes(PRINTED["FR-II"], designs.CNN, "FR-II")
    yield judge(
        "comp-1", "DavidNet: FR", above(contrast(*_mean_terms(cells, FR)), BAR), remark, design
    )
    for regime in ("DL", "FL"):
        yield _judge_share(regime, relu, cells)
    regimes = [regime for regime in REGIMES if (regime, "ones") in cells]
    for regime in regimes:
        yield judge(
            "dual-6",
            f"DavidNet: {regime}, x − 1",
            within(
                contrast((1.0, cells[regime, "image"]), (-1.0, cells[regime, "ones"])), MARGIN[CNN]
            ),
            "the margin is that of duality-48 on CIFAR-10",
            designs.of_regimes(0.0, designs.CNN, regime, regime),
        )
    if not regimes:
        yield judge("dual-6", "DavidNet: x − 1", UNMEASURED, NOT_QUICK)


def _judge_share(regime: str, relu: TrainedCell, cells: Cells) -> Claim:
    """Judge that a regime keeps most of what learnt gates add to random ones."""
    statistic = f"DavidNet: ({regime} − FR)/(ReLU − FR)"
    if (regime, "image") not in cells:
        return judge("comp-6", statistic, UNMEASURED, NOT_QUICK)
    gap = SharedGap(_mean_terms(cells, (regime,)), [(1.0, relu)], _mean_terms(cells, FR))
    learnt, published, *frozen = (
        designs.with_spread(PRINTED[name], designs.CNN, name) for name in (regime, "ReLU", *FR)
    )
    printed = PrintedGap(learnt, published, tuple(frozen))
    remark = f"printed for the CNN of [DUAL]: {printed.share:.1f}"
    return judge_share("comp-6", statistic, gap, (MOST_OF_GAP, math.inf), printed, remark)


def _mean_terms(cells: Cells, regimes: tuple[str, ...]) -> list[tuple[float, TrainedCell]]:
    models = [cell for (regime, _), cell in cells.items() if regime in regimes]
    return [(1.0 / len(models), cell) for cell in models]


EXPERIMENT = Experiment(
    question="Do learnt gates beat random ones in a ResNet?",
    title="DavidNet under the regimes",
    paper="[COMP] ResNet experiment",
    about="A 9-layer ResNet with batch normalisation as the feature network.",
    plan=plan,
    findings=findings,
    quick_minutes=0.16,
    full_hours=350,
    claims=("comp-1", "comp-6", "dual-6"),
    asks=("augmentation",),
)
