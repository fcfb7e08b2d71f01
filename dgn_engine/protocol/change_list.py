"""The list of changes of a run: what can be undone and done again, and how to go far back in it."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.events import Event


@dataclass(frozen=True)
class UndoMany(Command):
    """Undo so many changes, the newest first, or redo so many where the number is negative."""

    title = "undo {changes} changes"
    steers = True

    changes: int


@dataclass(frozen=True)
class ListedChange:
    """One change in words ('regime FR-II'), and the step before which it was made.

    `setting`: what can be put back alone, with the weights kept: 'the learning rate'; else ''.
    """

    step: int
    what: str
    setting: str = ""


@dataclass(frozen=True)
class ChangesListed(Event):
    """All changes of the run that can be undone, the oldest first, and those that were undone and
    can be done again, the next one first."""

    done: tuple[ListedChange, ...] = ()
    undone: tuple[ListedChange, ...] = ()

    @property
    def setting(self) -> str:
        """What `UndoSetting` would put back: 'the learning rate'; '' where there is nothing."""
        return self.done[-1].setting if self.done else ""
