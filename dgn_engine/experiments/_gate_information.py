"""Measures how much the gates of a checkpoint know ([NPF] Definition 5.1).

The gates are copied and fixed. Value networks are trained from scratch with them, and others with
the gates of random networks; their test accuracy is the measure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import with_gating
from dgn_engine.experiments._grid import Grid, TrainedCell, calculation, gaps, training
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.importing import saved_network
from dgn_engine.model.importing.from_file import OF_FILE, ImportedNetwork, network_of
from dgn_engine.model.nets import build_architecture
from dgn_engine.setting import OptionValue
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.training.device_data import to_device
from dgn_engine.training.devices import choose_device, set_threads
from dgn_engine.training.metrics import TestPass

COPIED, RANDOM = "FL", "FR-II"
ITSELF = "file"


def gate_information(file: Path, config: RunConfig, seeds: int) -> Experiment:
    """Return the experiment for a file; raises `UserError` where it cannot be read.

    Args:
        file: a checkpoint.
        config: how value networks are trained; `config.net` is the network that the gates fit
            (see `net_of`).
        seeds: how many networks of each kind.
    """
    digest = _digest(file)

    def plan(request: Request) -> Plan:
        return Plan(tuple(_units(file, digest, config, seeds)), choices=_choices(file, config))

    def findings(request: Request, results: UnitResults) -> Findings:
        return _findings(results, file.name, seeds)

    return Experiment(
        title=f"Gate information of {file.name}",
        paper="[NPF] Definition 5.1",
        about="Value networks trained from scratch with its gates, and with random ones.",
        plan=plan,
        findings=findings,
        quick_minutes=0.0,
        full_hours=0.0,
    )


def net_of(
    file: Path, input_shape: tuple[int, ...], otherwise: NetConfig | None = None
) -> NetConfig:
    """Return the network that the file's gates fit: a network of ours by its name, else that of
    the file itself ('file:PATH'), else `otherwise`; raises `UserError` where the file cannot be
    read as a network for such inputs."""
    listing = read_tensors(file)
    if saved_network.is_ours(listing):
        return RunConfig.from_toml(listing.metadata["config"]).net
    try:
        architecture = network_of(listing, input_shape, None).network.architecture
    except UserError:
        if otherwise is None:
            raise
        network_of(listing, input_shape, otherwise)
        return otherwise
    return _dense_net(architecture) or NetConfig(f"{OF_FILE}{file}")


def own_accuracy(work: CalculationInputs) -> Any:
    """Return the test accuracy (0…1) of the network in a file, and its regime."""
    config = RunConfig.from_dict(work.arguments["config"])
    examples = load_examples(config.data)
    found = network_for(Path(work.arguments["file"]), config.net, examples)
    network = found.network.requires_grad_(False)
    set_threads(network.architecture)
    device = choose_device(config.device)
    data = to_device(examples, network.architecture, device)
    passing = TestPass(network.to(device), data, config.training.loss)
    score = None
    while score is None:
        score = passing.advance()
    return {"accuracy": score.accuracy, "regime": found.regime.name}


def network_for(file: Path, net: NetConfig, examples: Examples) -> ImportedNetwork:
    """Return the network in a file, where it does not say it itself the one that was named; raises
    `UserError` where it does not fit these examples."""
    listing = read_tensors(file)
    otherwise = None if net.name.startswith(OF_FILE) else net
    found = network_of(listing, examples.train_x.shape[1:], None, otherwise=otherwise)
    if found.regime.drawn_gates:
        raise UserError(f"{listing.file_name} has coins for gates: it cannot be tested.")
    wanted = 1 if examples.signed else len(examples.class_names)
    logits = found.network.architecture.nodes[-1]
    if isinstance(logits, Dense) and logits.outputs != wanted:
        raise UserError(
            f"{listing.file_name} has {logits.outputs} outputs; {examples.name} needs {wanted}."
        )
    return found


def _units(file: Path, digest: str, config: RunConfig, seeds: int) -> Iterator[Unit]:
    yield calculation(ITSELF, own_accuracy, file=str(file), sha256=digest, config=config.to_dict())
    for seed in range(seeds):
        for regime, source in ((COPIED, str(file)), (RANDOM, "")):
            yield training(with_gating(config, gates_from=source), regime, seed)


def _findings(results: UnitResults, name: str, seeds: int) -> Findings:
    own = results.calculated(ITSELF)
    grid = Grid(results, range(seeds))
    copied, random = grid.trained(COPIED), grid.trained(RANDOM)
    rows = (
        Row(f"{name} itself ({own['regime']})", (100 * own["accuracy"],), remark="as it is"),
        _row(f"its gates, value network from scratch ({COPIED})", copied),
        _row(f"random gates ({RANDOM})", random),
    )
    claim = ("gates", "its gates know more than random ones")
    judged = judge(claim, f"{COPIED} − {RANDOM}", above(gaps(copied, random)))
    return Findings(rows, (judged,))


def _row(label: str, cell: TrainedCell) -> Row:
    last = sum(cell.last) / len(cell.last)
    return cell.row(label, remark=f"after the last epoch {last:.2f} %")


def _choices(file: Path, config: RunConfig) -> tuple[str, ...]:
    training = config.training
    return (
        "the number of a run is its best test accuracy over the epochs, as in the papers",
        f"value networks: {training.optimiser}, step {training.learning_rate:g}, batch "
        f"{training.batch}, {training.epochs} epochs, {config.data.name}",
        f"the file: {file}",
    )


def _dense_net(architecture: Architecture) -> NetConfig | None:
    """Return `fc` where the architecture is one; None where it is another."""
    layers = architecture.nodes
    widths = {node.outputs for node in layers[:-1] if isinstance(node, Dense) and node.gated}
    if len(widths) != 1 or not all(isinstance(node, Dense) for node in layers):
        return None
    options: dict[str, OptionValue] = {"width": widths.pop(), "depth": len(layers)}
    net = NetConfig("fc", tuple(options.items()))
    same = build_architecture(net, architecture.input_shape, architecture.classes) == architecture
    return net if same else None


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from None
