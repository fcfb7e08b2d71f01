"""Measure how much the gates of a checkpoint have learnt ([NPF] Definition 5.1).

Value networks are trained from scratch with the network's gates, which are copied and fixed, and
others with random gates. The result is how much of the gap in test accuracy between random gates
and the network itself the copied gates recover.
"""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from dgn_engine.config import OF_FILE, DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, PlottedLine, Request, Row
from dgn_engine.experiments._configurations import with_gating
from dgn_engine.experiments._gate_share import (
    CurveEnding,
    SeedCurves,
    answer_of,
    curve_ending,
    gate_share,
    mean_curve,
    sufficient_epochs,
    why_not_converged,
)
from dgn_engine.experiments._grid import Grid, TrainedCell, calculation_unit, training_unit
from dgn_engine.importing import saved_network
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.plugins import OptionValue
from dgn_engine.regimes import find_regime
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.sweep.statistics import mean_and_half_width
from dgn_engine.sweep.unit import CalculationInputs, Unit
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.training.device_data import to_device
from dgn_engine.training.devices import choose_device, set_threads
from dgn_engine.training.metrics import TestPass

RANDOM = {"FL": "FR-II", "FL-linear": "FR-linear"}
"""The regime of copied gates → that of random gates computed in the same way."""
ITSELF = "file"
INTERVAL = "Fieller, 95 %, over seeds; does not include the sampling error of the test set"
_GATES, _RANDOM_GATES = "its gates", "random gates"


def gate_information(
    file: Path,
    config: RunConfig,
    seeds: int,
    data: str,
    name: str = "",
    made_from: str = "",
    out: str = "",
) -> Experiment:
    """Return the experiment that measures the gates of a network.

    Args:
        file: the network, readable by every process.
        config: settings of the value networks, including the architecture that fits the gates
            (see `net_of`) and the routing of the gates (see `gating_of`).
        seeds: number of networks of each kind.
        data: fingerprint of the examples, as a data set of the same name may change.
        name: name of the network in the report, such as 'run@430' or 'Net of nets.py'; by default
            the name of the file.
        made_from: source of the file, if it was written for the measurement.
        out: the results folder, if the user chose it; a longer training needs another.

    Raises:
        UserError: the file cannot be read.
    """
    name = name or file.name
    digest = _file_digest(file)
    regime = config.gating.regime if config.gating.regime in RANDOM else "FL"

    def plan(request: Request) -> Plan:
        units = tuple(_training_units(file, digest, data, config, regime, seeds))
        return Plan(units, choices=tuple(_describe_choices(file, made_from, config)))

    def findings(request: Request, results: UnitResults) -> Findings:
        return _summarise_results(results, name, config, regime, seeds, out)

    return Experiment(
        title=f"Gate information of {name}",
        paper="[NPF] Definition 5.1",
        about="Value networks trained from scratch with its gates and with random gates.",
        plan=plan,
        findings=findings,
        quick_minutes=0.0,
        full_hours=0.0,
        reproduces=False,
    )


def net_of(listing: CheckpointContents, file: Path, input_shape: tuple[int, ...]) -> NetConfig:
    """Return the architecture that fits the gates of a file.

    Args:
        listing: contents of the file.
        file: its path.
        input_shape: shape of an example.

    Returns:
        A built-in network by name, else that of the file itself ('file:PATH').

    Raises:
        UserError: the file has no network for such inputs.
    """
    if saved_network.is_ours(listing):
        state = saved_network.state_of(listing)
        if state.regime.own_gates and state.config.gating.tiling:  # made for a wider network
            return NetConfig(f"{OF_FILE}{file}", bias=state.config.net.bias)
        return state.config.net
    network = network_of(listing, input_shape).network
    net = _dense_net(network.architecture) or NetConfig(f"{OF_FILE}{file}")
    return replace(net, bias=bool(len(network.value.biases)))


