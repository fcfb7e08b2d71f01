"""The session in a spawned process: a CUDA fault kills that process, not the window.

The pipe carries pickles between two halves of one program; no outside data pass through it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from typing import NoReturn

from dgn_engine.confinement.child_entry import begin_saving_child
from dgn_engine.confinement.child_process import describe_end
from dgn_engine.confinement.parent_watch import LEAVE
from dgn_engine.confinement.spawn_context import SPAWN, end_spawned
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import (
    Command,
    EngineAnswered,
    EngineReady,
    EngineSilent,
    Event,
    Failed,
    Refused,
    Shutdown,
    Stopped,
    Working,
)
from dgn_engine.protocol.watching import ReportWindow
from dgn_engine.session.mailbox import Mailbox
from dgn_engine.session.restart import EngineRestart, poisons_cuda
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.session.unused_memory import use_one_heap
from dgn_engine.storage.program_log import crashes_logged

LOADING = 90.0  # seconds of silence allowed while torch is loaded, which blocks the interpreter
SILENT = 10.0  # seconds allowed afterwards; a live process sends something every second
_NAP = 1.0  # seconds between two checks; if more passed, this process was suspended
POLL = 0.03  # seconds between two checks whether a command has been obeyed
BEAT = 1.0  # seconds between two heartbeats of a child
HANG_UP = 1.0  # seconds that a child has to read what is being written to it
POISONED = 86  # exit code of a child in which CUDA is broken
ENDS = {POISONED: "a CUDA fault"}
MOST = 1000  # commands that may wait for the engine; further ones are refused
TAKEN = "taken"  # parent → child: the last frame was taken, send another
Serve = Callable[[Connection, str, str], None]
Readings = Mapping[str, Reading]


class CommandSender:
    """Writes to one pipe. Commands keep their order, and each is kept until the engine has obeyed
    it.

    It has its own thread, so that a process that does not read never blocks the caller.
    """

    def __init__(self, pipe: Connection, first: Sequence[Command] = ()) -> None:
        """`first` are commands to send before all others; they never count as unanswered."""
        self._pipe = pipe
        self._messages: SimpleQueue[Command | str | None] = SimpleQueue()
        for command in first:
            self._messages.put(command)
        self._own = len(first)  # the next commands to be obeyed that are our own
        self._unanswered: deque[Command] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._write_messages, name="dgn-sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def queue_command(self, command: Command) -> bool:
        """Queue a command without waiting; return False if too many are waiting.

        After `close` nothing is written; a second `close` also returns what was queued since.
        """
        with self._lock:
            if len(self._unanswered) >= MOST and not isinstance(command, Shutdown):
                return False
            self._unanswered.append(command)
            self._messages.put(command)
        return True

    def frame_taken(self) -> None:
        """Ask for another frame. There is at most one such message, so they are not limited."""
        self._messages.put(TAKEN)

    def on_obeyed(self, count: int) -> None:
        """Drop the next `count` commands: the engine has obeyed them."""
        with self._lock:
            for _ in range(count):
                if self._own:
                    self._own -= 1
                elif self._unanswered:
                    self._unanswered.popleft()

    def close(self) -> tuple[Command, ...]:
        """Stop writing, and return the commands that were not obeyed. Close the pipe afterwards."""
        self._closed = True
        self._messages.put(None)
        with self._lock:
            return tuple(self._unanswered)

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread, which ends after `close`; return whether it has ended."""
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _write_messages(self) -> None:
        while (message := self._messages.get()) is not None and not self._closed:
            try:
                self._pipe.send(message)
            except OSError:  # the process is gone; the relay will notice
                self._closed = True


@dataclass(frozen=True)
class FrameDifference:
    """A frame without the readings that are the same as in the previous one; those are named.

    Pickling them would take time from training, and copies would look like changes to every panel.
    """

    frame: Frame
    same: tuple[str, ...] = ()
    same_compared: tuple[str, ...] = ()


