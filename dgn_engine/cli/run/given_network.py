"""Read the network given to a command: a file, a run at a step, or a session."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from dgn_engine.cli._network_options import PROBE, reading_from_options
from dgn_engine.cli._options import parse_name_value
from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.fitting_readings import fitting_readings
from dgn_engine.importing.from_file import beside_in_words
from dgn_engine.importing.saved_network import (
    NetworkState,
    is_ours,
    listing_of_checkpoint,
    state_of,
)
from dgn_engine.kernels.trained_weights import trained_weights
from dgn_engine.model.network import GatedNetwork
from dgn_engine.storage.checkpoints.averaged_weights import averaged_beside
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.stated_entries import reading_hints
from dgn_engine.storage.runs import folder_layout, run_checkpoints
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_reader import is_session, unpack_session
from dgn_engine.storage.session_file.temp_dirs import PrivateTempDir
from dgn_engine.text.written_numbers import format_number, format_percent
from dgn_engine.training.own_examples import OwnExamples, own_examples

IF_NOT = "If the accuracy should be different, the file was read incorrectly."
TOLERANCE = 0.005  # allowed difference from the expected accuracy


def read_listing(path: Path, part: str = "") -> CheckpointContents:
    """Read the network given to a command, without executing any code in it.

    Args:
        path: a weights file, a run (its folder, or the name of one of the user's runs) or a
            session (.dgn). RUN@STEP is the checkpoint of that step, RUN the newest.
        part: which network to read if the file has several.

    Raises:
        UserError: it cannot be read.
    """
    run = find_run(path)
    if run is None:
        return read_tensors(path, part=part)
    if part:
        raise UserError(
            Where("--part") + f" needs a file: {path} is a run, which has only one network.",
            kind="no-effect",
            value=part,
        )
    folder, step = run
    return _read_run(folder, step) if folder.is_dir() else _read_session(folder, step)


def is_run(path: Path) -> bool:
    """Return whether a path is a run or session rather than a weights file."""
    return find_run(path) is not None


def named_by_path(path: Path) -> bool:
    """Return whether a run is given by its path rather than by the name of a user's run."""
    name, at, step = str(path).rpartition("@")
    return path.exists() or bool(at and step.isdecimal() and Path(name).exists())


def find_run(path: Path) -> tuple[Path, int | None] | None:
    """Return the folder or session of a path, and the step; None for any other file."""
    name, at, step = str(path).rpartition("@")
    stepped = bool(at) and step.isdecimal() and not path.exists()
    location, wanted = (Path(name), int(step)) if stepped else (path, None)
    user_run = folder_layout.runs_root() / location
    folder = (
        location if location.exists() or not (user_run / folder_layout.RUN).is_file() else user_run
    )
    return (folder, wanted) if stepped or folder.is_dir() or is_session(folder) else None


def _read_session(file: Path, step: int | None) -> CheckpointContents:
    """Unpack a session into a private folder and read its run."""
    if not is_session(file):
        fault = "is neither a run nor a session" if file.exists() else "does not exist"
        raise UserError(f"{file} {fault}; @STEP needs a run or session.", kind="no-run", value=step)
    try:
        temp_dir = PrivateTempDir()
    except OSError as error:
        raise UserError(f"Cannot unpack {file.name}: {error.strerror}.") from None
    try:
        return _read_run(unpack_session(file, temp_dir.path).folder, step, file.name)
    finally:
        temp_dir.remove_folder()


def _read_run(folder: Path, step: int | None, shown: str = "") -> CheckpointContents:
    """Read a run at a step, or the newest; `shown` is its name in messages (default: folder)."""
    reader = RunReader(folder, shown)
    if step is None and not reader.checkpoints and (reader.root / folder_layout.WEIGHTS).exists():
        return read_tensors(reader.root / folder_layout.WEIGHTS)
    snapshot = run_checkpoints.load_checkpoint(reader.find_checkpoint(step))
    try:
        data = str(reader.info.get("data_fingerprint", ""))
        state = NetworkState.of_checkpoint(snapshot.state, data)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The checkpoint of {reader.root} does not fit its run: {error}.", kind="damaged"
        ) from None
    return listing_of_checkpoint(f"{reader.name}@{state.step}", snapshot.tensors, state)


def read_own_examples(listing: CheckpointContents, arguments: argparse.Namespace) -> OwnExamples:
    """Load the examples of --examples; raises `UserError` if the file does not name its run."""
    if arguments.labels is not None:
        raise UserError(
            Where("--labels") + " needs --inputs: the run's examples have their own labels.",
            kind="needs-option",
            value="--inputs",
        )
    if not is_ours(listing):
        raise UserError(
            Where("--examples")
            + f" needs a network from dgn: {listing.file_name} does not state its training "
            "data; use --inputs.",
            kind="not-ours",
            value=listing.file_name,
        )
    wanted = 0 if arguments.examples == PROBE else int(arguments.examples)
    return own_examples(state_of(listing), wanted, arguments.data_root or "")


def own_settings(state: NetworkState) -> dict[str, Any]:
    """Return the settings stored in a file written by dgn, in place of the import options."""
    regime, config = state.regime, state.config
    source = "drawn" if regime.drawn_gates else "feature network"
    tiled = {"tiling": list(config.gating.tiling)} if config.gating.tiling else {}
    parallel = config.gating.feature_layers == "parallel"
    return (
        tiled
        | ({"feature_layers": "parallel"} if parallel else {})
        | {
            "regime": regime.name,
            "step": state.step,
            "net": config.net.name,
            "option": [f"{name}={value}" for name, value in config.net.options],
            "bias": config.net.bias,
            "feature_bias": config.net.feature_bias,
            "seed": config.seed,
            "data": config.data.name,
            "gates": "own" if regime.own_gates else source,
            "gate_probability": config.gating.gate_probability if regime.drawn_gates else None,
            "data_fingerprint": state.data or None,
            "config": config.to_dict(),
        }
    )


