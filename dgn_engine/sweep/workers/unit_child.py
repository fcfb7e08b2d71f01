"""A child process that executes units; tasks and updates are passed through a pipe as JSON."""

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

from dgn_engine.confinement.child_entry import begin_saving_child
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.sweep.unit import UnitTask, UnitUpdate
from dgn_engine.text.printable import print_error

EVERY = 0.1  # seconds between polls of the pipe while a unit runs
IDLE = 0.5  # … while idle
DEVICE_FAULT = 69  # exit code: the GPU cannot be used, at least by this process
STOP = "stop"  # parent → child: save the running unit, then end


def serve_units(pipe: Connection, environment: Mapping[str, str], log: str) -> None:
    """Execute units for the parent until it sends STOP or is gone; output goes to `log`.

    SIGTERM, which Slurm sends to every process of a job, also stops it.
    """
    parent = _Parent(pipe)
    begin_saving_child()
    signal.signal(signal.SIGTERM, lambda *_: setattr(parent, "stopped", True))
    os.environ.update(environment)  # before torch is imported
    _redirect_output(Path(log))
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while not parent.stopped:
            if not pipe.poll(IDLE):
                continue
            text = pipe.recv_bytes().decode()
            if text == STOP:
                break
            _check_card(environment)
            _carry_out(json.loads(text), parent)
    pipe.close()


def _check_card(environment: Mapping[str, str]) -> None:
    """End the process if its GPU does not respond; 'auto' would silently train on the CPU."""
    if not environment.get("CUDA_VISIBLE_DEVICES"):
        return
    import torch

    try:
        torch.zeros(1, device="cuda").tolist()
    except Exception as error:  # of any type, from a missing driver to full memory
        _exit_at_once(f"The GPU does not respond: {error}")


def _exit_at_once(why: str) -> None:
    """Exit at once, since CUDA cannot be shut down cleanly."""
    for line in why.splitlines():  # into the log, whose end the parent reports
        print_error(line)
    os._exit(DEVICE_FAULT)


def _carry_out(texts: list[str], parent: _Parent) -> None:
    """Execute a single unit, or several as a pack."""
    from dgn_engine.sweep.workers.attempt import attempt_pack, attempt_unit

    tasks = [UnitTask.from_text(text) for text in texts]
    if len(tasks) == 1:
        last = [attempt_unit(tasks[0], parent.send_update, parent.wants_stop)]
    else:
        last = attempt_pack(tasks, parent.send_update, parent.wants_stop)
    if any(update.state == "lost" for update in last):
        _exit_at_once(last[0].trouble)  # the parent will notice the closed pipe
    for update in last:
        parent.send_update(update)


class _Parent:
    """The parent process at the other end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._polled = 0.0
        self.stopped = False

    def wants_stop(self) -> bool:
        now = time.monotonic()
        if not self.stopped and now - self._polled >= EVERY:
            self._polled = now
            try:
                self.stopped = self._pipe.poll() and self._pipe.recv_bytes().decode() == STOP
            except (EOFError, OSError):
                self.stopped = True
        return self.stopped

    def send_update(self, update: UnitUpdate) -> None:
        try:
            self._pipe.send_bytes(update.to_text().encode())
        except OSError:
            self.stopped = True


def _redirect_output(log: Path) -> None:
    """Redirect stdout and stderr to a file, so that they do not break the progress bar."""
    path = inner_folder(log.parent.parent) / log.parent.name / log.name
    handle = path.open(os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)
