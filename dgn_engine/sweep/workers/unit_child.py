"""A process that carries out one unit after another: tasks and news go through a pipe as text."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

LOOK = 0.1  # seconds between two looks at the pipe while a unit runs
STOP = "stop"  # parent → child: save what runs, then end


def serve(pipe: Connection, environment: Mapping[str, str], log: str) -> None:
    """In the child, until its parent says stop or is gone. Its output goes to the file `log`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; its parent ends it
    os.environ.update(environment)  # before torch is imported and looks
    _redirect(Path(log))
    ear = _Ear(pipe)
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while not ear.stopped:
            text = pipe.recv_bytes().decode()
            if text == STOP:
                break
            _carry_out([str(task) for task in json.loads(text)], ear)
    pipe.close()


def _carry_out(tasks: list[str], ear: _Ear) -> None:
    """One unit by itself, several as a pack."""
    from dgn_engine.sweep.attempt import UnitTask, attempt

    if len(tasks) == 1:
        ear.say(attempt(tasks[0], ear.say, ear.told_to_stop))
        return
    from dgn_engine.sweep.attempt_pack import attempt_pack

    pack = [UnitTask.from_text(text) for text in tasks]
    for news in attempt_pack(pack, lambda news: ear.say(news.to_text()), ear.told_to_stop):
        ear.say(news.to_text())


class _Ear:
    """Asks now and then whether the parent wants it to stop, or is gone."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._looked = 0.0
        self.stopped = False

    def told_to_stop(self) -> bool:
        now = time.monotonic()
        if not self.stopped and now - self._looked >= LOOK:
            self._looked = now
            try:
                self.stopped = self._pipe.poll() and self._pipe.recv_bytes().decode() == STOP
            except (EOFError, OSError):
                self.stopped = True
        return self.stopped

    def say(self, text: str) -> None:
        try:
            self._pipe.send_bytes(text.encode())
        except OSError:
            self.stopped = True


def _redirect(log: Path) -> None:
    """What the process prints, to its last word, goes to a file and not onto a progress bar."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)
