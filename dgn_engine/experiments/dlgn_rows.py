"""[DUAL]: a deep linearly gated network (DLGN) keeps most of the accuracy of a DNN.

Three architectures as DNN (ReLU), DGN (DL) and DLGN (DL-linear): the value network of the DLGN sees
a constant 1 and uses the gates of its layers in a random order ("constant 1 input", "shuffled" in
arXiv:2203.16455). Our copy of the papers has no table of these networks, so that only the number
of the abstract is judged, A(DLGN)/A(DNN) > 83.5 %, by Fieller's interval (`_share_claims`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Claim, Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._accuracy_figures import plot_groups
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    paper_config,
    with_gating,
    with_training,
)
from dgn_engine.experiments._grid import Grid, TrainedCell, learning_curves, training_unit
from dgn_engine.experiments._share_claims import SharedGap, judge_share
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = {"DNN": "ReLU", "DGN": "DL", "DLGN": "DL-linear"}
SEEDS = (3, 5)
KEPT = 83.5  # percent of the DNN's accuracy, in the abstract
BETA = 10.0
IMAGES = (3, 32, 32)  # of CIFAR


@dataclass(frozen=True)
class _Network:
    """A row: an architecture, its size at both scales, and how it is trained.

    Attributes:
        row: Its label.
        net: The network plug-in.
        quick, full: Its options at both scales.
        batch, epochs: Those of the full scale.
    """

    row: str
    net: str
    quick: Mapping[str, int]
    full: Mapping[str, int]
    batch: int
    epochs: int

    def label(self, request: Request) -> str:
        """Return the label at the scale of a request."""
        return "ResNet-14" if request.quick and self.net == "resnet110" else self.row

    def cell(self, column: str) -> str:
        """Return the name of the cell of a column, in the results."""
        return f"{self.net}-{column}"


NETWORKS = (
    _Network("C4GAP", "cnn4", {"channels": 16}, {"channels": 128}, 32, 100),
    _Network("VGG-16", "vgg16", {"width": 4}, {"width": 64}, 128, 164),
    _Network(
        "ResNet-110", "resnet110", {"width": 4, "blocks": 2}, {"width": 16, "blocks": 18}, 128, 164
    ),
)
SHUFFLED = 0.5**0.5  # γ_pre of a ResNet whose gates in successive sums are independent
QUICK_EPOCHS, QUICK_STEP = 10, 3e-3


def plan(request: Request) -> Plan:
    """Plan the three columns of each row."""
    units = [
        unit
        for network in _chosen_networks(request)
        for seed in request.seed_range(*SEEDS)
        for unit in _seed_runs(request, network, seed)
    ]
    return Plan(
        tuple(units),
        (
            *data_substitution(request, "CIFAR-10"),
            "16 instead of 128 channels (C4GAP), a width of 4 instead of 64 (VGG-16), ResNet-14 "
            "with a width of 4 instead of ResNet-110 with 16",
            "Adam's learning rate is 3e-3 instead of 3e-4, and the batch 32 for all",
        ),
        (
            "VGG-16 and ResNet-110 have BatchNorm in the network that makes the gates; the value "
            "network of a pair has a learnable γ per channel instead, no biases and no statistics, "
            "so that it stays linear in the path features",
            "VGG-16 pools by means and has one dense layer, as maxima would be gates of their own; "
            "ResNet-110 has 1×1 convolutions in the two skips that change the width",
            "without BatchNorm the value network of ResNet-110 needs a factor γ_pre of its "
            "branches: 0.3 with gates in order (DNN and DGN), 1/√2 with shuffled ones (DLGN), for "
            "logits of order 1 at initialisation",
            "the DGN sees the image, with the gates in order; the DLGN sees ones, with the gate "
            "layers of equal shape in a random order, drawn by the seed",
            "Adam 3e-4 for all; C4GAP is trained as the CNN of duality-48, VGG-16 and ResNet-110 "
            "with batch 128 for the 64,000 steps of He et al. 2015 (§4.2), without their schedule "
            "and weight decay; the accuracy of a run is its best test accuracy",
        ),
    )


def _chosen_networks(request: Request) -> list[_Network]:
    return [network for network in NETWORKS if request.only in network.row]


def _seed_runs(request: Request, network: _Network, seed: int) -> Iterator[Training]:
    config = _build_config(request, network)
    for column, regime in REGIMES.items():
        own = regime == "ReLU"  # biases where the gates are made
        biased = replace(config, net=replace(config.net, bias=own, feature_bias=not own))
        gating: dict[str, Any] = {}
        if column == "DLGN":
            gating = {"value_input": "ones", "wiring": shuffle_layers(config.net, seed)}
            if network.net == "resnet110":
                net = replace(biased.net, options=(*biased.net.options, ("pre", SHUFFLED)))
                biased = replace(biased, net=net)
        yield training_unit(biased, regime, seed, network.cell(column), **gating)


def _build_config(request: Request, network: _Network) -> RunConfig:
    options = network.quick if request.quick else network.full
    net = NetConfig(network.net, tuple(options.items()))
    data = data_of(request, "cifar10")
    config = paper_config(request, net, data, request.epochs_or(QUICK_EPOCHS, network.epochs))
    config = with_gating(with_training(config, augmentation=request.augmentation), beta=BETA)
    if request.quick:  # with so few steps per epoch, 3e-4 would learn too slowly
        return with_training(config, learning_rate=QUICK_STEP)
    return with_training(config, batch=network.batch)


def shuffle_layers(net: NetConfig, seed: int) -> tuple[int, ...]:
    """Draw a wiring other than the identity, which exchanges gate layers of equal shape.

    Layers whose shapes are equal for the images of CIFAR are so for all images.
    """
    shapes = build_architecture(net, IMAGES, 2).gated_shapes
    groups = [[i for i, other in enumerate(shapes) if other == one] for one in set(shapes)]
    draw = random.Random(f"shuffled {net.name} {seed}")
    identity = list(range(len(shapes)))
    wiring = list(identity)
    while wiring == identity:
        for group in sorted(groups):
            for layer, source in zip(group, draw.sample(group, len(group)), strict=True):
                wiring[layer] = source
    return tuple(wiring)


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    judged: list[Claim] = []
    figures = []
    by_column: dict[str, dict[str, Row]] = {column: {} for column in REGIMES}
    for network in _chosen_networks(request):
        name = network.label(request)
        cells = {column: grid.read_trained(network.cell(column)) for column in REGIMES}
        for column, cell in cells.items():
            by_column[column][name] = cell.row(f"{name} {column}")
            rows.append(by_column[column][name])
        judged.append(_judge_share(request, name, cells))
        figures.append(
            learning_curves(f"{name} as DNN, DGN and DLGN", cells, f"learning-{network.net}")
        )
    figures.insert(0, plot_groups("accuracy", "DNN, DGN and DLGN", by_column))
    return Findings(tuple(rows), tuple(judged), tuple(figures))


def _judge_share(request: Request, name: str, cells: dict[str, TrainedCell]) -> Claim:
    gap = SharedGap([(1.0, cells["DLGN"])], [(1.0, cells["DNN"])], ())
    remark = (
        "a small network: the paper's number is of large ones on CIFAR" if request.quick else ""
    )
    return judge_share("dual-13", f"{name}: DLGN/DNN", gap, (KEPT, math.inf), None, remark)


EXPERIMENT = Experiment(
    question="What does a network lose if its gates are those of a linear network?",
    title="DNN, DGN and DLGN",
    paper="[DUAL] abstract",
    about="Gates of a linear network, shuffled, for a value network that sees a constant 1.",
    plan=plan,
    findings=findings,
    quick_minutes=1.15,
    full_hours=2500,
    claims=("dual-13",),
    rows=("C4GAP", "VGG-16", "ResNet-110"),
    asks=("augmentation",),
)
