"""`dgn train`: one run from start to end, with a progress bar, and its folder on disk."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand, full_speed
from dgn_engine.cli._option_checks import bounded, given_options
from dgn_engine.cli._options import PLACES, SHORT, add_run_options, run_config
from dgn_engine.errors import UserError, Where
from dgn_engine.text.printable import say_lines

EVERY = 5.0  # seconds
_OF_BRANCH = ("at_step", "after_changes", "steps", "keep_value")
_CHANGED = ("regime", "wiring", "rotation", "shift", "value_input", "lr", "beta", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write the run here, not among the user's runs"
    )
    parser.add_argument("--no-record", action="store_true", help="without --out: write nothing")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with the run in this folder"
    )
    _add_branch_options(parser)
    parser.add_argument(
        "--record",
        type=_probes,
        metavar="PROBES",
        default=[],
        help="probes to write as frames while training: gates,overlap,npk,ntk "
        "(with --resume: those of before); at 40 steps or more of the run, the first and the last",
    )
    parser.add_argument(
        "--record-every",
        **bounded(int, least=1, counts="steps"),
        metavar="N",
        help="a frame every N steps instead, and of the first and the last",
    )
    parser.add_argument(
        "--checkpoint-every",
        **bounded(float, least=0, finite=True, counts="seconds"),
        default=EVERY,
        metavar="SECONDS",
        help=f"at most this long between two checkpoints ({EVERY:g}; 0: as often as possible)",
    )
    parser.set_defaults(pace=full_speed)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--print-config", action="store_true", help="print the TOML and stop")


def _add_branch_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "branch",
        "go on from a step of a recorded run with another --regime, --wiring, --rotation, --shift, "
        "--value-input, --lr, --beta or --seed (of the batches' order and of what is drawn)",
    )
    group.add_argument(
        "--branch-from", metavar="RUN", help="a folder of a run, or the name of one of yours"
    )
    group.add_argument(
        "--at-step",
        type=int,
        metavar="K",
        help="any step of it (else its newest checkpoint), before what was changed there: the "
        "steps since the nearest checkpoint before are taken again",
    )
    group.add_argument(
        "--after-changes",
        action="store_true",
        help="with what was changed at --at-step before its newest checkpoint was written",
    )
    group.add_argument(
        "--steps",
        **bounded(int, least=0, counts="steps"),
        metavar="N",
        help="train so many from there (0: until stopped)",
    )
    group.add_argument(
        "--keep-value",
        action="store_true",
        help="leave the value network as it is where the regime (FL) would draw it anew",
    )


def _probes(text: str) -> list[str]:
    """The type of --record for argparse: names with commas between."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names no probe; say which, for example npk,ntk")
    return names


def run(arguments: argparse.Namespace) -> int | str:
    """Refuse options that contradict each other; return what trains, or print the configuration."""
    trained = "dgn_engine.cli.run.train_network"
    every = arguments.record_every
    if every is not None and not arguments.record and arguments.resume is None:
        raise UserError(
            Where("--record-every") + " needs --record: say which probes, for example npk,ntk.",
            kind="needs-option",
            value="--record",
        )
    if arguments.branch_from is not None:
        _check_branch(arguments)
        return f"{trained}:train_branch"
    for option in given_options(arguments, *_OF_BRANCH):
        raise UserError(
            Where(option) + " is of a branch: say of which run with --branch-from RUN.",
            kind="needs-option",
            value="--branch-from",
        )
    if arguments.resume is not None:
        _check_resume(arguments)
        return f"{trained}:resume_run"
    if arguments.no_record and (arguments.out or arguments.record):
        other = "--out names a folder for it" if arguments.out else "--record writes frames of it"
        raise UserError(
            Where("--no-record") + f" writes nothing of the run, and {other}; leave one out.",
            kind="contradiction",
            value=other.partition(" ")[0],
        )
    config = run_config(arguments)
    if arguments.print_config:
        say_lines(config.to_toml().removesuffix("\n"))
        return 0
    return f"{trained}:train_new"


def _check_resume(arguments: argparse.Namespace) -> None:
    other = (*PLACES, "config", "out", "option", "data_option", *SHORT, "no_record")
    for option in given_options(arguments, *other):
        raise UserError(
            "--resume takes everything from the folder; leave out "
            + Where(option)
            + ", or begin another run.",
            kind="contradiction",
            value="--resume",
        )


def _check_branch(arguments: argparse.Namespace) -> None:
    other = [name for name in PLACES if name not in _CHANGED]
    other += ["config", "resume", "option", "data_option", *SHORT, "no_record", "print_config"]
    for option in given_options(arguments, *other):
        raise UserError(
            "A branch takes all but its changes from its parent; leave out "
            + Where(option)
            + ". It may have another "
            f"{', '.join('--' + name.replace('_', '-') for name in _CHANGED)}.",
            kind="contradiction",
            value="--branch-from",
        )


COMMAND = Subcommand("Train one network without a window.", add_arguments, run)
