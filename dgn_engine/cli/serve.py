"""`dgn serve`: serve a run to a window on another machine through `ssh -L`."""

from __future__ import annotations

import argparse

from dgn_engine.cli import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", help="folder of a run, or the name of one of your runs"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port (default: any free port)"
    )


COMMAND = Subcommand(
    "Serve a run read-only to a window on another machine (through ssh -L).",
    add_arguments,
    "dgn_engine.cli.run.serve_run:serve_run",
)
