"""What is needed to go on where an engine's process died: the folder it wrote, and when to stop."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.protocol.commands import Command, ContinueRun, Watch
from dgn_engine.protocol.events import (
    Diverged,
    EngineRestarted,
    Event,
    Failed,
    Finished,
    Measured,
    Paused,
    ProbeScalars,
    RegimeSwapped,
    Rewired,
    RunContinued,
    Running,
    RunStarted,
    SettingChanged,
)
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout

AT_MOST_EVERY = 60.0  # seconds; a process that dies more often is left alone
# After these CUDA refuses everything in its process.
_POISON = ("CUDA error", "AcceleratorError", "cudaError", "_EXECUTION_FAILED", "illegal memory")


def poisons(event: Event) -> bool:
    """Whether this fault leaves nothing of its process that could be used."""
    return isinstance(event, Failed) and any(word in event.what for word in _POISON)


@dataclass(frozen=True)
class _State:
    """What the user may have changed."""

    regime: str = ""
    wiring: tuple[int, ...] = ()
    dials: SettingChanged | None = None

    def after(self, event: Event) -> _State:
        match event:
            case RunStarted(regime=regime, wiring=wiring):
                return _State(regime, wiring)
            case RegimeSwapped(after=regime):
                return replace(self, regime=regime)
            case Rewired(order=order):
                return replace(self, wiring=order)
            case SettingChanged():
                return replace(self, dials=event)
            case _:
                return self

    def lost_in(self, now: _State) -> tuple[str, ...]:
        """What of this is not so any more, in words."""
        lost = [f"regime {self.regime}"] if self.regime != now.regime else []
        if self.wiring != now.wiring:
            lost.append("order of the gate layers")
        if self.dials is not None and now.dials is not None:
            if self.dials.learning_rate != now.dials.learning_rate:
                lost.append(f"learning rate {self.dials.learning_rate:g}")
            if self.dials.beta != now.dials.beta:
                lost.append(f"β {self.dials.beta:g}")
            if self.dials.value_input != now.dials.value_input:
                lost.append(f"value input {self.dials.value_input}")
        return tuple(lost)


@dataclass(frozen=True)
class _Death:
    how: str
    step: int
    state: _State


class EngineRestart:
    """Listens to an engine in a process, and knows how another can go on in its place.

    `clock` in seconds.
    """

    def __init__(self, runs_root: str, clock: Callable[[], float]) -> None:
        self._root = Path(runs_root) if runs_root else None
        self._clock = clock
        self._watch: Watch | None = None
        self._folder: Path | None = None
        self._running = False
        self._step = 0
        self._state = _State()
        self._died: _Death | None = None  # until the run goes on
        self._continued: int | None = None  # the step at which it does
        self._last = -AT_MOST_EVERY

    def on_command(self, command: Command) -> None:
        """What is watched has to be asked for again."""
        if isinstance(command, Watch):
            self._watch = command

    def on_frame(self, frame: Frame) -> None:
        """How far it is."""
        self._step = max(self._step, frame.step)

    def on_event(self, event: Event, pid: int) -> EngineRestarted | None:
        """Fold in what the process `pid` said; what is to be told once a run has gone on."""
        self._state = self._state.after(event)
        match event:
            case RunStarted(paused=paused):
                self._folder, self._running, self._step = None, not paused, 0
            case RunContinued(folder=folder, step=step):
                self._folder, self._step, self._continued = Path(folder), step, step
            case SettingChanged():  # told when its folder is there
                self._folder = self._folder or self._written_by(pid)
                return self._gone_on()
            case Running():
                self._running = True
            case Paused() | Finished() | Diverged():
                self._running = False
            case Measured(step=step) | ProbeScalars(step=step):
                self._step = max(self._step, step)
            case Failed() if not poisons(event):
                self._running = False
            case _:
                pass
        return None

    def after_death(self, how: str) -> tuple[Command, ...]:
        """What another process has to be asked for; nothing where there should be none."""
        now = self._clock()
        again, self._last = now - self._last < AT_MOST_EVERY, now
        if again or self._folder is None:
            return ()
        self._died, self._continued = _Death(how, self._step, self._state), None
        watch = () if self._watch is None else (self._watch,)
        return (*watch, ContinueRun(str(self._folder), paused=not self._running))

    def _gone_on(self) -> EngineRestarted | None:
        death, step = self._died, self._continued
        if death is None or step is None:
            return None
        self._died = None
        return EngineRestarted(death.how, death.step, step, death.state.lost_in(self._state))

    def farewell(self, how: str) -> Failed:
        """One sentence for a process that stays dead."""
        kept = ""
        if self._folder is not None:
            kept = f" What it recorded is kept in {self._folder}."
        return Failed(f"The engine process died ({how}) at step {self._step:,}.{kept} {_WHAT}", "")

    @property
    def left(self) -> str:
        """The folder of the run that was recorded; '' where there was none."""
        return "" if self._folder is None else str(self._folder)

    def _written_by(self, pid: int) -> Path | None:
        """The newest folder whose lock this process holds or held to its end."""
        if self._root is None or not self._root.is_dir():
            return None
        ours = (pid, platform.node())
        for folder in sorted(self._root.iterdir(), reverse=True):
            try:
                told = json.loads(read_regular(folder / folder_layout.LOCK))
                if (told["pid"], told["host"]) == ours:
                    return folder
            except (OSError, ValueError, KeyError, TypeError):
                continue
        return None


_WHAT = "Run ▸ Start the engine again brings another one."
