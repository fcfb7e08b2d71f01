"""`dgn runs`: list, show, verify, repair, keep, export, import and delete recorded runs."""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from dgn_engine.cli import DAMAGED, Subcommand, _run_storage
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.runs import folder_layout
from dgn_engine.text.printable import printable, printable_name, say, say_json
from dgn_engine.text.written_numbers import percent

_NAME = 60  # characters of the column of names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_subparsers(dest="verb", required=True, metavar="WHAT")
    lister = chosen.add_parser("list", help="every run of a folder of runs")
    lister.add_argument("root", nargs="?", type=Path, metavar="DIR", help="the user's runs")
    lister.add_argument("--json", action="store_true", help="as JSON, with everything known")
    lister.add_argument("--rebuild", action="store_true", help="forget the index first")
    _add(chosen, "show", "one run, or a session file: configuration, end, scores, checkpoints")
    _add(chosen, "verify", "name every damaged or missing file; exit 1 where there is one")
    _add(chosen, "repair", "put damaged files aside and keep all that is sound")
    keeper = _add(chosen, "keep", "keep the newest checkpoint, or that of a step, for good")
    keeper.add_argument("--step", type=int, metavar="N", help="of which step (the newest)")
    exporter = _add(chosen, "export", "write a run into one file: .dgn (all) or .csv (scores)")
    exporter.add_argument("out", type=Path, metavar="FILE")
    importer = chosen.add_parser(
        "import",
        help="put the run of a session file (.dgn) among the user's runs",
        description="put the run of a session file (.dgn) among the user's runs",
    )
    importer.add_argument("file", type=Path, metavar="FILE.dgn")
    importer.add_argument("--name", default="", help="of the new folder; else as it was saved")
    limiter = chosen.add_parser("limits", help="show or set what runs may take on disk")
    _run_storage.add_limits(limiter)
    thinner = chosen.add_parser("thin", help="thin out the oldest runs, where all take too much")
    _run_storage.add_thin(thinner)
    deleter = _add(chosen, "delete", "delete a run and everything in it")
    deleter.add_argument("--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> int:
    """Exit 0; 1 where `verify` found damage."""
    if arguments.verb == "list":
        root = arguments.root or folder_layout.runs_root()
        if arguments.rebuild:
            from dgn_engine.storage.runs.index import forget_index

            forget_index(root)
        gc.disable()  # of ten thousand runs everything is kept until the end
        try:
            return _list_json(root) if arguments.json else _list(root)
        finally:
            gc.enable()
    if arguments.verb == "import":
        return _import(arguments.file, arguments.name)
    if arguments.verb in _run_storage.VERBS:
        return _run_storage.VERBS[arguments.verb](arguments)
    commands: dict[str, Callable[[Path, argparse.Namespace], int]] = {
        "show": _show,
        "verify": _verify,
        "repair": _repair,
        "keep": _keep,
        "export": _export,
        "delete": _delete,
    }
    return commands[arguments.verb](folder_layout.find_run(arguments.run), arguments)


def _add(
    chosen: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    parser = chosen.add_parser(name, help=about, description=about)
    parser.add_argument(
        "run", metavar="RUN", help="a folder, or the name of one of the user's runs"
    )
    return parser


def _list(root: Path) -> int:
    from dgn_engine.storage.runs.index import list_runs

    runs = list_runs(str(root)).runs
    if not runs:
        say(f"There are no runs in {root}.")
        return 0
    names = {run.folder: printable_name(run.name) for run in runs}
    width = min(_NAME, max(map(len, names.values())))
    say(f"{'run':{width}}  {'status':11}  {'step':>11}  {'best':>7}  what")
    for run in sorted(runs, key=lambda one: (one.created, one.name)):
        best = percent(run.best, 2) if run.best == run.best else ""
        parts = [run.regime, run.net, run.data, f"seed {run.seed}"] if run.net else []
        parts += ["·", run.trouble] if parts and run.trouble else [run.trouble] * bool(run.trouble)
        parts += ["·", run.given_name] if run.given_name else []
        what = " ".join(map(printable_name, parts))
        say(f"{names[run.folder]:{width}}  {run.status:11}  {run.step:11,}  {best:>7}  {what}")
    _run_storage.say_if_too_much(root, sum(run.bytes for run in runs))
    return 0


def _list_json(root: Path) -> int:
    """The rows of the window's table; a number that is not known is null."""
    from dgn_engine.storage.plain_data import to_plain
    from dgn_engine.storage.runs.index import list_runs

    rows = [to_plain(run, "null") for run in list_runs(str(root)).runs]
    say_json(rows, indent=2)
    return 0


def _show(folder: Path, _: argparse.Namespace) -> int:
    from dgn_engine.cli._run_summary import describe

    if not folder.is_file():
        for line in describe(folder, str(folder)):
            say(line)
        return 0
    from dgn_engine.storage.session_file.session_reader import unpack
    from dgn_engine.text.printable import plain

    with tempfile.TemporaryDirectory() as place:
        session = unpack(folder, Path(place))
        saved = f"{folder}: a session, saved {session.saved} at step {session.step:,}"
        for line in (saved, *describe(session.folder, session.name)):
            say(plain(line, 2000))
    return 0


def _import(file: Path, name: str) -> int:
    from dgn_engine.storage.session_file.session_reader import adopt, unpack

    with tempfile.TemporaryDirectory() as place:
        session = unpack(file, Path(place))
        say(str(adopt(session.folder, folder_layout.runs_root(), name or session.name)))
    return 0


def _verify(folder: Path, _: argparse.Namespace) -> int:
    from dgn_engine.storage.runs.manifest import verify

    found = verify(folder)
    for finding in found:
        say(f"{finding}{' (harmless)' if finding.harmless else ''}")
    damaged = sum(not finding.harmless for finding in found)
    if not damaged:
        say(_say_sound(folder))
        return 0
    say(f"{folder}: {damaged} damaged; 'dgn runs repair {folder}' keeps what is sound.")
    return DAMAGED


def _repair(folder: Path, _: argparse.Namespace) -> int:
    from dgn_engine.storage.runs.repair import repair

    for sentence in repair(folder):
        say(sentence)
    say(_say_sound(folder))
    return 0


def _say_sound(folder: Path) -> str:
    """That nothing in a run's folder is damaged, and what is lost or cannot be told."""
    from dgn_engine.storage.runs.manifest import why_uncertain
    from dgn_engine.storage.runs.run_reader import words_of_losses

    mirror = folder_layout.is_mirror(folder)
    words = " (a mirror: without checkpoints and weights)" if mirror else ""
    why, lost = why_uncertain(folder), words_of_losses(folder)
    whole = "What is there is sound" if lost else f"{folder} is sound"
    told = f", as far as can be told: {why}" if why else ""
    return f"{whole}{words}{told}{f', but {lost}' if lost else ''}."


def _keep(folder: Path, arguments: argparse.Namespace) -> int:
    from dgn_engine.storage.runs.run_reader import RunReader

    found = [
        one
        for one in RunReader(folder).checkpoints
        if arguments.step is None or one.step == arguments.step
    ]
    if not found:
        at = "" if arguments.step is None else f" of step {arguments.step:,}"
        raise UserError(f"{folder} has no checkpoint{at}; 'dgn runs show {folder}' lists them.")
    try:
        write_file(found[-1].path / folder_layout.KEEP, b"")
    except OSError as error:
        raise UserError(f"{found[-1].path} cannot be marked: {error.strerror}.") from None
    say(f"{found[-1].path} is kept.")
    return 0


def _export(folder: Path, arguments: argparse.Namespace) -> int:
    from dgn_engine.storage.session_file.session_writer import export_run

    say(export_run(folder, arguments.out))
    return 0


def _delete(folder: Path, arguments: argparse.Namespace) -> int:
    from dgn_engine.storage.runs.run_reader import RunReader
    from dgn_engine.storage.runs.run_removal import delete_run

    if not arguments.yes:
        if not sys.stdin.isatty():
            raise UserError(f"say --yes to delete {folder} for good.")
        RunReader(folder)
        answer = input(
            f"Delete {printable(str(folder))} with all its checkpoints and frames? [y/N] "
        )
        if answer.strip().lower() not in ("y", "yes"):
            say("Nothing was deleted.")
            return 0
    delete_run(folder)
    say(f"{folder} is deleted.")
    return 0


COMMAND = Subcommand(
    "List, show, verify, repair, export, import and delete recorded runs.", add_arguments, run
)
