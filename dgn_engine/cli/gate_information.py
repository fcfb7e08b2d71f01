"""`dgn gate-information FILE`: what the gates of a checkpoint know ([NPF] Definition 5.1)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dgn_engine.cli import Subcommand
from dgn_engine.cli._execution import add_reproduction_options, carry_out, exit_code
from dgn_engine.cli._options import (
    add_run_options,
    as_typed,
    options_named,
    run_config,
    typed_places,
)
from dgn_engine.cli._reader_options import IF_NOT, add_expected, check_expected
from dgn_engine.config import TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.text.printable import complain, say_json

if TYPE_CHECKING:
    from dgn_engine.config import RunConfig
    from dgn_engine.data import Examples
    from dgn_engine.experiments.report.document import Document
    from dgn_engine.model.importing.from_file import ImportedNetwork

SEEDS, EPOCHS, PATIENCE = 5, 200, 20  # where nobody says; enough on digits
_FIXED = (
    "regime", "gates_from", "weights_from", "seed", "wiring", "rotation", "shift", "tiling",
    "beta", "epsilon", "gate_probability", "pretrain_epochs", "keep_epochs", "keep_best",
)  # fmt: skip
ARRAYS = "gate-information.npz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="any checkpoint; none of it is run")
    add_run_options(parser)
    for action in parser._actions:
        if action.dest in _FIXED:
            action.help = argparse.SUPPRESS
    add_expected(parser)
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, metavar="K", help=f"pairs of value networks ({SEEDS})"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_reproduction_options(parser)
    usual = TrainingConfig()
    parser.epilog = (
        f"Unless you say otherwise: {SEEDS} seeds; at most {EPOCHS} epochs, ended by {PATIENCE} in "
        "which train accuracy rises by less than half a point (--epochs, --patience; 0 never ends "
        f"early); {usual.optimiser}, step {usual.learning_rate:g}, batch {usual.batch}, "
        f"{usual.loss}; the accuracy that counts is that after the last epoch."
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 when done, 3 when a run failed for good, 128 + n when the signal n interrupted it; it
    can go on.
    """
    for name in _FIXED:
        if getattr(arguments, name) is not None:
            raise UserError(f"Leave out --{name.replace('_', '-')}: it follows from the measure.")
    if arguments.seeds < 1:
        raise UserError(f"--seeds is {arguments.seeds}; it must be at least 1.")

    from dgn_engine.data import load_examples
    from dgn_engine.experiments import Request
    from dgn_engine.experiments._gate_information import gate_information, network_for
    from dgn_engine.experiments.report.write_report import ReproductionTask
    from dgn_engine.storage.runs.folder_layout import CONFIG
    from dgn_engine.sweep.workers import works_here

    file: Path = arguments.file.absolute()
    config = _config(arguments, file)
    experiment = gate_information(file, config, arguments.seeds)
    folder = (arguments.out or _default_folder(file, config)).absolute()
    request = Request(
        scale="full",
        seeds=arguments.seeds,
        epochs=config.training.epochs,
        data=config.data.name,
        data_root=config.data.root,
        device=config.device,
    )
    again = ("gate-information", str(file), str(folder / CONFIG), "--seeds", str(arguments.seeds))
    fed = () if arguments.value_input is None else ("--value-input", arguments.value_input)
    command = (*again, *fed, "--out", str(folder))
    files = {CONFIG: config.to_toml().encode()}  # so that the same command can go on
    task = ReproductionTask("gate-information", experiment, request, folder, command, files)
    if not arguments.report_only and works_here(arguments.cluster):
        examples = load_examples(config.data)
        found = network_for(file, config.net, examples)  # refuse it before it begins
        _check_accuracy(file.name, found, examples, arguments.expect_accuracy)
        for sentence in _ignored(arguments, config, examples):
            complain(f"dgn gate-information: {sentence}")
    stop = StopSignals()
    document = carry_out(arguments, task, stop, _print_json if arguments.json else None)
    _write_arrays(document, folder)
    return exit_code(document, stop)


