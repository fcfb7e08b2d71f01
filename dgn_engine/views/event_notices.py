"""The notice of an event: one sentence, and what can be done about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from dgn_engine.protocol import messages, runs, training
from dgn_engine.protocol.branches import ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.files import TrainedOn, WeightsSaved, WeightsTaken
from dgn_engine.scene.run_text import use_form_names
from dgn_engine.text.printable import printable

Kind = Literal["info", "refused", "failed"]
INFO = 12.0  # seconds that an info notice is shown
REFUSED = 30.0  # … a refusal, unless something succeeds first
OTHER_RUN = (training.RunStarted, runs.RunShown, runs.RunContinued)


@dataclass(frozen=True)
class NoticeButton:
    """A button of a notice, which closes when it is pressed.

    `possible`: whether it would still do what it says; if not, it is hidden.
    """

    text: str  # made printable, like the texts of a notice
    do: Callable[[], object]
    possible: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))


@dataclass(frozen=True)
class Notice:
    """One sentence, with details (a traceback) one click away.

    `asks`: something waits for the answer, so it gets a row of its own. `listed`: appears in the
    list of notices; False for a repetition. `until`: events that end what it reports, before which
    it stays. `about`: short id of its subject ('out-of-bounds'); '' if it needs none.
    """

    kind: Kind
    text: str
    details: str = ""
    offers: tuple[NoticeButton, ...] = ()  # possible actions; it stays until one is pressed
    asks: bool = False
    listed: bool = True
    until: tuple[type[messages.Event], ...] = ()
    about: str = ""

    @property
    def display_seconds(self) -> float:
        """Seconds before it closes itself; 0: only when closed, answered, or no longer true."""
        if self.offers or self.asks or self.until or self.kind == "failed":
            return 0.0
        return INFO if self.kind == "info" else REFUSED

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))
        object.__setattr__(self, "details", printable(self.details, lines=True))


def time_of_day() -> str:
    """Return '14:03:20', the local time."""
    return time.strftime("%H:%M:%S")


def describe_refusal(what: str, reason: str) -> str:
    """Return one sentence on what cannot be done and why, naming a file only once."""
    words = what.split(" ")
    names = [PurePath(" ".join(words[index:])).name for index in range(1, len(words))]
    if any("." in name and name in reason for name in names):
        return reason
    return f"Cannot {what}: {reason}" if what else reason


def make_notice(event: messages.Event) -> Notice | None:
    """Return the notice of an event, if it has one."""
    match event:
        case messages.Refused(what=what, reason=reason, kind=kind):
            return Notice("refused", describe_refusal(what, use_form_names(reason)), about=kind)
        case training.SettingsIgnored(sentences=sentences):
            return Notice("refused", " ".join(map(use_form_names, sentences)))
        case messages.Failed(what=what, traceback=traceback):
            return Notice("failed", what, traceback)
        case training.RegimeSwapped() | WeightsTaken() | TrainedOn() | training.StepsNotCaptured():
            return Notice("info", event.sentence)
        case messages.EngineSilent() | messages.EngineAnswered():
            return Notice("info", event.sentence)
        case ComparisonOpened(remark=why) | ComparisonClosed(reason=why) if why:
            return Notice("refused", why)
        case WeightsSaved(step=step, path=path):
            return Notice("info", f"Weights of step {step:,} saved as {path}.")
        case training.Diverged():
            return Notice("refused", event.sentence, until=OTHER_RUN)
        case messages.EngineRestarted():
            return Notice("failed", event.sentence)
        case training.Finished(step=step):
            return Notice("info", f"Run finished at step {step:,}. Press Run to continue.")
        case runs.RunExported(what=what):
            return Notice("info", what)
        case runs.RunsThinned(what=what, trouble=each):
            return Notice("info", what, each)
        case runs.RecordingPaused(reason=reason):
            until = (runs.RecordingResumed, *OTHER_RUN)
            return Notice("refused", f"{reason} Training continues.", until=until)
        case runs.RecordingResumed(step=step, lost=lost):
            lines = "line was" if lost == 1 else "lines were"
            gap = f"; {lost:,} log {lines} lost" if lost else ""
            return Notice("info", f"Recording resumed at step {step:,}{gap}.")
        case runs.RecordingMended(remark=remark):
            return Notice("refused", remark)
        case runs.RecordThinned():
            return Notice("refused", event.sentence)
        case runs.RunContinued(step=step, remark=remark):
            exact = f" It may differ in the last bits: {remark}." if remark else ""
            return Notice("info", f"The recorded run continues at step {step:,}.{exact}")
        case _:
            return None


def describe_undo_step(change: training.ListedChange) -> str:
    return f"{change.what} at step {change.step:,}."


def capitalise_first(words: str) -> str:
    """Capitalise the first letter of a sentence; β stays β."""
    return words[:1].upper() + words[1:] if words[:1].isascii() else words


@dataclass(eq=False)
class ShownNotice:
    """A notice that was shown: when, at which step of which run, and its state since."""

    notice: Notice
    time: str
    run: int = 0
    step: int | None = None  # None: there was no run
    left: float = 0.0  # seconds until it goes; 0: when it is closed
    open: bool = True  # not closed, expired or answered
    answered: bool = False
    change: int = 0  # number of the change that Undo or Redo would revert; 0: none

    @property
    def stays_open(self) -> bool:
        return self.left <= 0.0
