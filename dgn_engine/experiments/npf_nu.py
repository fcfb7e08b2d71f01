"""[NPF] Figure 2: ν of the neural path kernel falls while a ReLU network learns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from scipy.stats import spearmanr

from dgn_engine.config import NetConfig, TrainingConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._stages import Stages
from dgn_engine.experiments._training import base, data_of, under
from dgn_engine.kernels import class_targets, neural_path_kernel, spectrum
from dgn_engine.statistics import rank_correlation
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training, Unit
from dgn_engine.sweep.unit_results import UnitResults

PER_CLASS = 100


def plan(request: Request) -> Plan:
    """One ReLU network for each seed on two digits, and ν at its kept stages."""
    units: list[Unit] = []
    depth = 6 if request.protocol == "as-in-code" else 5
    width = 50 if request.quick else 100
    epochs = request.epochs_or(60, 50)
    net = NetConfig("fc", (("width", width), ("depth", depth)))
    config = base(request, net, replace(data_of(request, "mnist"), binary=(4, 7)), epochs)
    # ±√(2/w) in every layer, without biases: the notebook's own initialisation.
    net = replace(net, bias=False, init="bernoulli", sigma=math.sqrt(2 / width))
    every = tuple(range(0, epochs + 1, max(1, epochs // 25)))
    training = TrainingConfig(
        "squared", "rmsprop", 1e-4, batch=64, epochs=epochs, keep_epochs=every
    )
    config = replace(config, net=net, training=training)
    for seed in range(request.seeds_or(3, 5)):
        run = Training(f"relu-s{seed}", under(config, "ReLU", seed))
        function = "dgn_engine.experiments.npf_nu:nu_of_stages"
        units += [run, Calculation(f"nu-s{seed}", function, {}, (run.id,))]
    return Plan(
        tuple(units),
        (*stands_in(request, "MNIST"), "50 units a layer instead of 100") if request.quick else (),
        (
            f"d = {depth}: the text has 5, the authors' code 6",
            "the network is trained on all images of both digits, ν is taken on the first "
            f"{PER_CLASS} of each, as in the authors' code",
            "±√(2/w) in every layer, RMSprop 1e-4, batch 64 (authors' code); not printed",
        ),
    )


def nu_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """ν = yᵀĤ⁻¹y with Ĥ = H/trace H in float64, its rank, and the target's energy outside it."""
    (folder,) = work.needs.values()
    stages = Stages(folder, PER_CLASS)
    found: dict[str, list[float]] = {"epochs": [], "nu": [], "rank": [], "outside": []}
    targets = class_targets(stages.y, stages.classes)
    for epoch, network in stages:
        kernel = neural_path_kernel(
            network.architecture, network.trace(stages.x).value.gates, stages.x
        )
        seen = spectrum(kernel.detach(), targets)
        found["epochs"].append(epoch)
        found["nu"].append(seen.nu or math.nan)
        found["rank"].append(seen.rank)
        found["outside"].append(seen.outside or 0.0)
    return found


def findings(request: Request, results: UnitResults) -> Findings:
    """ν at the beginning and at the end, and the curve between."""
    seeds = range(request.seeds_or(3, 5))
    curves = [results.calculated(f"nu-s{seed}") for seed in seeds]
    trained = sum(results.trained(f"relu-s{seed}").seconds for seed in seeds)
    watched = results.seconds_of(*(f"nu-s{seed}" for seed in seeds), default=0.0)
    epochs = curves[0]["epochs"]
    rows = tuple(
        Row(
            label,
            tuple(c["nu"][place] for c in curves),
            unit="",
            epochs=epochs[place],
            seconds=watched + (trained if place else 0.0),
        )
        for label, place in (("ν of H at the start", 0), ("ν of H at the end", -1))
    )
    falls = [float(spearmanr(c["epochs"], c["nu"]).statistic) for c in curves]
    line = averaged("ν of the NPK", epochs, [c["nu"] for c in curves])
    figure = Figure(
        "nu", "ν of the neural path kernel while training", "epoch", "ν", (line,), log_y=True
    )
    judged = judge(
        request,
        claim("npf-4"),
        "Spearman of ν with the epoch",
        falls,
        "below",
        0.0,
        bounds=rank_correlation(len(epochs)),
    )
    rank = min(min(c["rank"]) for c in curves)
    remark = f"Smallest numerical rank of H: {rank:g} of {2 * PER_CLASS} (or of all examples)."
    return Findings(rows, (judged,), (figure,), (remark,))


EXPERIMENT = Experiment(
    title="ν of the neural path kernel falls",
    paper="[NPF] Figure 2 (left)",
    about="Two digits, squared loss: yᵀĤ⁻¹y of the path kernel while a ReLU network is trained.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.1,
    claims=("npf-4",),
    protocols=("as-published", "as-in-code"),
)
