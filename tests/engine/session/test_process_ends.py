"""Both ends of the pipe to an engine's process: what is sent when, and how it ends."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dgn_engine.confinement import child_entry
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import (
    Command,
    EngineReady,
    EngineRestarted,
    Event,
    Failed,
    Refused,
    Shutdown,
    Stopped,
    Working,
)
from dgn_engine.protocol.runs import ContinueRun, RunContinued
from dgn_engine.protocol.training import (
    Measured,
    Pause,
    Paused,
    Resume,
    Running,
    SettingChanged,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session import process_session
from dgn_engine.session.process_session import (
    BEAT,
    MOST,
    TAKEN,
    FrameCompletion,
    FrameDifference,
    FrameReduction,
    ProcessSession,
    serve_engine,
)
from dgn_engine.session.thread_session import ThreadSession

READY = EngineReady(None, "2.13")  # type: ignore[arg-type]
POISON = Failed("x: CUDA error: illegal memory access", "")


class Left(BaseException):
    """The process would have ended here."""


class Child:
    """The engine's process without its engine: `rounds` of events and a frame, one each poll."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[Command] = []
        self.rounds: list[tuple[list[Event], Frame | None]] = []
        self.told: list[Any] = []  # what the parent says; None: nothing at that moment
        self.sent: list[Any] = []
        self.closed = self.session_closed = self.started = self.one_heap = False
        self.polled: list[float] = []
        self.wake_ups: list[object] = []
        self.signals: list[object] = []
        monkeypatch.setattr(process_session, "ThreadSession", self.session)
        monkeypatch.setattr(child_entry, "end_after_parent", lambda: None)
        monkeypatch.setattr(process_session, "use_one_heap", self.share_heap)
        monkeypatch.setattr(process_session, "wait", self.wait)
        monkeypatch.setattr(os, "_exit", self.exit)
        monkeypatch.setattr(signal, "signal", lambda *given: self.signals.append(given))

    def session(self, data_root: str, runs_root: str) -> Any:
        assert (data_root, runs_root) == ("data", "runs")
        self.made = SimpleNamespace(
            start=self.start,
            send=self.obey,
            drain_events=self.drain,
            take_latest_frame=self.latest,
            set_wakeup=self.wake_ups.append,
            close=self.close_session,
            obeyed=0,
        )
        return self.made

    def share_heap(self) -> None:
        self.one_heap = True

    def start(self) -> None:
        assert self.one_heap, "a thread was started before heaps were limited"
        self.started = True

    def obey(self, command: Command) -> None:
        self.commands.append(command)
        self.made.obeyed += 1

    def close_session(self) -> None:
        self.session_closed = True

    def latest(self) -> Frame | None:
        return self.rounds[0][1] if self.rounds else None

    def drain(self) -> list[Event]:
        return self.rounds.pop(0)[0] if self.rounds else []

    def exit(self, code: int) -> None:
        self.code = code
        raise Left

    # the pipe

    def wait(self, sources: tuple[object, object], seconds: float) -> list[object]:
        self.polled.append(seconds)
        if not self.rounds and not self.told:
            raise EOFError  # the parent is gone
        if self.told and self.told[0] is None:  # nothing comes this time
            self.told.pop(0)
            return []
        return [self] if self.told else []

    def recv(self) -> Any:
        return self.told.pop(0)

    @property
    def answers(self) -> list[Any]:
        """What was sent, but for how many commands were obeyed."""
        return [one for one in self.sent if not isinstance(one, int)]

    def send(self, message: Any) -> None:
        """Events come together, and of a frame what is new in it."""
        if isinstance(message, tuple):
            self.sent += message
        else:
            self.sent.append(message.frame if isinstance(message, FrameDifference) else message)

    def close(self) -> None:
        self.closed = True

    def serve(self) -> None:
        pipe: Any = self
        with contextlib.suppress(Left):
            serve_engine(pipe, "data", "runs")
        assert self.closed
        assert self.started
        ignored = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        assert self.signals == [(one, signal.SIG_IGN) for one in ignored]
        assert len(self.wake_ups) == 1, "the engine does not wake it"
        assert all(0 <= seconds <= BEAT for seconds in self.polled)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Child:
    return Child(monkeypatch)


def frame(step: int) -> Frame:
    return Frame(1, step, 0.0, 0.0, None, {})


def test_a_frame_is_sent_when_the_last_was_taken_and_then_the_newest(child: Child) -> None:
    child.rounds = [([], frame(n)) for n in range(1, 4)] + [([], None), ([], frame(5))]
    child.rounds += [([], None)] * 2
    child.told = [None, None, None, TAKEN, None, TAKEN]
    child.serve()
    assert [one.step for one in child.sent] == [1, 3, 5]


