"""Commands and events: what is exchanged between a window and the engine, as frozen data.

A command is carried out between two steps, and answered by events. Each command declares its title
and how it is undone; `session.engine` has the table of handlers. Events arrive in order and none is
lost. The engine has the last word: widgets change when an event arrives.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath
from typing import ClassVar

from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.text.written_numbers import format_duration, format_percent


@dataclass(frozen=True)
class UndoPolicy:
    """The way a change is undone. `what` describes it, with fields of the command in braces.

    `reads`: it only changes what is read (the probe set); otherwise the whole run is restored, with
    weights, optimiser and the order of the data. `setting`: what `UndoSetting` restores on its own,
    'the learning rate', or ''. `merges`: several in quick succession count as one change.
    """

    what: str
    setting: str = ""
    merges: bool = False
    reads: bool = False


@dataclass(frozen=True)
class Command:
    """The base of all commands, with a title and a policy for undo."""

    title: ClassVar[str]  # an infinitive, with fields in braces: 'continue {folder}'
    undo: ClassVar[UndoPolicy | None] = None
    steers: ClassVar[bool] = False  # it changes the run, but cannot be undone itself

    @property
    def changes_run(self) -> bool:
        """True if it changes the current run: weights, regime, order, settings or probe set.

        Such a change is not possible while an earlier step is shown.
        """
        return self.undo is not None or self.steers

    def in_words(self) -> str:
        """Return the title with the command's values; folders and files by their last part."""
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
    """A request could not be carried out; nothing was changed.

    `kind`, `place` and `value` are those of the `UserError`, the value as text.
    """

    what: str  # the request, in words: 'new run', 'swap to FL', 'drop of x.pt'
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
    """An internal error: one sentence and the traceback; the session continues."""

    what: str
    traceback: str

    @classmethod
    def from_exception(cls, what: str, error: Exception) -> Failed:
        """Build the event; a `UserError` is shown without a traceback."""
        if isinstance(error, UserError):
            return cls(str(error), "")
        details = "".join(traceback.format_exception(error))
        return cls(f"{what}: {type(error).__name__}: {error}", details)


@dataclass(frozen=True)
class Working(Event):
    """Something slow is in progress (reading data, downloading); `fraction` is None if unknown.

    `can_cancel`: `CancelLoading` stops it.
    """

    what: str
    fraction: float | None = None
    can_cancel: bool = False

    @property
    def sentence(self) -> str:
        """'Reading mnist, 40 %'."""
        if self.fraction is None:
            return self.what
        return f"{self.what}, {format_percent(self.fraction, 0)}"


@dataclass(frozen=True)
class EngineReady(Event):
    """torch is loaded; `catalogue` has everything that can be chosen."""

    catalogue: Catalogue
    torch_version: str


@dataclass(frozen=True)
class EngineSilent(Event):
    """The engine's process has sent nothing for this long; it has not died."""

    seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"The engine has not responded for {format_duration(self.seconds)}: it is "
            "suspended, or the "
            "machine is too busy. Requests are carried out once it responds."
        )


@dataclass(frozen=True)
class EngineAnswered(Event):
    """The engine's process responds again, after this long."""

    seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"The engine responds again, after {format_duration(self.seconds)}; nothing was lost."
        )


@dataclass(frozen=True)
class EngineRestarted(Event):
    """The engine's process died; a new one continues the recorded run from `step`."""

    how: str  # 'signal 9'
    died_at: int  # the last known step
    step: int
    undone: tuple[str, ...] = ()  # changes after that step: 'regime FL'
    unanswered: tuple[str, ...] = ()  # requests not carried out: 'swap to FL'

    @property
    def sentence(self) -> str:
        lost = max(0, self.died_at - self.step)
        where = f"from the checkpoint at step {self.step:,}" if self.step else "from its seed"
        steps = "the last step is" if lost == 1 else f"the last {lost:,} steps are"
        again = f"{steps} repeated" if lost else "no steps are lost"
        change = f" Not restored: {', '.join(self.undone)}." if self.undone else ""
        return (
            f"The engine process died ({self.how}) at step {self.died_at:,}. It was restarted "
            f"and the run continues {where}; {again}.{change}{lost_requests(self.unanswered)}"
        )


def lost_requests(commands: tuple[str, ...], shown: int = 3) -> str:
    """Return ' Lost requests: swap to FL, pause.', to append to a sentence; '' if there are
    none."""
    if not commands:
        return ""
    more = f" and {len(commands) - shown:,} more" if len(commands) > shown else ""
    return f" Lost requests: {', '.join(commands[:shown])}{more}."


@dataclass(frozen=True)
class Shutdown(Command):
    """End the run and the engine."""

    title = "shutdown"


@dataclass(frozen=True)
class Stopped(Event):
    """The engine has ended; no event follows."""
