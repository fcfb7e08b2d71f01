"""Where engine and window stand, folded from events: what buttons and status bar depend on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from dgn_engine.config import RunConfig
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.events import (
    ComparisonClosed,
    ComparisonOpened,
    Diverged,
    EngineReady,
    Event,
    Finished,
    Paused,
    RegimeSwapped,
    Rewired,
    Running,
    RunShown,
    RunStarted,
    SettingChanged,
    Stopped,
    UndoChanged,
    Working,
)

Phase = Literal["starting", "idle", "working", "running", "paused", "finished", "stopped"]


@dataclass(frozen=True)
class Situation:
    """The engine's last word. `working` names the slow thing that goes on, if any."""

    phase: Phase = "starting"
    catalogue: Catalogue | None = None
    run: RunStarted | None = None
    regime: str = ""
    wiring: tuple[int, ...] = ()
    rotation: tuple[int, ...] = ()
    shift: tuple[int, ...] = ()
    settings: SettingChanged | None = None
    step: int = 0
    working: str = ""
    recorded: RunShown | None = None  # what is on show, as it was; nothing is trained
    diverged: bool = False  # the run stands because its loss is no longer finite
    beside: ComparisonOpened | None = None  # what is compared with
    undo: str = ""  # what would be undone next, in words
    redo: str = ""

    @property
    def inspected(self) -> str:
        """The file whose network is shown and not trained; '' while there is a run."""
        return self.run.inspected if self.run is not None else ""

    @property
    def ready(self) -> bool:
        """Commands are obeyed."""
        return self.catalogue is not None and self.phase != "stopped"

    @property
    def has_run(self) -> bool:
        """There is a run that can be resumed, advanced, swapped."""
        phases = ("running", "paused", "finished")
        return self.run is not None and self.phase in phases and not self.inspected

    @property
    def running(self) -> bool:
        """Training goes on."""
        return self.phase == "running"

    @property
    def go_word(self) -> str:
        """What the button says that trains or stops training."""
        if self.running:
            return "Pause"
        return "Continue" if self.recorded is not None else "Run"

    @property
    def epoch_steps(self) -> int:
        """Steps from here to the end of the current epoch, at least 1."""
        length = self.run.steps_per_epoch if self.run else 1
        return length - self.step % length if length > 0 else 1

    def config_now(self) -> RunConfig | None:
        """The configuration of the run with every dial as it stands now."""
        if self.run is None:
            return None
        config, dials = self.run.config, self.settings or _settings_of(self.run)
        gating = dataclasses.replace(
            config.gating,
            regime=self.regime,
            wiring=self.wiring,
            rotation=self.rotation,
            shift=self.shift,
            beta=dials.beta,
            value_input=dials.value_input,
        )
        training = dataclasses.replace(
            config.training, learning_rate=dials.learning_rate, pace=dials.pace
        )
        return dataclasses.replace(config, gating=gating, training=training)

    def at(self, step: int) -> Situation:
        """The same at the step of a frame; one from before a pause may arrive after its word."""
        late = self.phase != "running" and step < self.step
        return self if late or step == self.step else dataclasses.replace(self, step=step)

    def after(self, event: Event) -> Situation:
        """What the event makes of it."""
        match event:
            case EngineReady(catalogue=catalogue):
                return dataclasses.replace(self, phase="idle", catalogue=catalogue)
            case RunStarted():
                return dataclasses.replace(
                    self,
                    phase="paused" if event.paused else "running",
                    run=event,
                    regime=event.regime,
                    wiring=event.wiring,
                    rotation=event.rotation,
                    shift=event.shift,
                    settings=_settings_of(event),
                    step=0,
                    working="",
                    beside=None,
                    diverged=False,
                    recorded=None,
                    undo="",
                    redo="",
                )
            case ComparisonOpened():
                return dataclasses.replace(self, beside=event)
            case ComparisonClosed():
                return dataclasses.replace(self, beside=None)
            case RunShown(step=step):
                return dataclasses.replace(self, recorded=event, phase="paused", step=step)
            case Running(step=step):
                return dataclasses.replace(self, phase="running", step=step, working="")
            case Diverged(step=step):
                stands = dataclasses.replace(self, phase="paused", step=step, working="")
                return dataclasses.replace(stands, diverged=True)
            case Paused(step=step):
                return dataclasses.replace(self, phase="paused", step=step, working="")
            case Finished(step=step):
                return dataclasses.replace(self, phase="finished", step=step, working="")
            case RegimeSwapped(after=regime, undone=undone):
                diverged = self.diverged and not undone  # then its weights are finite again
                return dataclasses.replace(self, regime=regime, diverged=diverged)
            case UndoChanged(undo=undo, redo=redo):
                return dataclasses.replace(self, undo=undo, redo=redo)
            case Rewired(order=order, rotation=rotation, shift=shift):
                return dataclasses.replace(self, wiring=order, rotation=rotation, shift=shift)
            case SettingChanged():
                return dataclasses.replace(self, settings=event)
            case Working(what=what, fraction=fraction):
                return dataclasses.replace(self, working=working_sentence(what, fraction))
            case Stopped():
                return dataclasses.replace(self, phase="stopped")
            case _:
                return self


def working_sentence(what: str, fraction: float | None) -> str:
    """'Reading mnist, 40 %'."""
    return what if fraction is None else f"{what}, {fraction:.0%}".replace("%", " %")


def _settings_of(run: RunStarted) -> SettingChanged:
    config = run.config
    return SettingChanged(
        step=0,
        learning_rate=config.training.learning_rate,
        beta=config.gating.beta,
        value_input=config.gating.value_input,
        pace=config.training.pace,
    )