def network_settings(network: GatedNetwork, folded: bool = False) -> dict[str, Any]:
    """Return how a network's gates are computed and used, and the parameters of K.

    A value is None if it does not apply or the file does not state it.
    """
    wired = not network.own_gates
    computed = wired and not network.drawn_gates
    soft = network.gate.soft
    parallel = network.feature_layers == "parallel"
    return {
        "own_gates": network.own_gates,
        "beta": network.gate.beta if soft else None,
        "eps": network.gate.epsilon if soft else None,
        "permute": list(network.wiring) if wired else None,
        "rotation": [route.rotate for route in network.routes] if wired else None,
        "shift": [route.shift[0] for route in network.routes] if wired else None,
        "tiling": [route.tile for route in network.routes] if wired else None,
        "value_input": network.value_input if wired else "image",
        "feature_layers": network.feature_layers if computed else None,
        "feature_activation": network.feature_activation if computed and not parallel else None,
        "trains": None if network.trains is None else list(network.trains),
        "tangent_kernel": trained_weights(network, folded),
    }


def describe_state(network: GatedNetwork, state: NetworkState) -> str:
    """Describe a network as 'DL · step 135 · β 8 · order 2,0,1', leaving out default settings."""
    settings = network_settings(network)
    parts = [state.regime.name, f"step {state.step:,}"]
    if settings["beta"] is not None:
        parts.append(f"β {format_number(settings['beta'])}")
    if settings["eps"]:
        parts.append(f"ε {format_number(settings['eps'])}")
    if network.drawn_gates:
        parts.append(f"p {format_number(state.config.gating.gate_probability)}")
    for name, word, usual in (
        ("permute", "order", list(range(len(network.wiring)))),
        ("rotation", "rotated by", [0] * len(network.wiring)),
        ("shift", "shifted by", [0] * len(network.wiring)),
        ("tiling", "tiled", [1] * len(network.wiring)),
    ):
        if settings[name] not in (None, usual):
            parts.append(f"{word} {','.join(str(number) for number in settings[name])}")
    if settings["feature_layers"] == "parallel":
        parts.append("parallel feature layers")
    if settings["value_input"] != "image":
        parts.append(f"value input {settings['value_input']}")
    return " · ".join(parts)


def with_reading(listing: CheckpointContents, arguments: argparse.Namespace) -> CheckpointContents:
    """Return the listing with the import options applied, including --net; raises `UserError`."""
    options = tuple(parse_name_value(text) for text in arguments.option)
    net = NetConfig(name=arguments.net, options=options) if arguments.net else None
    return replace(listing, reading=replace(reading_from_options(arguments), net=net))


def add_fitting_readings(
    refusal: UserError,
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    x: Tensor | None = None,
    y: Tensor | None = None,
    more: str = "",
) -> UserError:
    """Add to an error about an ambiguous file the import options that would fit it.

    Args:
        refusal: the error; its `details` are extended.
        listing: the file.
        input_shape: shape of one example.
        x, y: examples (n, *input_shape) and their classes (n,), to score each reading.
        more: how to get accuracies if there are no labels.
    """
    readings = fitting_readings(listing, input_shape, x, y)
    refusal.details = reading_hints(listing)
    alone = len(readings) == 1 and not readings[0].examples and not readings[0].reading.geometry
    if not readings or alone:  # a single `--activation relu` would read like advice
        return refusal
    sides = "×".join(str(side) for side in input_shape)
    note = more if y is None else ""
    if examples := readings[0].examples:
        note = f", with their accuracy on {examples:,} examples"
    lines = [f"Some readings that fit {sides}{note}:"]
    for fitting in readings:
        right = "" if fitting.accuracy is None else f"{format_percent(fitting.accuracy):>7} "
        lines.append(f" {right} {fitting.reading.command_options}")
    refusal.details = (*refusal.details, *lines)
    return refusal


def part_in_words(listing: CheckpointContents) -> str:
    """Say which network of a file was read and how to read another; '' if it has only one."""
    if twice := averaged_beside(listing.arrays):
        return f"Use --part {twice[0]} or --part {twice[1]} to choose one."
    if not listing.others:
        return ""
    return f"{beside_in_words(listing)} Use --part {listing.others[0]} to read those."


def check_expected(
    file: str, found: float | None, expected: float | None, on: str, why: str = ""
) -> None:
    """Raise `UserError` unless a network's accuracy (0…1) is the expected one."""
    if expected is None:
        return
    if found is None:
        raise UserError(
            f"The accuracy of {file} cannot be compared with --expect-accuracy: {why}.",
            kind="not-measured",
            value=file,
        )
    if abs(found - expected) > TOLERANCE:
        raise UserError(
            f"{file} has {format_percent(found)} accuracy on {on}, expected "
            f"{format_percent(expected)}: "
            "check the import options, the preprocessing (--normalise) or the test examples "
            "(--test-indices, --split-seed).",
            kind="other-accuracy",
            value=found,
        )


def normalised_when_trained(listing: CheckpointContents) -> str:
    """Return how a network's training pixels were normalised; 'none' if it is not from dgn."""
    return state_of(listing).config.data.normalise if is_ours(listing) else "none"
