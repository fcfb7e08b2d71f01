"""Commands and events: what crosses between a window and the engine, as frozen data.

A command is obeyed between two steps; the answer is an event. A command declares its words and how
it is undone; the table of handlers is in `session.engine`. Events come in order, none is lost, and
the engine speaks last: buttons follow events.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar

from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.text.written_numbers import duration, percent


@dataclass(frozen=True)
class UndoPolicy:
    """How a change is undone. `what` it is, in words, with fields of the command in braces.

    `reads`: it changes only what is read, the probe set; else the whole run is put back, weights,
    optimiser and order of the data too. `setting`: what `UndoSetting` puts back alone, 'the
    learning rate'; '' where there is no such thing. `merges`: several of a kind in quick
    succession count as one change.
    """

    what: str
    setting: str = ""
    merges: bool = False
    reads: bool = False


@dataclass(frozen=True)
class Command:
    """What every command declares: its words, and whether it can be undone."""

    title: ClassVar[str]  # an infinitive, with fields in braces: 'continue {folder}'
    undo: ClassVar[UndoPolicy | None] = None
    steers: ClassVar[bool] = False  # it changes the run, though it is itself no change to undo

    @property
    def changes_run(self) -> bool:
        """Whether it changes what is in force in the run in progress: weights, regime, order,
        dials or probe set. Such a change is not made while one looks back."""
        return self.undo is not None or self.steers

    def in_words(self) -> str:
        """The title with the command's values; of folders and files only the last part."""
        values = {
            name: PurePath(value).name if name in ("folder", "path") else value
            for name, value in vars(self).items()
        }
        return self.title.format(**values)


@dataclass(frozen=True)
class Event:
    """Something that happened."""


@dataclass(frozen=True)
class Refused(Event):
    """Something the user asked cannot be done; nothing was changed.

    `kind`, `place`, `value`: those of the `UserError`; the value as text.
    """

    what: str  # the kind of command, in words: 'new run', 'swap to FL', 'drop of x.pt'
    reason: str
    kind: str = ""
    place: str = ""
    value: str = ""

    @classmethod
    def from_error(cls, what: str, error: UserError) -> Refused:
        value = "" if error.value is None else str(error.value)
        return cls(what, error.sentence, error.kind, error.place, value)


@dataclass(frozen=True)
class Failed(Event):
    """A fault of ours: one sentence and the traceback; the session lives on."""

    what: str
    traceback: str

    @classmethod
    def from_exception(cls, what: str, error: Exception) -> Failed:
        """A `UserError` is its own sentence; of any other exception the traceback is kept."""
        if isinstance(error, UserError):
            return cls(str(error), "")
        details = "".join(traceback.format_exception(error))
        return cls(f"{what}: {type(error).__name__}: {error}", details)


@dataclass(frozen=True)
class Working(Event):
    """Something slow is in progress (reading data, downloading); `fraction` None: unknown.

    `can_cancel`: `CancelLoading` ends it.
    """

    what: str
    fraction: float | None = None
    can_cancel: bool = False

    @property
    def sentence(self) -> str:
        """'Reading mnist, 40 %'."""
        if self.fraction is None:
            return self.what
        return f"{self.what}, {percent(self.fraction, 0)}"


@dataclass(frozen=True)
class EngineReady(Event):
    """torch is loaded; this is what can be chosen."""

    catalogue: Catalogue
    torch_version: str


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
class Shutdown(Command):
    """End the run and the thread."""

    title = "shutdown"


@dataclass(frozen=True)
class Stopped(Event):
    """The thread has ended; nothing comes after this."""
