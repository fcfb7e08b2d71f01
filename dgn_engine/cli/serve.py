"""`dgn serve`: a run of this machine for a window on another one, through `ssh -L`."""

from __future__ import annotations

import argparse

from dgn_engine.cli import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or the name of one of yours")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="else one that is free")


COMMAND = Subcommand(
    "Serve a run, read only, for a window on another machine (through ssh -L).",
    add_arguments,
    "dgn_engine.cli.run.serve_run:serve_run",
)
