"""The same session in a spawned process: a fault of CUDA kills that process, not the window.

The pipe carries pickles between two halves of one program; nothing from outside passes through it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import NoReturn

from dgn_engine.protocol.commands import Command, Shutdown
from dgn_engine.protocol.events import EngineReady, Event, Stopped, Working
from dgn_engine.protocol.frames import Frame
from dgn_engine.session.mailbox import Mailbox
from dgn_engine.session.restart import EngineRestart, poisons
from dgn_engine.session.thread_session import ThreadSession

POLL = 0.01  # seconds between two polls of the child
POISONED = 86  # exit code of a child that CUDA has left
Serve = Callable[[Connection, str, str], None]
TAKEN = "taken"  # parent → child: the last frame was taken, another may be sent


class ProcessSession:
    """Has the methods of `ThreadSession`; the child sends a frame only when the last was taken.

    A child that dies is started again, once a minute at most, where a recorded run can go on.
    """

    def __init__(
        self, data_root: str = "", runs_root: str = "", serve: Serve | None = None
    ) -> None:
        """`serve`: what the child runs; tests replace it."""
        self._context = multiprocessing.get_context("spawn")
        self._arguments = (data_root, runs_root)
        self._serve = serve or serve_engine
        self._mailbox = Mailbox()
        self._restart = EngineRestart(runs_root, time.monotonic)
        self._sending = threading.Lock()  # of what follows, too
        self._closing = False
        self._ours, self._process, self._theirs = self._prepared()
        self._relay = threading.Thread(target=self._receive, name="dgn-relay", daemon=True)

    def start(self) -> None:
        """Spawn the process; `EngineReady` follows when torch is loaded there."""
        self._process.start()
        self._theirs.close()
        self._relay.start()

    def send(self, command: Command) -> None:
        self._restart.on_command(command)
        self._put(command)

    def drain(self) -> list[Event]:
        return self._mailbox.drain()

    def latest(self) -> Frame | None:
        frame = self._mailbox.latest()
        if frame is not None:
            self._put(TAKEN)
        return frame

    def close(self, timeout: float = 10.0) -> bool:
        """End the process; it is killed if it does not end in time. True if it ended by itself."""
        with self._sending:
            self._closing = True  # nothing is started any more
        if not self._relay.is_alive():
            return True
        self._put(Shutdown())
        self._process.join(timeout)
        ended = not self._process.is_alive()
        if not ended:
            self._process.kill()
            self._process.join()
        self._relay.join(timeout)
        self._process.close()
        return ended

    @property
    def left(self) -> str:
        return self._restart.left

    def _prepared(self) -> tuple[Connection, SpawnProcess, Connection]:
        """Our end of a pipe, a process that is still to be started, and its end."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=self._serve, args=(theirs, *self._arguments), name="dgn-engine", daemon=True
        )
        return ours, process, theirs

    def _put(self, message: Command | str) -> None:
        with self._sending, contextlib.suppress(OSError):  # the relay notices a broken pipe
            self._ours.send(message)

    def _receive(self) -> None:
        while not self._relayed():
            self._process.join()
            how = _how(self._process.exitcode)
            commands = self._restart.after_death(how)
            if not commands or not self._started_again(commands):
                self._mailbox.emit(self._restart.final_failure(how))
                self._mailbox.emit(Stopped())
                break
        self._ours.close()

    def _relayed(self) -> bool:
        """Relay everything from one process; whether it ended because it was asked to."""
        stopped = False
        pid = self._process.pid or 0
        while True:
            try:
                message: Event | Frame = self._ours.recv()
            except (EOFError, OSError):
                return stopped
            if isinstance(message, Frame):
                self._restart.on_frame(message)
                self._mailbox.publish(_read_only(message))
                continue
            restarted = self._restart.on_event(message, pid)
            stopped = stopped or isinstance(message, Stopped)
            self._mailbox.emit(message)
            if restarted is not None:
                self._mailbox.emit(restarted)

    def _started_again(self, commands: tuple[Command, ...]) -> bool:
        """Start another process in the place of a dead one; False where the session is closed."""
        self._mailbox.emit(Working("The engine process died; starting it again"))
        with self._sending:
            if self._closing:
                return False
            self._mailbox.latest()  # of the dead one, and of no run that is shown
            self._ours.close()
            self._process.close()
            self._ours, self._process, self._theirs = self._prepared()
            self._process.start()
            self._theirs.close()
        for command in commands:
            self._put(command)
        return True


def _how(code: int | None) -> str:
    if code == POISONED:
        return "a fault of CUDA"
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _read_only(frame: Frame) -> Frame:
    """Pickling loses the flag that keeps arrays from being written to."""
    for reading in frame.readings.values():
        for array in reading.arrays.values():
            array.flags.writeable = False
    return frame


def serve_engine(pipe: Connection, data_root: str, runs_root: str) -> None:
    """In the child: a session, and a loop that carries its messages."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; its parent ends it
    session = ThreadSession(data_root, runs_root)
    session.start()
    ready, may_send = False, True
    waiting: Frame | None = None
    try:
        while True:
            if pipe.poll(POLL):
                message: Command | str = pipe.recv()
                if isinstance(message, str):
                    may_send = True
                elif isinstance(message, Shutdown) and not ready:
                    pipe.send(Stopped())  # nothing was begun; torch need not be waited for
                    _leave(pipe)
                else:
                    session.send(message)
            events = session.drain()
            for event in events:
                pipe.send(event)
                ready = ready or isinstance(event, EngineReady)
                if poisons(event):
                    pipe.close()
                    os._exit(POISONED)  # CUDA would refuse everything from here on
            waiting = session.latest() or waiting
            if may_send and waiting is not None:
                pipe.send(waiting)
                may_send, waiting = False, None
            if any(isinstance(event, Stopped) for event in events):
                _leave(pipe)
    except (EOFError, OSError):
        session.close()
    finally:
        pipe.close()


def _leave(pipe: Connection) -> NoReturn:
    """End at once: everything is written, and a window that is being closed would wait for torch
    to be taken down module by module.
    """
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
