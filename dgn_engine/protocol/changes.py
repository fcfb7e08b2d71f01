"""Events of what a user changes in a run: its regime, what can be undone, what would end it."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.commands import ContinueRun, OpenSession, ShowRun


@dataclass(frozen=True)
class RegimeSwapped:
    """The regime changed; each tuple names groups ('value weights', 'feature weights', …)."""

    step: int
    before: str
    after: str
    kept: tuple[str, ...]
    frozen: tuple[str, ...]
    redrawn: tuple[str, ...]
    copied: tuple[str, ...]
    source: str = ""  # 'resnet18.pth' where the gates came from a file
    parameters_feature: int = 0
    undone: str = ""  # 'Undo gates of resnet18.pth': both networks as they were …
    of_step: int = 0  # … at this step

    @property
    def sentence(self) -> str:
        """What it did to which weights, in words."""
        if self.undone:
            change = "" if self.before == self.after else f" ({self.before} → {self.after})"
            if self.of_step == self.step:
                return f"{self.undone}{change} at step {self.step:,}: as if it had not been done."
            return (
                f"{self.undone}{change}: networks, optimiser and dials are those of step "
                f"{self.of_step:,}, and the run goes on from step {self.step:,}."
            )
        parts = [
            f"{word}: {', '.join(names)}"
            for word, names in (
                ("kept", self.kept),
                ("copied", self.copied),
                ("redrawn", self.redrawn),
                ("frozen", self.frozen),
            )
            if names
        ]
        origin = f" with the gates of {self.source}" if self.source else ""
        return f"{self.before} → {self.after}{origin} at step {self.step:,}. {'; '.join(parts)}."


@dataclass(frozen=True)
class UndoChanged:
    """What would be undone and redone next, in words; '' where there is nothing."""

    undo: str = ""
    redo: str = ""


@dataclass(frozen=True)
class DiscardConfirmation:
    """Not obeyed yet: the run in progress is not recorded, and would be lost at this step.

    `name`: of what would be shown, or (not `shown`) gone on with; `anyway`: the command that does
    it all the same.
    """

    step: int
    name: str
    shown: bool
    anyway: ShowRun | OpenSession | ContinueRun
