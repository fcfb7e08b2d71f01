"""`dgn gate-information`: measure what a network's gates have learnt ([NPF] Definition 5.1)."""

from __future__ import annotations

import argparse

from dgn_engine.cli import Subcommand
from dgn_engine.cli._executor_options import add_reproduction_options
from dgn_engine.cli._network_options import add_expected, add_network, add_reading, check_network
from dgn_engine.cli._option_checks import bounded_number, given_options
from dgn_engine.cli._options import add_run_options
from dgn_engine.config import TrainingConfig
from dgn_engine.errors import UserError, Where

SEEDS, EPOCHS, PATIENCE = 5, 200, 20  # defaults; enough for the digits
_FIXED = (
    "regime",
    "gates_from",
    "weights_from",
    "seed",
    "wiring",
    "rotation",
    "shift",
    "tiling",
    "feature_layers",
    "beta",
    "epsilon",
    "gate_probability",
    "pretrain_epochs",
    "keep_epochs",
    "keep_best",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    add_reading(parser)
    add_run_options(parser)
    for action in parser._actions:
        if action.dest in _FIXED:
            action.help = argparse.SUPPRESS
    add_expected(parser)
    parser.add_argument(
        "--seeds",
        **bounded_number(int, least=1),
        default=SEEDS,
        metavar="K",
        help=f"number of pairs of value networks (default: {SEEDS})",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_reproduction_options(parser)
    usual = TrainingConfig()
    parser.epilog = (
        f"Defaults: {SEEDS} seeds; at most {EPOCHS} epochs, stopping after {PATIENCE} in which "
        "train accuracy rises by less than half a point (--epochs, --patience; 0 never stops "
        f"early); {usual.optimiser}, learning rate {usual.learning_rate:g}, batch size "
        f"{usual.batch}, {usual.loss}. Accuracies are those after the last epoch."
    )


def run(arguments: argparse.Namespace) -> str:
    """Check the options and return the function that runs the measurement."""
    for option in given_options(arguments, *_FIXED):
        raise UserError("Remove " + Where(option) + ": the measurement sets it.", kind="no-effect")
    path = arguments.file  # with --model, a single path is CONFIG.toml
    if arguments.model and path and arguments.config is None and path.suffix == ".toml":
        arguments.config, arguments.file = path, None
    check_network(arguments, arguments.file)
    return "dgn_engine.cli.run.measure_gates:measure_gates"


COMMAND = Subcommand(
    "Measure how much of a network's accuracy its gates carry, by training value networks with "
    "them and with random gates.",
    add_arguments,
    run,
)
