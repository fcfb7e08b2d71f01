"""The same session in a spawned process: a fault of CUDA kills that process, not the window.

The pipe carries pickles between two halves of one program; nothing from outside passes through it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from multiprocessing.connection import Connection

from dgn_engine.mailbox import Mailbox
from dgn_engine.protocol.commands import Command, Shutdown
from dgn_engine.protocol.events import Event, Failed, Stopped
from dgn_engine.protocol.frames import Frame
from dgn_engine.session import Session

POLL = 0.01  # seconds between two looks of the child at its session
TAKEN = "taken"  # parent → child: the last frame was taken, another may be sent


class ProcessSession:
    """Same face as `Session`; the child sends a frame only when the last one was taken."""

    def __init__(self, data_root: str = "", runs_root: str = "") -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, self._theirs = context.Pipe()
        self._mailbox = Mailbox()
        self._sending = threading.Lock()
        self._process = context.Process(
            target=_serve, args=(self._theirs, data_root, runs_root), name="dgn-engine", daemon=True
        )
        self._relay = threading.Thread(target=self._receive, name="dgn-relay", daemon=True)

    def start(self) -> None:
        """Spawn the process; `EngineReady` follows when torch is loaded there."""
        self._process.start()
        self._theirs.close()
        self._relay.start()

    def send(self, command: Command) -> None:
        """Ask for something; it is obeyed between two steps."""
        self._put(command)

    def drain(self) -> list[Event]:
        """Every event since the last call, in order."""
        return self._mailbox.drain()

    def latest(self) -> Frame | None:
        """The newest frame that was not taken yet."""
        frame = self._mailbox.latest()
        if frame is not None:
            self._put(TAKEN)
        return frame

    def close(self, timeout: float = 10.0) -> bool:
        """End the process; it is killed if it does not end in time. True if it ended by itself."""
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

    def _put(self, message: Command | str) -> None:
        with self._sending, contextlib.suppress(OSError):  # the relay tells of a broken pipe
            self._ours.send(message)

    def _receive(self) -> None:
        stopped = False
        while True:
            try:
                message: Event | Frame = self._ours.recv()
            except (EOFError, OSError):
                break
            if isinstance(message, Frame):
                self._mailbox.publish(_read_only(message))
            else:
                stopped = stopped or isinstance(message, Stopped)
                self._mailbox.emit(message)
        if not stopped:
            self._process.join()
            self._mailbox.emit(
                Failed(
                    f"The engine process died (exit code {self._process.exitcode}); "
                    "start the engine again to go on.",
                    "",
                )
            )
            self._mailbox.emit(Stopped())
        self._ours.close()


def _read_only(frame: Frame) -> Frame:
    """Pickling loses the flag that keeps arrays from being written to."""
    for reading in frame.readings.values():
        for array in reading.arrays.values():
            array.flags.writeable = False
    return frame


def _serve(pipe: Connection, data_root: str, runs_root: str) -> None:
    """In the child: a session, and a loop that carries its messages."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too; its parent ends it
    session = Session(data_root, runs_root)
    session.start()
    may_send = True
    waiting: Frame | None = None
    try:
        while True:
            if pipe.poll(POLL):
                message: Command | str = pipe.recv()
                if isinstance(message, str):
                    may_send = True
                else:
                    session.send(message)
            events = session.drain()
            for event in events:
                pipe.send(event)
            waiting = session.latest() or waiting
            if may_send and waiting is not None:
                pipe.send(waiting)
                may_send, waiting = False, None
            if any(isinstance(event, Stopped) for event in events):
                break
    except (EOFError, OSError):
        session.close()
    finally:
        pipe.close()
