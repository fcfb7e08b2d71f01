"""[COMP]: DavidNet under the gating regimes, trained by SGD with learning rate 0.5."""

from __future__ import annotations

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments._accuracy_designs import CNN, of_regimes
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    paper_config,
    with_gating,
    with_training,
)
from dgn_engine.experiments._grid import Grid, contrast, gate_source, learning_curves, training_unit
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = ("FR-II", "FR-DI", "FL", "DL")
INPUTS = {"image": "x", "ones": "1"}
SEEDS = (3, 5)
STEP = 0.5
CHANCE = 10.0
FROZEN = 67.5  # accuracy of frozen gates on CIFAR-10 in [DUAL]
BAR = (CHANCE + FROZEN) / 2
EXPECTED = of_regimes(FROZEN, CNN, "FR-II")
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


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {"ReLU (published network)": grid.read_trained("ReLU")}
    for regime, value_input in _cell_keys(request):
        cells[f"{regime}, x^v = {INPUTS[value_input]}"] = grid.read_trained(
            f"{regime}-{value_input}"
        )
    frozen = [cell for label, cell in cells.items() if label.startswith("FR")]
    mean = contrast(*((1 / len(frozen), cell) for cell in frozen))
    remark = (
        f"the threshold is halfway from chance to {FROZEN:g}, the accuracy of the CNN in [DUAL]; "
        "a seed with a run that diverged before its first score has no value"
    )
    return Findings(
        tuple(cell.row(label) for label, cell in cells.items()),
        (judge("comp-1", "DavidNet: FR", above(mean, BAR), remark, EXPECTED),),
        (learning_curves("DavidNet under the gating regimes", cells),),
        ("The paper's numbers for DavidNet are missing from our copy of the text.",),
    )


EXPERIMENT = Experiment(
    question="Do learnt gates beat random ones in a ResNet?",
    title="DavidNet under the regimes",
    paper="[COMP] ResNet experiment",
    about="A 9-layer ResNet with batch normalisation as the feature network.",
    plan=plan,
    findings=findings,
    quick_minutes=0.16,
    full_hours=350,
    claims=("comp-1",),
    asks=("augmentation",),
)
