"""`dgn gate-information`: what the gates of a trained network know ([NPF] Definition 5.1)."""

from __future__ import annotations

import argparse

from dgn_engine.cli import Subcommand
from dgn_engine.cli._executor_options import add_reproduction_options
from dgn_engine.cli._network_options import add_expected, add_network, add_reading, check_network
from dgn_engine.cli._option_checks import bounded, given_options
from dgn_engine.cli._options import add_run_options
from dgn_engine.config import TrainingConfig
from dgn_engine.errors import UserError, Where

SEEDS, EPOCHS, PATIENCE = 5, 200, 20  # where nobody says; enough on digits
_FIXED = (
    "regime",
    "gates_from",
    "weights_from",
    "seed",
    "wiring",
    "rotation",
    "shift",
    "tiling",
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
        **bounded(int, least=1),
        default=SEEDS,
        metavar="K",
        help=f"pairs of value networks ({SEEDS})",
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


def run(arguments: argparse.Namespace) -> str:
    """Refuse options that contradict each other; return what measures."""
    for option in given_options(arguments, *_FIXED):
        raise UserError(
            "Leave out " + Where(option) + ": it follows from the measure.", kind="no-effect"
        )
    path = arguments.file  # where --model is given, a single path is that of CONFIG.toml
    if arguments.model and path and arguments.config is None and path.suffix == ".toml":
        arguments.config, arguments.file = path, None
    check_network(arguments, arguments.file)
    return "dgn_engine.cli.run.measure_gates:measure_gates"


COMMAND = Subcommand(
    "Say which share of a network's accuracy its gates carry, by training value networks behind "
    "them and behind random gates.",
    add_arguments,
    run,
)
