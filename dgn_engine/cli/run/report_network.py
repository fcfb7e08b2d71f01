"""Open a network, say what its report costs, measure the sections and write the page."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from argparse import ArgumentParser
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from dgn_engine.cli import gate_information
from dgn_engine.cli._network_options import reading_from_options
from dgn_engine.cli.report import EXAMPLES
from dgn_engine.cli.run.given_network import (
    check_expected,
    find_run,
    named_by_path,
    part_in_words,
    read_listing,
    with_reading,
)
from dgn_engine.cli.run.measure_gates import plan_measurement
from dgn_engine.cli.run.show_inspection import NetworkOnData, first_examples, open_on_data
from dgn_engine.cli.run.user_model import follow_model
from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.errors import UserError, Where, did_you_mean
from dgn_engine.experiments.report.document import read_document
from dgn_engine.experiments.report.result_layout import REPORT, RESULTS, measurement_folder
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.from_file import network_of
from dgn_engine.importing.saved_network import NetworkState, is_ours, split_of_own, state_of
from dgn_engine.network_report.make_report import cost_in_words, estimate_costs, measure_sections
from dgn_engine.network_report.section import MeasuredSection
from dgn_engine.network_report.sections import SECTIONS
from dgn_engine.network_report.subject import Earlier, Subject
from dgn_engine.network_report.write_pages import FILES, write_pages
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.storage.atomic_write import check_output_folder
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.folder_layout import CONFIG
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.printable import print_error, print_json, print_line
from dgn_engine.text.written_numbers import format_duration
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.metrics import test_accuracy
from dgn_engine.training.network_control import NetworkControl

_SCORED = 1000


def report_network(arguments: argparse.Namespace) -> int:
    """Write the report of a network; exit with 128 + n if signal n interrupted it."""
    _check_sections(arguments.only)
    if arguments.out is not None and not arguments.cost:
        _check_folder(arguments.out)
    listing, notes = _read_network(arguments)
    stop = StopSignals()
    subject = _open_subject(listing, notes, arguments, stop)
    chosen = [spec for spec in SECTIONS if not arguments.only or spec.key in arguments.only]
    planned = estimate_costs(subject, chosen, arguments.seconds)
    if arguments.cost or not arguments.quiet:
        for line in _cost_lines(subject, planned, arguments.seconds):
            (print_line if arguments.cost else print_error)(line)
    if arguments.cost:
        return 0
    folder = (arguments.out or _default_folder(arguments, listing, subject)).absolute()
    words = _typed_command(arguments, folder)

    def show_section(measured: MeasuredSection) -> None:
        if not arguments.quiet:
            print_error(f"{measured.spec.title}: {_outcome(measured)}")

    with stop:
        report = measure_sections(subject, planned, arguments.seconds, folder, words, show_section)
    files = write_pages(report, folder)
    if arguments.json:
        print_json(report.as_plain())
    else:
        for file in files:
            print_line(str(file))
    return stop.exit_code if stop.stop_requested() else 0


def _check_folder(folder: Path) -> None:
    """Raise `UserError` unless a report can be written to a folder, over an earlier report."""
    check_output_folder(folder, FILES)
    if (folder / RESULTS).exists() and read_document(folder).name != REPORT:
        raise UserError(
            f"{folder} has the result of an experiment; choose another folder with "
            + Where("--out")
            + ".",
            kind="other-work",
            value=str(folder),
        )


def _check_sections(names: tuple[str, ...] | None) -> None:
    known = [spec.key for spec in SECTIONS]
    for name in names or ():
        if name not in known:
            raise UserError(
                Where("--only") + f" has no section '{name}'; there are {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
                value=name,
            )


def _read_network(arguments: argparse.Namespace) -> tuple[CheckpointContents, tuple[str, ...]]:
    """Return the network's tensors, and sentences on how they were read."""
    if arguments.model is not None:
        model = follow_model(arguments, first_examples(arguments))
        return model.listing, tuple(model.notes)
    listing = with_reading(read_listing(arguments.file, arguments.part or ""), arguments)
    return listing, tuple(filter(None, [part_in_words(listing)]))