@dataclass
class FrameReduction:
    """The sender's side of `FrameDifference`."""

    _before: tuple[Readings, Readings] = field(default=({}, {}))

    def reduce_frame(self, frame: Frame) -> FrameDifference:
        """Return what the receiver lacks; it must receive every difference, in order."""
        (known, compared), self._before = self._before, (frame.readings, frame.compared)
        same, same_compared = (
            _same_readings(frame.readings, known),
            _same_readings(frame.compared, compared),
        )
        rest = replace(
            frame,
            readings=_without_names(frame.readings, same),
            compared=_without_names(frame.compared, same_compared),
        )
        return FrameDifference(rest, same, same_compared)


@dataclass
class FrameCompletion:
    """The receiver's side of `FrameDifference`."""

    _before: tuple[Readings, Readings] = field(default=({}, {}))

    def complete_frame(self, difference: FrameDifference) -> Frame:
        """Return the complete frame; unchanged readings are the same objects as before."""
        frame, (known, compared) = difference.frame, self._before
        order = {name: known[name] for name in difference.same}
        others = {name: compared[name] for name in difference.same_compared}
        for reading in (*frame.readings.values(), *frame.compared.values()):
            for array in reading.arrays.values():
                array.flags.writeable = False  # pickling loses this flag
        whole = replace(
            frame, readings={**order, **frame.readings}, compared={**others, **frame.compared}
        )
        self._before = (whole.readings, whole.compared)
        return whole


def _same_readings(readings: Readings, before: Readings) -> tuple[str, ...]:
    return tuple(name for name, reading in readings.items() if reading is before.get(name))


def _without_names(readings: Readings, names: tuple[str, ...]) -> Readings:
    return {name: reading for name, reading in readings.items() if name not in names}


