"""Run measuring child processes with a time limit, and write their result files."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from types import FrameType

from dgn_engine.confinement.child_process import python_environment
from dgn_engine.confinement.tied_program import tied_command

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_EVERY = 0.2  # seconds


def run_with_limit(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str],
    grace: float = 0.0,
    printed: list[str] | None = None,
) -> tuple[int | None, str]:
    """Run a command, printing its output as it arrives.

    Args:
        seconds: time after which the command is stopped.
        grace: seconds between SIGTERM and SIGKILL, for saving work; 0 kills at once.
        printed: list to append the output to, so that the caller has it even after a signal.

    Returns:
        The exit code (None if the command was stopped) and the output.
    """
    printed = [] if printed is None else printed

    def echo() -> None:
        printed.append(seen.read())
        print(printed[-1], end="", flush=True)

    until = monotonic() + seconds
    with (
        tempfile.NamedTemporaryFile() as output,
        Path(output.name).open(encoding="utf-8", errors="replace") as seen,
    ):
        process = subprocess.Popen(
            tied_command(command),  # ends with us: otherwise it would keep the card busy
            stdout=output,
            stderr=subprocess.STDOUT,
            env=python_environment() | environment,
            start_new_session=True,
        )
        code: int | None = None
        try:
            while code is None and (left := until - monotonic()) > 0.0:
                with suppress(subprocess.TimeoutExpired):
                    code = process.wait(min(left, ECHO_EVERY))
                echo()
        finally:
            _stop_process(process, grace)
            echo()
        return code, "".join(printed)


def _stop_process(process: subprocess.Popen[bytes], grace: float) -> None:
    """Stop the process and every process it has started."""
    if process.poll() is None and grace:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise `SystemExit(128 + n)` on the first signal n, and ignore later signals."""
    numbers = [number for number in SIGNALS if not _is_ignored_hangup(number)]
    before = {number: signal.signal(number, _exit_once) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_ignored_hangup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _exit_once(number: int, _: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: if the process is killed, the previous file remains."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
