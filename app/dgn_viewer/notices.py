"""Notices, one sentence each: which one is shown, and the last fifty."""

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
    ShownNotice,
    capitalise_first,
    describe_undo_step,
    make_notice,
    time_of_day,
)

_OVER_OFFER = 4.0  # seconds to show a notice while an offer is open
_KEPT = 50
_EVERY_MS = 500
_log = logging.getLogger(__name__)
# Events that complete an action of the user.
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
    """The last notices, and which of them the status bar shows.

    `told(entry)`: a notice was added. `changed`: another notice is shown, or its buttons changed.
    `step_wanted(step)`: show this step on the time axes. `list_wanted(entry)`: open the list, at
    this entry if given.
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
        """`send` sends the commands of Undo and similar buttons."""
        super().__init__(parent)
        self.entries: deque[ShownNotice] = deque(maxlen=_KEPT)
        self.held: Callable[[], bool] = lambda: False  # no notice expires while this is true
        self._run_state = run_state
        self._send = send
        self._open: list[ShownNotice] = []  # newest last; may exceed `_KEPT` if none expires
        self._changes = 0
        self._fresh: ShownNotice | None = None  # notice that the next `UndoChanged` refers to
        self._listed = ChangesListed()  # changes of the run
        self._last: ShownNotice | None = (
            None  # notice of the newest change, if no event describes it better
        )
        self._said: ShownNotice | None = None  # notice of the event whose change is listed next
        self._timer = QTimer(self, interval=_EVERY_MS)
        self._timer.timeout.connect(self.age_notices)

    @property
    def recent_notices(self) -> list[Notice]:
        """Return the last notices, newest last."""
        return [entry.notice for entry in self.entries]

    # Events

    def on_event(self, event: Event) -> None:
        """Add a notice for the event, if it needs one, and keep track of what can be undone."""
        if isinstance(event, ChangesListed):
            self._on_changes(event)
            return
        if self._belongs_to_undo(event):
            return  # may arrive between a change and its `UndoChanged`
        pending, self._fresh = self._fresh, None
        if isinstance(event, ProbeSetChanged):
            self._said = None
        self.close_stale_offers()
        self._end_refusals(event)
        if isinstance(event, UndoChanged):
            self._changes += 1
            if pending is not None:
                pending.change = self._changes
            self.changed.emit()
        elif isinstance(event, RunStarted):
            self._changes += 1
            self._listed, self._last, self._said = ChangesListed(), None, None
            self.changed.emit()
        notice = make_notice(event)
        if notice is not None:
            if isinstance(event, Diverged) and event.back_to is not None:
                notice = replace(notice, offers=(self._go_back_button(event.step, event.back_to),))
            entry = self.add_notice(notice, getattr(event, "step", None))
            if isinstance(event, (RegimeSwapped, WeightsTaken)):
                self._fresh = self._said = entry

    def _on_changes(self, listed: ChangesListed) -> None:
        """Add a notice for a change without an event of its own: an order, a setting, a probe set.

        While a setting is being moved it is one change: the new notice replaces the previous one.
        """
        before, self._listed = self._listed, listed
        last, self._last = self._last, None
        from_event, self._said = self._said, None
        if from_event is not None and (from_event is self._fresh or not listed.last_setting):
            self._fresh = from_event  # other events may have arrived in between
            return
        done, previous = listed.done, before.done
        if previous and previous[:-1] == done and listed.undone[:1] == previous[-1:]:
            text = f"Undo {describe_undo_step(previous[-1])}"
            if from_event is None and previous[-1].setting:
                what, step = previous[-1].what, previous[-1].step
                text = f"Undo {what} of step {step:,} only; the weights are unchanged."
            self._fresh = self.add_notice(Notice("info", text))
            return
        newest = done[-1:]
        is_continued = (
            bool(newest)
            and len(done) == len(previous)
            and done[:-1] == previous[:-1]
            and ((newest[0].step, newest[0].setting) == (previous[-1].step, previous[-1].setting))
        )
        is_new = done[:-1] in (previous, previous[1:])  # the oldest may have been dropped
        if not newest or done == previous or not (is_continued or is_new):
            return
        if is_continued and last is not None:
            self._close_entry(last)
            if last in self.entries:
                self.entries.remove(last)
        text = describe_undo_step(newest[0])
        self._fresh = self._last = self.add_notice(
            Notice("info", capitalise_first(text)), newest[0].step
        )

    def _go_back_button(self, step: int, back_to: int) -> NoticeButton:
        """Return the button that restores a diverged run, for as long as it stays diverged."""
        run = self._run_state().run

        def can_go_back() -> bool:
            now = self._run_state()
            return now.run is run and (now.diverged, now.back_to) == (step, back_to)

        return NoticeButton(
            f"Go back to step {back_to:,}", partial(self._send, GoBack()), can_go_back
        )

    def add_notice(self, notice: Notice, at: int | None = None) -> ShownNotice:
        """Add a notice of step `at` (default: the current step); it replaces an equal open one."""
        state = self._run_state()
        run_number = state.run.run if state.run is not None else 0
        step = at if at is not None else state.step if state.run is not None else None
        entry = ShownNotice(notice, time_of_day(), run_number, step, notice.display_seconds)
        content = (notice.kind, notice.text)
        for duplicate in [
            other for other in self._open if (other.notice.kind, other.notice.text) == content
        ]:
            self._close_entry(duplicate)
        if notice.listed:
            self.entries.append(entry)
        self._open.append(entry)
        if not entry.stays_open:
            self._timer.start()
        when = "" if step is None else f" at step {step:,}"
        _log.info("%s%s: %s", notice.kind, when, f"{notice.text}\n{notice.details}".strip())
        self.told.emit(entry)
        self.changed.emit()
        return entry

    # Shown notices

    def notice_on_show(self) -> ShownNotice | None:
        """Return the notice for the status bar: the newest open one that needs no decision."""
        return next((entry for entry in reversed(self._open) if not entry.notice.asks), None)

    @property
    def open_entries(self) -> tuple[ShownNotice, ...]:
        """Open notices, newest first."""
        return tuple(reversed(self._open))

    @property
    def has_ageing_notices(self) -> bool:
        """Check whether any open notice will expire."""
        return self._timer.isActive()

    def count_hidden(self) -> int:
        """Return how many open notices are hidden behind the one shown."""
        return max(0, sum(not entry.notice.asks for entry in self._open) - 1)

    def open_question(self) -> ShownNotice | None:
        """Return the newest notice that needs a decision."""
        return next((entry for entry in reversed(self._open) if entry.notice.asks), None)

    def buttons_for(self, entry: ShownNotice) -> tuple[NoticeButton, ...]:
        """Return the actions that a notice still offers."""
        if entry.answered:
            return ()
        offers = tuple(offer for offer in entry.notice.offers if offer.possible())
        state, action = self._run_state(), ""
        is_newest = entry.change > 0 and entry.change == self._changes
        if is_newest and state.run is not None and state.run.run == entry.run:
            undone = entry.notice.text.startswith("Undo ")
            action = "Redo" if undone and state.redo else "Undo" if state.undo else ""
        if not action:
            return offers
        setting = state.changes.last_setting if state.changes is not None else ""
        has_revert = action == "Undo" and setting and state.diverged is None
        revert_setting = partial(self._send, UndoSetting())
        revert = (NoticeButton(f"Revert {setting} only", revert_setting),) if has_revert else ()
        take_back = partial(self._send, Redo() if action == "Redo" else Undo())
        return (*offers, NoticeButton(action, take_back), *revert)

    def step_to_show(self, entry: ShownNotice) -> int | None:
        """Return the step of a notice, if its run is still on show."""
        run = self._run_state().run
        is_current = run is not None and run.run == entry.run and not run.inspected
        return entry.step if is_current else None

    # Actions of the user

    def press_button(self, entry: ShownNotice, button: NoticeButton) -> None:
        """Run the action of a button; the notice is answered."""
        entry.answered = bool(entry.notice.offers)
        self._close_entry(entry)
        self.changed.emit()
        button.do()

    def close_notice(self, entry: ShownNotice) -> None:
        """Close a notice and all earlier ones, except offers."""
        for earlier in self._open[: self._open.index(entry)] if entry in self._open else ():
            if not earlier.notice.offers and not earlier.notice.asks:
                self._close_entry(earlier)
        self._close_entry(entry)
        self.changed.emit()

    def show_recent(self) -> None:
        self.list_wanted.emit(None)

    # Internal

    def _belongs_to_undo(self, event: Event) -> bool:
        """Return whether the event is part of an undo or redo that has its own notice."""
        is_restored = isinstance(event, (Rewired, SettingChanged))
        text = self._fresh.notice.text if self._fresh is not None else ""
        return is_restored and text.startswith(("Undo ", "Redo "))

    def _close_entry(self, entry: ShownNotice) -> None:
        entry.open = False
        if entry in self._open:
            self._open.remove(entry)

    def close_stale_offers(self) -> None:
        """Close offers that have no possible action left."""
        stale = [
            entry for entry in self._open if entry.notice.offers and not self.buttons_for(entry)
        ]
        for entry in stale:
            self._close_entry(entry)
        if stale:
            self.changed.emit()

    def _end_refusals(self, event: Event) -> None:
        """Close refusals after a successful action, and notices that are no longer true."""
        is_success = isinstance(event, _SUCCESSES)
        over = [
            entry
            for entry in self._open
            if isinstance(event, entry.notice.until)
            or (is_success and entry.notice.kind == "refused" and not entry.stays_open)
        ]
        for entry in over:
            self._close_entry(entry)
        if over:
            self.changed.emit()

    def age_notices(self) -> None:
        """Expire infos and refusals; called every half second, but not under the pointer.

        While an offer is open, infos expire sooner.
        """
        if self.held():
            return
        has_offer = any(entry.notice.offers for entry in self._open)
        expired = False
        for entry in [entry for entry in self._open if not entry.stays_open]:
            entry.left -= self._timer.interval() / 1000
            if entry.left <= (
                INFO - _OVER_OFFER if has_offer and entry.notice.kind == "info" else 0.0
            ):
                entry.left = 0.0
                self._close_entry(entry)
                expired = True
        if not any(not entry.stays_open for entry in self._open):
            self._timer.stop()
        if expired:
            self.changed.emit()
