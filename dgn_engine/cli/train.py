"""`dgn train`: one run from start to end, with a progress bar, and its folder on disk."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.cli import FAILED, UNSAVED, Subcommand
from dgn_engine.cli._options import (
    PLACES,
    SHORT,
    add_run_options,
    as_typed,
    options_named,
    run_config,
    typed_places,
)
from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import WEIGHTS, find_run, runs_root, unused_path
from dgn_engine.text.printable import complain, say, say_lines

if TYPE_CHECKING:
    from dgn_engine.config import RunConfig
    from dgn_engine.storage.runs.run_folder import RunFolder
    from dgn_engine.training.headless_run import HeadlessRun, Outcome

EVERY = 5.0  # seconds


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
        type=int,
        metavar="N",
        help="a frame every N steps instead, and of the first and the last",
    )
    parser.add_argument(
        "--checkpoint-every",
        type=float,
        default=EVERY,
        metavar="SECONDS",
        help=f"at most this long between two checkpoints ({EVERY:g}; 0: as often as possible)",
    )
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
        "--steps", type=int, metavar="N", help="train so many from there (0: until stopped)"
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


def run(arguments: argparse.Namespace) -> int:
    """Train; exit 0 when done, 3 when the loss diverged, 4 when the result could not be written,
    128 + n after the signal n (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1), saved all the same.
    """
    every = arguments.checkpoint_every
    if not (math.isfinite(every) and every >= 0):
        raise UserError(f"--checkpoint-every {every:g}: must be a number of seconds, 0 or more.")
    _check_record_every(arguments)
    if arguments.branch_from is not None:
        return _branch(arguments)
    _refuse_branch_options(arguments)
    if arguments.resume is not None:
        return _resume(arguments)
    if arguments.no_record and (arguments.out or arguments.record):
        other = "--out names a folder for it" if arguments.out else "--record writes frames of it"
        raise UserError(f"--no-record writes nothing of the run, and {other}; leave one out.")
    config = run_config(arguments)
    if arguments.print_config:
        say_lines(config.to_toml().removesuffix("\n"))
        return 0

    folder = _new_folder(arguments, config)
    try:
        with options_named(arguments):
            return _train(arguments, folder, lambda headless: headless.train(config, folder))
    except UserError:
        if folder is not None and not folder.info.begun:
            folder.discard()  # it never began
        raise


def _check_record_every(arguments: argparse.Namespace) -> None:
    every = arguments.record_every
    if every is not None and every < 1:
        raise UserError(f"--record-every {every}: must be a number of steps, 1 or more.")
    if every is not None and not arguments.record and arguments.resume is None:
        raise UserError("--record-every needs --record: say which probes, for example npk,ntk.")


def _new_folder(arguments: argparse.Namespace, config: RunConfig) -> RunFolder | None:
    """The folder of --out, else one in the user's folder of runs, if that can be written."""
    from dgn_engine.storage.runs.run_folder import RunFolder, create_named

    if arguments.out is not None:
        return RunFolder.create(arguments.out, config)
    if arguments.no_record:
        return None
    try:
        return create_named(runs_root(), config)
    except UserError as refusal:
        complain(f"dgn train: {refusal} The run is not recorded.")
        return None


def _resume(arguments: argparse.Namespace) -> int:
    given = [name for name in PLACES if getattr(arguments, name) is not None]
    given += [name for name in ("config", "out") if getattr(arguments, name) is not None]
    given += [name for name in ("option", "data_option", *SHORT) if getattr(arguments, name)]
    given += ["no_record"] if arguments.no_record else []
    if given:
        option = given[0].replace("_", "-")
        raise UserError(
            f"--resume takes everything from the folder; leave out --{option}, "
            "or begin another run."
        )

    from dgn_engine.storage.runs.run_folder import RunFolder
    from dgn_engine.storage.runs.run_info import frames_of
    from dgn_engine.storage.runs.run_reader import RunReader

    folder = RunFolder(arguments.resume)
    if arguments.record_every and not (arguments.record or frames_of(folder.info.tree)[0]):
        folder.close()
        raise UserError(
            f"--record-every needs --record: {folder.path.name} was not recorded as frames before; "
            "say which probes, for example npk,ntk."
        )
    newest, reader = folder.newest, RunReader(arguments.resume)
    diverged_at = reader.diverged_at
    # One whose weights or end the disk did not take, or that the window trained, goes on to write
    # them.
    written = (folder.root / WEIGHTS).exists() and reader.outcome == "finished"
    if newest is not None and newest.finished and written:
        folder.close()
        say(f"{folder.path} is finished: {newest.step:,} steps.")
        return 0
    if diverged_at is not None:
        folder.close()
        kept = f"; the last finite checkpoint is of step {newest.step:,}" if newest else ""
        complain(f"dgn train: the loss diverged at step {diverged_at:,}{kept}.")
        return FAILED
    try:
        return _train(arguments, folder, lambda headless: headless.go_on(folder))
    finally:
        folder.close()


_OF_BRANCH = ("at_step", "after_changes", "steps", "keep_value")
_CHANGED = ("regime", "wiring", "rotation", "shift", "value_input", "lr", "beta", "seed")