def test_events_are_sent_in_order_and_commands_handed_on(child: Child) -> None:
    child.rounds = [([READY, Running(1)], None), ([Paused(2)], frame(2))]
    child.told = [Pause(), Resume()]
    child.serve()
    assert child.commands == [Pause(), Resume()]
    first, second = (READY, Running(1)), (Paused(2), frame(2))
    assert child.sent == [*first, 1, second[0], 1, second[1]]  # events, then what was obeyed
    assert child.session_closed  # its parent is gone, and the run is saved


def test_a_shutdown_before_torch_is_loaded_ends_at_once_and_later_is_the_engines(
    child: Child,
) -> None:
    child.told = [Shutdown()]
    child.serve()
    assert (child.sent, child.code, child.commands) == ([Stopped()], 0, [])


def test_a_shutdown_of_a_ready_engine_waits_for_it(child: Child) -> None:
    child.rounds = [([READY], None), ([Paused(3)], None), ([Stopped()], frame(3))]
    child.told = [None, Shutdown()]
    child.serve()
    assert child.commands == [Shutdown()]
    assert child.answers == [READY, Paused(3), Stopped(), frame(3)]
    assert child.code == 0
    assert not child.session_closed


def test_a_process_that_has_nothing_to_say_says_every_second_that_it_lives(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, *(0.4 * turn for turn in range(1, 60))])
    clocks = SimpleNamespace(monotonic=lambda: next(now), thread_time=lambda: 0.0)
    monkeypatch.setattr(process_session, "time", clocks)
    child.told = [None] * 12
    child.serve()
    assert child.sent.count(0) == len(child.sent) >= 2


def test_a_fault_of_cuda_is_told_and_ends_the_process(child: Child) -> None:
    child.rounds = [([READY, POISON, Paused(3)], frame(3))]
    child.serve()
    assert child.sent == [READY, POISON]
    assert child.code == 86


# the parent's end


def test_an_engines_process_does_not_outlive_the_program() -> None:
    session = ProcessSession("data", "runs")
    process = session._process
    assert (process.daemon, process.name) == (True, "dgn-engine")
    assert session._relay.daemon
    assert session._arguments == ("data", "runs")
    assert session.resumable_folder == ""
    assert session.take_latest_frame() is None
    assert session.drain_events() == []
    assert session.close(1.0)
    thread = ThreadSession()._thread
    assert (thread.daemon, thread.name) == (True, "dgn-engine")


