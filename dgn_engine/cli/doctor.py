"""`dgn doctor`: whether this program can work here, and with what, on one screen."""

from __future__ import annotations

import argparse

from dgn_engine.cli import Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.add_argument(
        "--devices", action="store_true", help="load torch and ask it for its devices (seconds)"
    )


COMMAND = Subcommand(
    "Say whether the program can work here: versions, device, folders, confinement, data.",
    add_arguments,
    "dgn_engine.cli.run.examine_health:print_findings",
)
