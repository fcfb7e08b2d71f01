"""The cursor of B: which recorded step of the compared run is shown next to A."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Qt, Signal

from dgn_engine.protocol.branches import (
    ComparedFrames,
    CompareHeld,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import FramesRecorded
from dgn_engine.protocol.training import RunStarted
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.views.compared_step import ComparedStep
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.history import History
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.timeline.wanted_step import LATEST, WantedStep


def compare_with_step(a: StepCursor, send: Callable[[Command], None]) -> None:
    """Keep the past step shown as A as B, and return A to live."""
    if a.step is not None:
        send(CompareRun(a.folder, a.step) if a.folder else CompareHeld(a.step))
        a.go_live()


class ComparedCursor(QObject):
    """Cursor over the recorded steps of B; it reads them without involving either run.

    `changed`: another step is shown, or other moves are possible.
    """

    changed = Signal()

    def __init__(
        self,
        history: History,
        probes: Iterable[str],
        draw: Callable[[float], None],
        held: Callable[[], FrameSource | None],
        parent: QObject | None = None,
    ) -> None:
        """Create a cursor that shows nothing yet.

        Args:
            history: Receives the steps to show.
            probes: Probes of all panels.
            draw: Redraws the panels; takes the CPU seconds spent on reading.
            held: Returns the in-memory frames of a run that is not recorded.
        """
        super().__init__(parent)
        self._held = held
        self._history = history
        self._draw = draw
        self._ours = ""  # folder of the current run
        self._frames: ComparedFrames | None = None
        self._reader = PastReader(self)
        self._reader.found.connect(self._on_found, Qt.ConnectionType.QueuedConnection)
        self._wanted = WantedStep(self._reader, probes)  # no step: the current network
        self.with_a = False  # follow every step of A
        self._kept: tuple[str, int | None] = (
            "",
            None,
        )  # (folder, step) shown before the comparison was reopened

    # State

    @property
    def has_steps(self) -> bool:
        """Check whether B has recorded steps."""
        return self._frames is not None

    @property
    def name(self) -> str:
        return "" if self._frames is None else "this run" if self._is_own else self._frames.name

    @property
    def step(self) -> int | None:
        """Step that is shown or being read; None for the current network."""
        return self._wanted.step

    @property
    def steps(self) -> tuple[int, ...]:
        """Recorded steps that are known so far."""
        return self._wanted.steps

    @property
    def last_step(self) -> int:
        return max(self.steps[-1] if self.steps else 0, self.step or 0)

    @property
    def has_network(self) -> bool:
        """Check whether the engine can evaluate the current network of B."""
        return self._frames is not None and self._frames.step is None

    # Moves

    def go_to(self, step: int) -> None:
        """Show the last recorded step of B at or before this one."""
        self._request_step(max(step, 0), 0)

    def move_by(self, by: int) -> None:
        """Move by this many recorded steps; negative moves back."""
        self._request_step(LATEST if self.step is None else self.step, by)

    def go_to_end(self, first: bool) -> None:
        """Go to the first recorded step, or to the network (the last step if there is none)."""
        if first:
            self._request_step(LATEST, -LATEST)
        elif self.has_network:
            self.show_network()
        else:
            self._request_step(LATEST, 0)

    def show_network(self) -> None:
        """Show the current network of B."""
        self._wanted.clear_request()
        self._history.show_as_b(None)
        self._draw(0.0)
        self.changed.emit()

    def set_following_a(self, a: int | None, on: bool) -> None:
        """Switch following A on or off; `a`: current step of A, None if live."""
        self.with_a = on
        self.follow_a(a)
        self.changed.emit()

    def follow_a(self, a: int | None) -> None:
        """Follow A to this step (None: live)."""
        if not self.with_a or not self.has_steps:
            return
        if a is None:
            self.go_to_end(first=False)
        elif a != self.step:
            self.go_to(a)

    def close(self) -> None:
        self._reader.close()

    # Events

    def on_event(self, event: Event, _state: RunState) -> None:
        match event:
            case RunStarted():
                self._ours = ""
                self._reset_steps()
            case FramesRecorded(folder=folder):
                self._ours = folder
            case ComparisonClosed():
                self._reset_steps()
            case ComparisonOpened():
                previous_step = self.step if self._frames is not None else None
                folder = "" if self._frames is None else self._frames.folder
                self._reset_steps()
                self._kept = (folder, previous_step)
            case ComparedFrames(folder=folder, step=wanted):
                self._frames = event
                # Reopened with other examples: return to the step shown before.
                previous_folder, previous_step = self._kept
                if wanted is None and is_same_folder(previous_folder, folder):
                    wanted = previous_step
                self._kept = ("", None)
                if wanted is not None:
                    self._request_step(wanted, 0)
                elif (source := self._find_source()) is not None:  # list its steps
                    self._reader.submit_request(StepRequest(source, 0))
                self.changed.emit()

    # Internal

    @property
    def _is_own(self) -> bool:
        return self._frames is not None and is_same_folder(self._frames.folder, self._ours)

    def _reset_steps(self) -> None:
        self._frames, self._wanted.steps, self.with_a = None, (), False
        self._wanted.clear_request()
        self._history.show_as_b(None)
        self.changed.emit()

    def _find_source(self) -> FrameSource | None:
        """Return where the frames of B are stored."""
        folder = "" if self._frames is None else self._frames.folder
        return FrameSource(folder, foreign=True) if folder else self._held()

    def _request_step(self, step: int, moved: int) -> None:
        source = self._find_source()
        if self._frames is None or source is None:
            return
        self._wanted.set_request(source, step, moved, self.last_step if self.steps else step)
        self._wanted.send_request()
        self.changed.emit()

    def _on_found(self, found: StepFound) -> None:
        if self._frames is None or found.request.source.folder != self._frames.folder:
            return
        self._wanted.steps = found.steps
        if self._wanted.accept_answer(found) and self.step is not None:
            asked = self.step if found.request.step == LATEST else found.request.step
            past = self._wanted.show_answer(found, asked)
            self._history.show_as_b(ComparedStep(self._frames, past, self._is_own))
            self._draw(found.seconds)
        self.changed.emit()