def gating_of(listing: CheckpointContents) -> GatingConfig:
    """Return how to fix the gates of a file and route them to its value network.

    A file written by dgn states wiring, rotation, shift, tiling and value input, and may have a
    linear feature network or parallel feature layers; other networks compute their own gates.

    Raises:
        UserError: there are no gates to copy.
    """
    if not saved_network.is_ours(listing):
        return GatingConfig(regime="FL")
    state = saved_network.state_of(listing)
    _check_gates(listing, state.regime.name)
    if state.regime.own_gates:
        return GatingConfig(regime="FL")
    return GatingConfig(
        regime="FL-linear" if state.regime.linear_features else "FL",
        value_input=state.value_input,
        wiring=state.wiring,
        rotation=state.rotation,
        shift=state.shift,
        tiling=state.config.gating.tiling,
        feature_layers=state.config.gating.feature_layers,
    )


def own_accuracy(work: CalculationInputs) -> Any:
    """Measure the network of a file itself.

    Returns:
        Test accuracy (0…1), regime, whether it is soft, assumption on the file, number of test
        examples, and share of the most frequent class among them.
    """
    config = RunConfig.from_dict(work.arguments["config"])
    examples = load_examples(config.data)
    listing = read_tensors(Path(work.arguments["file"]))
    imported = network_for(listing, examples)
    network = imported.network.requires_grad_(False)
    set_threads(network.architecture)
    device = choose_device(config.device)
    data = to_device(examples, network.architecture, device)
    passing = TestPass(network.to(device), data, config.training.loss)
    score = None
    while score is None:
        score = passing.advance()
    counts = np.unique(examples.test_y, return_counts=True)[1]
    return {
        "accuracy": score.accuracy,
        "regime": imported.regime.name,
        "soft": imported.regime.soft,
        "assumption": imported.assumption,
        "examples": len(examples.test_y),
        "commonest": float(counts.max()) / len(examples.test_y),
    }


def network_for(listing: CheckpointContents, examples: Examples) -> ImportedNetwork:
    """Return the network of a file; raises `UserError` if it does not fit these examples."""
    imported = network_of(listing, examples.train_x.shape[1:])
    _check_gates(listing, imported.regime.name)
    if not imported.network.architecture.gated_nodes:
        raise UserError(
            f"{listing.file_name} has only one layer and therefore no gates.",
            kind="no-gates",
        )
    wanted = 1 if examples.signed else len(examples.class_names)
    logits = imported.network.architecture.nodes[-1]
    if isinstance(logits, Dense) and logits.outputs != wanted:
        raise UserError(
            f"{listing.file_name} has {logits.outputs} outputs; {examples.name} needs {wanted}.",
            kind="wrong-shape",
            value=logits.outputs,
        )
    return imported


