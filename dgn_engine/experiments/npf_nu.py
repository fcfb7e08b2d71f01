"""[NPF] Figure 2, middle: ν of the neural path kernel falls while a ReLU network is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dgn_engine.config import TrainingConfig
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import below, judge
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
)
from dgn_engine.experiments._experiment import NOTEBOOKS
from dgn_engine.experiments._grid import (
    LOG_BAND,
    Grid,
    calculation_unit,
    mean_line,
    start_and_end,
    training_unit,
)
from dgn_engine.experiments._kept_networks import KeptNetworks, nu_of, nu_remarks
from dgn_engine.experiments._power import Design
from dgn_engine.kernels import class_targets, neural_path_kernel
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults

PER_CLASS = 100
SEEDS = (3, 5)
EXPECTED = Design(-0.18, 0.02, "a pilot of 5 other seeds, d = 5, 2026-11; the paper shows a curve")
KERAS_RHO = 0.9  # ρ of RMSprop: Keras' default, used in the notebooks


def plan(request: Request) -> Plan:
    """Plan one ReLU network on two digits per seed, and ν at its kept epochs."""
    depth = 6 if request.protocol == "as-in-code" else 5
    width = 50 if request.quick else 100
    epochs = request.epochs_or(60, 50)
    data = replace(data_of(request, "mnist"), binary=(4, 7))
    config = paper_config(request, dense_net_config(width, depth), data, epochs)
    # ±√(2/w) in every layer, without biases, as in the notebook.
    net = replace(
        dense_net_config(width, depth), bias=False, init="bernoulli", sigma=math.sqrt(2 / width)
    )
    every = tuple(range(0, epochs + 1, max(1, epochs // 25)))
    settings = TrainingConfig(
        "squared", "rmsprop", 1e-4, batch=64, epochs=epochs, keep_epochs=every, smoothing=KERAS_RHO
    )
    config = replace(config, net=net, training=settings)
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        run = training_unit(config, "ReLU", seed, "relu")
        units += [run, calculation_unit(f"nu-s{seed}", nu_of_stages, run)]
    return Plan(
        tuple(units),
        (*data_substitution(request, "MNIST"), "50 units a layer instead of 100"),
        (
            f"d = {depth} (5 in the text, 6 in the authors' code)",
            "the network is trained on all images of both digits; ν is computed on the first "
            f"{PER_CLASS} of each, as in the authors' code",
            "±√(2/w) in every layer, RMSprop 1e-4 with Keras' ρ = 0.9, batch 64, 50 epochs: from "
            "the authors' code, not in the paper. Not reproduced: their single step on one image "
            "before the first epoch, and Keras' ε of 1e-7 (here 1e-8)",
        ),
        epochs_from=NOTEBOOKS,
    )


def nu_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """Return ν = yᵀĤ⁻¹y at each kept epoch, where Ĥ = H/trace H, in float64.

    Also the rank of Ĥ, its cutoff and the energy of the targets outside its range.
    """
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, int(work.arguments.get("per_class", PER_CLASS)))
    curves: dict[str, list[float]] = {"epochs": []}
    targets = class_targets(networks.y, networks.classes)
    for epoch, network in networks:
        gates = network.trace(networks.x).value.gates
        kernel = neural_path_kernel(network.architecture, gates, networks.x)
        curves["epochs"].append(epoch)
        for name, number in nu_of(kernel, targets).items():
            curves.setdefault(name, []).append(number)
    return curves


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    nus, runs = grid.read_calculated("nu"), grid.read_trained("relu")
    rows = tuple(start_and_end("ν of H", nus["nu"], nus, runs))
    line = mean_line("ν of the NPK", nus["epochs"][0], nus["nu"], log=True)
    title = "ν of the neural path kernel while training"
    figure = Figure("nu", title, "epoch", "ν", (line,), log_y=True, note=LOG_BAND)
    remarks = nu_remarks("H", nus.results, 2 * PER_CLASS)
    falls = below([_log_nu_change(curve["nu"]) for curve in nus.results])
    statistic = "log10 ν: mean of the last fifth of the epochs minus that of the first"
    judged = judge("npf-4", statistic, falls, design=EXPECTED)
    return Findings(rows, (judged,), (figure,), remarks)


def _log_nu_change(nu: Sequence[float]) -> float:
    """Return the change of log10 ν over a run, from the first to the last fifth of the epochs."""
    logs = [math.log10(value) for value in nu]
    part = max(1, len(logs) // 5)
    return (sum(logs[-part:]) - sum(logs[:part])) / part


EXPERIMENT = Experiment(
    question="Does the path kernel come to fit the labels during training?",
    title="ν of the neural path kernel falls",
    paper="[NPF] Figure 2 (middle)",
    about="yᵀĤ⁻¹y of the path kernel while a ReLU network is trained on two digits.",
    plan=plan,
    findings=findings,
    quick_minutes=0.12,
    full_hours=0.0083,
    claims=("npf-4",),
    protocols=("as-published", "as-in-code"),
)
