"""Processes that measure for another, which ends them in time, and the files of their results."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_for(
    command: Sequence[str], seconds: float, environment: Mapping[str, str], grace: float = 0.0
) -> tuple[int | None, str]:
    """Return exit code and output of a command; None where it was stopped after so many seconds.

    Args:
        grace: seconds that it has to save its work after SIGTERM; 0: it is killed at once.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        code: int | None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process, grace)
        output.seek(0)
        return code, output.read()


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End it with all that it has started."""
    if process.poll() is None and grace:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise `SystemExit` with 128 + n at the first signal n; later ones do not disturb the end."""
    before = {number: signal.signal(number, _end_once) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