def _chosen_data(listing: CheckpointContents, arguments: argparse.Namespace) -> DataConfig | None:
    """Return the data with all their settings; None for a data set that is only named.

    One of our networks is read on the data that it was trained on, unless others are wanted; on
    the same data set, with the settings and the split of its training.

    Raises:
        UserError: the file does not say on which data, and none are given.
    """
    wanted = read_config(arguments.config).data if arguments.config is not None else None
    if not is_ours(listing):
        if arguments.data is None and wanted is None:
            raise UserError(
                f"{listing.file_name} does not state its data; choose some with "
                + Where("--data")
                + ".",
                kind="needs-option",
                value="--data",
            )
        return wanted
    own = state_of(listing).config.data
    if arguments.data == own.name or (arguments.data is None and wanted is None):
        return replace(own, root=arguments.data_root or own.root)
    if wanted is None:
        return None
    return split_of_own(listing, replace(wanted, normalise=own.normalise))


def _open_subject(
    listing: CheckpointContents,
    notes: tuple[str, ...],
    arguments: argparse.Namespace,
    stop: StopSignals,
) -> Subject:
    own = _chosen_data(listing, arguments)
    given = open_on_data(listing, arguments, EXAMPLES, own)
    subject = Subject(
        name=listing.file_name,
        listing=listing,
        imported=given.imported,
        examples=given.examples,
        data=own or given.data,
        prepare=given.prepare,
        probe_set=given.chosen,
        x=given.x,
        raw_shape=given.raw_shape[1:],
        seed=arguments.seed or 0,
        scored=_SCORED if arguments.scored is None else arguments.scored,
        notes=notes,
        earlier=_earlier_networks(listing, given, arguments),
        gate_task=cache(lambda: _gate_task(subject, arguments)),
        is_stopped=stop.stop_requested,
    )
    if arguments.expect_accuracy is not None:
        total = len(given.examples.test_y)
        scored = test_accuracy(subject.network, given.examples, given.prepare, total)
        share = None if scored is None else scored.share
        on = f"{total:,} test examples of {given.examples.name}"
        why = "its outputs do not match the classes"
        check_expected(subject.name, share, arguments.expect_accuracy, on, why)
    return subject


def _earlier_networks(
    listing: CheckpointContents, given: NetworkOnData, arguments: argparse.Namespace
) -> tuple[Earlier, ...]:
    """Return the same network at initialisation and at the checkpoint before, where known."""
    if not is_ours(listing):
        return ()
    state = state_of(listing)
    found = [_initial_network(state, given), _previous_checkpoint(listing, given, arguments)]
    return tuple(earlier for earlier in found if earlier is not None)


def _initial_network(state: NetworkState, given: NetworkOnData) -> Earlier | None:
    """Draw the initial network of a run again; None unless its configuration determines it."""
    config, regime = state.config, state.regime
    gating, training = config.gating, config.training
    known = regime.name == gating.regime and not regime.takes_gates and not regime.drawn_gates
    if not known or training.weights_from or gating.gates_from or state.drawn_seed != config.seed:
        return None
    if config.net.is_from_file or state.step == 0:
        return None
    saved = given.imported.network
    shape, classes = saved.architecture.input_shape, saved.architecture.classes
    base = build_architecture(config.net, shape, classes)
    # Only the precision of the examples matters: runs draw weights in that of stored images.
    x, labels = given.x.float(), torch.tensor(given.chosen.labels)
    data = DeviceData(x, labels, x, labels)
    control = NetworkControl(config, base, data, regime, given.x.device, lambda _: None)
    network = control.network.to(given.x.dtype).requires_grad_(False)
    network.wiring, network.routes, network.gate = saved.wiring, saved.routes, saved.gate
    return Earlier(0, network)


