"""Events of the engine itself: its process does not answer, answers again, was replaced; its card
does not do what was tried; it asks before it does."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.config import RunConfig
from dgn_engine.protocol.commands import RunEnding
from dgn_engine.protocol.events import Event
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.written_numbers import duration


@dataclass(frozen=True)
class StepsNotCaptured(Event):
    """Steps on this card are taken one operation at a time, slower than as graphs."""

    step: int
    reason: str

    @property
    def sentence(self) -> str:
        return (
            f"From step {self.step:,} on, steps are not launched as CUDA graphs but one operation "
            f"at a time, which is slower and gives the same numbers: {self.reason}."
        )


@dataclass(frozen=True)
class RunEstimated(Event):
    """What a run takes.

    Attributes:
        config: The run; None for the one that begins.
        weights: Numbers of both networks, normalisations included.
        memory: Bytes at its peak.
        seconds: Of a training step; None where that cannot be said.
        measured: `seconds` was measured, not estimated.
        refusal: Why it cannot be carried out, one sentence; '' where it can.
    """

    weights: int = 0
    memory: int = 0
    seconds: float | None = None
    measured: bool = False
    refusal: str = ""
    config: RunConfig | None = None

    @property
    def sentence(self) -> str:
        """'1,234,570 weights, about 310 MB, about 2.1 ms a step (estimated)', or the refusal."""
        if self.refusal or not self.weights:
            return self.refusal
        words = f"{self.weights:,} weights, about {bytes_in_words(self.memory)}"
        if self.seconds is None:
            return words
        how = "measured" if self.measured else "estimated"
        return f"{words}, about {duration(self.seconds)} a step ({how})"


@dataclass(frozen=True)
class EngineSilent(Event):
    """Nothing was heard of the engine's process for this long; it is not dead."""

    seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"The engine has not answered for {duration(self.seconds)}: it was stopped, or the "
            "machine has no time for it. What is asked now is done when it answers."
        )


@dataclass(frozen=True)
class EngineAnswered(Event):
    """The engine's process is heard of again, after this long."""

    seconds: float

    @property
    def sentence(self) -> str:
        return f"The engine answers again, after {duration(self.seconds)}; nothing was lost."


@dataclass(frozen=True)
class EngineRestarted(Event):
    """The engine's process died, and another goes on with the recorded run from `step`."""

    how: str  # 'signal 9'
    died_at: int  # the last step that was heard of
    step: int
    undone: tuple[str, ...] = ()  # what was changed after that: 'regime FL'
    unanswered: tuple[str, ...] = ()  # what it was asked and had not done: 'swap to FL'

    @property
    def sentence(self) -> str:
        lost = max(0, self.died_at - self.step)
        where = f"from the checkpoint of step {self.step:,}" if self.step else "from its seed"
        steps = "1 step is" if lost == 1 else f"{lost:,} steps are"
        again = f"{steps} taken again" if lost else "no step is lost"
        change = f" To be changed again: {', '.join(self.undone)}." if self.undone else ""
        return (
            f"The engine process died ({self.how}) at step {self.died_at:,}; it was started "
            f"again and the run goes on {where}: {again}.{change}{not_done(self.unanswered)}"
        )


def not_done(commands: tuple[str, ...], shown: int = 3) -> str:
    """' Not done: swap to FL, pause.', for the end of a sentence; '' where there is nothing."""
    if not commands:
        return ""
    more = f" and {len(commands) - shown:,} more" if len(commands) > shown else ""
    return f" Not done: {', '.join(commands[:shown])}{more}."


@dataclass(frozen=True)
class DiscardConfirmation(Event):
    """Not obeyed yet: the run in progress is not recorded, and would be lost at this step.

    `name`: of what would be shown, or (not `shown`) gone on with; `anyway`: the command that does
    it all the same.
    """

    step: int
    name: str
    shown: bool
    anyway: RunEnding
