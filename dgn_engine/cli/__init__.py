"""`dgn`, the engine without a window: one command a file, each with the constant COMMAND."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from dgn_engine import __version__
from dgn_engine.errors import UserError
from dgn_engine.plugins import discover

DAMAGED, REFUSED, FAILED, UNSAVED, INTERRUPTED = 1, 2, 3, 4, 130  # exit codes


@dataclass(frozen=True)
class Subcommand:
    """A command. `run` returns the exit code and imports torch itself: `dgn --help` is quick."""

    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    parser, commands = _parser()
    arguments = parser.parse_args(argv)
    try:
        return commands[arguments.command].run(arguments)
    except UserError as refusal:
        print(f"dgn {arguments.command}: {refusal}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(f"dgn {arguments.command}: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # of `dgn … | head`
        sys.stderr.close()
        return 1


class _Parser(argparse.ArgumentParser):
    """Says what it cannot parse in one sentence, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{self.prog}: {message}\n")


def _parser() -> tuple[argparse.ArgumentParser, dict[str, Subcommand]]:
    parser = _Parser(
        prog="dgn", description="Train deep gated networks and measure what their gates know."
    )
    parser.add_argument("--version", action="version", version=f"dgn {__version__}")
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    found = discover("dgn_engine.cli", "COMMAND", Subcommand)
    commands = {module.replace("_", "-"): command for module, command in found.items()}
    for name, command in commands.items():
        command.add_arguments(
            chosen.add_parser(name, help=command.about, description=command.about)
        )
    return parser, commands
