"""Measure what a network's gates have learnt by training value networks with them."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from dgn_engine.cli._network_options import reading_from_options
from dgn_engine.cli._options import name_options_in_errors, run_config, typed_name, typed_places
from dgn_engine.cli.gate_information import EPOCHS, PATIENCE
from dgn_engine.cli.run.execution import carry_out, exit_code
from dgn_engine.cli.run.given_network import (
    IF_NOT,
    add_fitting_readings,
    check_expected,
    is_run,
    named_by_path,
    part_in_words,
    read_listing,
)
from dgn_engine.cli.run.user_model import follow_model
from dgn_engine.config import OF_FILE, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.errors import UserError, with_names
from dgn_engine.experiments import Request
from dgn_engine.experiments._gate_information import (
    arrays_of,
    gate_information,
    gating_of,
    net_of,
    network_for,
)
from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.result_layout import PLAN, measurement_folder
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.importing.from_file import ImportedNetwork, self_contained, states_its_layers
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.storage.atomic_write import check_output_folder, write_file
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.save_network import save_network
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.folder_layout import CONFIG, results_root
from dgn_engine.sweep.workers import runs_on_this_machine
from dgn_engine.text.printable import print_error, print_json
from dgn_engine.text.written_numbers import format_percent
from dgn_engine.training.ignored_settings import RunFacts, ignored_settings
from dgn_engine.training.metrics import evenly_spaced, test_accuracy

ARRAYS = "gate-information.npz"
_TRIED = 500  # test examples used to compare readings of a file


def measure_gates(arguments: argparse.Namespace) -> int:
    """Run the measurement and print the result.

    Exit with 0 if done, 3 if a run failed permanently, 128 + n if signal n interrupted it; an
    interrupted measurement can be resumed.
    """
    task, notes = plan_measurement(arguments)
    for sentence in notes:
        print_error(sentence)
    stop = StopSignals()
    document = carry_out(arguments, task, stop, _print_json if arguments.json else None)
    _write_arrays(document, task.folder)
    return exit_code(document, stop)


def plan_measurement(arguments: argparse.Namespace) -> tuple[ReproductionTask, list[str]]:
    """Return the task and notes to print before it starts.

    Raises:
        UserError: there is nothing to measure, or the folder has results of another network.
    """
    config = run_config(arguments)
    with name_options_in_errors(arguments):
        examples = load_examples(config.data)
    given = _load_given_network(arguments, examples, config)
    listing = given.listing
    config = _fit_config(arguments, config, given, examples)
    folder = (arguments.out or _default_folder(given, config, examples.fingerprint)).absolute()
    notes: list[str] = []
    if not arguments.report_only and runs_on_this_machine(arguments.cluster):
        imported = network_for(listing, examples)  # fail before anything is written
        notes += [f"{given.name}: {sentence}" for sentence in given.notes]
        notes += _checked_accuracy(given.name, imported, examples, arguments.expect_accuracy)
        ignored = _ignored_sentences(arguments, config, examples)
        notes += [f"dgn gate-information: {sentence}" for sentence in ignored]
    file = given.file
    if given.made_from:
        file = _store_network(given, folder, arguments.report_only)
        if config.net.name == f"{OF_FILE}{given.file}":
            config = replace(config, net=replace(config.net, name=f"{OF_FILE}{file}"))
    chosen = arguments.out and folder.parent != results_root()  # the window chooses among these
    experiment = gate_information(
        file,
        config,
        arguments.seeds,
        examples.fingerprint,
        given.name,
        given.made_from,
        str(arguments.out) if chosen else "",
    )
    request = Request(
        scale="full",
        seeds=arguments.seeds,
        epochs=config.training.epochs,
        data=config.data.name,
        data_root=config.data.root,
        device=config.device,
    )
    again = ("gate-information", *given.words, str(folder / CONFIG))
    again = (*again, "--seeds", str(arguments.seeds))
    fed = () if arguments.value_input is None else ("--value-input", arguments.value_input)
    command = (*again, *fed, "--out", str(folder))
    files = {CONFIG: config.to_toml().encode()}  # so that the same command can resume
    return ReproductionTask("gate-information", experiment, request, folder, command, files), notes


@dataclass(frozen=True)
class _GivenNetwork:
    """The network given to the command.

    Attributes:
        listing: its contents.
        file: its path, or, if it is yet to be written, a name that depends on its weights.
        name: its name in messages and the report.
        words: the arguments that select it, with absolute paths.
        stem: its name in the results folder.
        made_from: the source of a file yet to be written, else ''.
        notes: sentences for the user.
        net: the architecture named by the user.
    """

    listing: CheckpointContents
    file: Path
    name: str
    words: tuple[str, ...]
    stem: str
    made_from: str = ""
    notes: tuple[str, ...] = ()
    net: NetConfig | None = None


def _load_given_network(
    arguments: argparse.Namespace, examples: Examples, config: RunConfig
) -> _GivenNetwork:
    """Read the network from a file or run, or create it by running the user's code."""
    if arguments.model is not None:
        model = follow_model(arguments, torch.from_numpy(examples.train_x[:2]))
        words: tuple[str, ...] = ("--model", arguments.model)
        made_from = f"{model.listing.file_name} (--model {arguments.model}), initial weights"
        if arguments.weights is not None:
            weights = arguments.weights.absolute()
            words += ("--weights", str(weights))
            made_from = f"{model.listing.file_name} (--model {arguments.model}), weights {weights}"
        name, stem = model.listing.file_name, arguments.model
        file = _name_by_content(model.listing)
        return _GivenNetwork(model.listing, file, name, words, stem, made_from, tuple(model.notes))
    path: Path = arguments.file
    part: str = arguments.part or ""
    listing = _apply_reading_options(read_listing(path, part), arguments, config)
    reading = listing.reading
    if part or reading.command_options:  # every process needs a file that states its architecture
        listing = _make_self_contained(listing, examples)
        file = path.absolute()
        typed = replace(reading, net=None).command_options  # --net is kept in the configuration
        words = (*(("--part", part) if part else ()), *shlex.split(typed), str(file))
        stem = f"{file.stem}-{part}" if part else file.stem
        name = f"{file.name} ({part})" if part else file.name
        made_from = f"'{part}' of {file}" if part else str(file)
        made_from += f" ({reading.command_options})" if reading.command_options else ""
        written = _name_by_content(listing)
        return _GivenNetwork(listing, written, name, words, stem, made_from, net=reading.net)
    if not is_run(path):
        _make_self_contained(listing, examples)  # raises if something is ambiguous
        file = path.absolute()
        notes = tuple(filter(None, [part_in_words(listing)]))
        return _GivenNetwork(listing, file, file.name, (str(file),), file.stem, notes=notes)
    name = listing.file_name
    run = str(path.absolute()) if named_by_path(path) else str(path)
    _, at, step = name.rpartition("@")
    if at and not run.endswith(
        f"@{step}"
    ):  # pin the newest checkpoint: the run may write newer ones
        run += f"@{step}"
    return _GivenNetwork(listing, _name_by_content(listing), name, (run,), name, f"{name} ({run})")


