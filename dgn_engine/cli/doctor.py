"""`dgn doctor`: check the installation and print the result on one screen."""

from __future__ import annotations

import argparse

from dgn_engine.cli import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--devices", action="store_true", help="load torch and list its devices (takes seconds)"
    )


COMMAND = Subcommand(
    "Check the installation: versions, devices, folders, confinement and data.",
    add_arguments,
    "dgn_engine.cli.run.examine_health:print_findings",
)
