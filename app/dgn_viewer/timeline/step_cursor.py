"""The step cursor: whether all panels are live or look back, and at which recorded step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import FramesRecorded, RecordingMended
from dgn_engine.protocol.training import RunStarted
from dgn_engine.views.frame_source import Source
from dgn_engine.views.history import History
from dgn_viewer.timeline.frame_keeper import FrameKeeper
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest
from dgn_viewer.timeline.wanted_step import LATEST, WantedStep

SPEEDS = (1, 2, 5, 10, 20)  # recorded steps a second
USUAL_SPEED = 5
LIST = 5000  # milliseconds between two looks at which steps are recorded
REST = 0.4  # seconds without another step asked for, after which one is shown in any case


class StepPlayer(QObject):
    """Shows one recorded step after the other, in time.

    Args:
        cursor: What it moves.
        drawn: Whether all panels have been drawn since its last step.
    """

    def __init__(self, cursor: StepCursor, drawn: Callable[[], bool]) -> None:
        super().__init__(cursor)
        self._cursor, self._drawn = cursor, drawn
        self.speed = USUAL_SPEED  # recorded steps a second
        self._played = 0.0  # when the last one was shown
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._play_on)

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    def play(self) -> None:
        """Begin at the first step where the cursor is live; again: stop."""
        cursor = self._cursor
        if self.playing:
            self.stop()
            cursor.tell()
        elif not cursor.why_not:
            if cursor.step is None:
                cursor.first()
            self._played = time.monotonic()
            self._timer.start(round(1000 / self.speed))
            cursor.tell()

    def stop(self) -> None:
        self._timer.stop()

    def set_speed(self, speed: int, _checked: bool = True) -> None:
        self.speed = speed
        if self.playing:
            self._timer.start(round(1000 / speed))

    def _play_on(self) -> None:
        """The next step; where drawing takes longer than there is time, some are passed over."""
        if self._cursor.waiting or not self._drawn():
            return
        now = time.monotonic()
        due = int((now - self._played) * self.speed + 0.1)
        if due >= 1:
            self._played += due / self.speed
            self._cursor.step_on(due)


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
        keep: Callable[[PastReader], FrameKeeper] = FrameKeeper,
        rest: float = REST,
    ) -> None:
        """`probes`: of all panels. `draw`: draws them anew, told what reading has taken in seconds
        of the processor; `drawn`: whether all have been drawn since; `charge`: is told what
        holding frames in memory has taken; `wait`: seconds until another step may be drawn, while
        drawing delays a network that trains, but `rest` at the most; `keep`: holds the frames of
        a run that is not recorded."""
        super().__init__(parent)
        self._history = history
        self._draw = draw
        self.source: Source | None = None  # where the frames of the run lie
        self._reader = PastReader(self)
        self._reader.found.connect(self._found, Qt.ConnectionType.QueuedConnection)
        self._reader.kept.connect(self._kept, Qt.ConnectionType.QueuedConnection)
        self.keeper = keep(self._reader)
        self._wanted = WantedStep(self._reader, probes)  # no step: live
        self._charge = charge
        self._wait, self._rest = wait, rest
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._wanted.read)
        self._thins = False  # frames that are held in memory
        self.reach: tuple[int, int] | None = None  # first and last step that were chosen
        self._moves = 0  # that were asked for while one was being read
        self.player = StepPlayer(self, drawn)
        self._acts: tuple[object, ...] = ()  # what decides about actions, as it was told last
        self._lists = QTimer(self)
        self._lists.timeout.connect(self.list_steps)
        self._lists.start(LIST)

    # What it is

    @property
    def step(self) -> int | None:
        """The step that is shown, or is being read; None: live."""
        return self._wanted.step

    @property
    def steps(self) -> tuple[int, ...]:
        """Those that are recorded, as far as was looked."""
        return self._wanted.steps

    @property
    def waiting(self) -> bool:
        """Whether the step has not been read yet."""
        return self._wanted.request is not None

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
        if self.source is None or (self.keeper.held is not None and not self.keeper.held.steps):
            return "Nothing was read yet that one could look back at."
        return ""

    @property
    def folder(self) -> str:
        """Where the frames of the run lie; '' where there are none."""
        return "" if self.source is None else self.source.folder

    # What can be done

    def go_to(self, step: int) -> None:
        """Look back at the last recorded step at or before this one; at the last one: live."""
        if self.why_not:
            return
        if step >= self.last_step:
            self.live()
            return
        self.player.stop()
        self._ask(max(step, 0), 0)

    def move(self, by: int) -> None:
        """So many recorded steps on, back where that is negative; beyond the last one: live."""
        self.player.stop()
        self.step_on(by)

    def first(self) -> None:
        self.player.stop()
        if not self.why_not:
            self._ask(LATEST if not self.steps else self.steps[0], -LATEST)

    def live(self) -> None:
        self.player.stop()
        self._later.stop()
        self._moves = 0
        self._wanted.forget()
        if self._history.past is not None:
            self._history.look_back(None)
            self._draw(0.0)
        self.tell()

    def choose_reach(self, first: int, last: int) -> None:
        """Choose the steps from one to another; of a single step: none."""
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

    # What it hears

    def on_event(self, event: Event, _state: RunState) -> None:
        self.keeper.on_event(event)
        match event:
            case RunStarted():
                self.keeper.end()
                self.source = None
                if not event.inspected:
                    self.source = Source(held=self.keeper.begin())
                self._wanted.steps, self._thins = (), False
                self.choose_reach(0, 0)
                self.live()
            case FramesRecorded():
                self.keeper.end()
                self.source = Source(event.folder, event.foreign)
                self.tell()
            case RecordingMended(folder=folder) if folder and self.source is not None:
                self.source = Source(folder, self.source.foreign)

    def list_steps(self) -> None:
        """See which steps are recorded by now; a step that is wanted comes first."""
        if not self.waiting and self.source is not None and self.source.held is None:
            self._reader.ask(StepRequest(self.source, frame=False))

    # Inside

    def tell(self) -> None:
        """Say that what is shown, or what can be done, may be another."""
        acts = self.why_not, self.folder, self.step is None, self.player.playing
        if acts != self._acts:
            self._acts = acts
            self.acts_changed.emit()
        self.changed.emit()

    def _kept(self, seconds: float) -> None:
        self._charge(seconds)
        self.keeper.on_kept(seconds)
        held = self.keeper.held
        if held is None:
            return
        first = not self.steps
        self._wanted.steps = held.steps
        if held.left_out and not self._thins:
            self._thins = True
            self.thinned.emit(self.keeper.words)
        if first:
            self.tell()

    def step_on(self, by: int) -> None:
        """As `move`, without an end of playing."""
        if self.why_not:
            return
        if self.step is None:
            if by < 0:
                self._ask(self.last_step, by)
        elif self.waiting:
            self._moves += by
        else:
            self._ask(self.step, by)

    def _ask(self, step: int, moved: int) -> None:
        assert self.source is not None
        self._moves = 0
        self._wanted.want(self.source, step, moved, self.last_step)
        wait = min(self._wait(), self._rest)
        if wait > 0.0:  # of the steps that are asked for meanwhile the newest is read
            self._later.start(math.ceil(1000 * wait))
        else:
            self._later.stop()
            self._wanted.read()
        self.tell()

    def _found(self, found: StepFound) -> None:
        """Show what was read, unless something else is wanted by now."""
        if found.request.source == self.source and found.steps != self.steps:
            self._wanted.steps = found.steps
            self.steps_changed.emit()
        if not self._wanted.take(found) or (step := self.step) is None:
            return
        if found.request.moved > 0 and found.steps and step >= found.steps[-1]:
            self.live()
            return
        self._history.look_back(self._wanted.show(found, step))
        self._draw(found.seconds)
        if moves := self._moves:
            self.step_on(moves)
        self.tell()
