"""Restart of an engine's process that died: with which commands, and when not to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.errors import breaks_cuda
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, EngineRestarted, Event, Failed, Shutdown, not_done
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import ContinueRun, RecordingMended, RunContinued
from dgn_engine.protocol.training import Measured, Running, RunStarted, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars, Watch
from dgn_engine.storage.lock import last_holder
from dgn_engine.storage.runs import folder_layout
from dgn_engine.text.written_numbers import number

AT_MOST_EVERY = 60.0  # seconds; a process that dies more often is left alone


def poisons(event: Event) -> bool:
    """Whether CUDA refuses everything in the process after this fault."""
    return isinstance(event, Failed) and breaks_cuda(event.what)


def changes_undone(before: RunState, now: RunState) -> tuple[str, ...]:
    """Regime, order and settings of `before` that are not in force any more, in words."""
    undone = [f"regime {before.regime}"] if before.regime != now.regime else []
    if before.wiring != now.wiring:
        undone.append("order of the gate layers")
    if before.probe_examples not in (0, now.probe_examples):
        undone.append(f"{before.probe_examples:,} probe examples")
    if before.settings is not None and now.settings is not None:
        if before.settings.learning_rate != now.settings.learning_rate:
            undone.append(f"learning rate {number(before.settings.learning_rate)}")
        if before.settings.beta != now.settings.beta:
            undone.append(f"β {number(before.settings.beta)}")
        if before.settings.value_input != now.settings.value_input:
            undone.append(f"value input {before.settings.value_input}")
    return tuple(undone)


def in_words(commands: Sequence[Command]) -> tuple[str, ...]:
    """What was asked, once each, but for what another process is asked anyway."""
    asked = [one.in_words() for one in commands if not isinstance(one, Watch | Shutdown)]
    return tuple(dict.fromkeys(asked))


@dataclass(frozen=True)
class _Death:
    how: str
    step: int
    state: RunState
    unanswered: tuple[str, ...]


class EngineRestart:
    """Follows an engine in a process, so that another can go on in its place.

    `clock` in seconds.
    """

    def __init__(self, runs_root: str, clock: Callable[[], float]) -> None:
        self._root = Path(runs_root) if runs_root else None
        self._clock = clock
        self._watch: Watch | None = None
        self._folder: Path | None = None
        self._faulty = False  # a fault has ended training
        self._step = 0
        self._state = RunState()
        self._died: _Death | None = None  # until the run goes on
        self._continued: int | None = None  # the step at which it does
        self._last = -AT_MOST_EVERY

    def on_command(self, command: Command) -> None:
        """Keep what is watched: another process has to be asked for it again."""
        if isinstance(command, Watch):
            self._watch = command

    def on_frame(self, frame: Frame) -> None:
        self._step = max(self._step, frame.step)

    def on_event(self, event: Event, pid: int) -> EngineRestarted | None:
        """Take in an event of process `pid`; returns one once the run goes on after a death."""
        self._state = self._state.after(event)
        match event:
            case RunStarted():
                self._folder, self._faulty, self._step = None, False, 0
            case RunContinued(folder=folder, step=step):
                self._folder, self._step, self._continued = Path(folder), step, step
            case RecordingMended(folder=folder) if folder:
                self._folder = Path(folder)  # it may have been moved
            case SettingChanged():  # emitted when the folder of the run is there
                self._folder = self._folder or self._written_by(pid)
                return self._restarted()
            case Running():
                self._faulty = False
            case Measured(step=step) | ProbeScalars(step=step):
                self._step = max(self._step, step)
            case Failed() if not poisons(event):
                self._faulty = True
        return None

    def after_death(self, how: str, unanswered: Sequence[Command] = ()) -> tuple[Command, ...]:
        """The commands for another process; none where it should not be started.

        `unanswered`: what the dead one was asked and had not done. It is named and not asked
        again: one of these commands may have been what it died of.
        """
        now = self._clock()
        again, self._last = now - self._last < AT_MOST_EVERY, now
        if again or self._folder is None:
            return ()
        self._died, self._continued = (
            _Death(how, self._step, self._state, in_words(unanswered)),
            None,
        )
        watch = () if self._watch is None else (self._watch,)
        trains = self._state.running and not self._faulty
        return (*watch, ContinueRun(str(self._folder), paused=not trains))

    def _restarted(self) -> EngineRestarted | None:
        death, step, self._died = self._died, self._continued, None
        if death is None or step is None:  # another run was begun instead
            return None
        return EngineRestarted(
            death.how,
            death.step,
            step,
            changes_undone(death.state, self._state),
            death.unanswered,
        )

    def final_failure(self, how: str, unanswered: Sequence[Command] = ()) -> Failed:
        """The event for a process that is not restarted."""
        died = f"The engine process died ({how}) at step {self._step:,}."
        return self._final(f"{died}{not_done(in_words(unanswered))}", "")

    def broken(self, error: Exception, traceback: str) -> Failed:
        """The event for a fault of ours between the process and the window."""
        what = f"{type(error).__name__}: {error}".rstrip(": .")
        return self._final(f"The connection to the engine process broke ({what}).", traceback)

    def _final(self, what: str, traceback: str) -> Failed:
        kept = "" if self._folder is None else f" What it recorded is kept in {self._folder}."
        return Failed(f"{what}{kept} {_WHAT}", traceback)

    @property
    def left(self) -> str:
        return "" if self._folder is None else str(self._folder)

    def _written_by(self, pid: int) -> Path | None:
        """The newest folder whose lock this process holds or held to its end."""
        if self._root is None or not self._root.is_dir():
            return None
        for folder in sorted(self._root.iterdir(), reverse=True):
            if folder.is_symlink():
                continue
            owner = last_holder(folder / folder_layout.LOCK)
            if owner is not None and owner.is_process(pid):
                return folder
        return None


_WHAT = "Run ▸ Start the engine again brings another one."