class AnswerWatch:
    """Detects when the engine's process stops responding.

    The reading thread calls `on_message`, the viewer's thread `check_silence` now and then.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = clock()
        self._silence = 0.0
        self._limit = LOADING
        self._told = False
        self._lasted = 0.0

    def restart_watch(self) -> None:
        """Reset the silence, and allow a new process the time it needs to load."""
        with self._lock:
            self._silence, self._limit = 0.0, LOADING

    def on_message(self, ready: bool = False) -> None:
        """Note that a message arrived; `ready`: torch is loaded there."""
        with self._lock:
            self._silence = 0.0
            if ready:
                self._limit = SILENT

    def check_silence(self) -> EngineSilent | EngineAnswered | None:
        """Return an event when the silence has become too long, and when it has ended."""
        now = self._clock()
        with self._lock:
            passed, self._looked = min(now - self._looked, _NAP), now
            self._silence += passed
            if not self._told and self._silence > self._limit:
                self._told, self._lasted = True, self._silence
                return EngineSilent(self._silence)
            if self._told and self._silence < self._lasted:
                self._told = False
                return EngineAnswered(self._lasted)
            self._lasted = self._silence
        return None


class ProcessSession:
    """Has the methods of `ThreadSession`; the child sends a frame only after the last was taken.

    If the child dies and a recorded run can be resumed, it is restarted, at most once a minute.
    Only `close` waits for the child, for as long as its caller allows.
    """

    def __init__(
        self, data_root: str = "", runs_root: str = "", serve: Serve | None = None
    ) -> None:
        """`serve` is what the child runs; tests replace it."""
        self._arguments = (data_root, runs_root)
        self._serve = serve or serve_engine
        self._mailbox = Mailbox()
        self._restart = EngineRestart(runs_root, time.monotonic)
        self._watch = AnswerWatch(time.monotonic)
        self._starting = threading.Lock()  # held while a process is started
        self._sending = threading.Lock()  # held briefly while a command is queued
        self._closing = False
        self._stopped = False  # the engine sent `Stopped`
        self._ours, self._process, self._theirs = self._prepare_process()
        self._sender = CommandSender(self._ours)
        self._relay = threading.Thread(target=self._relay_messages, name="dgn-relay", daemon=True)

    def start(self) -> None:
        """Spawn the process; `EngineReady` follows when torch is loaded there."""
        try:
            self._process.start()
        except OSError as error:
            self._mailbox.emit(
                Failed(f"The engine process cannot be started: {error}.", traceback.format_exc())
            )
            self._mailbox.emit(Stopped())
            return
        self._theirs.close()
        self._watch.restart_watch()
        self._sender.start()
        self._relay.start()

    def send(self, command: Command) -> None:
        """Queue a command; if too many are waiting for the engine, a `Refused` event follows."""
        self._restart.on_command(command)
        with self._sending:
            queued = self._sender.queue_command(command)
        if not queued:
            reason = f"the engine cannot keep up: {MOST:,} commands are waiting for it."
            self._mailbox.emit(Refused(command.in_words(), reason, kind="queue-full"))

    def set_wakeup(self, tell: Callable[[], None]) -> None:
        self._mailbox.set_wakeup(tell)

    def drain_events(self) -> list[Event]:
        change = self._watch.check_silence() if self._relay.is_alive() else None
        if change is not None:
            self._mailbox.emit(change)
        return self._mailbox.drain_events()

    def take_latest_frame(self) -> Frame | None:
        frame = self._mailbox.take_latest_frame()
        if frame is not None:
            self._sender.frame_taken()
        return frame

    def close(self, timeout: float = 10.0) -> bool:
        """End the process, killing it after `timeout` seconds; return True if it ended in time."""
        with self._starting:
            self._closing = True  # no further process is started
        if not self._relay.is_alive():
            return True
        with self._sending:
            self._sender.queue_command(Shutdown())
        self._relay.join(timeout)
        ended = not self._relay.is_alive()
        if not ended:
            self._process.kill()
            self._relay.join()
        self._process.close()
        return ended

    @property
    def resumable_folder(self) -> str:
        return self._restart.resumable_folder

    def _prepare_process(self) -> tuple[Connection, SpawnProcess, Connection]:
        """Return our end of a pipe, an unstarted process, and its end of the pipe."""
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(
            target=self._serve, args=(theirs, *self._arguments), name="dgn-engine", daemon=True
        )
        return ours, process, theirs

    def _relay_messages(self) -> None:
        """Relay the child's messages, and handle its death; the relay's thread runs this."""
        try:
            while not self._relay_until_end():
                unanswered = self._close_pipe()
                how = describe_end(self._process.exitcode, ENDS)
                commands = self._restart.after_death(how, unanswered)
                if not commands or not self._restart_process(commands, unanswered):
                    self._mailbox.emit(self._restart.final_failure(how, unanswered))
                    break
        except Exception as error:  # the last resort of the thread
            self._mailbox.emit(self._restart.connection_failure(error, traceback.format_exc()))
        finally:
            with contextlib.suppress(ValueError, AssertionError):  # never started
                self._close_pipe()
            if not self._stopped:
                self._mailbox.emit(Stopped())

    def _relay_until_end(self) -> bool:
        """Relay everything from one process; return whether it ended on request."""
        self._stopped = False
        frames = FrameCompletion()
        while True:
            try:
                message: tuple[Event, ...] | FrameDifference | int = self._ours.recv()
            except (EOFError, OSError):
                return self._stopped
            if isinstance(message, FrameDifference):
                self._watch.on_message(ready=False)
                frame = frames.complete_frame(message)
                self._restart.on_frame(frame)
                self._mailbox.publish(frame)
            elif isinstance(message, int):
                self._watch.on_message(ready=False)
                self._sender.on_obeyed(message)
            else:
                self._watch.on_message(ready=any(isinstance(item, EngineReady) for item in message))
                for event in message:
                    self._forward_event(event)

    def _forward_event(self, event: Event) -> None:
        restarted = self._restart.on_event(event, self._process.pid or 0)
        self._stopped = self._stopped or isinstance(event, Stopped)
        self._mailbox.emit(event)
        if restarted is not None:
            self._mailbox.emit(restarted)

    def _close_pipe(self) -> tuple[Command, ...]:
        """Close our end, wait until the process ends, and return the commands it had not obeyed.

        A child that finds the pipe closed saves its run; one that does not read is killed.
        """
        unanswered = self._sender.close()
        if not self._sender.join(HANG_UP):
            self._process.kill()  # else the pipe would be closed while the sender writes to it
            self._sender.join()
        self._ours.close()
        end_spawned(self._process, LEAVE)
        return unanswered

    def _restart_process(
        self, commands: tuple[Command, ...], unanswered: tuple[Command, ...]
    ) -> bool:
        """Start a new process in place of a dead one; return False if the session is closed.

        Commands that arrived since then follow `commands`; the `unanswered` ones are dropped.
        """
        self._mailbox.emit(Working("The engine process died; restarting it"))
        self._mailbox.take_latest_frame()  # drop the dead one's frame
        with self._starting:
            if self._closing:
                return False
            self._process.close()
            self._ours, self._process, self._theirs = self._prepare_process()
            sender = CommandSender(self._ours, commands)
            with self._sending:
                for command in self._sender.close()[len(unanswered) :]:
                    sender.queue_command(command)
                self._sender = sender
            self._process.start()
        self._theirs.close()
        self._watch.restart_watch()
        self._sender.start()
        return True


def serve_engine(pipe: Connection, data_root: str, runs_root: str) -> None:
    """Run a session in the child, and relay its messages."""
    use_one_heap()
    begin_saving_child()
    session = ThreadSession(data_root, runs_root)
    session.start()
    try:
        with crashes_logged():
            _carry_messages(pipe, session)
    except (EOFError, OSError):  # the parent is gone
        session.close()
    finally:
        pipe.close()


def _carry_messages(pipe: Connection, session: ThreadSession) -> NoReturn:
    """Relay messages until the session has stopped; raises `EOFError`, `OSError`.

    Each turn takes the interpreter from training: there is one only when something has arrived on
    either side, and for a heartbeat.
    """
    ready, may_send, passed, reported, beat = False, True, 0, 0, time.monotonic()
    waiting, frames = None, FrameReduction()
    news, bell = SPAWN.Pipe(duplex=False)
    session.set_wakeup(lambda: bell.send_bytes(b"."))  # once until the frame is taken
    busy = time.thread_time()
    while True:
        until_beat = max(beat + BEAT - time.monotonic(), 0.0)
        arrived = wait((pipe, news), until_beat if session.obeyed == passed else POLL)
        if news in arrived:
            news.recv_bytes()
        if pipe in arrived:
            message: Command | str = pipe.recv()
            if isinstance(message, str):
                may_send = True
            elif isinstance(message, Shutdown) and not ready:
                pipe.send((Stopped(),))  # nothing was started; do not wait for torch
                _exit_process(pipe)
            else:
                if isinstance(message, ReportWindow):
                    busy, before = time.thread_time(), busy
                    message = replace(message, relay=busy - before)
                session.send(message)
                passed += 1
        obeyed = session.obeyed  # before their events are drained
        waiting = session.take_latest_frame() or waiting  # … so that events after it wake us again
        events = tuple(session.drain_events())
        if events:  # in one message: a small network emits hundreds of scores a second
            poisoned = [index for index, event in enumerate(events) if poisons_cuda(event)]
            pipe.send(events[: poisoned[0] + 1] if poisoned else events)
            ready = ready or any(isinstance(event, EngineReady) for event in events)
            if poisoned:
                pipe.close()
                os._exit(POISONED)  # every further CUDA call would fail
        if obeyed > reported or time.monotonic() - beat > BEAT:
            pipe.send(obeyed - reported)
            reported, beat = obeyed, time.monotonic()
        if may_send and waiting is not None:
            pipe.send(frames.reduce_frame(waiting))
            may_send, waiting = False, None
        if any(isinstance(event, Stopped) for event in events):
            _exit_process(pipe)


def _exit_process(pipe: Connection) -> NoReturn:
    """Exit at once: everything is written, and the closing window need not wait for torch to be
    unloaded module by module."""
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
