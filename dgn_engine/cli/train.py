"""`dgn train`: one run from start to end, with a progress bar, and its folder on disk."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from dgn_engine.cli._command import Command
from dgn_engine.cli._options import add_run_options, run_config

INTERRUPTED, DIVERGED = 130, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything of a run, and where to write it."""
    add_run_options(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="write the run here")
    parser.add_argument("--quiet", action="store_true", help="no progress, only the result")
    parser.add_argument("--print-config", action="store_true", help="print the TOML and stop")


def run(arguments: argparse.Namespace) -> int:
    """Train; exit 0 when done, 3 when the loss diverged, 130 after Ctrl-C (saved all the same)."""
    config = run_config(arguments)
    if arguments.print_config:
        print(config.to_toml(), end="")
        return 0

    from dgn_engine.cli._progress import Progress
    from dgn_engine.headless import train
    from dgn_engine.runs.folder import RunFolder

    folder = RunFolder(arguments.out) if arguments.out else None
    stop = _Interrupt()
    with Progress(sys.stderr, quiet=arguments.quiet) as progress, stop:
        outcome = train(config, folder, progress, stop.asked)
    print(outcome.summary)
    if outcome.diverged:
        print(f"dgn train: the loss diverged at step {outcome.step:,}.", file=sys.stderr)
        return DIVERGED
    if stop.asked():
        saved = f"; saved in {folder.path}" if folder else ""
        print(f"dgn train: interrupted at step {outcome.step:,}{saved}.", file=sys.stderr)
        return INTERRUPTED
    return 0


class _Interrupt:
    """Ctrl-C ends the run after the step in hand; a second one ends the program."""

    def __init__(self) -> None:
        self._asked = False

    def asked(self) -> bool:
        """Whether the user pressed Ctrl-C."""
        return self._asked

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._on_signal)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True


COMMAND = Command("Train one network without a window.", add_arguments, run)
