"""[NPF] Figure 2: in decoupled learning K^V and K^F are of one scale."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from dgn_engine.config import NetConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._stages import Stages
from dgn_engine.experiments._training import base, data_of, under
from dgn_engine.kernels import tangent_kernels
from dgn_engine.statistics import POSITIVE
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training, Unit
from dgn_engine.sweep.unit_results import UnitResults

PER_CLASS = 20
NUMBERS = ("trace", "norm")


def plan(request: Request) -> Plan:
    """One DL network for each seed, and its two kernels at the kept stages."""
    units: list[Unit] = []
    depth = 6 if request.protocol == "as-in-code" else 5
    net = NetConfig("fc", (("width", 64 if request.quick else 128), ("depth", depth)))
    epochs = request.epochs_or(30, 60)
    config = base(request, net, data_of(request, "mnist"), epochs)
    every = tuple(range(0, epochs + 1, max(1, epochs // 12)))
    config = replace(config, training=replace(config.training, keep_epochs=every))
    for seed in range(request.seeds_or(3, 5)):
        run = Training(f"dl-s{seed}", under(config, "DL", seed))
        function = "dgn_engine.experiments.npf_kernels:kernels_of_stages"
        units += [run, Calculation(f"kernels-s{seed}", function, {}, (run.id,))]
    return Plan(
        tuple(units),
        (*stands_in(request, "MNIST"), "64 units a layer instead of 128") if request.quick else (),
        (
            f"d = {depth}; the kernels are those of the logits, trace over logits divided by ten",
            "the authors' notebook differentiates the sum of the softmax outputs, which is 1: "
            "its kernels are rounding noise and cannot be compared with",
        ),
    )


def kernels_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """Trace and Frobenius norm of K^V and K^F on the first 20 examples of each class, float64."""
    (folder,) = work.needs.values()
    stages = Stages(folder, PER_CLASS)
    found: dict[str, list[float]] = {"epochs": []}
    for epoch, network in stages:
        kernels = tangent_kernels(network, stages.x, logits="mean")
        found["epochs"].append(epoch)
        assert kernels.feature is not None
        for part, kernel in (("value", kernels.value), ("feature", kernels.feature)):
            numbers = float(kernel.trace()), float(torch.linalg.matrix_norm(kernel))
            for name, number in zip(NUMBERS, numbers, strict=True):
                found.setdefault(f"{name}_{part}", []).append(number)
    return found


def findings(request: Request, results: UnitResults) -> Findings:
    """Both kernels over the epochs, and the largest ratio of their sizes."""
    seeds = range(request.seeds_or(3, 5))
    curves = [results.calculated(f"kernels-s{seed}") for seed in seeds]
    trained = sum(results.trained(f"dl-s{seed}").seconds for seed in seeds)
    measured = results.seconds_of(*(f"kernels-s{seed}" for seed in seeds), default=0.0)
    epochs = curves[0]["epochs"]
    rows = [
        Row(
            f"{name} of K^{part[0].upper()} {when}",
            tuple(c[f"{name}_{part}"][place] for c in curves),
            unit="",
            epochs=epochs[place],
            seconds=measured + (trained if place else 0.0),
        )
        for name in NUMBERS
        for part in ("value", "feature")
        for when, place in (("at the start", 0), ("at the end", -1))
    ]
    judged = tuple(
        judge(
            request,
            claim("npf-5"),
            f"largest |log10 K^V/K^F| of the {name} over the epochs",
            [_largest(c, name) for c in curves],
            "below",
            1.0,
            bounds=POSITIVE,
        )
        for name in NUMBERS
    )
    figures = tuple(
        Figure(
            name,
            f"{title} of both kernels in decoupled learning",
            "epoch",
            title,
            tuple(
                averaged(label, epochs, [c[f"{name}_{part}"] for c in curves])
                for part, label in (("value", "K^V"), ("feature", "K^F"))
            ),
            log_y=True,
        )
        for name, title in (("trace", "trace"), ("norm", "Frobenius norm"))
    )
    return Findings(tuple(rows), judged, figures)


def _largest(curve: dict[str, list[float]], name: str) -> float:
    pairs = zip(curve[f"{name}_value"], curve[f"{name}_feature"], strict=True)
    return max(abs(math.log10(value / feature)) for value, feature in pairs)


EXPERIMENT = Experiment(
    title="K^V and K^F are of one scale",
    paper="[NPF] Figure 2 (right)",
    about="Value and feature tangent kernel while both networks are trained (DL).",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=0.8,
    claims=("npf-5",),
    protocols=("as-published", "as-in-code"),
)
