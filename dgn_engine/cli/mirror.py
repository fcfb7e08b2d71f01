"""`dgn mirror`: copy a run served by `dgn serve` into a local folder until it ends."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="dgn://127.0.0.1:PORT", help="address printed by 'dgn serve'"
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="new folder, or an earlier mirror of the same run",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="file with the token (default: $DGN_TOKEN, or ask)",
    )


COMMAND = Subcommand(
    "Mirror a run served by 'dgn serve' into a folder.",
    add_arguments,
    "dgn_engine.cli.run.mirror_run:mirror_run",
)
