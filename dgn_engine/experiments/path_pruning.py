"""Gonon et al. 2025 (arXiv:2405.15006): pruning by the sum over the paths through a weight, which
rescaling of hidden units does not change, against pruning by its magnitude."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import NetConfig
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import Sample, above, at_most, judge, within
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    paper_config,
    with_training,
)
from dgn_engine.experiments._grid import (
    BAND,
    Grid,
    calculation_unit,
    mean_line,
    training_unit,
)
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._test_set_error import one_image, paired_variance
from dgn_engine.kernels.path_norms import PathWeights, sums_through_weights
from dgn_engine.model.architecture import Dense, Fork
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.training.device_data import DeviceData

SHARES = (0.4, 0.6, 0.8)  # of the weights that are pruned, as printed
FACTORS = (1.0, 128.0, 4096.0)  # of a hidden unit in a block; powers of two, so exact
KINDS = {"path": "path magnitude", "magnitude": "magnitude", "rescaled": "magnitude, rescaled"}
SEEDS = (5, 10)
MATCHED = 0.4  # share at which the criteria shall be equal; at 0.8 the authors' are not
MARGIN = 1.0  # points
BATCH, RATE = 64, 3e-4  # of the fine-tuning, by Adam
_PILOT = "a pilot of 5 other seeds at the quick scale, 2026-11"
MATCHES = Design(-0.23, 0.32, f"printed for ImageNet; spread from {_PILOT}", test_variance=0.01)
BETTER = {
    share: Design(points, spread, f"printed for ImageNet; spread from {_PILOT}")
    for share, points, spread in ((0.4, 6.47, 1.05), (0.6, 9.3, 6.4), (0.8, 64.8, 6.5))
}


def plan(request: Request) -> Plan:
    """Plan a residual ReLU network per seed, and its pruning by every criterion."""
    width, epochs, tuning = (64, 20, 5) if request.quick else (128, 20, 5)
    net = NetConfig("resnet_fc", (("blocks", 3), ("depth", 2), ("width", width)))
    epochs = request.epochs_or(epochs, epochs)
    config = paper_config(request, net, data_of(request, "mnist"), epochs)
    config = with_training(config, keep_epochs=(epochs,))
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        run = training_unit(config, "ReLU", seed, "relu")
        tuned = min(tuning, epochs)
        units += [run, calculation_unit(f"prune-s{seed}", prune, run, seed=seed, epochs=tuned)]
    return Plan(
        tuple(units),
        (*data_substitution(request, "MNIST"), f"{width} units a layer instead of 128"),
        (
            "the authors prune a ResNet-18 on ImageNet; here three residual blocks of two dense "
            "layers on MNIST",
            "all weight matrices are pruned together, and the rest is fine-tuned for "
            f"{tuning} epochs (Adam {RATE:g}, batch {BATCH}) from the weights as they were "
            "trained: rescaling decides only which weights are kept",
            "hidden units in blocks are rescaled by 1, 128 or 4096 at random, as in the authors' "
            "code",
            f"path magnitude is to equal magnitude within {MARGIN:g} point at "
            f"{100 * MATCHED:g} % pruned; at 80 % the authors' own difference is −2.4",
            "it is compared with magnitude after rescaling at all shares that the authors print, "
            "not at 80 % alone as at first: for one seed of MNIST, trained for one epoch, it was "
            "0.1 points better at 40 %, but 3.5 worse at 60 % and 66 worse at 80 %",
        ),
    )


def prune(work: CalculationInputs) -> dict[str, Any]:
    """Prune and fine-tune one network by each criterion.

    Returns the number of test examples, the wrong answers (indices) without pruning and by
    criterion and share, the shares of the input weights that are kept, and the largest share of
    weights for which rescaling changes whether they are pruned by path magnitude.
    """
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, 1)
    ((_, network),) = tuple(networks)
    seed, data = work.arguments["seed"], networks.data
    weights = PathWeights.from_stack(network.value)
    scaled = rescale_blocks(weights, seed)
    scores = {
        "path": sums_through_weights(weights),
        "magnitude": tuple(weight.abs() for weight in weights.weights),
        "rescaled": tuple(weight.abs() for weight in scaled.weights),
    }
    again = sums_through_weights(scaled)
    differing = [
        float(torch.cat([(a != b).flatten() for a, b in zip(*pair, strict=True)]).double().mean())
        for pair in ((keep_largest(scores["path"], s), keep_largest(again, s)) for s in SHARES)
    ]
    network.float()
    wrong = {
        kind: [
            fine_tune(network, weights, keep_largest(of_kind, share), data, seed, work)
            for share in SHARES
        ]
        for kind, of_kind in scores.items()
    }
    whole = tuple(torch.ones_like(weight) for weight in weights.weights)
    load_masked(network, weights, whole)
    return {
        "examples": len(data.test_y),
        "whole": wrong_answers(network, data),
        "wrong": wrong,
        "inputs": {
            kind: [float(keep_largest(of_kind, share)[0].mean()) for share in SHARES]
            for kind, of_kind in scores.items()
        },
        "differing": max(differing),
    }


def rescale_blocks(weights: PathWeights, seed: int) -> PathWeights:
    """Rescale the hidden units between the two layers of each block at random."""
    generator = random_stream("rescaling", seed)
    changed = list(weights.weights)
    layer = -1
    nodes = weights.architecture.nodes
    for before, node in zip((None, *nodes), nodes, strict=False):
        layer += isinstance(node, Dense)
        if isinstance(before, Fork):
            drawn = torch.randint(0, len(FACTORS), (len(changed[layer]),), generator=generator)
            factor = torch.tensor(FACTORS, dtype=torch.float64)[drawn].to(changed[layer].device)
            changed[layer] = changed[layer] * factor[:, None]
            changed[layer + 1] = changed[layer + 1] / factor
    return PathWeights(weights.architecture, tuple(changed), weights.biases)


def keep_largest(scores: Sequence[Tensor], share: float) -> tuple[Tensor, ...]:
    """Return 1 for the weights that are kept, 0 for the `share` with the smallest scores."""
    flat = torch.cat([score.flatten() for score in scores])
    kept = torch.ones_like(flat)
    kept[flat.argsort(stable=True)[: round(share * len(flat))]] = 0.0
    parts = torch.split(kept, [score.numel() for score in scores])
    return tuple(part.reshape(score.shape) for part, score in zip(parts, scores, strict=True))


@torch.no_grad()
def load_masked(network: GatedNetwork, weights: PathWeights, masks: Sequence[Tensor]) -> None:
    """Load weights times their masks into the network."""
    for target, weight, mask in zip(network.value.weights, weights.weights, masks, strict=True):
        target.copy_(weight * mask)


def fine_tune(
    network: GatedNetwork,
    weights: PathWeights,
    masks: Sequence[Tensor],
    data: DeviceData,
    seed: int,
    work: CalculationInputs,
) -> list[int]:
    """Train the weights that are kept, and return the indices of the wrong test answers."""
    load_masked(network, weights, masks)
    generator = random_stream("fine-tuning", seed)
    parameters = list(network.value.weights)
    kept = [mask.float() for mask in masks]
    network.requires_grad_(False)
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimiser = torch.optim.Adam(parameters, RATE)
    for _ in range(work.arguments["epochs"]):
        order = torch.randperm(len(data.train_y), generator=generator).to(data.train_y.device)
        for rows in torch.split(order, BATCH):
            loss = torch.nn.functional.cross_entropy(
                network(data.train_x[rows].float()), data.train_y[rows]
            )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            with torch.no_grad():
                for parameter, mask in zip(parameters, kept, strict=True):
                    parameter.mul_(mask)
    return wrong_answers(network, data)


@torch.no_grad()
def wrong_answers(network: GatedNetwork, data: DeviceData) -> list[int]:
    """Return the indices of the test examples that are misclassified."""
    like = next(network.parameters())
    guesses = torch.cat(
        [network(x.to(like.dtype)).argmax(1) for x in torch.split(data.test_x, 1000)]
    )
    indices: list[int] = (guesses != data.test_y).nonzero()[:, 0].tolist()
    return indices


def findings(request: Request, results: UnitResults) -> Findings:
    """Return accuracies by criterion and share, and judge the three claims."""
    cell = Grid(results, request.seed_range(*SEEDS)).read_calculated("prune")
    correct = {
        (kind, share): [_correct(one["examples"], one["wrong"][kind][at]) for one in cell.results]
        for kind in KINDS
        for at, share in enumerate(SHARES)
    }
    whole = [_correct(one["examples"], one["whole"]) for one in cell.results]
    accuracy = {key: [_percent(mask) for mask in masks] for key, masks in correct.items()}
    rows = [cell.row("not pruned", [_percent(mask) for mask in whole], unit="%")]
    rows += [
        cell.row(f"{words}, {100 * share:g} % pruned", accuracy[kind, share], unit="%")
        for kind, words in KINDS.items()
        for share in SHARES
    ]
    rows += [
        cell.row(
            f"input weights kept, {words}, {100 * share:g} % pruned",
            [100 * inputs[kind][at] for inputs in cell["inputs"]],
            unit="%",
        )
        for kind, words in KINDS.items()
        for at, share in enumerate(SHARES)
    ]
    shares = [100 * share for share in SHARES]
    lines = tuple(
        mean_line(
            words,
            shares,
            [[accuracy[kind, share][at] for share in SHARES] for at in range(len(cell.results))],
        )
        for kind, words in KINDS.items()
    )
    figure = Figure(
        "pruned", "Accuracy after pruning", "pruned weights (%)", "test accuracy (%)", lines,
        note=BAND,
    )  # fmt: skip
    differing = max(cell["differing"], default=math.nan)
    judged = [
        judge(
            "paths-1",
            "largest share of weights that rescaling prunes or keeps instead, by path magnitude",
            at_most(differing, 0.0, len(cell.results), "networks"),
        ),
        judge(
            "paths-2",
            f"{100 * MATCHED:g} % pruned: accuracy, path magnitude − magnitude, points",
            within(_difference(correct, "path", "magnitude", MATCHED), MARGIN),
            design=MATCHES,
        ),
    ]
    judged += [
        judge(
            "paths-3",
            f"{100 * share:g} % pruned: accuracy, path magnitude − magnitude (rescaled), points",
            above(_difference(correct, "path", "rescaled", share)),
            design=BETTER[share],
        )
        for share in SHARES
    ]
    remark = (
        "The authors' results for ResNet-18 on ImageNet, 40, 60 and 80 % pruned: path magnitude "
        "68.9, 68.4, 64.9 %; magnitude 69.2, 68.6, 67.3 %; magnitude after rescaling 62.4, 59.1, "
        "0.1 %."
    )
    layers = (
        "Without skips, the paths through all weights of a layer add up to the same norm, so that "
        "path magnitude prunes most in the layer with the most weights, here that of the inputs; "
        "nor does it know which pixels are always zero."
    )
    return Findings(tuple(rows), tuple(judged), (figure,), (remark, layers))


def _correct(examples: int, wrong: Sequence[int]) -> Tensor:
    mask = torch.ones(examples, dtype=torch.float64)
    mask[torch.tensor(wrong, dtype=torch.int64)] = 0.0
    return mask


def _percent(mask: Tensor) -> float:
    return 100 * float(mask.mean())


def _difference(
    correct: dict[tuple[str, float], list[Tensor]], one: str, two: str, share: float
) -> Sample:
    """Return the difference of accuracies in points, with the error of the shared test set."""
    ours, theirs = correct[one, share], correct[two, share]
    values = tuple(_percent(a) - _percent(b) for a, b in zip(ours, theirs, strict=True))
    terms = [(1.0, [mask.numpy() for mask in ours]), (-1.0, [mask.numpy() for mask in theirs])]
    variance = max(paired_variance(terms), one_image(len(ours[0])))
    return Sample(values, test_variance=variance)


EXPERIMENT = Experiment(
    question="Which weights can go: small ones, or those on small paths?",
    title="Pruning by path magnitude",
    paper="[METRIC]",
    about="Pruning that does not depend on the scale of hidden units.",
    plan=plan,
    findings=findings,
    quick_minutes=0.3,
    full_hours=0.35,
    claims=("paths-1", "paths-2", "paths-3"),
)
