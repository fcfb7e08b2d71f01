"""What a notice says of an event, in one sentence, and what can be done about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from dgn_engine.protocol import messages, runs, training
from dgn_engine.protocol.branches import ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.files import TrainedOn, WeightsSaved, WeightsTaken
from dgn_engine.scene.run_text import in_form_words
from dgn_engine.text.printable import printable

Kind = Literal["info", "refused", "failed"]
INFO = 12.0  # seconds that an info is shown
REFUSED = 30.0  # … a refusal, unless something succeeds before
OTHER_RUN = (training.RunStarted, runs.RunShown, runs.RunContinued)


@dataclass(frozen=True)
class NoticeButton:
    """A button of a notice; the notice goes when it is pressed.

    `possible`: whether it would still do what it says; where not, it is not shown.
    """

    text: str  # made printable, as the texts of a notice are
    do: Callable[[], object]
    possible: Callable[[], bool] = lambda: True

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))


@dataclass(frozen=True)
class Notice:
    """One sentence, and details (a traceback) one click away.

    `asks`: something waits for the answer, so that it stands in a row of its own. `listed`: in the
    list of notices, too; not what is only said again. `until`: what it says is so until one of
    these events; it stays as long. `about`: what it is of, a short id ('out-of-bounds'); '' where
    nobody tells it from others.
    """

    kind: Kind
    text: str
    details: str = ""
    offers: tuple[NoticeButton, ...] = ()  # what can be done about it; it stays until one is taken
    asks: bool = False
    listed: bool = True
    until: tuple[type[messages.Event], ...] = ()
    about: str = ""

    @property
    def seconds(self) -> float:
        """That it is shown by itself; 0: until it is closed, answered, or no longer so."""
        if self.offers or self.asks or self.until or self.kind == "failed":
            return 0.0
        return INFO if self.kind == "info" else REFUSED

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", printable(self.text))
        object.__setattr__(self, "details", printable(self.details, lines=True))


def time_of_day() -> str:
    """'14:03:20', by the clock of this machine."""
    return time.strftime("%H:%M:%S")


def refusal_in_words(what: str, reason: str) -> str:
    """One sentence of what cannot be done and why, which names a file once."""
    words = what.split(" ")
    names = [PurePath(" ".join(words[place:])).name for place in range(1, len(words))]
    if any("." in name and name in reason for name in names):
        return reason
    return f"Cannot {what}: {reason}" if what else reason


def notice_of(event: messages.Event) -> Notice | None:
    """What an event says to the user, if anything."""
    match event:
        case messages.Refused(what=what, reason=reason, kind=kind):
            return Notice("refused", refusal_in_words(what, in_form_words(reason)), about=kind)
        case training.SettingsIgnored(sentences=sentences):
            return Notice("refused", " ".join(map(in_form_words, sentences)))
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
            return Notice("info", f"The run is finished at step {step:,}. Run goes on for more.")
        case runs.RunExported(what=what):
            return Notice("info", what)
        case runs.RunsThinned(what=what, trouble=each):
            return Notice("info", what, each)
        case runs.RecordingPaused(reason=reason):
            until = (runs.RecordingResumed, *OTHER_RUN)
            return Notice("refused", f"{reason} Training goes on.", until=until)
        case runs.RecordingResumed(step=step, lost=lost):
            gap = f"; {lost:,} lines of its log are lost" if lost else ""
            return Notice("info", f"The run is recorded again from step {step:,}{gap}.")
        case runs.RecordingMended(remark=remark):
            return Notice("refused", remark)
        case runs.RecordThinned():
            return Notice("refused", event.sentence)
        case runs.RunContinued(step=step, remark=remark):
            exact = f" It may differ in the last bits: {remark}." if remark else ""
            return Notice("info", f"The recorded run goes on at step {step:,}.{exact}")
        case _:
            return None


def step_words(change: training.ListedChange) -> str:
    return f"{change.what} at step {change.step:,}."


def capitalised(words: str) -> str:
    """The first letter as a sentence has it; β stays β."""
    return words[:1].upper() + words[1:] if words[:1].isascii() else words


@dataclass(eq=False)
class Told:
    """A notice that was given: when, at which step of which run, and what became of it."""

    notice: Notice
    time: str
    run: int = 0
    step: int | None = None  # None: there was no run
    left: float = 0.0  # seconds until it goes; 0: when it is closed
    open: bool = True  # not closed, not gone, not answered
    answered: bool = False
    change: int = 0  # number of the change that Undo (or Redo) would take back; 0: of none

    @property
    def stays(self) -> bool:
        return self.left <= 0.0
