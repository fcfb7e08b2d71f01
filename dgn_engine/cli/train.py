"""`dgn train`: train one run with a progress bar, and record it in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand, full_speed
from dgn_engine.cli._option_checks import bounded_number, given_options
from dgn_engine.cli._options import PLACES, SHORT, add_run_options, run_config
from dgn_engine.errors import UserError, Where
from dgn_engine.text.printable import print_lines

EVERY = 5.0  # seconds
_OF_BRANCH = ("at_step", "after_changes", "steps", "keep_value")
_CHANGED = ("regime", "wiring", "rotation", "shift", "value_input", "lr", "beta", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write to DIR instead of your runs folder"
    )
    parser.add_argument("--no-record", action="store_true", help="do not record the run")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="resume the run in DIR")
    _add_branch_options(parser)
    parser.add_argument(
        "--record",
        type=_parse_probes,
        metavar="PROBES",
        default=[],
        help="probes to record as frames: gates,overlap,npk,ntk (with --resume: as before); at "
        "least 40 frames, including the first and the last step",
    )
    parser.add_argument(
        "--record-every",
        **bounded_number(int, least=1, counts="steps"),
        metavar="N",
        help="record a frame every N steps instead, and at the first and the last",
    )
    parser.add_argument(
        "--checkpoint-every",
        **bounded_number(float, least=0, finite=True, counts="seconds"),
        default=EVERY,
        metavar="SECONDS",
        help=f"time between checkpoints (default: {EVERY:g}; 0: as often as possible)",
    )
    parser.set_defaults(pace=full_speed)
    parser.add_argument("--quiet", action="store_true", help="show no progress, only the result")
    parser.add_argument(
        "--print-config", action="store_true", help="print the configuration as TOML and exit"
    )


def _add_branch_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "branch",
        "Continue from a step of a recorded run with another --regime, --wiring, --rotation, "
        "--shift, --value-input, --lr, --beta or --seed (of the batch order and random draws).",
    )
    group.add_argument(
        "--branch-from",
        metavar="RUN",
        help="run to branch from: its folder, or the name of one of your runs",
    )
    group.add_argument(
        "--at-step",
        type=int,
        metavar="K",
        help="step to branch from, as it was before any changes made there (default: the "
        "newest checkpoint); steps since the previous checkpoint are repeated",
    )
    group.add_argument(
        "--after-changes",
        action="store_true",
        help="start from the newest checkpoint of --at-step, after the changes made there",
    )
    group.add_argument(
        "--steps",
        **bounded_number(int, least=0, counts="steps"),
        metavar="N",
        help="train N steps from there (0: until stopped)",
    )
    group.add_argument(
        "--keep-value",
        action="store_true",
        help="keep the value network where the regime (FL) would reinitialise it",
    )


def _parse_probes(text: str) -> list[str]:
    """Parse --record: a comma-separated list of probes."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} lists no probes; choose some, such as npk,ntk")
    return names


def run(arguments: argparse.Namespace) -> int | str:
    """Check the options; return the function that trains, or print the configuration."""
    trained = "dgn_engine.cli.run.train_network"
    every = arguments.record_every
    if every is not None and not arguments.record and arguments.resume is None:
        raise UserError(
            Where("--record-every") + " needs --record: choose probes, such as npk,ntk.",
            kind="needs-option",
            value="--record",
        )
    if arguments.branch_from is not None:
        _check_branch(arguments)
        return f"{trained}:train_branch"
    for option in given_options(arguments, *_OF_BRANCH):
        raise UserError(
            Where(option) + " applies to a branch: add --branch-from RUN.",
            kind="needs-option",
            value="--branch-from",
        )
    if arguments.resume is not None:
        _check_resume(arguments)
        return f"{trained}:resume_run"
    if arguments.no_record and (arguments.out or arguments.record):
        other = "--out names a folder for it" if arguments.out else "--record writes frames of it"
        raise UserError(
            Where("--no-record") + f" records nothing, but {other}; remove one of them.",
            kind="contradiction",
            value=other.partition(" ")[0],
        )
    config = run_config(arguments)
    if arguments.print_config:
        print_lines(config.to_toml().removesuffix("\n"))
        return 0
    return f"{trained}:train_new"


def _check_resume(arguments: argparse.Namespace) -> None:
    other = (*PLACES, "config", "out", "option", "data_option", *SHORT, "no_record")
    for option in given_options(arguments, *other):
        raise UserError(
            "--resume takes all settings from the folder; remove "
            + Where(option)
            + ", or start a new run.",
            kind="contradiction",
            value="--resume",
        )


def _check_branch(arguments: argparse.Namespace) -> None:
    other = [name for name in PLACES if name not in _CHANGED]
    other += ["config", "resume", "option", "data_option", *SHORT, "no_record", "print_config"]
    for option in given_options(arguments, *other):
        raise UserError(
            "A branch inherits this setting from its parent; remove "
            + Where(option)
            + ". It can only change "
            f"{', '.join('--' + name.replace('_', '-') for name in _CHANGED)}.",
            kind="contradiction",
            value="--branch-from",
        )


COMMAND = Subcommand("Train one network from the command line.", add_arguments, run)
