"""The step of B: which recorded step of the run that is compared with all panels show beside A."""

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
from dgn_engine.views.frame_source import Source
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest
from dgn_viewer.timeline.step_cursor import StepCursor

_LATEST = 1 << 62  # beyond every step


def compare_with_step(a: StepCursor, send: Callable[[Command], None]) -> None:
    """Keep the step that A looks back at as B, and show A as it is now."""
    if a.step is not None:
        send(CompareRun(a.folder, a.step) if a.folder else CompareHeld(a.step))
        a.live()


class ComparedCursor(QObject):
    """Moves through the recorded steps of B; neither run is asked, nor waits.

    `changed`: another step is shown, or what can be done is another.
    """

    changed = Signal()

    def __init__(
        self,
        history: History,
        probes: Iterable[str],
        draw: Callable[[float], None],
        held: Callable[[], Source | None],
        parent: QObject | None = None,
    ) -> None:
        """`probes`: of all panels. `draw`: draws them anew, told what reading has taken in seconds
        of the processor; `held`: where frames of the run on show lie that is not recorded."""
        super().__init__(parent)
        self._held = held
        self._history = history
        self._probes = tuple(dict.fromkeys(probes))
        self._draw = draw
        self._ours = ""  # the folder of the run on show
        self._frames: ComparedFrames | None = None
        self._reader = PastReader(self)
        self._reader.found.connect(self._found, Qt.ConnectionType.QueuedConnection)
        self._waiting: StepRequest | None = None
        self._asked: int | None = None  # None: its network, which the engine reads
        self._with_a = False
        self._kept: tuple[str, int | None] = ("", None)  # shown when a comparison began anew
        self.steps: tuple[int, ...] = ()  # recorded, as far as was looked

    # What it is

    @property
    def there(self) -> bool:
        """Whether B has recorded steps."""
        return self._frames is not None

    @property
    def name(self) -> str:
        return "" if self._frames is None else "this run" if self._is_own else self._frames.name

    @property
    def step(self) -> int | None:
        """The step that is shown, or is being read; None: the network, as the engine reads it."""
        return self._asked

    @property
    def last_step(self) -> int:
        return max(self.steps[-1] if self.steps else 0, self._asked or 0)

    @property
    def has_network(self) -> bool:
        """Whether the engine reads a network of it, so that there is something beside steps."""
        return self._frames is not None and self._frames.step is None

    @property
    def with_a(self) -> bool:
        """Whether it goes to each step that A goes to."""
        return self._with_a

    # What can be done

    def go_to(self, step: int) -> None:
        """Show the last recorded step at or before this one as B."""
        self._ask(max(step, 0), 0)

    def move(self, by: int) -> None:
        """So many recorded steps on, back where that is negative."""
        self._ask(_LATEST if self._asked is None else self._asked, by)

    def end(self, first: bool) -> None:
        """To the first recorded step, or to the network; where there is none, to the last step."""
        if first:
            self._ask(_LATEST, -_LATEST)
        elif self.has_network:
            self.show_network()
        else:
            self._ask(_LATEST, 0)

    def show_network(self) -> None:
        """B is the network again, as the engine reads it."""
        self._waiting, self._asked = None, None
        self._history.show_as_b(None)
        self._draw(0.0)
        self.changed.emit()

    def go_with(self, a: int | None, on: bool) -> None:
        """Go to each step that A goes to; `a`: where it is, None: live."""
        self._with_a = on
        self.follow(a)
        self.changed.emit()

    def follow(self, a: int | None) -> None:
        """A went to this step (None: live)."""
        if not self._with_a or not self.there:
            return
        if a is None:
            self.end(first=False)
        elif a != self._asked:
            self.go_to(a)

    def close(self) -> None:
        self._reader.close()

    # What it hears

    def on_event(self, event: Event, _state: RunState) -> None:
        match event:
            case RunStarted():
                self._ours = ""
                self._forget()
            case FramesRecorded(folder=folder):
                self._ours = folder
            case ComparisonClosed():
                self._forget()
            case ComparisonOpened():
                kept = self._asked if self._frames is not None else None
                folder = "" if self._frames is None else self._frames.folder
                self._forget()
                self._kept = (folder, kept)
            case ComparedFrames():
                self._begin(event)

    # Inside

    @property
    def _is_own(self) -> bool:
        return self._frames is not None and is_same_folder(self._frames.folder, self._ours)

    def _begin(self, frames: ComparedFrames) -> None:
        """A comparison that begins anew, of other examples, goes on where it was."""
        self._frames = frames
        folder, kept = self._kept
        same = is_same_folder(folder, frames.folder)
        wanted = kept if same and frames.step is None else frames.step
        self._kept = ("", None)
        if wanted is not None:
            self._ask(wanted, 0)
        else:
            self._look()
        self.changed.emit()

    def _forget(self) -> None:
        self._frames, self.steps = None, ()
        self._waiting, self._asked, self._with_a = None, None, False
        self._history.show_as_b(None)
        self.changed.emit()

    def _look(self) -> None:
        """See which steps there are, and show none of them."""
        assert self._frames is not None
        if (source := self._source()) is not None:
            self._reader.ask(StepRequest(source, 0))

    def _source(self) -> Source | None:
        """Where the frames of B lie."""
        folder = "" if self._frames is None else self._frames.folder
        return Source(folder, foreign=True) if folder else self._held()

    def _ask(self, step: int, moved: int) -> None:
        source = self._source()
        if self._frames is None or source is None:
            return
        self._waiting = StepRequest(source, step, moved)
        if self._asked is None or not moved:
            self._asked = min(step, self.last_step) if self.steps else step
        self._reader.ask(self._waiting)
        self.changed.emit()

    def _found(self, found: StepFound) -> None:
        if self._frames is None or found.request.source.folder != self._frames.folder:
            return
        self.steps = found.steps
        if found.request is self._waiting and self._asked is not None:
            self._waiting = None
            asked = self._asked if found.request.step == _LATEST else found.request.step
            past = Past(asked, found.frame, self._probes, found.trouble)
            self._asked = past.step
            self._history.show_as_b(ComparedStep(self._frames, past, self._is_own))
            self._draw(found.seconds)
        self.changed.emit()
