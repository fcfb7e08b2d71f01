"""`dgn mirror`: a run that `dgn serve` serves, in a folder here, for as long as it is written."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="dgn://127.0.0.1:PORT", help="as 'dgn serve' prints it")
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="new, or an earlier mirror of the same run"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="F", help="the token; else DGN_TOKEN, else it is asked"
    )


COMMAND = Subcommand(
    "Mirror a run that 'dgn serve' serves into a folder.",
    add_arguments,
    "dgn_engine.cli.run.mirror_run:mirror_run",
)
