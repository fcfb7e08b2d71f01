"""`dgn runs`: list, show, verify, repair, keep, export, import and delete recorded runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand

_CHANGE = "dgn_engine.cli.run.change_runs"
_VERBS = {
    "list": "dgn_engine.cli.run.list_runs:list_runs",
    "show": "dgn_engine.cli.run.show_run:show_run",
    "verify": f"{_CHANGE}:verify_run",
    "repair": f"{_CHANGE}:repair_run",
    "keep": f"{_CHANGE}:keep_checkpoint",
    "export": f"{_CHANGE}:export_folder",
    "import": f"{_CHANGE}:import_run",
    "limits": f"{_CHANGE}:limit_runs",
    "thin": f"{_CHANGE}:thin_oldest",
    "delete": f"{_CHANGE}:delete_folder",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_subparsers(dest="verb", required=True, metavar="ACTION")
    lister = _add_action(chosen, "list", "list the runs in a folder")
    lister.add_argument(
        "root", nargs="?", type=Path, metavar="DIR", help="folder of runs (default: your runs)"
    )
    lister.add_argument(
        "--filter",
        default="",
        metavar="TERMS",
        help="only runs with these words and settings: 'wide regime:DL best>90 tag:paper'",
    )
    lister.add_argument("--json", action="store_true", help="print all details as JSON")
    lister.add_argument("--rebuild", action="store_true", help="rebuild the index first")
    _add_run_command(
        chosen, "show", "show a run or session: configuration, status, scores, checkpoints"
    )
    _add_run_command(
        chosen, "verify", "list damaged and missing files; exit with 1 if there are any"
    )
    _add_run_command(chosen, "repair", "move damaged files aside and keep the rest")
    keeper = _add_run_command(chosen, "keep", "keep a checkpoint permanently")
    keeper.add_argument("--step", type=int, metavar="N", help="step (default: the newest)")
    exporter = _add_run_command(
        chosen, "export", "export a run to one file, .dgn (all) or .csv (scores), or to TensorBoard"
    )
    exporter.add_argument("out", type=Path, metavar="FILE", help="output file or folder")
    exporter.add_argument(
        "--tensorboard",
        action="store_true",
        help="write a new folder for TensorBoard: scalars, and panels as images",
    )
    importer = _add_action(chosen, "import", "add the run of a session file (.dgn) to your runs")
    importer.add_argument("file", type=Path, metavar="FILE.dgn", help="session file")
    importer.add_argument(
        "--name", default="", help="name of the new run (default: its name in the file)"
    )
    limiter = _add_action(chosen, "limits", "show or set the disk space limits of runs")
    limiter.add_argument("--run", default="", metavar="SIZE", help="limit per run: 512MiB, 1.5GiB")
    limiter.add_argument("--all", default="", metavar="SIZE", help="limit for all runs: 20GiB")
    thinner = _add_action(
        chosen, "thin", "thin out the oldest runs if all together exceed the limit"
    )
    thinner.add_argument(
        "root", nargs="?", type=Path, metavar="DIR", help="folder of runs (default: your runs)"
    )
    thinner.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    deleter = _add_run_command(chosen, "delete", "delete a run with all its files")
    deleter.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(arguments: argparse.Namespace) -> str:
    return _VERBS[arguments.verb]


def _add_action(
    chosen: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    return chosen.add_parser(name, help=about, description=f"{about[:1].upper()}{about[1:]}.")


def _add_run_command(
    chosen: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    parser = _add_action(chosen, name, about)
    parser.add_argument(
        "run", metavar="RUN", help="folder of a run, or the name of one of your runs"
    )
    return parser


COMMAND = Subcommand(
    "Manage recorded runs: list, show, verify, repair, export, import, delete.", add_arguments, run
)