def _previous_checkpoint(
    listing: CheckpointContents, given: NetworkOnData, arguments: argparse.Namespace
) -> Earlier | None:
    """Return the network at the run's checkpoint before this one; None if there is none."""
    run = None if arguments.model is not None else find_run(arguments.file)
    if run is None or not run[0].is_dir():
        return None
    newest = state_of(listing).step
    steps = [found.step for found in RunReader(run[0]).checkpoints if found.step < newest]
    if not steps:
        return None
    before = read_listing(Path(f"{run[0]}@{steps[-1]}"))
    shape = given.imported.network.architecture.input_shape
    network = network_of(before, shape, given.x.dtype).network.requires_grad_(False)
    return Earlier(steps[-1], network)


def _gate_task(subject: Subject, arguments: argparse.Namespace) -> ReproductionTask | None:
    """Return the measurement of gate information for this network, on the same data."""
    config = subject.imported.config or RunConfig()
    training = replace(config.training, epochs=0, patience=0, keep_epochs=(), until=0.0)
    data = replace(
        subject.data,
        image_size=subject.prepare.size,
        normalise=subject.prepare.normalise,
        image_channels=subject.prepare.channels if len(subject.raw_shape) == 3 else 0,
    )
    settings = RunConfig(data=data, training=training, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / CONFIG
        file.write_text(settings.to_toml(), encoding="utf-8")
        parser = ArgumentParser()
        gate_information.add_arguments(parser)
        parser.set_defaults(command="gate-information")
        words = [*_network_words(arguments, subject.name), str(file), "--quiet"]
        return plan_measurement(parser.parse_args(words))[0]


def _network_words(arguments: argparse.Namespace, name: str) -> list[str]:
    """Return the arguments that select the same network again, with the checkpoint pinned."""
    words = ["--part", arguments.part] if arguments.part else []
    reading = reading_from_options(arguments)
    words += shlex.split(reading.command_options)
    if arguments.net:
        words += ["--net", arguments.net]
        words += [word for text in arguments.option for word in ("--option", text)]
    if arguments.model is not None:
        words += ["--model", arguments.model]
        weights = arguments.weights
        return [*words, *(["--weights", str(weights.absolute())] if weights else [])]
    path = arguments.file
    typed = str(path.absolute()) if named_by_path(path) else str(path)
    _, at, step = name.rpartition("@")
    if at and step.isdecimal() and not typed.endswith(f"@{step}"):
        typed += f"@{step}"
    return [*words, typed]


def _typed_command(arguments: argparse.Namespace, folder: Path) -> tuple[str, ...]:
    """Return the arguments of `dgn` that write the same report, as far as they were typed."""
    typed = sys.argv[1:] if sys.argv[1:2] == ["report"] else ["report", str(arguments.file)]
    words = tuple(word for word in typed if word not in ("--quiet", "--json"))
    return words if arguments.out else (*words, "--out", str(folder))


def _default_folder(
    arguments: argparse.Namespace, listing: CheckpointContents, subject: Subject
) -> Path:
    network = arguments.file if arguments.model is None else Path(arguments.model)
    settings = (subject.data, arguments.examples, arguments.seed, arguments.dtype, arguments.only)
    name = f"report-{listing.file_name}-{subject.data.name}"
    return measurement_folder(name, network.absolute(), repr(settings))


def _cost_lines(subject: Subject, planned: list[MeasuredSection], limit: float) -> list[str]:
    """Say what each section costs, and which ones are left out."""
    width = max(len(measured.spec.key) for measured in planned)
    lines = [
        f"Report of {subject.name} on {subject.n:,} examples of {subject.examples.name}; limit "
        f"{format_duration(limit)} a section (--seconds):"
    ]
    for measured in planned:
        words = measured.why or cost_in_words(measured.cost)
        lines.append(f"  {measured.spec.key:{width}}  {words}")
    return lines


def _outcome(measured: MeasuredSection) -> str:
    if measured.section is None:
        return f"left out. {measured.why}"
    return f"done in {format_duration(measured.seconds)}"
