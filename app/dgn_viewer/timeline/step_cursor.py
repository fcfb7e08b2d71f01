"""The step cursor: whether all panels are live or look back, and at which recorded step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import FramesRecorded, RecordingMended
from dgn_engine.protocol.training import RunStarted
from dgn_engine.views.frame_source import Source
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from dgn_viewer.timeline.frame_keeper import FrameKeeper
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest

SPEEDS = (1, 2, 5, 10, 20)  # recorded steps a second
USUAL_SPEED = 5
LIST = 5000  # milliseconds between two looks at which steps are recorded
REST = 0.4  # seconds without another step asked for, after which one is shown in any case
_LATEST = 1 << 62  # beyond every step


class StepCursor(QObject):
    """Moves through the recorded steps; training goes on meanwhile, and is not asked.

    `changed`: another step is shown, or it plays, or what can be done is another.
    `acts_changed`: only the last two, which menus and buttons show.
    `steps_changed`: there are other recorded steps, which is seen within five seconds.
    """

    changed = Signal()
    acts_changed = Signal()
    thinned = Signal(str)  # frames that are held in memory thin out from now on, in a sentence
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
    ) -> None:
        """`probes`: of all panels. `draw`: draws them anew, told what reading has taken in seconds
        of the processor; `drawn`: whether all have been drawn since; `charge`: is told what
        holding frames in memory has taken; `wait`: seconds until another step may be drawn, while
        drawing delays a network that trains."""
        super().__init__(parent)
        self._history = history
        self._probes = tuple(dict.fromkeys(probes))
        self._draw, self._drawn = draw, drawn
        self._source: Source | None = None
        self._reader = PastReader(self)
        self._reader.found.connect(self._found, Qt.ConnectionType.QueuedConnection)
        self._reader.kept.connect(self._kept, Qt.ConnectionType.QueuedConnection)
        self._keeper = FrameKeeper(self._reader)
        self._charge = charge
        self._wait = wait
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._read)
        self._thins = False  # frames that are held in memory
        self.reach: tuple[int, int] | None = None  # first and last step that were chosen
        self._waiting: StepRequest | None = None
        self._moves = 0  # that were asked for while one was being read
        self._asked: int | None = None  # None: live
        self.steps: tuple[int, ...] = ()  # recorded, as far as was looked
        self.speed = USUAL_SPEED  # recorded steps a second
        self._acts: tuple[object, ...] = ()  # what decides about actions, as it was told last
        self._played = 0.0  # when the last one was shown
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._play_on)
        self._lists = QTimer(self)
        self._lists.timeout.connect(self.list_steps)
        self._lists.start(LIST)

    # What it is

    @property
    def step(self) -> int | None:
        """The step that is shown, or is being read; None: live."""
        return self._asked

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    @property
    def last_step(self) -> int:
        """The step of the run now: the end of the time that one can look at."""
        return max(self._history.step, self._history.state.step)

    @property
    def why_not(self) -> str:
        """Why one cannot look back, in a sentence; '' where one can."""
        state = self._history.state
        if state.run is None:
            return "There is no run to look back at yet."
        if state.inspected:
            return f"{state.inspected} is inspected, not trained: it has no steps to look back at."
        if self._source is None or (self._keeper.held is not None and not self._keeper.held.steps):
            return "Nothing was read yet that one could look back at."
        return ""

    @property
    def held_words(self) -> str:
        """Of a run that is not recorded: what is held in memory of it, and what was left out."""
        return self._keeper.words

    @property
    def source(self) -> Source | None:
        """Where the frames of the run lie."""
        return self._source

    @property
    def folder(self) -> str:
        """Where the frames of the run lie; '' where there are none."""
        return "" if self._source is None else self._source.folder

    @property
    def trouble(self) -> str:
        """Why the step that was asked for cannot be shown; '' where it can."""
        past = self._history.past
        return past.trouble if past is not None else ""

    # What can be done

    def go_to(self, step: int) -> None:
        """Look back at the last recorded step at or before this one; at the last one: live."""
        if self.why_not:
            return
        if step >= self.last_step:
            self.live()
            return
        self.stop()
        self._ask(max(step, 0), 0)

    def move(self, by: int) -> None:
        """So many recorded steps on, back where that is negative; beyond the last one: live."""
        self.stop()
        self._move(by)

    def first(self) -> None:
        self.stop()
        if not self.why_not:
            self._ask(_LATEST if not self.steps else self.steps[0], -_LATEST)

    def live(self) -> None:
        """Show what is there now."""
        self.stop()
        self._later.stop()
        self._waiting, self._moves, self._asked = None, 0, None
        if self._history.past is not None:
            self._history.look_back(None)
            self._draw(0.0)
        self._tell()

    def play(self) -> None:
        """Show one recorded step after the other, from the first where it is live; again: stop."""
        if self.playing:
            self.stop()
            self._tell()
        elif not self.why_not:
            if self._asked is None:
                self.first()
            self._played = time.monotonic()
            self._timer.start(round(1000 / self.speed))
            self._tell()

    def stop(self) -> None:
        self._timer.stop()

    def choose_reach(self, first: int, last: int) -> None:
        """Choose the steps from one to another; of a single step: none."""
        first, last = max(min(first, last), 0), min(max(first, last), self.last_step)
        reach = (first, last) if first < last else None
        if reach != self.reach:
            self.reach = reach
            self.reach_changed.emit()

    def set_speed(self, speed: int, _checked: bool = True) -> None:
        self.speed = speed
        if self.playing:
            self._timer.start(round(1000 / speed))

    def close(self) -> None:
        self.stop()
        self._later.stop()
        self._lists.stop()
        self._reader.close()

    # What it hears

    def on_event(self, event: Event, _state: RunState) -> None:
        self._keeper.on_event(event)
        match event:
            case RunStarted():
                self._keeper.end()
                self._source = None
                if not event.inspected:
                    self._source = Source(held=self._keeper.begin())
                self.steps, self._thins = (), False
                self.choose_reach(0, 0)
                self.live()
            case FramesRecorded():
                self._keeper.end()
                self._source = Source(event.folder, event.foreign)
                self._tell()
            case RecordingMended(folder=folder) if folder and self._source is not None:
                self._source = Source(folder, self._source.foreign)

    def on_frame(self, frame: Frame) -> None:
        """A frame of the run on show: held in memory now and then where it is not recorded."""
        self._keeper.on_frame(frame)

    def list_steps(self) -> None:
        """See which steps are recorded by now; a step that is wanted comes first."""
        if self._waiting is None and self._source is not None and self._source.held is None:
            self._reader.ask(StepRequest(self._source, frame=False))

    # Inside

    def _tell(self) -> None:
        acts = self.why_not, self.folder, self._asked is None, self.playing
        if acts != self._acts:
            self._acts = acts
            self.acts_changed.emit()
        self.changed.emit()

    def _kept(self, seconds: float) -> None:
        self._charge(seconds)
        self._keeper.on_kept(seconds)
        held = self._keeper.held
        if held is None:
            return
        first = not self.steps
        self.steps = held.steps
        if held.left_out and not self._thins:
            self._thins = True
            self.thinned.emit(self._keeper.words)
        if first:
            self._tell()

    def _move(self, by: int) -> None:
        if self.why_not:
            return
        if self._asked is None:
            if by < 0:
                self._ask(self.last_step, by)
        elif self._waiting is not None:
            self._moves += by
        else:
            self._ask(self._asked, by)

    def _ask(self, step: int, moved: int) -> None:
        assert self._source is not None
        self._waiting, self._moves = StepRequest(self._source, step, moved), 0
        if self._asked is None or not moved:
            self._asked = min(step, self.last_step)
        wait = min(self._wait(), REST)
        if wait > 0.0:  # of the steps that are asked for meanwhile the newest is read
            self._later.start(math.ceil(1000 * wait))
        else:
            self._later.stop()
            self._read()
        self._tell()

    def _read(self) -> None:
        if self._waiting is not None:
            self._reader.ask(self._waiting)

    def _found(self, found: StepFound) -> None:
        """Show what was read, unless something else is wanted by now."""
        if found.request.source == self._source and found.steps != self.steps:
            self.steps = found.steps
            self.steps_changed.emit()
        if found.request is not self._waiting or self._asked is None:
            return
        self._waiting = None
        by, at_end = found.request.moved, bool(found.steps) and self._asked >= found.steps[-1]
        if by > 0 and at_end:
            self.live()
            return
        past = Past(self._asked, found.frame, self._probes, found.trouble)
        self._asked = past.step
        self._history.look_back(past)
        self._draw(found.seconds)
        if moves := self._moves:
            self._move(moves)
        self._tell()

    def _play_on(self) -> None:
        """The next step; where drawing takes longer than there is time, some are passed over."""
        if self._waiting is not None or not self._drawn():
            return
        now = time.monotonic()
        due = int((now - self._played) * self.speed + 0.1)
        if due >= 1:
            self._played += due / self.speed
            self._move(due)
