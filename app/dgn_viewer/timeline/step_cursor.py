"""The step cursor: whether all panels are live, or which recorded step they show."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import FramesRecorded, RecordingMended
from dgn_engine.protocol.training import RunStarted
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.history import History
from dgn_viewer.timeline.frame_keeper import FrameKeeper
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest
from dgn_viewer.timeline.wanted_step import LATEST, WantedStep

SPEEDS = (1, 2, 5, 10, 20)  # recorded steps per second
USUAL_SPEED = 5
LIST = 5000  # milliseconds between two listings of the recorded steps
REST = 0.4  # seconds after the last move when the step is shown in any case


class StepPlayer(QObject):
    """Plays recorded steps at a constant speed.

    Args:
        cursor: The cursor to move.
        drawn: Returns whether all panels have been drawn since the last step.
    """

    def __init__(self, cursor: StepCursor, drawn: Callable[[], bool]) -> None:
        super().__init__(cursor)
        self._cursor, self._drawn = cursor, drawn
        self.speed = USUAL_SPEED  # recorded steps per second
        self._played = 0.0  # time of the last step shown
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._show_next_step)

    @property
    def is_playing(self) -> bool:
        return self._timer.isActive()

    def toggle_playing(self) -> None:
        """Start playing, from the first step if the cursor is live; stop if already playing."""
        cursor = self._cursor
        if self.is_playing:
            self.stop()
            cursor.emit_changed()
        elif not cursor.reason_not_available:
            if cursor.step is None:
                cursor.go_to_first()
            self._played = time.monotonic()
            self._timer.start(round(1000 / self.speed))
            cursor.emit_changed()

    def stop(self) -> None:
        self._timer.stop()

    def set_speed(self, speed: int, _checked: bool = True) -> None:
        self.speed = speed
        if self.is_playing:
            self._timer.start(round(1000 / speed))

    def _show_next_step(self) -> None:
        """Show the next step; skip some if drawing cannot keep up."""
        if self._cursor.is_waiting or not self._drawn():
            return
        now = time.monotonic()
        due = int((now - self._played) * self.speed + 0.1)
        if due >= 1:
            self._played += due / self.speed
            self._cursor.advance_by(due)


class StepCursor(QObject):
    """Cursor over the recorded steps; training continues and is not involved.

    `changed`: another step is shown, playing starts or stops, or other moves are possible.
    `acts_changed`: only the last two; for menus and buttons.
    `steps_changed`: the list of recorded steps has changed (noticed within five seconds).
    """

    changed = Signal()
    acts_changed = Signal()
    thinned = Signal(str)  # frames in memory are being thinned out: a sentence
    reach_changed = Signal()
    steps_changed = Signal()

    def __init__(
        self,
        history: History,
        probes: Iterable[str],
        draw: Callable[[float], None],
        drawn: Callable[[], bool],
        parent: QObject | None = None,
        charge: Callable[[float], object] = lambda seconds: None,
        wait: Callable[[], float] = lambda: 0.0,
        keep: Callable[[PastReader], FrameKeeper] = FrameKeeper,
        rest: float = REST,
    ) -> None:
        """Create a live cursor.

        Args:
            history: Receives the step to show.
            probes: Probes of all panels.
            draw: Redraws the panels; takes the CPU seconds spent on reading.
            drawn: Returns whether all panels have been drawn since.
            charge: Receives the CPU seconds spent on packing frames.
            wait: Returns the seconds until another step may be drawn without slowing down training.
            keep: Creates the keeper of frames for a run that is not recorded.
            rest: Maximum seconds to wait.
        """
        super().__init__(parent)
        self._history = history
        self._draw = draw
        self.source: FrameSource | None = None  # where the frames of the run are stored
        self._reader = PastReader(self)
        self._reader.found.connect(self._on_found, Qt.ConnectionType.QueuedConnection)
        self._reader.kept.connect(self._on_packed, Qt.ConnectionType.QueuedConnection)
        self.keeper = keep(self._reader)
        self._wanted = WantedStep(self._reader, probes)  # no step: live
        self._charge = charge
        self._wait, self._rest = wait, rest
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._wanted.send_request)
        self._thins = False  # frames in memory are being thinned out
        self.reach: tuple[int, int] | None = None  # first and last selected step
        self._moves = 0  # requested while a step was being read
        self.player = StepPlayer(self, drawn)
        self._acts: tuple[object, ...] = ()  # what the actions depend on, as last emitted
        self._lists = QTimer(self)
        self._lists.timeout.connect(self.list_steps)
        self._lists.start(LIST)

    # State

    @property
    def step(self) -> int | None:
        """Step that is shown or being read; None if live."""
        return self._wanted.step

    @property
    def steps(self) -> tuple[int, ...]:
        """Recorded steps that are known so far."""
        return self._wanted.steps

    @property
    def is_waiting(self) -> bool:
        """Check whether the step is still being read."""
        return self._wanted.request is not None

    @property
    def last_step(self) -> int:
        """Current step of the run: the end of the time bar."""
        return max(self._history.step, self._history.state.step)

    @property
    def reason_not_available(self) -> str:
        """Why there is no history to show, as a sentence; '' if there is."""
        state = self._history.state
        if state.run is None:
            return "There is no run yet."
        if state.inspected_file:
            return f"{state.inspected_file} is only inspected, not trained, so it has no history."
        if self.source is None or (self.keeper.held is not None and not self.keeper.held.steps):
            return "There is no history yet."
        return ""

    @property
    def folder(self) -> str:
        """Folder of the run's frames; '' if there is none."""
        return "" if self.source is None else self.source.folder

    # Moves

    def go_to(self, step: int) -> None:
        """Show the last recorded step at or before this one; go live at the last step."""
        if self.reason_not_available:
            return
        if step >= self.last_step:
            self.go_live()
            return
        self.player.stop()
        self._request_step(max(step, 0), 0)

    def move_by(self, by: int) -> None:
        """Move by this many recorded steps (negative: back); go live after the last one."""
        self.player.stop()
        self.advance_by(by)

    def go_to_first(self) -> None:
        self.player.stop()
        if not self.reason_not_available:
            self._request_step(LATEST if not self.steps else self.steps[0], -LATEST)

    def go_live(self) -> None:
        self.player.stop()
        self._later.stop()
        self._moves = 0
        self._wanted.clear_request()
        if self._history.past is not None:
            self._history.look_back(None)
            self._draw(0.0)
        self.emit_changed()

    def choose_reach(self, first: int, last: int) -> None:
        """Select a range of steps; a single step clears the selection."""
        first, last = max(min(first, last), 0), min(max(first, last), self.last_step)
        reach = (first, last) if first < last else None
        if reach != self.reach:
            self.reach = reach
            self.reach_changed.emit()

    def close(self) -> None:
        self.player.stop()
        self._later.stop()
        self._lists.stop()
        self._reader.close()

    # Events

    def on_event(self, event: Event, _state: RunState) -> None:
        self.keeper.on_event(event)
        match event:
            case RunStarted():
                self.keeper.stop_holding()
                self.source = None
                if not event.inspected:
                    self.source = FrameSource(held=self.keeper.start_holding())
                self._wanted.steps, self._thins = (), False
                self.choose_reach(0, 0)
                self.go_live()
            case FramesRecorded():
                self.keeper.stop_holding()
                self.source = FrameSource(event.folder, event.foreign)
                self.emit_changed()
            case RecordingMended(folder=folder) if folder and self.source is not None:
                self.source = FrameSource(folder, self.source.foreign)

    def list_steps(self) -> None:
        """Refresh the list of recorded steps, unless a step is being read."""
        if not self.is_waiting and self.source is not None and self.source.held is None:
            self._reader.submit_request(StepRequest(self.source, frame=False))

    # Internal

    def emit_changed(self) -> None:
        """Emit that the shown step or the possible moves may have changed."""
        acts = self.reason_not_available, self.folder, self.step is None, self.player.is_playing
        if acts != self._acts:
            self._acts = acts
            self.acts_changed.emit()
        self.changed.emit()

    def _on_packed(self, seconds: float) -> None:
        self._charge(seconds)
        self.keeper.on_packed(seconds)
        held = self.keeper.held
        if held is None:
            return
        first = not self.steps
        self._wanted.steps = held.steps
        if held.left_out and not self._thins:
            self._thins = True
            self.thinned.emit(self.keeper.memory_text)
        if first:
            self.emit_changed()

    def advance_by(self, by: int) -> None:
        """Move without stopping the player."""
        if self.reason_not_available:
            return
        if self.step is None:
            if by < 0:
                self._request_step(self.last_step, by)
        elif self.is_waiting:
            self._moves += by
        else:
            self._request_step(self.step, by)

    def _request_step(self, step: int, moved: int) -> None:
        assert self.source is not None
        self._moves = 0
        self._wanted.set_request(self.source, step, moved, self.last_step)
        wait = min(self._wait(), self._rest)
        if wait > 0.0:  # only the last step requested meanwhile is read
            self._later.start(math.ceil(1000 * wait))
        else:
            self._later.stop()
            self._wanted.send_request()
        self.emit_changed()

    def _on_found(self, found: StepFound) -> None:
        """Show the frame, unless something else has been requested since."""
        if found.request.source == self.source and found.steps != self.steps:
            self._wanted.steps = found.steps
            self.steps_changed.emit()
        if not self._wanted.accept_answer(found) or (step := self.step) is None:
            return
        if found.request.moved > 0 and found.steps and step >= found.steps[-1]:
            self.go_live()
            return
        self._history.look_back(self._wanted.show_answer(found, step))
        self._draw(found.seconds)
        if moves := self._moves:
            self.advance_by(moves)
        self.emit_changed()