def arrays_of(details: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the numbers of a result as arrays.

    Accuracies are in percent: (K,) by seed, (K, E) by seed and epoch; NaN if missing.
    """
    share, own = details["share"], details["own"]
    arrays = {
        "own": np.array(own["percent"], dtype=np.float64),
        "test_examples": np.array(own["test_examples"]),
        "share": np.array([share["percent"], share["low"], share["high"]], dtype=np.float64),
        "share_by_seed": np.array(share["by_seed"], dtype=np.float64),
    }
    for kind, name in ((_GATES, "gates"), (_RANDOM_GATES, "random")):
        of = details["kinds"][kind]
        arrays[name] = np.array(of["last"], dtype=np.float64)
        longest = max((len(curve) for curve in of["test"]), default=0)
        for field in ("epochs", "test", "train"):
            rows = [[*row, *[math.nan] * (longest - len(row))] for row in of[field]]
            arrays[f"{name}_{field}"] = np.array(rows, dtype=np.float64)
    return arrays


def _check_gates(listing: CheckpointContents, regime: str) -> None:
    gating = find_regime(regime)
    if gating.drawn_gates:
        raise UserError(
            f"{listing.file_name} has gates drawn at random for each example; they cannot be "
            "measured.",
            kind="no-gates",
        )
    if gating.open_gates:
        raise UserError(
            f"{listing.file_name} is a linear network ({gating.name}): all its gates are always "
            "open and carry no information.",
            kind="no-gates",
        )


def _training_units(
    file: Path, digest: str, data: str, config: RunConfig, regime: str, seeds: int
) -> Iterator[Unit]:
    settings = {"file": str(file), "sha256": digest, "data": data, "config": config.to_dict()}
    yield calculation_unit(ITSELF, own_accuracy, **settings)
    for seed in range(seeds):
        for name, source in ((regime, str(file)), (RANDOM[regime], "")):
            yield training_unit(with_gating(config, gates_from=source), name, seed)


def _summarise_results(
    results: UnitResults, name: str, config: RunConfig, regime: str, seeds: int, out: str
) -> Findings:
    own = results.calculation_result(ITSELF)
    grid = Grid(results, range(seeds))
    cells = {_GATES: grid.read_trained(regime), _RANDOM_GATES: grid.read_trained(RANDOM[regime])}
    kinds = [_seed_curves(label, cell) for label, cell in cells.items()]
    ends = [curve_ending(kind, own["examples"]) for kind in kinds]
    share = gate_share(100 * own["accuracy"], *(kind.last for kind in kinds))
    converged = all(end.converged for end in ends)
    left_out = _left_out(kinds)
    chance = _chance_accuracy(own["commonest"], own["examples"])
    answer = answer_of(share, left_out, chance, converged)
    more = _suggest_more_epochs(list(cells.values()), ends, config, own["examples"], out)
    also = "" if converged else f"Not converged. {why_not_converged(kinds, ends)} {more}"
    itself = Row(f"{name} itself ({own['regime']})", (share.own,), remark="as trained")
    rows = [
        _kind_row(f"value networks with {label} ({regime_})", cells[label], kind)
        for label, kind, regime_ in zip(cells, kinds, (regime, RANDOM[regime]), strict=True)
    ]
    details = {
        "own": {"percent": share.own, "regime": own["regime"], "test_examples": own["examples"]},
        "share": {**asdict(share), "defined": share.has_interval, "interval": INTERVAL},
        "verdict": answer.kind,
        "left_out": left_out,
        "converged": converged,
        "kinds": {
            kind.name: _kind_details(kind, cells[kind.name], end)
            for kind, end in zip(kinds, ends, strict=True)
        },
        "training": config.to_dict()["training"],
    }
    return Findings(
        (itself, *rows),
        figures=(_learning_figure(kinds, share.own, name),),
        remarks=tuple(_describe_measurement(name, config, own)),
        answer=tuple(filter(None, (answer.sentence, also))),
        details=details,
    )


def _seed_curves(name: str, cell: TrainedCell) -> SeedCurves:
    trouble = {}
    for seed, run in enumerate(cell.runs):
        if run.diverged_at is not None:
            trouble[seed] = f"diverged at step {run.diverged_at:,}"
        elif not math.isfinite(run.last):
            trouble[seed] = "has no test accuracy"
    return SeedCurves(name, [[100 * a for a in run.test] for run in cell.runs], trouble)


def _left_out(kinds: list[SeedCurves]) -> list[str]:
    return [
        f"seed {seed} with {kind.name} {trouble}"
        for kind in kinds
        for seed, trouble in kind.trouble.items()
    ]


def _chance_accuracy(commonest: float, examples: int) -> float:
    """Return the accuracy (percent) of always guessing the most frequent class, plus two standard
    errors.
    """
    return 100 * (commonest + 2 * math.sqrt(commonest * (1 - commonest) / examples))


def _suggest_more_epochs(
    cells: list[TrainedCell],
    ends: list[CurveEnding],
    config: RunConfig,
    examples: int,
    out: str,
) -> str:
    """Return a sentence on what to do about curves that have not converged."""
    epochs, patience = config.training.epochs, config.training.patience
    worst = max((end for end in ends if not end.converged), key=lambda e: abs(e.mean), default=None)
    if worst is None:
        return ""
    if worst.mean < 0 or (abs(worst.mean) <= 50 / examples and worst.most < 0):
        return "The share depends on when training ends."
    early = patience and all(0 < cell.last_epoch < epochs for cell in cells)
    change = max(abs(worst.mean), abs(worst.most) / 2)
    enough = sufficient_epochs(change, epochs, examples)
    name, now, longer = (
        ("patience", patience, 2 * patience) if early else ("epochs", epochs, enough)
    )
    folder = f", and --out {shlex.quote(f'{out}-{name}-{longer}')}" if out else ""
    return f"The share is not final; try --{name} {longer} instead of {now}{folder}."


def _kind_row(label: str, cell: TrainedCell, curves: SeedCurves) -> Row:
    best = [100 * run.best for run in cell.runs if math.isfinite(run.best)]
    remark = f"best epoch: {sum(best) / len(best):.2f} %" if best else ""
    return cell.row(label, remark=remark, values=curves.last)


def _learning_figure(kinds: list[SeedCurves], own: float, name: str) -> Figure:
    lines = [mean_curve(kind) for kind in kinds]
    title = "Value networks: mean over seeds, 95 % interval"
    across = PlottedLine(f"{name} itself", (), (own,))
    return Figure("learning", title, "epoch", "test accuracy (%)", (*lines, across))


def _kind_details(kind: SeedCurves, cell: TrainedCell, end: CurveEnding) -> dict[str, Any]:
    mean, half = mean_and_half_width(tuple(a for a in kind.last if math.isfinite(a)))
    return {
        "last": kind.last,
        "best": [100 * run.best for run in cell.runs],
        "mean": mean,
        "half_width": half,
        "trouble": {str(seed): what for seed, what in kind.trouble.items()},
        "last_quarter": asdict(end),
        "epochs": [run.epochs for run in cell.runs],
        "test": kind.test,
        "train": [[100 * a for a in run.train] for run in cell.runs],
    }


def _describe_measurement(name: str, config: RunConfig, own: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "Accuracies are those after the last epoch on the "
        f"{own['examples']:,} test examples of {config.data.name}, which were not used to choose "
        "anything."
    )
    yield (
        "Each seed draws the initial weights of a value network, the order of its examples and "
        f"the random gates of its counterpart. As the gates of {name} are those of a single "
        "network, the interval covers only seeds: not other networks, nor the sampling error of "
        f"the {own['examples']:,} test examples."
    )
    if own["soft"]:
        yield f"The gates of {name} are soft ({own['regime']}); they were copied as hard gates."
    if own["assumption"]:
        yield str(own["assumption"])


def _describe_choices(file: Path, made_from: str, config: RunConfig) -> Iterator[str]:
    if made_from:
        yield f"the network: {made_from}"
    yield f"the file: {file}"
    changed = _changed_data_settings(config.data)
    if changed:
        yield f"the data: {changed}"
    gating = config.gating
    given = {f.name: getattr(gating, f.name) for f in fields(gating)}
    placed = [
        f"{setting} {', '.join(str(n) for n in given[setting])}"
        for setting in ("wiring", "rotation", "shift", "tiling")
        if given[setting] and not _is_default_routing(setting, given[setting])
    ]
    if placed:
        yield f"gates are routed to the value networks as in the file: {'; '.join(placed)}"
    if gating.feature_layers == "parallel":
        yield "feature layers are parallel, each from the input, also those of random gates"
    if gating.value_input != "image":
        yield f"value networks get {gating.value_input} as input, not the image"


def _is_default_routing(setting: str, numbers: tuple[int, ...]) -> bool:
    """Return whether a routing setting is the identity."""
    if setting == "wiring":
        return numbers == tuple(range(len(numbers)))
    return set(numbers) == {1 if setting == "tiling" else 0}


def _changed_data_settings(data: DataConfig) -> str:
    """Format the data settings that differ from the defaults."""
    usual = DataConfig()
    names = [f.name for f in fields(data) if f.name not in ("name", "root", "download", "options")]
    changed = {name: getattr(data, name) for name in names}
    parts = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in (*changed.items(), *data.options)
        if value != getattr(usual, name, None)
    ]
    return ", ".join(parts)


def _dense_net(architecture: Architecture) -> NetConfig | None:
    """Return the `fc` configuration of an architecture; None if it is not one."""
    layers = architecture.nodes
    widths = {node.outputs for node in layers[:-1] if isinstance(node, Dense) and node.gated}
    if len(widths) != 1 or not all(isinstance(node, Dense) for node in layers):
        return None
    options: dict[str, OptionValue] = {"width": widths.pop(), "depth": len(layers)}
    net = NetConfig("fc", tuple(options.items()))
    same = build_architecture(net, architecture.input_shape, architecture.classes) == architecture
    return net if same else None


def _file_digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"Cannot read {file}: {error.strerror}.", kind="no-file", value=str(file)
        ) from None
