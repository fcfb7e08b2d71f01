"""Train one network, resume a run, or branch off from one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dgn_engine.cli import FAILED, UNSAVED
from dgn_engine.cli._options import (
    PLACES,
    name_options_in_errors,
    run_config,
    typed_name,
    typed_places,
)
from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError, Where, with_names
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.storage.runs.folder_layout import WEIGHTS, find_run, runs_root, unused_path
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_info import frames_of
from dgn_engine.storage.runs.run_reader import RunReader, frames_in_words
from dgn_engine.text.printable import print_error, print_line
from dgn_engine.training.branch import branch_name
from dgn_engine.training.headless_run import HeadlessRun, NotBegunError, Outcome
from dgn_engine.training.run_progress_bar import TrainProgressBar


def train_new(arguments: argparse.Namespace) -> int:
    """Train a new run.

    Exit with 0 if done, 3 if the loss diverged, 4 if the result could not be written, 128 + n
    after signal n (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1), in which case the run is saved.
    """
    config = run_config(arguments)
    folder = _new_folder(arguments, config)
    try:
        with name_options_in_errors(arguments):
            return _train_with_progress(
                arguments, folder, lambda headless: headless.train(config, folder)
            )
    except UserError:
        if folder is not None and not folder.info.was_built:
            folder.discard_folder()  # the run never started
        raise


def _new_folder(arguments: argparse.Namespace, config: RunConfig) -> RunFolder | None:
    """Create the folder of --out, else one among the user's runs if that is writable."""
    if arguments.out is not None:
        return RunFolder.create(arguments.out, config)
    if arguments.no_record:
        return None
    try:
        return create_named(runs_root(), config)
    except UserError as refusal:
        print_error(f"dgn train: {refusal} The run is not recorded.")
        return None


def resume_run(arguments: argparse.Namespace) -> int:
    folder = RunFolder(arguments.resume)
    if arguments.record_every and not (arguments.record or frames_of(folder.info.tree)[0]):
        folder.close()
        raise UserError(
            Where("--record-every")
            + f" needs --record: {folder.path.name} has no recorded frames; choose probes, such "
            "as npk,ntk.",
            kind="needs-option",
            value="--record",
        )
    newest, reader = folder.newest_checkpoint, RunReader(arguments.resume)
    diverged_at = reader.diverged_at
    # A run that was trained in the window, or whose final weights could not be written, is resumed
    # in order to write them.
    written = (folder.root / WEIGHTS).exists() and reader.outcome == "finished"
    if newest is not None and newest.finished and written:
        folder.close()
        print_line(f"{folder.path} is finished: {newest.step:,} steps.")
        return 0
    if diverged_at is not None:
        folder.close()
        last_finite = f"; its last finite checkpoint is at step {newest.step:,}" if newest else ""
        print_error(f"dgn train: the loss diverged at step {diverged_at:,}{last_finite}.")
        return FAILED
    try:
        folder.require_sound_checkpoint()
        return _train_with_progress(
            arguments, folder, lambda headless: headless.continue_folder(folder)
        )
    finally:
        folder.close()


def train_branch(arguments: argparse.Namespace) -> int:
    given = [name for name in PLACES if getattr(arguments, name) is not None]
    values = {name: getattr(arguments, name) for name in given}
    if "lr" in values:
        values["learning_rate"] = values.pop("lr")
    changes = BranchChanges(**values, restart_value=not arguments.keep_value)
    parent = find_run(arguments.branch_from)
    reader = RunReader(parent)
    step, out, after_changes = arguments.at_step, arguments.out, arguments.after_changes
    if step is None:
        step, after_changes = reader.find_checkpoint().step, True
    if out is None:
        regime = changes.regime or reader.config.gating.regime
        out = unused_path(runs_root(), branch_name(reader.config, regime, step))
    with name_options_in_errors(arguments):
        return _train_with_progress(
            arguments,
            None,
            lambda headless: headless.run_branch(
                parent, step, changes, out, arguments.steps, after_changes=after_changes
            ),
            out,
        )


def _train_with_progress(
    arguments: argparse.Namespace,
    folder: RunFolder | None,
    work: Callable[[HeadlessRun], Outcome],
    branch: Path | None = None,
) -> int:
    """Run `work` with a progress bar and signal handling; return the exit code.

    Args:
        arguments: the command line.
        folder: the folder of the run, None if it is not recorded or `work` creates it.
        work: trains and returns the outcome.
        branch: the folder that `work` creates.
    """
    stop = StopSignals()
    probes, every, typed = arguments.record, arguments.checkpoint_every, typed_places(arguments)

    def print_warning(sentence: str) -> None:
        print_error(f"dgn train: {with_names(sentence, partial(typed_name, arguments))}")

    try:
        with (
            TrainProgressBar(sys.stderr, quiet=arguments.quiet, warn=print_warning) as progress,
            stop,
        ):
            frames = arguments.record_every or 0
            headless = HeadlessRun(
                progress, stop.stop_requested, probes, every, typed, frames, arguments.pace
            )
            outcome = work(headless)
    except NotBegunError:
        if folder is not None and not folder.info.was_built:
            folder.discard_folder()
        print_error("dgn train: interrupted before its first step.")
        return stop.exit_code
    print_line(outcome.summary)
    path = branch if folder is None else folder.path
    if path is not None and not arguments.quiet and not outcome.unsaved:
        frames_text = frames_in_words(RunReader(path).frames)  # frames of long runs are thinned out
        print_error(f"Recorded in {path}." + (f" Frames of {frames_text}." if frames_text else ""))
    if outcome.unsaved:
        print_error(f"dgn train: {outcome.unsaved}")
        return UNSAVED
    if outcome.diverged:
        print_error(f"dgn train: {_divergence_in_words(outcome, path)}")
        return FAILED
    if stop.stop_requested():
        saved = f"; saved in {path}" if path else ""
        print_error(f"dgn train: interrupted at step {outcome.step:,}{saved}.")
        return stop.exit_code
    return 0


def _divergence_in_words(outcome: Outcome, path: Path | None) -> str:
    """Say where the loss diverged, what was saved before, and how to continue from there."""
    sentence = f"the loss diverged at step {outcome.step:,}"
    if outcome.last_finite:
        sentence += f"; the last finite loss was at step {outcome.last_finite:,}"
    steps = (
        [checkpoint.step for checkpoint in RunReader(path).checkpoints] if path is not None else []
    )
    if path is None or not steps:
        return f"{sentence}. Start again with a smaller learning rate."
    return (
        f"{sentence}. To continue from the newest checkpoint, step {steps[-1]:,}: 'dgn train "
        f"--branch-from {path} --at-step {steps[-1]} --lr …'."
    )