class Wire:
    """The child's end of a pipe: events and frames cross it as a child sends them."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.recv, self.poll, self.close = connection.recv, connection.poll, connection.close

    @property
    def closed(self) -> bool:
        return bool(self.connection.closed)

    def send(self, message: Any) -> None:
        if isinstance(message, Event):
            message = (message,)
        self.connection.send(FrameDifference(message) if isinstance(message, Frame) else message)


class MadeUpProcess:
    """A process whose other end of the pipe is in our hands."""

    pid = 77
    exitcode: int | None = None

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], **_: Any) -> None:
        self.target, self.args = target, args
        self.joined: list[float | None] = []
        self.killed = self.closed = False

    def start(self) -> None:
        self.pipe = Wire(Connection(os.dup(self.args[0].fileno())))

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        self.joined.append(timeout)

    def kill(self) -> None:
        self.killed, self.exitcode = True, -9
        self.pipe.close()

    def close(self) -> None:
        self.closed = True

    def die(self, code: int) -> None:
        self.exitcode = code
        self.pipe.close()


class Processes:
    def __init__(self) -> None:
        self.made: list[MadeUpProcess] = []
        self.Pipe = Pipe

    def Process(self, **given: Any) -> MadeUpProcess:
        self.made.append(MadeUpProcess(**given))
        return self.made[-1]

    @property
    def second(self) -> MadeUpProcess:
        """The one in the place of the first, once it is there."""
        until = time.monotonic() + 60
        while len(self.made) < 2 or not hasattr(self.made[1], "pipe"):
            assert time.monotonic() < until
            time.sleep(0.001)
        return self.made[1]


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    made = Processes()
    monkeypatch.setattr(process_session, "SPAWN", made)
    return made


@pytest.fixture
def session(processes: Processes) -> ProcessSession:
    """One whose process, `processes.made[0]`, is started."""
    made = ProcessSession()
    made.start()
    return made


def listen(session: ProcessSession, count: int) -> list[Event]:
    """The next so many events."""
    heard: list[Event] = []
    until = time.monotonic() + 60
    while len(heard) < count:
        assert time.monotonic() < until, heard
        heard += session.drain_events()
        time.sleep(0.001)
    return heard


def test_frames_are_asked_for_one_by_one_and_events_come_in_order(processes: Processes) -> None:
    session = ProcessSession("data", "runs", serve=serve_engine)
    session.start()
    (process,) = processes.made
    assert process.target is serve_engine
    assert process.args[1:] == ("data", "runs")
    assert process.args[0].closed  # our copy of its end, or we would never see it go
    process.pipe.send(READY)
    process.pipe.send(frame(4))
    process.pipe.send(Paused(4))
    assert listen(session, 2) == [READY, Paused(4)]
    assert session.take_latest_frame() == frame(4)
    assert session.take_latest_frame() is None
    assert process.pipe.recv() == TAKEN
    assert not process.pipe.poll()
    session.send(Pause())
    assert process.pipe.recv() == Pause()
    process.pipe.send(Stopped())
    process.die(0)
    assert listen(session, 1) == [Stopped()]
    assert session.close(1.0)
    assert session.drain_events() == []  # it ended because it was asked to: no failure


def test_a_process_that_does_not_end_is_killed_and_that_is_told(
    session: ProcessSession, processes: Processes
) -> None:
    (process,) = processes.made
    assert not session.close(0.01)
    assert process.killed
    assert process.closed
    assert process.pipe.closed
    assert session._sender.join(0)
    assert session.close(0.01)


def test_a_death_without_a_recorded_run_is_told_and_nothing_is_started(
    session: ProcessSession, processes: Processes
) -> None:
    processes.made[0].pipe.send(Measured(12, 1.0, 0.5, 0.5))
    processes.made[0].die(-11)
    measured, failed, stopped = listen(session, 3)
    assert isinstance(failed, Failed)
    assert "(signal 11)" in failed.what
    assert "step 12." in failed.what
    assert stopped == Stopped()
    assert len(processes.made) == 1
    assert session.close(1.0)
    assert isinstance(measured, Measured)


def test_a_recorded_run_goes_on_in_another_process_and_old_frames_are_forgotten(
    session: ProcessSession, processes: Processes
) -> None:
    watch = Watch((ProbeRequest("npk"),))
    session.send(watch)
    first = processes.made[0]
    first.pipe.send(RunContinued(380, "", "/runs/a"))
    first.pipe.send(frame(400))
    first.pipe.send(Running(400))
    listen(session, 2)
    assert session.resumable_folder == "/runs/a"
    first.die(-9)
    assert isinstance(*listen(session, 1), Working)
    second = processes.second
    assert second.pipe.recv() == watch
    assert second.pipe.recv() == ContinueRun("/runs/a", paused=False)
    assert session.take_latest_frame() is None
    assert first.closed
    second.pipe.send(RunContinued(390, "", "/runs/a"))
    second.pipe.send(SettingChanged(390, 1e-3, 8.0, "image", 0.0))
    *_, restarted = listen(session, 3)
    assert isinstance(restarted, EngineRestarted)
    assert (restarted.how, restarted.died_at, restarted.step) == ("signal 9", 400, 390)
    second.die(1)  # within a minute: the last
    failed, stopped = listen(session, 2)
    assert isinstance(failed, Failed)
    for part in ("(exit code 1)", "step 390", "/runs/a"):
        assert part in failed.what
    assert isinstance(stopped, Stopped)
    assert session.close(1.0)


def test_a_command_that_the_engine_does_not_take_is_refused_and_nobody_waits(
    session: ProcessSession, processes: Processes
) -> None:
    process = processes.made[0]  # it reads nothing
    big = OpenFile("x" * 10_000)
    for _ in range(MOST):
        session.send(big)
    assert session.drain_events() == []
    session.send(big)  # one beyond
    (refused,) = listen(session, 1)
    assert isinstance(refused, Refused)
    assert (refused.what, refused.kind) == (big.in_words(), "queue-full")
    for _ in range(2):
        assert process.pipe.recv() == big
    process.pipe.send(2)  # it has obeyed two
    process.pipe.send(READY)
    assert listen(session, 1) == [READY]
    for _ in range(2):  # as many as it has obeyed
        session.send(Pause())
    assert session.drain_events() == []
    session.send(Pause())
    (refused,) = listen(session, 1)
    assert isinstance(refused, Refused)
    assert not session.close(0.01)
    assert process.killed


def test_what_is_asked_while_a_process_is_replaced_is_asked_of_the_next(
    session: ProcessSession, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = processes.made[0]
    first.pipe.send(RunContinued(380, "", "/runs/a"))
    first.pipe.send(Running(380))
    listen(session, 2)
    session.send(SwapRegime("FL"))  # read, and not obeyed

    def die_slowly(timeout: float | None = None) -> None:
        if not asked:
            asked.append(timeout)
            session.send(Undo())

    asked: list[float | None] = []
    monkeypatch.setattr(first, "join", die_slowly)
    assert first.pipe.recv() == SwapRegime("FL")
    first.die(-9)
    assert isinstance(*listen(session, 1), Working)
    second = processes.second
    assert second.pipe.recv() == ContinueRun("/runs/a", paused=False)
    assert second.pipe.recv() == Undo()
    second.pipe.send(RunContinued(380, "", "/runs/a"))
    second.pipe.send(SettingChanged(380, 1e-3, 8.0, "image", 0.0))
    *_, restarted = listen(session, 3)
    assert isinstance(restarted, EngineRestarted)
    assert restarted.unanswered == ("swap to FL",)
    second.pipe.send(1)  # ours, which nobody asked
    second.pipe.send(Paused(1))
    listen(session, 1)
    second.die(3)
    failed, stopped = listen(session, 2)
    assert isinstance(failed, Failed)
    assert ": undo." in failed.what
    assert stopped == Stopped()
    assert session.close(1.0)


class Crooked:
    """Cannot be unpickled on the other side."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return int, ("crooked",)


