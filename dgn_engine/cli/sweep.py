"""`dgn sweep`: train a grid or list of runs over any fields of a configuration."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.cli._executor_options import add_executor_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sweep", type=Path, metavar="SWEEP.toml", help="file with base, [grid] and [[list]]"
    )
    add_executor_options(parser, "Dask cluster: tls://HOST:PORT, local, or slurm[:jobs=8,…]")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write to DIR instead of your results folder (for Dask: a shared folder)",
    )
    parser.add_argument("--list", action="store_true", help="list the runs and exit")
    parser.add_argument("--quiet", action="store_true", help="show no progress, only the result")


COMMAND = Subcommand(
    "Train many networks: a grid or a list of configurations.",
    add_arguments,
    "dgn_engine.cli.run.start_sweep:start_sweep",
)
