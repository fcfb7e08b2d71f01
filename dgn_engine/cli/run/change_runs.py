"""`dgn runs verify`, `repair`, `keep`, `export`, `import`, `delete`, `limits` and `thin`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from dgn_engine.cli import DAMAGED
from dgn_engine.cli.run.list_runs import total_in_words
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.runs import folder_layout, thin_runs
from dgn_engine.storage.runs.folder_layout import find_run
from dgn_engine.storage.runs.manifest import find_damage, reason_uncertain
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_reader import RunReader, words_of_losses
from dgn_engine.storage.runs.run_removal import delete_run
from dgn_engine.storage.runs.storage_limits import (
    effective_limits,
    parse_size,
    read_limits,
    write_limits,
)
from dgn_engine.storage.session_file.session_reader import adopt_run, unpack_session
from dgn_engine.storage.session_file.session_writer import export_run
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import print_line, printable


def import_run(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as temp_folder:
        session = unpack_session(arguments.file, Path(temp_folder))
        name = arguments.name or session.name
        print_line(str(adopt_run(session.folder, folder_layout.runs_root(), name)))
    return 0


def verify_run(arguments: argparse.Namespace) -> int:
    """List damaged files; exit with 1 if there are any."""
    folder = find_run(arguments.run)
    findings = find_damage(folder)
    for finding in findings:
        print_line(f"{finding}{' (harmless)' if finding.harmless else ''}")
    damaged = sum(not finding.harmless for finding in findings)
    if not damaged:
        print_line(_describe_integrity(folder))
        return 0
    print_line(f"{folder}: {damaged} damaged; 'dgn runs repair {folder}' keeps the intact files.")
    return DAMAGED


def repair_run(arguments: argparse.Namespace) -> int:
    folder = find_run(arguments.run)
    for sentence in repair_run_folder(folder):
        print_line(sentence)
    print_line(_describe_integrity(folder))
    return 0


def _describe_integrity(folder: Path) -> str:
    """Say that a run's folder is intact, and what is lost or could not be checked."""
    mirror = folder_layout.is_mirror(folder)
    mirror_note = " (a mirror: no checkpoints or weights)" if mirror else ""
    why, lost = reason_uncertain(folder), words_of_losses(folder)
    verdict = "The remaining files are intact" if lost else f"{folder} is intact"
    doubt = f", as far as can be checked: {why}" if why else ""
    return f"{verdict}{mirror_note}{doubt}{f', but {lost}' if lost else ''}."


def keep_checkpoint(arguments: argparse.Namespace) -> int:
    folder = find_run(arguments.run)
    checkpoints = [
        checkpoint
        for checkpoint in RunReader(folder).checkpoints
        if arguments.step is None or checkpoint.step == arguments.step
    ]
    if not checkpoints:
        at = "" if arguments.step is None else f" of step {arguments.step:,}"
        raise UserError(
            f"{folder} has no checkpoint{at}; list them with 'dgn runs show {folder}'.",
            kind="not-recorded",
            value=arguments.step,
        )
    try:
        write_file(checkpoints[-1].path / folder_layout.KEEP, b"")
    except OSError as error:
        raise UserError(f"Cannot mark {checkpoints[-1].path}: {error.strerror}.") from None
    print_line(f"{checkpoints[-1].path} will be kept.")
    return 0


def export_folder(arguments: argparse.Namespace) -> int:
    if arguments.tensorboard:
        from dgn_engine.figures.tensorboard_log import export_to_tensorboard

        print_line(export_to_tensorboard(find_run(arguments.run), arguments.out))
        return 0
    print_line(export_run(find_run(arguments.run), arguments.out))
    return 0


def delete_folder(arguments: argparse.Namespace) -> int:
    folder = find_run(arguments.run)
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise UserError(f"pass --yes to delete {folder} permanently.", kind="not-confirmed")
        RunReader(folder)
        if not _ask_yes_no(f"Delete {printable(str(folder))} with all its checkpoints and frames?"):
            print_line("Nothing was deleted.")
            return 0
    delete_run(folder)
    print_line(f"Deleted {folder}.")
    return 0


def _ask_yes_no(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        print_line()
        return False


def limit_runs(arguments: argparse.Namespace) -> int:
    root = folder_layout.runs_root()
    if arguments.run or arguments.all:
        limits = effective_limits(root)
        chosen = replace(
            limits,
            run=parse_size(arguments.run) if arguments.run else limits.run,
            all=parse_size(arguments.all) if arguments.all else limits.all,
        )
        write_limits(root, chosen)
    now = read_limits(root)
    run, everything = binary_size_in_words(now.run), binary_size_in_words(now.all)
    print_line(f"one run: {run}, all runs together: {everything}")
    print_line(f"Stored in {root / folder_layout.LIMITS}; without this file the defaults apply.")
    return 0


def thin_oldest(arguments: argparse.Namespace) -> int:
    """List what would be removed, ask for confirmation, and thin out the oldest runs."""
    root = arguments.root or folder_layout.runs_root()
    plan = thin_runs.plan_thinning(root)
    if not plan.is_over_limit:
        print_line(f"{total_in_words(plan.total, plan.limit)}: nothing to thin out.")
        return 0
    print_line(plan.sentence)
    if not plan.folders:
        return 0
    for folder in plan.folders:
        print_line(f"  {folder.name}")
    print_line(
        "Each run keeps one in eight of its frames and of the checkpoints saved before changes."
    )
    if not arguments.yes:
        if not sys.stdin.isatty():
            raise UserError("pass --yes to thin them out.", kind="not-confirmed")
        if not _ask_yes_no("Thin them out?"):
            print_line("Nothing was removed.")
            return 0
    freed = thin_runs.thin_folders(plan.folders, print_line)
    print_line(f"{binary_size_in_words(freed)} freed.")
    return 0
