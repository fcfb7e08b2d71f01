"""`dgn gate-information FILE`: what the gates of a checkpoint know ([NPF] Definition 5.1)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.cli import Subcommand
from dgn_engine.cli._execution import add_reproduction_options, carry_out, exit_code
from dgn_engine.cli._options import add_run_options, run_config
from dgn_engine.cli._reader_options import IF_NOT, add_expected, check_expected
from dgn_engine.errors import UserError

if TYPE_CHECKING:
    from dgn_engine.config import RunConfig
    from dgn_engine.data import Examples
    from dgn_engine.model.importing.from_file import ImportedNetwork

SEEDS = 3
_FIXED = ("regime", "gates_from", "weights_from", "seed", "wiring", "rotation", "shift", "tiling")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="any checkpoint; none of it is run")
    add_run_options(parser)
    add_expected(parser)
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="K", help="of each kind")
    add_reproduction_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 when done, 3 when a run failed for good, 130 when interrupted; it can go on."""
    for name in _FIXED:
        if getattr(arguments, name) is not None:
            raise UserError(f"Leave out --{name.replace('_', '-')}: it follows from the measure.")
    if arguments.seeds < 1:
        raise UserError(f"--seeds is {arguments.seeds}; it must be at least 1.")

    from dgn_engine.data import load_examples
    from dgn_engine.experiments import Request
    from dgn_engine.experiments._gate_information import gate_information, network_for
    from dgn_engine.experiments.report.write_report import ReproductionTask
    from dgn_engine.storage.runs.folder_layout import CONFIG, results_root
    from dgn_engine.sweep.workers import works_here

    file: Path = arguments.file.absolute()
    config = _config(arguments, file)
    experiment = gate_information(file, config, arguments.seeds)
    data = "".join(c if c.isalnum() else "_" for c in config.data.name)
    folder = arguments.out or results_root() / f"gate-information-{file.stem}-{data}"
    request = Request(
        scale="full",
        seeds=arguments.seeds,
        epochs=config.training.epochs,
        data=config.data.name,
        data_root=config.data.root,
        device=config.device,
    )
    folder = folder.absolute()
    again = ("gate-information", str(file), str(folder / CONFIG), "--seeds", str(arguments.seeds))
    command = (*again, "--out", str(folder))
    files = {CONFIG: config.to_toml().encode()}  # so that the same command can go on
    task = ReproductionTask("gate-information", experiment, request, folder, command, files)
    if not arguments.report_only and works_here(arguments.cluster):
        examples = load_examples(config.data)
        found = network_for(file, config.net, examples)  # refuse it before it begins
        _check_accuracy(file.name, found, examples, arguments.expect_accuracy)
    return exit_code(carry_out(arguments, task))


def _check_accuracy(
    name: str, found: ImportedNetwork, examples: Examples, expected: float | None
) -> None:
    """Say what is assumed of the file and the accuracy that follows; refuse one not expected."""
    import sys

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
        print(f"{name} is {found.title}. {found.assumption}{right}", file=sys.stderr)


def _config(arguments: argparse.Namespace, file: Path) -> RunConfig:
    """The options, with the network that the file is of; where it does not say it, the one that
    --net or CONFIG.toml names."""
    from dgn_engine.config import GatingConfig
    from dgn_engine.data import load_examples
    from dgn_engine.experiments._gate_information import net_of

    config = run_config(arguments)
    net = config.net
    named = net if arguments.net or arguments.config else None
    shape = load_examples(config.data).train_x.shape[1:]
    found = net_of(file, shape, otherwise=named)
    if not arguments.net:
        net = replace(net, name=found.name, options=found.options)
    gating = GatingConfig(beta=config.gating.beta, value_input=config.gating.value_input)
    training = replace(config.training, weights_from="", pace=0.0)
    return replace(config, net=net, gating=gating, training=training)


COMMAND = Subcommand(
    "Train value networks with the gates of a checkpoint, and with random ones.",
    add_arguments,
    run,
)
