"""Restart a dead engine process: decide whether to, and which commands to send it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.errors import breaks_cuda
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import (
    Command,
    EngineRestarted,
    Event,
    Failed,
    Shutdown,
    lost_requests,
)
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import (
    ContinueRun,
    FramesRecorded,
    RecordingMended,
    RunContinued,
)
from dgn_engine.protocol.training import Measured, Running, RunStarted, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars, Watch
from dgn_engine.storage.lock import last_holder
from dgn_engine.storage.runs import folder_layout
from dgn_engine.text.written_numbers import format_number

AT_MOST_EVERY = 60.0  # seconds; a process that dies more often is not restarted


def poisons_cuda(event: Event) -> bool:
    """Return whether every CUDA call in the process fails after this error."""
    return isinstance(event, Failed) and breaks_cuda(event.what)


def changes_undone(before: RunState, now: RunState) -> tuple[str, ...]:
    """Return regime, order and settings of `before` that are no longer in effect, in words."""
    undone = [f"regime {before.regime}"] if before.regime != now.regime else []
    if before.wiring != now.wiring:
        undone.append("gate order")
    if before.probe_examples not in (0, now.probe_examples):
        undone.append(f"{before.probe_examples:,} probe examples")
    if before.settings is not None and now.settings is not None:
        if before.settings.learning_rate != now.settings.learning_rate:
            undone.append(f"learning rate {format_number(before.settings.learning_rate)}")
        if before.settings.beta != now.settings.beta:
            undone.append(f"β {format_number(before.settings.beta)}")
        if before.settings.value_input != now.settings.value_input:
            undone.append(f"value input {before.settings.value_input}")
    return tuple(undone)


def describe_commands(commands: Sequence[Command]) -> tuple[str, ...]:
    """Return the titles of commands, once each, except those that a new process receives anyway."""
    titles = [
        command.in_words() for command in commands if not isinstance(command, Watch | Shutdown)
    ]
    return tuple(dict.fromkeys(titles))


@dataclass(frozen=True)
class _Death:
    """The death of an engine process: how, at which step, and what was lost."""

    how: str
    step: int
    state: RunState
    unanswered: tuple[str, ...]


class EngineRestart:
    """Tracks an engine process, so that a new one can replace it if it dies.

    `clock` is in seconds.
    """

    def __init__(self, runs_root: str, clock: Callable[[], float]) -> None:
        self._root = Path(runs_root) if runs_root else None
        self._clock = clock
        self._watch: Watch | None = None
        self._folder: Path | None = None
        self._faulty = False  # an internal error has stopped training
        self._step = 0
        self._state = RunState()
        self._died: _Death | None = None  # until the run continues
        self._continued: int | None = None  # the step at which it continues
        self._last = -AT_MOST_EVERY

    def on_command(self, command: Command) -> None:
        """Remember what is watched, to request it again from a new process."""
        if isinstance(command, Watch):
            self._watch = command

    def on_frame(self, frame: Frame) -> None:
        self._step = max(self._step, frame.step)

    def on_event(self, event: Event, pid: int) -> EngineRestarted | None:
        """Follow an event of process `pid`; return one when the run continues after a death."""
        was_unrecorded = self._state.unrecorded
        self._state = self._state.after(event)
        match event:
            case RunStarted():
                self._folder, self._faulty, self._step = None, False, 0
            case RunContinued(folder=folder, step=step):
                self._folder, self._step, self._continued = Path(folder), step, step
            case RecordingMended(folder=folder) if folder:
                self._folder = Path(folder)  # it may have been moved
            case FramesRecorded(folder=folder) if was_unrecorded:
                self._folder = Path(folder)
            case SettingChanged() if not self._state.unrecorded:  # the run's folder exists by now
                self._folder = self._folder or self._folder_of_process(pid)
                return self._take_restarted()
            case Running():
                self._faulty = False
            case Measured(step=step) | ProbeScalars(step=step):
                self._step = max(self._step, step)
            case Failed() if not poisons_cuda(event):
                self._faulty = True
        return None

    def after_death(self, how: str, unanswered: Sequence[Command] = ()) -> tuple[Command, ...]:
        """Return the commands for a new process; empty if none should be started.

        `unanswered` are the requests that the dead process had not carried out. They are reported
        but not repeated, since one of them may have killed it.
        """
        now = self._clock()
        again, self._last = now - self._last < AT_MOST_EVERY, now
        if again or self._folder is None:
            return ()
        self._died, self._continued = (
            _Death(how, self._step, self._state, describe_commands(unanswered)),
            None,
        )
        watch = () if self._watch is None else (self._watch,)
        trains = self._state.is_running and not self._faulty
        return (*watch, ContinueRun(str(self._folder), paused=not trains))

    def _take_restarted(self) -> EngineRestarted | None:
        death, step, self._died = self._died, self._continued, None
        if death is None or step is None:  # another run was started instead
            return None
        return EngineRestarted(
            death.how,
            death.step,
            step,
            changes_undone(death.state, self._state),
            death.unanswered,
        )

    def final_failure(self, how: str, unanswered: Sequence[Command] = ()) -> Failed:
        """Return the event for a process that is not restarted."""
        died = f"The engine process died ({how}) at step {self._step:,}."
        return self._failed_event(f"{died}{lost_requests(describe_commands(unanswered))}", "")

    def connection_failure(self, error: Exception, traceback: str) -> Failed:
        """Return the event for an internal error between the process and the window."""
        what = f"{type(error).__name__}: {error}".rstrip(": .")
        return self._failed_event(
            f"The connection to the engine process broke ({what}).", traceback
        )

    def _failed_event(self, what: str, traceback: str) -> Failed:
        recording = "" if self._folder is None else f" Its recording is kept in {self._folder}."
        return Failed(f"{what}{recording} {_WHAT}", traceback)

    @property
    def resumable_folder(self) -> str:
        return "" if self._folder is None else str(self._folder)

    def _folder_of_process(self, pid: int) -> Path | None:
        """Return the newest folder whose lock this process holds, or held until its end."""
        if self._root is None or not self._root.is_dir():
            return None
        for folder in sorted(self._root.iterdir(), reverse=True):
            if folder.is_symlink():
                continue
            owner = last_holder(folder / folder_layout.LOCK)
            if owner is not None and owner.is_process(pid):
                return folder
        return None


_WHAT = "To start a new one, choose Run ▸ Start the engine again."
