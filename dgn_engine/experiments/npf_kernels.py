"""[NPF] Figure 2, right: in decoupled learning, K^V and K^F have the same scale."""

from __future__ import annotations

import math
from typing import Any

import torch

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import below, judge
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
    with_training,
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
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.experiments._power import Design
from dgn_engine.kernels import tangent_kernels
from dgn_engine.sweep.statistics import POSITIVE
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults

PER_CLASS = 20
SEEDS = (3, 5)
DEPTH = 6
NUMBERS = {"trace": "trace", "norm": "Frobenius norm"}
EXPECTED = Design(
    0.5, 0.1, "a factor of three (half a decade); spread larger than in pilots, d = 5 and 6"
)
PARTS = {"value": "K^V", "feature": "K^F"}


def plan(request: Request) -> Plan:
    """Plan one DL network per seed, and its two kernels at the kept epochs."""
    net = dense_net_config(64 if request.quick else 128, DEPTH)
    epochs = request.epochs_or(30, 60)
    config = paper_config(request, net, data_of(request, "mnist"), epochs)
    if request.protocol == "as-in-code":
        config = with_training(config, optimiser="sgd", learning_rate=1e-2)
    config = with_training(config, keep_epochs=tuple(range(0, epochs + 1, max(1, epochs // 12))))
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        run = training_unit(config, "DL", seed, "dl")
        units += [run, calculation_unit(f"kernels-s{seed}", kernels_of_stages, run)]
    return Plan(
        tuple(units),
        (*data_substitution(request, "MNIST"), "64 units a layer instead of 128"),
        (
            f"d = {DEPTH}; the kernels are averaged over the ten logits",
            "the paper gives neither optimiser nor epochs: Adam 3e-4 as in its other experiments; "
            "SGD 1e-2 in the authors' code, from which the 60 epochs are taken",
            "the authors' notebook differentiates the sum of the softmax outputs, which is 1, so "
            "its kernels are rounding noise and are not used for comparison",
        ),
        epochs_from=NOTEBOOKS,
    )


def kernels_of_stages(work: CalculationInputs) -> dict[str, Any]:
    """Return trace and Frobenius norm of K^V and K^F at each kept epoch, in float64.

    The examples are the first 20 of each class by default.
    """
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, int(work.arguments.get("per_class", PER_CLASS)))
    epochs: list[int] = []
    rows: list[torch.Tensor] = []  # kept on the device, to synchronise only once
    for epoch, network in networks:
        kernels = tangent_kernels(network, networks.x, logits="mean")
        epochs.append(epoch)
        assert kernels.value is not None
        assert kernels.feature is not None
        numbers = [
            number
            for kernel in (kernels.value.detach(), kernels.feature.detach())
            for number in (kernel.trace(), torch.linalg.matrix_norm(kernel))
        ]
        rows.append(torch.stack(numbers))
    names = [f"{name}_{part}" for part in PARTS for name in NUMBERS]
    curves = torch.stack(rows).T.tolist()
    return {"epochs": epochs, **dict(zip(names, curves, strict=True))}


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    kernels, runs = grid.read_calculated("kernels"), grid.read_trained("dl")
    epochs = kernels["epochs"][0]
    rows = tuple(
        row
        for name in NUMBERS
        for part, kernel in PARTS.items()
        for row in start_and_end(f"{name} of {kernel}", kernels[f"{name}_{part}"], kernels, runs)
    )
    judged = tuple(
        judge(
            "npf-5",
            f"largest |log10 K^V/K^F| of the {name} over the epochs",
            below([_largest_log_ratio(result, name) for result in kernels.results], 1.0, POSITIVE),
            design=EXPECTED,
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
                mean_line(kernel, epochs, kernels[f"{name}_{part}"], log=True)
                for part, kernel in PARTS.items()
            ),
            log_y=True,
            note=LOG_BAND,
        )
        for name, title in NUMBERS.items()
    )
    return Findings(rows, judged, figures)


def _largest_log_ratio(curve: dict[str, list[float]], name: str) -> float:
    """Return the largest |log10 ratio| over the epochs of a run.

    Noise can only increase a maximum of absolute values, so that testing it against an upper bound
    is conservative.
    """
    pairs = zip(curve[f"{name}_value"], curve[f"{name}_feature"], strict=True)
    return max(abs(math.log10(value / feature)) for value, feature in pairs)


EXPERIMENT = Experiment(
    question="Do values and gates contribute to training on one scale?",
    title="K^V and K^F have the same scale",
    paper="[NPF] Figure 2 (right)",
    about="Value and feature tangent kernels while both networks are trained (DL).",
    plan=plan,
    findings=findings,
    quick_minutes=0.13,
    full_hours=0.091,
    claims=("npf-5",),
    protocols=("as-published", "as-in-code"),
)
