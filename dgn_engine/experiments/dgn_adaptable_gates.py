"""[DGN] Figures 6 to 8: gates that adapt against frozen ones, on two digits; ν of the NTK."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._stages import Stages
from dgn_engine.experiments._training import base, data_of, gaps, row_of, trained_with, under
from dgn_engine.kernels import class_targets, spectrum, tangent_kernels
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training, Unit, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

REGIMES = {
    "GaLU, frozen gates": "FR-II",
    "GaLU, learnt gates": "FL",
    "soft-GaLU": "DL",
    "soft-ReLU": "soft-ReLU",
    "ReLU": "ReLU",
    "gates alone": "gates-only",
}
WATCHED = ("FR-II", "DL")
PER_CLASS = 100


def plan(request: Request) -> Plan:
    """Six kinds of gates; of the frozen and the adaptive ones the kernels of the kept stages."""
    config, kept = _config(request)
    units: list[Unit] = []
    for seed in range(request.seeds_or(3, 5)):
        relu = Training(f"ReLU-s{seed}", trained_with(under(config, "ReLU", seed), keep_best=True))
        units.append(relu)
        for regime in ("FR-II", "DL", "soft-ReLU", "gates-only"):
            made = under(config, regime, seed)
            if regime in WATCHED:
                made = trained_with(made, keep_epochs=kept)
            units.append(Training(f"{regime}-s{seed}", made))
        gates = UnitFile(relu.id, f"{KEPT}/{BEST}")
        units.append(Training(f"FL-s{seed}", under(config, "FL", seed), gates_from=gates))
        function = "dgn_engine.experiments.dgn_adaptable_gates:nu_of_stages"
        units += [
            Calculation(f"nu-{regime}-s{seed}", function, {}, (f"{regime}-s{seed}",))
            for regime in WATCHED
        ]
    return Plan(
        tuple(units),
        (*stands_in(request, "MNIST"), "50 units a layer instead of 100") if request.quick else (),
        (
            "squared loss, RMSprop 1e-4, batch 64, width 100, d = 5: chosen after the authors' "
            "notebook on the same two digits; the numbers are stripped from the text at hand",
            "ν is that of K = K^V + K^F on the first 100 training examples of each digit",
        ),
    )


def _config(request: Request) -> tuple[RunConfig, tuple[int, ...]]:
    epochs = request.epochs_or(60, 50)
    net = NetConfig("fc", (("width", 50 if request.quick else 100), ("depth", 5)))
    config = base(request, net, replace(data_of(request, "mnist"), binary=(4, 7)), epochs)
    training = TrainingConfig("squared", "rmsprop", 1e-4, batch=64, epochs=epochs)
    kept = tuple(range(0, epochs + 1, max(1, epochs // 10)))
    return replace(config, training=training), kept


def nu_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """ν of the whole tangent kernel at each stage, float64."""
    (folder,) = work.needs.values()
    stages = Stages(folder, PER_CLASS)
    found: dict[str, list[float]] = {"epochs": [], "nu": []}
    targets = class_targets(stages.y, stages.classes)
    for epoch, network in stages:
        trained = next(network.feature.parameters()).requires_grad
        kernels = tangent_kernels(network, stages.x, logits="mean", feature_trained=trained)
        whole = kernels.value if kernels.feature is None else kernels.value + kernels.feature
        found["epochs"].append(epoch)
        found["nu"].append(spectrum(whole.detach(), targets).nu or math.nan)
    return found


def findings(request: Request, results: UnitResults) -> Findings:
    """Accuracies of the six, and ν of frozen against adaptive gates."""
    seeds = range(request.seeds_or(3, 5))
    cells = {
        label: [results.trained(f"{regime}-s{seed}") for seed in seeds]
        for label, regime in REGIMES.items()
    }
    nus = {
        regime: [results.calculated(f"nu-{regime}-s{seed}") for seed in seeds] for regime in WATCHED
    }
    epochs = nus["DL"][0]["epochs"]
    rows = [row_of(label, runs) for label, runs in cells.items()]
    words = {"FR-II": "frozen gates", "DL": "adaptive gates"}
    rows += [
        Row(
            f"ν of K at the end, {words[regime]}",
            tuple(c["nu"][-1] for c in curves),
            unit="",
            epochs=epochs[-1],
            seconds=results.seconds_of(*(f"nu-{regime}-s{seed}" for seed in seeds)),
        )
        for regime, curves in nus.items()
    ]
    lines = tuple(
        averaged(words[regime], epochs, [c["nu"] for c in curves]) for regime, curves in nus.items()
    )
    figure = Figure("nu", "ν of the tangent kernel", "epoch", "ν", lines, log_y=True)
    return Findings(tuple(rows), tuple(_claims(request, cells, nus)), (figure,))


def _claims(
    request: Request, cells: dict[str, list[TrainedRun]], nus: dict[str, list[dict[str, Any]]]
) -> Iterator[Claim]:
    frozen = cells["GaLU, frozen gates"]
    for label in ("soft-GaLU", "soft-ReLU", "ReLU", "GaLU, learnt gates"):
        yield judge(
            request,
            claim("dgn-5"),
            f"{label} − frozen gates",
            gaps(cells[label], frozen),
            "above",
            0.0,
        )
    ratios = [
        max(math.log10(a / f) for a, f in zip(adaptive["nu"][1:], still["nu"][1:], strict=True))
        for adaptive, still in zip(nus["DL"], nus["FR-II"], strict=True)
    ]
    yield judge(
        request,
        claim("dgn-6"),
        "largest log10 ν adaptive/frozen after the start",
        ratios,
        "below",
        0.0,
    )


EXPERIMENT = Experiment(
    title="Gates that adapt against frozen ones",
    paper="[DGN] Figures 6 to 8",
    about="Two digits under six kinds of gates, and ν of the tangent kernel.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=0.3,
    claims=("dgn-5", "dgn-6"),
)