def test_a_fault_between_process_and_window_is_told_with_its_traceback(
    session: ProcessSession, processes: Processes
) -> None:
    process = processes.made[0]
    process.pipe.send(RunContinued(380, "", "/runs/a"))
    listen(session, 1)
    process.pipe.send(Crooked())
    failed, stopped = listen(session, 2)
    assert isinstance(failed, Failed)
    assert "ValueError" in failed.what
    assert "/runs/a" in failed.what
    assert "Traceback" in failed.traceback
    assert "crooked" in failed.traceback
    assert stopped == Stopped()
    assert process.killed  # it did not end by itself
    assert session.close(1.0)
    session.send(Pause())  # nobody is there, and nobody waits
    assert session.drain_events() == []


def test_a_process_that_cannot_be_started_is_told(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: MadeUpProcess) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(MadeUpProcess, "start", start)
    session = ProcessSession()
    session.start()
    failed, stopped = session.drain_events()
    assert isinstance(failed, Failed)
    assert "[Errno 11]" in failed.what
    assert stopped == Stopped()
    assert session.close(1.0)


# frames cross: each reading once, and the same object from then on


def reading(probe: str, step: int) -> Reading:
    return Reading(probe, step, arrays={"a": np.full((3, 3), float(step))})


def crossed(difference: FrameDifference) -> FrameDifference:
    copy: FrameDifference = pickle.loads(pickle.dumps(difference))
    return copy


def test_a_reading_crosses_once_and_stays_the_same_object() -> None:
    gates, npk, other = reading("gates", 1), reading("npk", 1), reading("npk", 1)
    first = Frame(1, 1, 0.0, 0.0, None, {"gates": gates, "npk": npk}, {"npk": other})
    second = replace(first, step=2, readings={"gates": gates, "npk": reading("npk", 2)})
    third = replace(second, step=3, readings={"gates": gates}, compared={})
    fourth = replace(first, step=4)
    sender, receiver = FrameReduction(), FrameCompletion()
    sent = [crossed(sender.reduce_frame(frame)) for frame in (first, second, third, fourth)]
    assert [sorted(one.frame.readings) for one in sent] == [["gates", "npk"], ["npk"], [], ["npk"]]
    assert [sorted(one.frame.compared) for one in sent] == [["npk"], [], [], ["npk"]]
    got = [receiver.complete_frame(one) for one in sent]
    for frame, there in zip((first, second, third, fourth), got, strict=True):
        assert there.step == frame.step
        for mine, theirs in ((frame.readings, there.readings), (frame.compared, there.compared)):
            assert mine.keys() == theirs.keys()
            for name, one in mine.items():
                np.testing.assert_array_equal(theirs[name].arrays["a"], one.arrays["a"])
    assert got[1].readings["gates"] is got[0].readings["gates"]
    assert got[1].compared["npk"] is got[0].compared["npk"]
    assert got[1].readings["npk"] is not got[0].readings["npk"]


def test_arrays_cannot_be_written_to_after_they_crossed() -> None:
    frame = Frame(1, 1, 0.0, 0.0, None, {"gates": reading("gates", 1)})
    whole = FrameCompletion().complete_frame(crossed(FrameReduction().reduce_frame(frame)))
    assert not whole.readings["gates"].arrays["a"].flags.writeable
