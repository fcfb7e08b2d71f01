"""Ridge regression with H, K, K^(d) and the CNTK, and SVMs with H, as predictors (theory §7)."""

from __future__ import annotations

import torch
from torch import Tensor

from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
    with_training,
)
from dgn_engine.experiments._grid import Grid, calculation_unit, training_unit
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.kernels import (
    class_targets,
    convolutional_limit,
    input_gram,
    kernel_regression,
    kernel_svm,
    neural_path_kernel,
    relu_limit,
    tangent_kernels,
)
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults

DEPTH, RIDGE, SHARE = 5, 1e-3, 0.75
PENALTY = 1.0  # of the support vector machines
SEEDS = (3, 5)
_KERNELS = {
    "gram": "Σ, the inputs alone",
    "npk_start": "H at the start (random gates)",
    "npk_end": "H after training (learnt gates)",
    "svm_start": "H at the start, SVM",
    "svm_end": "H after training, SVM",
    "ntk_start": "K at the start",
    "ntk_end": "K after training",
    "limit": "K^(d), infinite width",
    "cntk": "CNTK, 3 convolutions + pooling",
}


def plan(request: Request) -> Plan:
    """Plan a ReLU network per seed, and regressions with its initial and final kernels."""
    epochs = request.epochs_or(30, 20)
    net = dense_net_config(64 if request.quick else 128, DEPTH)
    config = paper_config(request, net, data_of(request, "mnist"), epochs)
    config = with_training(config, keep_epochs=(0, epochs))
    few, images = (60, 20) if request.quick else (200, 40)
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        run = training_unit(config, "ReLU", seed, "relu")
        units += [
            run,
            calculation_unit(f"ridge-s{seed}", regressions, run, seed=seed, per_class=few),
            calculation_unit(f"cntk-s{seed}", convolutional, run, seed=seed, per_class=images),
        ]
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "MNIST"),
            f"{few} examples per class ({images} for the CNTK) instead of 200 (40)",
        ),
        (
            f"three quarters of these examples are used to fit, the rest to score; ridge {RIDGE:g} "
            "times the mean eigenvalue; one-versus-rest targets of ±1",
            f"support vector machines (SVM) use C = {PENALTY:g} and a mean diagonal of 1, as "
            "baselines of Yadav et al. 2024 (arXiv:2404.04312)",
            "the only published number is the 77.43 % of the CNTK on all of CIFAR-10 (Arora et "
            "al.)",
        ),
    )


def regressions(work: CalculationInputs) -> dict[str, float]:
    """Compute the held-out accuracy (0…1) of each dense kernel."""
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, work.arguments["per_class"])
    x, seed = networks.x, work.arguments["seed"]
    kernels: dict[str, Tensor] = {"gram": input_gram(x)}
    for (_, network), when in zip(networks, ("start", "end"), strict=True):
        gates = network.trace(x).value.gates
        kernels[f"npk_{when}"] = neural_path_kernel(network.architecture, gates, x)
        kernels[f"ntk_{when}"] = tangent_kernels(network, x).total_kernel
    kernels["limit"] = relu_limit(x, DEPTH).average_kernel
    found = {name: _held_out_accuracy(kernel, networks.y, seed) for name, kernel in kernels.items()}
    for when in ("start", "end"):
        parts = _split_examples(networks.y, seed)
        fitted = kernel_svm(kernels[f"npk_{when}"].detach(), *parts, penalty=PENALTY)
        found[f"svm_{when}"] = fitted.accuracy
    return found


def convolutional(work: CalculationInputs) -> dict[str, float]:
    """Compute the held-out accuracy (0…1) of the CNTK, and of K^(d) on the same images."""
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, work.arguments["per_class"])
    side = round(networks.x[0].numel() ** 0.5)
    images = networks.x.reshape(-1, 1, side, side)
    convs = (Conv(1, 8), Conv(8, 8), Conv(8, 8))
    architecture = Architecture(
        (1, side, side), (*convs, GlobalAveragePool(), Dense(8, 10, gated=False))
    )
    seed = work.arguments["seed"]
    return {
        "cntk": _held_out_accuracy(
            convolutional_limit(architecture, images).tangent, networks.y, seed
        ),
        "limit": _held_out_accuracy(relu_limit(networks.x, DEPTH).average_kernel, networks.y, seed),
    }


def _held_out_accuracy(kernel: Tensor, labels: Tensor, seed: int) -> float:
    return kernel_regression(kernel.detach(), *_split_examples(labels, seed), RIDGE).accuracy


def _split_examples(labels: Tensor, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return targets, and the examples to fit and to score."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    cut = int(SHARE * len(labels))
    return class_targets(labels, int(labels.max()) + 1), order[:cut], order[cut:]


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    fitted, mapped = grid.read_calculated("ridge"), grid.read_calculated("cntk")
    rows = [grid.read_trained("relu").row("ReLU network, all training examples")]
    for name, label in _KERNELS.items():
        cell = mapped if name == "cntk" else fitted
        rows.append(cell.row(label, [100 * value for value in cell[name]], unit="%"))
    limit = [100 * value for value in mapped["limit"]]
    rows.append(mapped.row("K^(d) on the CNTK's fewer examples", limit, unit="%"))
    remark = "The kernels use far fewer examples than the network; compare them with each other."
    return Findings(tuple(rows), remarks=(remark,))


EXPERIMENT = Experiment(
    question="How well do the kernels predict without the network?",
    title="Kernels as predictors",
    paper="[NPF], [DUAL], Arora et al. 2019, [HALF]",
    about="Ridge regression with the kernels before and after training, SVMs with H.",
    plan=plan,
    findings=findings,
    quick_minutes=0.19,
    full_hours=0.44,
)