def _apply_reading_options(
    listing: CheckpointContents, arguments: argparse.Namespace, config: RunConfig
) -> CheckpointContents:
    """Apply the import options, or the network of CONFIG.toml if the file states none."""
    reading = reading_from_options(arguments)
    named = arguments.net or (arguments.config and reading == FileReading())
    if named and not config.net.is_from_file and not states_its_layers(listing):
        reading = replace(reading, net=config.net)
    return replace(listing, reading=reading)


def _make_self_contained(listing: CheckpointContents, examples: Examples) -> CheckpointContents:
    shape = examples.train_x.shape[1:]
    try:
        return self_contained(listing, shape)
    except OpenQuestions as refusal:
        rows = evenly_spaced(min(_TRIED, len(examples.test_y)), len(examples.test_y))
        x, y = (torch.from_numpy(a[rows]) for a in (examples.test_x, examples.test_y))
        raise add_fitting_readings(refusal, listing, shape, x, y) from None


def _name_by_content(listing: CheckpointContents) -> Path:
    """Return a file name derived from the weights and metadata."""
    digest = hashlib.sha256(json.dumps(sorted(listing.metadata.items())).encode())
    for name, array in sorted(listing.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return Path(f"network-{digest.hexdigest()[:16]}.safetensors")


def _store_network(given: _GivenNetwork, folder: Path, must_exist: bool) -> Path:
    """Write the network to the results folder, once; every process reads it there.

    Args:
        must_exist: whether it must exist already.

    Raises:
        UserError: the folder has the results of another network.
    """
    file = folder / given.file
    if file.exists():
        return file
    if must_exist or (folder / PLAN).exists():
        why = "has no results yet"
        if (folder / PLAN).exists():
            why = f"has the results of another network, or of {given.name} before it changed"
        raise UserError(f"{folder} {why}; choose another folder with --out.", kind="other-results")
    check_output_folder(folder, (file.name,))
    state = {name: torch.from_numpy(array) for name, array in given.listing.arrays.items()}
    save_network(file, state, given.listing.metadata)
    return file


def _checked_accuracy(
    name: str, found: ImportedNetwork, examples: Examples, expected: float | None
) -> list[str]:
    """Check the accuracy of the network; return what was assumed and the resulting accuracy."""
    if not found.assuming and expected is None:
        return []
    scored = test_accuracy(found.network, examples, Preprocessing(), len(examples.test_y))
    share = None if scored is None else scored.share
    on = f"{len(examples.test_y):,} test examples of {examples.name}"
    check_expected(name, share, expected, on, "its outputs do not match the classes")
    if not found.assuming:
        return []
    right = "" if share is None else f" Its accuracy is {format_percent(share)} on {on}. {IF_NOT}"
    return [f"{name} is {found.title}. {found.assumption}{right}"]


def _fit_config(
    arguments: argparse.Namespace,
    config: RunConfig,
    given: _GivenNetwork,
    examples: Examples,
) -> RunConfig:
    """Return the configuration for value networks that fit the gates of the file."""
    net, listing = config.net, given.listing
    own_net = net_of(listing, given.file, examples.train_x.shape[1:])
    if given.net is not None:
        own_net = replace(given.net, bias=own_net.bias)
    if not arguments.net:
        net = replace(net, name=own_net.name, options=own_net.options)
    gating = gating_of(listing)
    if arguments.value_input is not None:
        gating = replace(gating, value_input=arguments.value_input)
    return replace(
        config,
        net=replace(net, bias=net.bias or own_net.bias),
        gating=gating,
        training=_training_settings(arguments, config.training),
    )


def _training_settings(arguments: argparse.Namespace, training: TrainingConfig) -> TrainingConfig:
    """Return the training settings, with default epochs and patience unless they are given."""
    training = replace(training, weights_from="", pace=0.0, keep_epochs=(), keep_best=False)
    if arguments.config is not None and training.epochs:
        return training
    return replace(
        training,
        epochs=EPOCHS if arguments.epochs is None else arguments.epochs,
        patience=PATIENCE if arguments.patience is None else arguments.patience,
    )


def _default_folder(given: _GivenNetwork, config: RunConfig, data: str) -> Path:
    """Return a results folder for this file, configuration and data, whatever the seeds."""
    where = replace(config, device="auto", data=replace(config.data, download=False))
    name = f"gate-information-{given.stem}-{config.data.name}"
    return measurement_folder(name, given.file, f"{where.to_toml()}{data}")


def _ignored_sentences(
    arguments: argparse.Namespace, config: RunConfig, examples: Examples
) -> Iterator[str]:
    facts = RunFacts((len(examples.train_y), len(examples.test_y)))
    for ignored in ignored_settings(config, facts, typed_places(arguments)):
        yield with_names(ignored.sentence, partial(typed_name, arguments))


def _print_json(document: Document, folder: Path, stream: TextIO) -> None:
    tree = {
        "state": document.state,
        "answer": document.answer,
        **document.details,
        "remarks": document.remarks,
        "choices": document.choices,
        "folder": str(folder),
    }
    print_json(to_plain(tree, nonfinite="null"), stream=stream)


def _write_arrays(document: Document, folder: Path) -> None:
    """Write the accuracies by seed and epoch as arrays, once the measurement is complete."""
    if not document.details:
        return
    content = io.BytesIO()
    arrays: dict[str, Any] = arrays_of(document.details)
    np.savez(content, **arrays)
    write_file(inner_folder(folder) / ARRAYS, content.getvalue())
