"""Notices: what happened, one sentence each; which is shown now, and the last fifty of them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import get_args

from PySide6.QtCore import QObject, QTimer, Signal

from dgn_engine.protocol.branches import ComparisonOpened
from dgn_engine.protocol.files import FileListed, WeightsSaved, WeightsTaken
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunExported, RunsThinned, SessionSaved
from dgn_engine.protocol.training import (
    Change,
    ChangesListed,
    Diverged,
    GoBack,
    Redo,
    RegimeSwapped,
    Rewired,
    RunStarted,
    SettingChanged,
    Undo,
    UndoChanged,
    UndoSetting,
)
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.views.event_notices import (
    INFO,
    OTHER_RUN,
    Notice,
    NoticeButton,
    Told,
    capitalised,
    notice_of,
    step_words,
    time_of_day,
)

_OVER_OFFER = 4.0  # seconds that a notice is shown above an offer
_KEPT = 50
_EVERY_MS = 500
_log = logging.getLogger(__name__)
# Something that a user asked for was done.
_SUCCESSES = (
    *OTHER_RUN,
    *get_args(Change),
    FileListed,
    ComparisonOpened,
    WeightsTaken,
    WeightsSaved,
    SessionSaved,
    RunExported,
    RunsThinned,
)


class Notices(QObject):
    """The last notices, and which of them is shown in the status bar.

    `told(entry)`: a notice was given. `changed`: another one is shown, or has other buttons.
    `step_wanted(step)`: the time axes are to show it. `list_wanted(entry)`: the list is to be
    shown, at this entry where there is one.
    """

    told = Signal(object)
    changed = Signal()
    step_wanted = Signal(int)
    list_wanted = Signal(object)

    def __init__(
        self,
        parent: QObject,
        run_state: Callable[[], RunState] = RunState,
        send: Callable[[Command], object] = lambda _: None,
    ) -> None:
        """`send`: sends the command of a button that undoes what a notice says."""
        super().__init__(parent)
        self.entries: deque[Told] = deque(maxlen=_KEPT)
        self.held: Callable[[], bool] = lambda: False  # while the pointer is over it none goes
        self._run_state = run_state
        self._send = send
        self._open: list[Told] = []  # the newest last; more than are kept where all of them stay
        self._changes = 0
        self._fresh: Told | None = None  # what the undo that is told of next would take back
        self._listed = ChangesListed()  # of the run
        self._last: Told | None = None  # of its newest change, where no event says more of it
        self._said: Told | None = None  # by an event, of what is listed next
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self.age)

    @property
    def recent(self) -> list[Notice]:
        """The last notices, the newest last."""
        return [entry.notice for entry in self.entries]

    # What happens

    def on_event(self, event: Event) -> None:
        """Tell what the event says, if anything, and follow what can be undone."""
        if isinstance(event, ChangesListed):
            self._on_changes(event)
            return
        if self._belongs_to_undo(event):
            return  # it may come between a change and its `UndoChanged`
        fresh, self._fresh = self._fresh, None
        if isinstance(event, ProbeSetChanged):
            self._said = None
        self.drop_impossible()
        self._end_refusals(event)
        if isinstance(event, UndoChanged):
            self._changes += 1
            if fresh is not None:
                fresh.change = self._changes
            self.changed.emit()
        elif isinstance(event, RunStarted):
            self._changes += 1
            self._listed, self._last, self._said = ChangesListed(), None, None
            self.changed.emit()
        notice = notice_of(event)
        if notice is not None:
            if isinstance(event, Diverged) and event.back_to is not None:
                notice = replace(notice, offers=(self._way_back(event.step, event.back_to),))
            entry = self.tell(notice, getattr(event, "step", None))
            if isinstance(event, (RegimeSwapped, WeightsTaken)):
                self._fresh = self._said = entry

    def _on_changes(self, listed: ChangesListed) -> None:
        """Tell of a change that no event of its own tells of: an order, a dial, a probe set.

        A dial that is still moved is one change: what it is by now stands for what it was.
        """
        before, self._listed = self._listed, listed
        last, self._last = self._last, None
        said, self._said = self._said, None
        if said is not None and (said is self._fresh or not listed.setting):
            self._fresh = said  # other events may have come between
            return
        done, known = listed.done, before.done
        if known and known[:-1] == done and listed.undone[:1] == known[-1:]:
            words = f"Undo {step_words(known[-1])}"
            if said is None and known[-1].setting:
                what, step = known[-1].what, known[-1].step
                words = f"Undo {what} of step {step:,} alone; the weights stay as they are."
            self._fresh = self.tell(Notice("info", words))
            return
        made = done[-1:]
        goes_on = (
            bool(made)
            and len(done) == len(known)
            and done[:-1] == known[:-1]
            and ((made[0].step, made[0].setting) == (known[-1].step, known[-1].setting))
        )
        follows = done[:-1] in (known, known[1:])  # the oldest may be forgotten
        if not made or done == known or not (goes_on or follows):
            return
        if goes_on and last is not None:
            self._leave(last)
            if last in self.entries:
                self.entries.remove(last)
        words = step_words(made[0])
        self._fresh = self._last = self.tell(Notice("info", capitalised(words)), made[0].step)

    def _way_back(self, step: int, back_to: int) -> NoticeButton:
        """The button that puts the run back, for as long as it stands where it diverged."""
        run = self._run_state().run

        def possible() -> bool:
            now = self._run_state()
            return now.run is run and (now.diverged, now.back_to) == (step, back_to)

        return NoticeButton(f"Go back to step {back_to:,}", partial(self._send, GoBack()), possible)

    def tell(self, notice: Notice, at: int | None = None) -> Told:
        """Give a notice, of step `at` or of now; the same one again stands for the one before."""
        state = self._run_state()
        number = state.run.run if state.run is not None else 0
        step = at if at is not None else state.step if state.run is not None else None
        entry = Told(notice, time_of_day(), number, step, notice.seconds)
        said = (notice.kind, notice.text)
        for same in [one for one in self._open if (one.notice.kind, one.notice.text) == said]:
            self._leave(same)
        if notice.listed:
            self.entries.append(entry)
        self._open.append(entry)
        if not entry.stays:
            self._timer.start()
        when = "" if step is None else f" at step {step:,}"
        _log.info("%s%s: %s", notice.kind, when, f"{notice.text}\n{notice.details}".strip())
        self.told.emit(entry)
        self.changed.emit()
        return entry

    # What is shown

    def shown(self) -> Told | None:
        """The notice for the status bar: the newest that is open and asks for no decision."""
        return next((one for one in reversed(self._open) if not one.notice.asks), None)

    @property
    def open_entries(self) -> tuple[Told, ...]:
        """Those that were not put away, the newest first."""
        return tuple(reversed(self._open))

    @property
    def ageing(self) -> bool:
        """Whether one of them will go by itself."""
        return self._timer.isActive()

    def behind(self) -> int:
        """How many open notices wait behind the one that is shown."""
        return max(0, sum(not one.notice.asks for one in self._open) - 1)

    def question(self) -> Told | None:
        """The newest notice that something waits for."""
        return next((one for one in reversed(self._open) if one.notice.asks), None)

    def buttons(self, entry: Told) -> tuple[NoticeButton, ...]:
        """What can still be done about a notice."""
        if entry.answered:
            return ()
        offers = tuple(offer for offer in entry.notice.offers if offer.possible())
        state, word = self._run_state(), ""
        current = entry.change > 0 and entry.change == self._changes
        if current and state.run is not None and state.run.run == entry.run:
            undone = entry.notice.text.startswith("Undo ")
            word = "Redo" if undone and state.redo else "Undo" if state.undo else ""
        if not word:
            return offers
        setting = state.changes.setting if state.changes is not None else ""
        alone = word == "Undo" and setting and state.diverged is None
        put_back = partial(self._send, UndoSetting())
        only = (NoticeButton(f"Put only {setting} back", put_back),) if alone else ()
        take_back = partial(self._send, Redo() if word == "Redo" else Undo())
        return (*offers, NoticeButton(word, take_back), *only)

    def leads_to(self, entry: Told) -> int | None:
        """The step of its run that it was given at, where the run is still the one on show."""
        run = self._run_state().run
        there = run is not None and run.run == entry.run and not run.inspected
        return entry.step if there else None

    # What the user does

    def take(self, entry: Told, button: NoticeButton) -> None:
        """Do what a button says; the notice is answered."""
        entry.answered = bool(entry.notice.offers)
        self._leave(entry)
        self.changed.emit()
        button.do()

    def close(self, entry: Told) -> None:
        """Put away a notice and what was told before it; offers stay until they are closed."""
        for one in self._open[: self._open.index(entry)] if entry in self._open else ():
            if not one.notice.offers and not one.notice.asks:
                self._leave(one)
        self._leave(entry)
        self.changed.emit()

    def show_recent(self) -> None:
        self.list_wanted.emit(None)

    # Inside

    def _belongs_to_undo(self, event: Event) -> bool:
        """Order and settings that an undo has put back follow the swap that names it."""
        follows = isinstance(event, (Rewired, SettingChanged))
        fresh = self._fresh.notice.text if self._fresh is not None else ""
        return follows and fresh.startswith(("Undo ", "Redo "))

    def _leave(self, entry: Told) -> None:
        entry.open = False
        if entry in self._open:
            self._open.remove(entry)

    def drop_impossible(self) -> None:
        """An offer of which nothing is possible any more needs no answer."""
        lost = [one for one in self._open if one.notice.offers and not self.buttons(one)]
        for one in lost:
            self._leave(one)
        if lost:
            self.changed.emit()

    def _end_refusals(self, event: Event) -> None:
        """A refusal goes with the next success, and what is no longer so goes, too."""
        done = isinstance(event, _SUCCESSES)
        over = [
            one
            for one in self._open
            if isinstance(event, one.notice.until)
            or (done and one.notice.kind == "refused" and not one.stays)
        ]
        for one in over:
            self._leave(one)
        if over:
            self.changed.emit()

    def age(self) -> None:
        """Half a second is over: infos and refusals go by themselves, not from under the pointer;
        over an offer infos are short."""
        if self.held():
            return
        offer = any(one.notice.offers for one in self._open)
        gone = False
        for one in [one for one in self._open if not one.stays]:
            one.left -= self._timer.interval() / 1000
            if one.left <= (INFO - _OVER_OFFER if offer and one.notice.kind == "info" else 0.0):
                one.left = 0.0
                self._leave(one)
                gone = True
        if not any(not one.stays for one in self._open):
            self._timer.stop()
        if gone:
            self.changed.emit()
