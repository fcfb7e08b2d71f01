"""Processes that measure for another, which ends them in time, and the files of their results."""

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


def run_for(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str],
    grace: float = 0.0,
    said: list[str] | None = None,
) -> tuple[int | None, str]:
    """Return exit code and output of a command; None where it was stopped after so many seconds.
    The output is printed as it comes.

    Args:
        grace: seconds that it has to save its work after SIGTERM; 0: it is killed at once.
        said: takes the output as it comes, for a caller that a signal ends.
    """
    said = [] if said is None else said

    def echo() -> None:
        said.append(seen.read())
        print(said[-1], end="", flush=True)

    until = monotonic() + seconds
    with (
        tempfile.NamedTemporaryFile() as output,
        Path(output.name).open(encoding="utf-8", errors="replace") as seen,
    ):
        process = subprocess.Popen(
            tied_command(command),  # or it would go on using the card
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
            _end(process, grace)
            echo()
        return code, "".join(said)


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End it with all that it has started."""
    if process.poll() is None and grace:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise `SystemExit` with 128 + n at the first signal n; later ones do not disturb the end."""
    heard = [number for number in SIGNALS if not _is_nohup(number)]
    before = {number: signal.signal(number, _end_once) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_nohup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _end_once(number: int, _: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; who is killed leaves the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
