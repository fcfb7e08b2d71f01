"""[COMP]: DavidNet under the gating regimes, SGD with step 0.5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._training import base, data_of, row_of, trained_with, under
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

REGIMES = ("FR-II", "FR-DI", "FL", "DL")
INPUTS = {"image": "x", "ones": "1"}
STEP = 0.5
CHANCE = 10.0
AUGMENTED = {
    "none": "no augmentation",
    "davidnet": "DavidNet's augmentation (padded by an eighth of the side and cropped, mirrored, a "
    "square of a quarter of the side cut out: 4 and 8×8 pixels of 32×32)",
}


def plan(request: Request) -> Plan:
    """The published network, and each regime with both inputs."""
    config = _config(request)
    units: list[Training] = []
    for seed in range(request.seeds_or(3, 5)):
        relu = Training(f"ReLU-s{seed}", trained_with(under(config, "ReLU", seed), keep_best=True))
        units.append(relu)
        units += [
            Training(
                f"{regime}-{seen}-s{seed}",
                under(config, regime, seed, value_input=seen),
                gates_from=UnitFile(relu.id, f"{KEPT}/{BEST}") if regime == "FL" else None,
            )
            for regime in _regimes(request)
            for seen in _inputs(request)
        ]
    return Plan(
        tuple(units),
        (
            *stands_in(request, "CIFAR-10"),
            "width 4 instead of 64",
            "FR-II and FL only, with the image as the value input",
        )
        if request.quick
        else (),
        (
            "the gated pair: feature network as published with BatchNorm statistics of its own, "
            "gates from its normalised pre-activations, pooling masks from it; value network "
            "without BatchNorm, with a learnable γ per channel",
            f"{AUGMENTED[request.augmentation]}; SGD with a constant step of 0.5 and batch 256 as "
            "printed, the loss the mean over the batch; a run that diverges is reported, "
            "not retuned",
        ),
    )


def _config(request: Request) -> RunConfig:
    net = NetConfig("davidnet", (("width", 4 if request.quick else 64),))
    config = base(request, net, data_of(request, "cifar10"), request.epochs_or(10, 24))
    config = trained_with(
        config,
        optimiser="sgd",
        learning_rate=STEP,
        batch=256,
        augmentation=request.augmentation,
    )
    return replace(config, gating=replace(config.gating, beta=10.0))


def _regimes(request: Request) -> tuple[str, ...]:
    return ("FR-II", "FL") if request.quick else REGIMES


def _inputs(request: Request) -> tuple[str, ...]:
    return ("image",) if request.quick else tuple(INPUTS)


def findings(request: Request, results: UnitResults) -> Findings:
    """Accuracies of each regime and input."""
    seeds = range(request.seeds_or(3, 5))
    cells: dict[str, list[TrainedRun]] = {
        "ReLU (published network)": [results.trained(f"ReLU-s{seed}") for seed in seeds]
    }
    for regime in _regimes(request):
        for seen in _inputs(request):
            cells[f"{regime}, x^v = {INPUTS[seen]}"] = [
                results.trained(f"{regime}-{seen}-s{seed}") for seed in seeds
            ]
    rows = tuple(row_of(label, runs) for label, runs in cells.items())
    curves = tuple(
        averaged(
            label,
            max((run.epochs for run in runs), key=len),
            [[100 * score for score in run.test] for run in runs],
        )
        for label, runs in cells.items()
    )
    figure = Figure(
        "learning", "DavidNet under the gating regimes", "epoch", "test accuracy (%)", curves
    )
    remarks = ("No number of the paper's DavidNet runs survives in the text at hand.",)
    return Findings(rows, tuple(_claims(request, cells)), (figure,), remarks)


def _claims(request: Request, cells: dict[str, list[TrainedRun]]) -> Iterator[Claim]:
    frozen = [run for label, runs in cells.items() if label.startswith("FR") for run in runs]
    yield judge(
        request,
        claim("comp-1"),
        "DavidNet: FR − chance",
        [100 * run.best - CHANCE for run in frozen if run.epochs],
        "above",
        0.0,
    )


EXPERIMENT = Experiment(
    title="DavidNet under the regimes",
    paper="[COMP] ResNet experiment",
    about="A 9-layer ResNet with batch normalisation as the feature network.",
    plan=plan,
    findings=findings,
    quick_minutes=2.0,
    full_hours=770,
    claims=("comp-1",),
    asks=("augmentation",),
)
