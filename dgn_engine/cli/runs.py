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
    limiter.add_argument("--run", default="", metavar="SIZE", help="of one run: 512MiB, 1.5GiB")
    limiter.add_argument("--all", default="", metavar="SIZE", help="of all runs together: 20GiB")
    thinner = chosen.add_parser("thin", help="thin out the oldest runs, where all take too much")
    thinner.add_argument("root", nargs="?", type=Path, metavar="DIR", help="the user's runs")
    thinner.add_argument("--yes", action="store_true", help="do not ask")
    deleter = _add(chosen, "delete", "delete a run and everything in it")
    deleter.add_argument("--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> str:
    return _VERBS[arguments.verb]


def _add(
    chosen: argparse._SubParsersAction[argparse.ArgumentParser], name: str, about: str
) -> argparse.ArgumentParser:
    parser = chosen.add_parser(name, help=about, description=about)
    parser.add_argument(
        "run", metavar="RUN", help="a folder, or the name of one of the user's runs"
    )
    return parser


COMMAND = Subcommand(
    "List, show, verify, repair, export, import and delete recorded runs.", add_arguments, run
)
