"""Half-spaces of DLGN and the cuts of an oblique decision tree; machines with its path kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import DataConfig, GatingConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.data.oblique_tree import draw_tree, find_leaves
from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import Sample, above, judge
from dgn_engine.experiments._configurations import dense_net_config
from dgn_engine.experiments._grid import (
    CalculatedCell,
    Grid,
    calculation_unit,
    mean_line,
    pairwise_difference,
    training_unit,
)
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._published import number_in
from dgn_engine.kernels import (
    cut_distances,
    effective_hyperplanes,
    kernel_svm,
    neural_path_kernel,
    overlap,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults

SEEDS, TABLE_SEEDS = (10, 20), (0, 5)
WIDTH, DEPTH, BETA, RATE, BATCHES = 20, 6, 3.0, 0.02, 10
PAIRED = 300  # training points whose pairs have an overlap
TESTED = 2000  # test points of a tree on which network and machines are compared
PENALTIES = (1.0, 10.0, 100.0)
STAGES = 10
UNRELATED = 1_000_000  # added to the seed of a tree
KINDS = {"dlgn": "DL-linear", "frozen": "FR-linear", "relu": "ReLU"}
LABELS = {
    "dlgn": "DLGN",
    "frozen": "DLGN with frozen gates (FR-linear)",
    "relu": "ReLU network",
}
_PILOT = "6 trees of other seeds at the quick scale, 2026-11"
MOVES = Design(41.0, 6.5, _PILOT)
BEATS = Design(12.1, 2.1, _PILOT)
LEARNT = Design(12.5, 1.6, _PILOT)


def plan(request: Request) -> Plan:
    """Plan a tree per seed with three networks, and what is computed of the first one."""
    n, dim, levels = (2000, 10, 3) if request.quick else (6000, 20, 4)
    epochs = request.epochs_or(100, 400)
    units: list[Unit] = []
    for seed in request.seed_range(*SEEDS):
        config = _tree_config(request, n, dim, levels, epochs, seed)
        runs = {cell: training_unit(config, KINDS[cell], seed, cell) for cell in KINDS}
        units += runs.values()
        units.append(calculation_unit(f"measured-s{seed}", measured, runs["dlgn"]))
    if not request.quick:
        for seed in request.seed_range(*TABLE_SEEDS):
            config = _tree_config(request, 32_000, 20, 4, request.epochs or 1500, seed)
            units.append(training_unit(config, KINDS["dlgn"], seed, "sdi"))
    return Plan(
        tuple(units),
        (
            "2,000 points in 10 dimensions and trees of 3 levels instead of 6,000, 20 and 4; the "
            "row with the authors' data set SDI is left out",
        ),
        (
            f"{DEPTH - 1} gated layers of {WIDTH} units, β = {BETA:g}, Adam {RATE:g}, {BATCHES} "
            "batches per epoch, all-ones value input, one logit: the settings that the authors' "
            "code gives for SDI; Kaiming weights",
            "every seed is another tree with its own points; the angle to the cuts is the mean "
            "over the cuts of that to the nearest half-space of any layer; what it falls by for a "
            "tree that the network never saw is subtracted, so that half-spaces that only spread "
            "count for nothing",
            f"machines use the same training points as the network, and of C = "
            f"{', '.join(f'{c:g}' for c in PENALTIES)} the one that is best on the {TESTED:,} "
            "test points, which favours them",
            "SDI: 32,000 of the 40,000 points are for training, which the authors do not say",
        ),
    )


def _tree_config(
    request: Request, n: int, dim: int, levels: int, epochs: int, seed: int
) -> RunConfig:
    options = (("depth", levels), ("dim", dim), ("n", n))
    every = tuple(range(0, epochs + 1, max(1, epochs // STAGES)))
    return RunConfig(
        data=DataConfig("oblique-tree", options=options, variant_seed=seed),
        net=dense_net_config(WIDTH, DEPTH),
        gating=GatingConfig(beta=BETA, value_input="ones"),
        training=TrainingConfig(
            learning_rate=RATE,
            batch=n // BATCHES,
            epochs=epochs,
            keep_epochs=tuple(sorted({*every, epochs})),
        ),
        device=request.device,
    )


def measured(work: CalculationInputs) -> dict[str, Any]:
    """Return angles to the cuts over training, and accuracies (%) of network and machines."""
    (folder,) = work.needs.values()
    networks = KeptNetworks(folder, 1 << 30)
    data = networks.config.data
    cuts = load_examples(data).cuts
    assert cuts is not None
    options = dict(data.options)
    seed = data.variant_seed + UNRELATED
    trees = {
        "own": torch.from_numpy(cuts),
        "unrelated": torch.from_numpy(
            draw_tree(int(options["dim"]), int(options["depth"]), False, seed)
        ),
    }
    found: dict[str, Any] = {"epochs": [], "inside": [], "across": []}
    found |= {name: [] for name in trees}
    some = networks.x[:: max(1, len(networks.x) // PAIRED)][:PAIRED]
    leaves = torch.from_numpy(find_leaves(some.cpu().numpy(), cuts))
    machines: dict[str, float] = {}
    x, y = networks.data.test_x[:TESTED].double(), networks.data.test_y[:TESTED]
    last = max(networks.epochs)
    for epoch, network in networks:
        found["epochs"].append(epoch)
        for name, tree in trees.items():
            found[name].append(mean_nearest_angle(network, tree))
        inside, across = mean_overlaps(network, some, leaves)
        found["inside"].append(inside)
        found["across"].append(across)
        if epoch in (0, last):
            machines["start" if epoch == 0 else "end"] = 100 * _machine_accuracy(
                network, (networks.x, x), (networks.y, y)
            )
        if epoch == last:
            with torch.no_grad():
                right = (network(x)[:, 0] > 0) == (y > 0)
            found["network"] = 100 * float(right.double().mean())
    return found | {f"machine_{when}": value for when, value in machines.items()}


def mean_nearest_angle(network: GatedNetwork, cuts: Tensor) -> float:
    """Return the mean over the cuts of the angle (°) to the nearest hyperplane of any layer."""
    rows = torch.cat([of_layer.rows for of_layer in effective_hyperplanes(network)])
    return float(cut_distances(rows, cuts).angles.min(dim=0).values.mean())


def mean_overlaps(network: GatedNetwork, x: Tensor, leaves: Tensor) -> tuple[float, float]:
    """Return the mean overlap Λ, at unit diagonal, of pairs within a leaf, and of other pairs."""
    with torch.no_grad():
        kernel = overlap(network.architecture, network.trace(x).value.gates, normalise="cosine")
    same = leaves[:, None] == leaves
    apart = ~torch.eye(len(x), dtype=torch.bool)
    kernel = kernel.cpu()
    return float(kernel[same & apart].mean()), float(kernel[~same].mean())


def _machine_accuracy(
    network: GatedNetwork, inputs: tuple[Tensor, Tensor], labels: tuple[Tensor, Tensor]
) -> float:
    """Return the accuracy on the test points of a machine on the network's path kernel."""
    x = torch.cat(inputs)
    n, targets = len(inputs[0]), 2.0 * torch.cat(labels)[:, None] - 1.0
    with torch.no_grad():
        gates = network.trace(x).value.gates
        kernel = neural_path_kernel(network.architecture, gates, network.input_of_value(x))
    train, test = torch.arange(n), torch.arange(n, len(x))
    return max(
        kernel_svm(kernel, targets.double(), train, test, penalty).accuracy for penalty in PENALTIES
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cell = grid.read_calculated("measured")
    rows = [
        grid.read_trained(name).row(f"{label}, best test accuracy", of="trees")
        for name, label in LABELS.items()
    ]
    rows += _measured_rows(cell)
    if not request.quick:
        table = Grid(results, request.seed_range(*TABLE_SEEDS)).read_trained("sdi")
        printed = number_in("discontinuities_2025_readme", "SDI", "DLGN")
        rows.append(table.row("DLGN on SDI (d = 20, 40,000 points)", printed, of="trees"))
    return Findings(tuple(rows), tuple(_judge_claims(cell)), tuple(_draw_curves(cell)))


def _measured_rows(cell: CalculatedCell) -> Iterator[Row]:
    for key, label in (
        ("network", "DLGN at the end"),
        ("machine_start", "SVM with H at the start"),
        ("machine_end", "SVM with H after training"),
    ):
        yield cell.row(f"{label}, {TESTED:,} test points", cell[key], unit="%", of="trees")
    for tree, label in (("own", "cuts of the labels"), ("unrelated", "cuts of an unrelated tree")):
        for when, index in (("start", 0), ("end", -1)):
            values = [curve[index] for curve in cell[tree]]
            yield cell.row(f"angle (°) to the {label} at the {when}", values, of="trees")
    for pairs, label in (("inside", "within a leaf"), ("across", "across leaves")):
        for when, index in (("start", 0), ("end", -1)):
            values = [curve[index] for curve in cell[pairs]]
            yield cell.row(f"overlap of pairs {label} at the {when}", values, of="trees")


def _judge_claims(cell: CalculatedCell) -> Iterator[Claim]:
    def drop(tree: str) -> list[float]:
        return [curve[0] - curve[-1] for curve in cell[tree]]

    moves = pairwise_difference(drop("own"), drop("unrelated"))
    statistic = "angle (°) to the cuts, start − end, less the same for an unrelated tree"
    yield judge("halfspace-1", statistic, above(_trees(moves)), design=MOVES)
    beats = pairwise_difference(cell["network"], cell["machine_start"])
    statistic = "test accuracy of DLGN − that of an SVM with H at the start (points)"
    yield judge("halfspace-2", statistic, above(_trees(beats)), design=BEATS)
    learnt = pairwise_difference(cell["machine_end"], cell["machine_start"])
    statistic = "test accuracy of an SVM with H after training − at the start (points)"
    yield judge("halfspace-3", statistic, above(_trees(learnt)), design=LEARNT)


def _trees(values: Sequence[float]) -> Sample:
    return Sample(tuple(values), "trees")


def _draw_curves(cell: CalculatedCell) -> Iterator[Figure]:
    """Draw the angles to the cuts, and the overlap of pairs, over training."""
    note = "Lines: means over trees; bands: 95 % intervals."
    for name, title, y, labels in (
        (
            "angles",
            "From the cuts to the nearest half-space",
            "angle to the nearest half-space (°)",
            {"own": "cuts of the labels", "unrelated": "cuts of another tree"},
        ),
        (
            "overlap",
            "Overlap of active paths over training",
            "mean Λ at unit diagonal",
            {"inside": "pairs within a leaf", "across": "pairs across leaves"},
        ),
    ):
        lines = tuple(
            mean_line(label, cell["epochs"][0], cell[key]) for key, label in labels.items()
        )
        yield Figure(name, title, "epoch", y, lines, note=note)


EXPERIMENT = Experiment(
    question="Do gates learn where the labels change?",
    title="Half-spaces and the cuts of a decision tree",
    paper="[HALF], [CUTS]",
    about="Half-spaces of DLGN against the cuts of an oblique tree; SVMs with its path kernel.",
    plan=plan,
    findings=findings,
    quick_minutes=0.53,
    full_hours=0.14,
    claims=("halfspace-1", "halfspace-2", "halfspace-3"),
)