def _refuse_branch_options(arguments: argparse.Namespace) -> None:
    given = [name for name in _OF_BRANCH if getattr(arguments, name) not in (None, False)]
    if given:
        option = given[0].replace("_", "-")
        raise UserError(f"--{option} is of a branch: say of which run with --branch-from RUN.")


def _branch(arguments: argparse.Namespace) -> int:
    """Train a branch of a recorded run, in a folder of its own."""
    from dgn_engine.protocol.branches import BranchChanges
    from dgn_engine.storage.runs.run_reader import RunReader
    from dgn_engine.training.branch import branch_name

    given = [name for name in PLACES if getattr(arguments, name) is not None]
    other = [name for name in given if name not in _CHANGED]
    other += [name for name in ("config", "resume") if getattr(arguments, name) is not None]
    other += [name for name in ("option", "data_option", *SHORT) if getattr(arguments, name)]
    other += [name for name in ("no_record", "print_config") if getattr(arguments, name)]
    if other:
        option = other[0].replace("_", "-")
        raise UserError(
            f"A branch takes all but its changes from its parent; leave out --{option}. It may "
            f"have another {', '.join('--' + name.replace('_', '-') for name in _CHANGED)}."
        )
    if arguments.steps is not None and arguments.steps < 0:
        raise UserError(f"--steps {arguments.steps}: must be a number of steps, 0 or more.")
    values = {name: getattr(arguments, name) for name in given}
    if "lr" in values:
        values["learning_rate"] = values.pop("lr")
    changes = BranchChanges(**values, restart_value=not arguments.keep_value)
    parent = find_run(arguments.branch_from)
    reader = RunReader(parent)
    step, out, after_changes = arguments.at_step, arguments.out, arguments.after_changes
    if step is None:
        step, after_changes = reader.checkpoint().step, True
    if out is None:
        regime = changes.regime or reader.config.gating.regime
        out = unused_path(runs_root(), branch_name(reader.config, regime, step))
    with options_named(arguments):
        return _train(
            arguments,
            None,
            lambda headless: headless.branch_off(
                parent, step, changes, out, arguments.steps, after_changes=after_changes
            ),
            out,
        )


def _train(
    arguments: argparse.Namespace,
    folder: RunFolder | None,
    work: Callable[[HeadlessRun], Outcome],
    branch: Path | None = None,
) -> int:
    """`branch`: the folder that `work` makes itself."""
    from dgn_engine.cli._pace import PACE
    from dgn_engine.session.stop_signals import StopSignals
    from dgn_engine.training.headless_run import HeadlessRun, NotBegunError
    from dgn_engine.training.run_progress_bar import TrainProgressBar

    stop = StopSignals()
    probes, every, named = arguments.record, arguments.checkpoint_every, typed_places(arguments)

    def warn(sentence: str) -> None:
        complain(f"dgn train: {as_typed(sentence, arguments)}")

    try:
        with TrainProgressBar(sys.stderr, quiet=arguments.quiet, warn=warn) as progress, stop:
            frames = arguments.record_every or 0
            headless = HeadlessRun(
                progress, stop.requested, probes, every, named, frames, lambda: PACE.value
            )
            outcome = work(headless)
    except NotBegunError:
        if folder is not None and not folder.info.begun:
            folder.discard()
        complain("dgn train: interrupted before its first step.")
        return stop.exit_code
    say(outcome.summary)
    path = branch if folder is None else folder.path
    if path is not None and not arguments.quiet and not outcome.unsaved:
        complain(f"Recorded in {path}.{_frames_in_words(path)}")
    if outcome.unsaved:
        complain(f"dgn train: {outcome.unsaved}")
        return UNSAVED
    if outcome.diverged:
        complain(f"dgn train: {_divergence_in_words(outcome, path)}")
        return FAILED
    if stop.requested():
        saved = f"; saved in {path}" if path else ""
        complain(f"dgn train: interrupted at step {outcome.step:,}{saved}.")
        return stop.exit_code
    return 0


def _divergence_in_words(outcome: Outcome, path: Path | None) -> str:
    """Where it diverged, what is kept of before, and how to go on from there."""
    from dgn_engine.storage.runs.run_reader import RunReader

    said = f"the loss diverged at step {outcome.step:,}"
    if outcome.last_finite:
        said += f"; the last step with a finite loss is {outcome.last_finite:,}"
    steps = [one.step for one in RunReader(path).checkpoints] if path is not None else []
    if path is None or not steps:
        return f"{said}. Begin it again with a smaller learning rate."
    return (
        f"{said}, and the newest checkpoint is of step {steps[-1]:,}: 'dgn train --branch-from "
        f"{path} --at-step {steps[-1]} --lr …' goes on from there."
    )


def _frames_in_words(path: Path) -> str:
    """Of how many steps there are frames: those of long runs are thinned to a cap."""
    from dgn_engine.storage.runs.run_reader import RunReader, frames_in_words

    words = frames_in_words(RunReader(path).frames)
    return f" Frames of {words}." if words else ""


COMMAND = Subcommand("Train one network without a window.", add_arguments, run)