def _check_accuracy(
    name: str, found: ImportedNetwork, examples: Examples, expected: float | None
) -> None:
    """Say what is assumed of the file and the accuracy that follows; refuse one not expected."""
    from dgn_engine.data._preprocessing import Preprocessing
    from dgn_engine.training.metrics import test_accuracy

    if not found.assuming and expected is None:
        return
    scored = test_accuracy(found.network, examples, Preprocessing(), len(examples.test_y))
    share = None if scored is None else scored.share
    on = f"{len(examples.test_y):,} test examples of {examples.name}"
    check_expected(name, share, expected, on, "it has other outputs")
    if found.assuming:
        right = "" if share is None else f" {share:.1%} of the {on} are right. {IF_NOT}"
        complain(f"{name} is {found.title}. {found.assumption}{right}")


def _config(arguments: argparse.Namespace, file: Path) -> RunConfig:
    """The options, with the network that the file is of; where it does not say it, the one that
    --net or CONFIG.toml names."""
    from dgn_engine.data import load_examples
    from dgn_engine.experiments._gate_information import gating_of, net_of

    config = run_config(arguments)
    net = config.net
    named = net if arguments.net or arguments.config else None
    with options_named(arguments):
        shape = load_examples(config.data).train_x.shape[1:]
    found = net_of(file, shape, otherwise=named)
    if not arguments.net:
        net = replace(net, name=found.name, options=found.options)
    gating = gating_of(file)
    if arguments.value_input is not None:
        gating = replace(gating, value_input=arguments.value_input)
    return replace(
        config,
        net=replace(net, bias=net.bias or found.bias),
        gating=gating,
        training=_training(arguments, config.training),
    )


def _training(arguments: argparse.Namespace, training: TrainingConfig) -> TrainingConfig:
    """As long as they need, where neither the options nor CONFIG.toml say how long."""
    training = replace(training, weights_from="", pace=0.0, keep_epochs=(), keep_best=False)
    if arguments.config is not None and training.epochs:
        return training
    return replace(
        training,
        epochs=EPOCHS if arguments.epochs is None else arguments.epochs,
        patience=PATIENCE if arguments.patience is None else arguments.patience,
    )


def _default_folder(file: Path, config: RunConfig) -> Path:
    """Among the user's results; more seeds go on in the same."""
    from dgn_engine.experiments.report.result_layout import measurement_folder

    where = replace(config, device="auto", data=replace(config.data, download=False))
    name = f"gate-information-{file.stem}-{config.data.name}"
    return measurement_folder(name, file, where.to_toml())


def _ignored(arguments: argparse.Namespace, config: RunConfig, examples: Examples) -> Iterator[str]:
    from dgn_engine.training.ignored_settings import RunFacts, ignored_settings

    facts = RunFacts((len(examples.train_y), len(examples.test_y)))
    for one in ignored_settings(config, facts, typed_places(arguments)):
        yield as_typed(one.sentence, arguments)


def _print_json(document: Document, folder: Path, stream: TextIO) -> None:
    from dgn_engine.storage.plain_data import to_plain

    told = {
        "state": document.state,
        "answer": document.answer,
        **document.details,
        "remarks": document.remarks,
        "choices": document.choices,
        "folder": str(folder),
    }
    say_json(to_plain(told, nonfinite="null"), stream=stream)


def _write_arrays(document: Document, folder: Path) -> None:
    """The accuracies by seed and epoch for whoever calculates on, once they are all there."""
    if not document.details:
        return
    import io

    import numpy as np

    from dgn_engine.experiments._gate_information import arrays_of
    from dgn_engine.storage.atomic_write import write_file
    from dgn_engine.storage.inner_path import inside

    content = io.BytesIO()
    arrays: dict[str, Any] = arrays_of(document.details)
    np.savez(content, **arrays)
    write_file(inside(folder) / ARRAYS, content.getvalue())


COMMAND = Subcommand(
    "Say which share of a network's accuracy its gates carry, by training value networks behind "
    "them and behind random gates.",
    add_arguments,
    run,
)
