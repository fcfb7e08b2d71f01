"""Kernels as predictors: ridge regression with H, K, K^(d) and the CNTK (THEORY §7)."""

from __future__ import annotations

import torch
from torch import Tensor

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Findings, Row
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._stages import Stages
from dgn_engine.experiments._training import base, data_of, row_of, trained_with, under
from dgn_engine.kernels import (
    class_targets,
    convolutional_limit,
    input_gram,
    kernel_regression,
    neural_path_kernel,
    relu_limit,
    tangent_kernels,
)
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training, Unit
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.kernel_ridge"
DEPTH, RIDGE, SHARE = 5, 1e-3, 0.75
_KERNELS = {
    "gram": "Σ, the inputs alone",
    "npk_start": "H at the start (random gates)",
    "npk_end": "H after training (learnt gates)",
    "ntk_start": "K at the start",
    "ntk_end": "K after training",
    "limit": "K^(d), infinite width",
    "cntk": "CNTK, 3 convolutions + pooling",
}


def plan(request: Request) -> Plan:
    """A ReLU network for each seed, and regression with the kernels of its first and last stage."""
    config = _config(request)
    per_class, images = (60, 20) if request.quick else (200, 40)
    units: list[Unit] = []
    for seed in range(request.seeds_or(3, 5)):
        run = Training(f"relu-s{seed}", under(config, "ReLU", seed))
        function = f"{HERE}:regressions"
        given = {"seed": seed, "per_class": per_class}
        units += [run, Calculation(f"ridge-s{seed}", function, given, (run.id,))]
        given = {"seed": seed, "per_class": images}
        units.append(Calculation(f"cntk-s{seed}", f"{HERE}:convolutional", given, (run.id,)))
    return Plan(
        tuple(units),
        (
            *stands_in(request, "MNIST"),
            f"{per_class} examples a class ({images} for the CNTK) instead of 200 (40)",
        )
        if request.quick
        else (),
        (
            f"three quarters of these examples fit, the rest score; ridge {RIDGE:g} of the mean "
            "eigenvalue; one-versus-rest targets of ±1",
            "no number is printed but Arora et al.'s 77.43 % of the CNTK on all of CIFAR-10",
        ),
    )


def _config(request: Request) -> RunConfig:
    net = NetConfig("fc", (("width", 64 if request.quick else 128), ("depth", DEPTH)))
    epochs = request.epochs_or(30, 20)
    config = base(request, net, data_of(request, "mnist"), epochs)
    return trained_with(config, keep_epochs=(0, epochs))


def regressions(work: CalculationInputs) -> dict[str, float]:
    """Held-out accuracy (0…1) of each dense kernel."""
    (folder,) = work.needs.values()
    stages = Stages(folder, work.arguments["per_class"])
    x, seed = stages.x, work.arguments["seed"]
    kernels: dict[str, Tensor] = {"gram": input_gram(x)}
    for (_, network), when in zip(stages, ("start", "end"), strict=True):
        gates = network.trace(x).value.gates
        kernels[f"npk_{when}"] = neural_path_kernel(network.architecture, gates, x)
        kernels[f"ntk_{when}"] = tangent_kernels(network, x).value
    kernels["limit"] = relu_limit(x, DEPTH).averaged
    return {name: _accuracy(kernel, stages.y, seed) for name, kernel in kernels.items()}


def convolutional(work: CalculationInputs) -> dict[str, float]:
    """Held-out accuracy of the CNTK, and of K^(d) on the same few images."""
    (folder,) = work.needs.values()
    stages = Stages(folder, work.arguments["per_class"])
    side = round(stages.x[0].numel() ** 0.5)
    images = stages.x.reshape(-1, 1, side, side)
    convs = (Conv(1, 8), Conv(8, 8), Conv(8, 8))
    architecture = Architecture(
        (1, side, side), (*convs, GlobalAveragePool(), Dense(8, 10, gated=False))
    )
    seed = work.arguments["seed"]
    return {
        "cntk": _accuracy(convolutional_limit(architecture, images).tangent, stages.y, seed),
        "limit": _accuracy(relu_limit(stages.x, DEPTH).averaged, stages.y, seed),
    }


def _accuracy(kernel: Tensor, labels: Tensor, seed: int) -> float:
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    cut = int(SHARE * len(labels))
    targets = class_targets(labels, int(labels.max()) + 1)
    fitted = kernel_regression(kernel.detach(), targets, order[:cut], order[cut:], RIDGE)
    return fitted.accuracy


def findings(request: Request, results: UnitResults) -> Findings:
    """Every predictor beside the network itself."""
    seeds = range(request.seeds_or(3, 5))
    dense = [results.calculated(f"ridge-s{seed}") for seed in seeds]
    maps = [results.calculated(f"cntk-s{seed}") for seed in seeds]
    fitted = results.seconds_of(*(f"ridge-s{seed}" for seed in seeds))
    mapped = results.seconds_of(*(f"cntk-s{seed}" for seed in seeds))
    rows = [
        row_of(
            "ReLU network, all training examples",
            [results.trained(f"relu-s{seed}") for seed in seeds],
        )
    ]
    for name, label in _KERNELS.items():
        found = maps if name == "cntk" else dense
        seconds = mapped if name == "cntk" else fitted
        rows.append(Row(label, tuple(100 * c[name] for c in found), seconds=seconds))
    few = tuple(100 * c["limit"] for c in maps)
    rows.append(Row("K^(d) on the CNTK's fewer examples", few, seconds=mapped))
    return Findings(
        tuple(rows),
        (),
        (),
        ("The kernels see far fewer examples than the network: compare them with each other.",),
    )


EXPERIMENT = Experiment(
    title="Kernels as predictors",
    paper="[NPF] §5, [DUAL], Arora et al. 2019",
    about="Ridge regression with the kernels before and after training.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=1.0,
)
