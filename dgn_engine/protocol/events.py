"""Events: what happened, in order, none lost. The engine speaks last: buttons follow events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dgn_engine.config import RunConfig, ValueInput
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.changes import DiscardConfirmation as DiscardConfirmation
from dgn_engine.protocol.changes import RegimeSwapped as RegimeSwapped
from dgn_engine.protocol.changes import UndoChanged as UndoChanged
from dgn_engine.protocol.layers import LayerInfo as LayerInfo
from dgn_engine.protocol.opened import ComparisonClosed as ComparisonClosed
from dgn_engine.protocol.opened import ComparisonOpened as ComparisonOpened
from dgn_engine.protocol.opened import FileClosed as FileClosed
from dgn_engine.protocol.opened import FileListed as FileListed
from dgn_engine.protocol.opened import FileUseCheck as FileUseCheck
from dgn_engine.protocol.opened import LayerMatch as LayerMatch
from dgn_engine.protocol.opened import TensorInfo as TensorInfo
from dgn_engine.protocol.opened import WeightsTaken as WeightsTaken
from dgn_engine.protocol.recorded import RunShown as RunShown
from dgn_engine.protocol.recorded import RunsListed as RunsListed
from dgn_engine.protocol.recorded import SessionSaved as SessionSaved
from dgn_engine.protocol.scores import Measured as Measured


@dataclass(frozen=True)
class EngineReady:
    """torch is loaded; this is what can be chosen."""

    catalogue: Catalogue
    torch_version: str


@dataclass(frozen=True)
class ProbeSet:
    """The training examples that feed every kernel panel, sorted by class."""

    indices: tuple[int, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    digest: str  # sha256 of inputs and labels


@dataclass(frozen=True)
class RunStarted:
    """A run begins; everything about it that will not change."""

    run: int
    config: RunConfig
    regime: str  # the regime it begins in: FL begins with ReLU when it must pre-train
    device: str  # 'cpu', 'NVIDIA …'
    layers: tuple[LayerInfo, ...]
    wiring: tuple[int, ...]
    parameters_value: int
    parameters_feature: int
    train_examples: int
    test_examples: int
    classes: int
    steps_per_epoch: int
    total_steps: int  # 0: until stopped
    probe_set: ProbeSet
    paused: bool
    inspected: str = ""  # 'resnet18.pth': a network from a file, shown and not trained
    rotation: tuple[int, ...] = ()  # as in `Rewired`
    shift: tuple[int, ...] = ()


@dataclass(frozen=True)
class Running:
    """Training goes on."""

    step: int


@dataclass(frozen=True)
class Paused:
    """Training stands between two steps."""

    step: int


@dataclass(frozen=True)
class Finished:
    """The run reached its last epoch (it can be resumed for more)."""

    step: int


@dataclass(frozen=True)
class ProbeScalars:
    """The scalars of a probe's reading, so that no point of a trace is lost with a frame."""

    step: int
    probe: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Rewired:
    """The gate layers are in a new order, or turned anew (empty lists: not turned)."""

    step: int
    order: tuple[int, ...]
    rotation: tuple[int, ...] = ()  # of the gates of each value layer, in units
    shift: tuple[int, ...] = ()  # and in rows and columns of maps


@dataclass(frozen=True)
class SettingChanged:
    """A dial moved: learning rate, β, value input or pace as they are now."""

    step: int
    learning_rate: float
    beta: float
    value_input: ValueInput
    pace: float


@dataclass(frozen=True)
class WeightsSaved:
    """Both networks were written to this file."""

    step: int
    path: str


@dataclass(frozen=True)
class Refused:
    """Something the user asked cannot be done; nothing was changed."""

    what: str  # the kind of command, in words: 'new run', 'swap to FL', 'drop of x.pt'
    reason: str


@dataclass(frozen=True)
class Working:
    """A slow thing goes on (reading data, downloading); `fraction` is None where unknown."""

    what: str
    fraction: float | None = None

    @property
    def sentence(self) -> str:
        """'Reading mnist, 40 %'."""
        if self.fraction is None:
            return self.what
        return f"{self.what}, {self.fraction:.0%}".replace("%", " %")


@dataclass(frozen=True)
class Diverged:
    """The loss is no longer finite; the run stands at this step."""

    step: int


@dataclass(frozen=True)
class Failed:
    """A fault of ours: one sentence and the traceback; the session lives on."""

    what: str
    traceback: str


@dataclass(frozen=True)
class RecordingPaused:
    """The run's folder cannot be written; training goes on and writing is tried again."""

    reason: str  # one sentence
    step: int = 0


@dataclass(frozen=True)
class RecordingResumed:
    """The folder is written again; measurements of the gap are written now, frames are not."""

    step: int
    lost: int = 0  # lines of the log that were too many to be held


@dataclass(frozen=True)
class RunContinued:
    """A recorded run goes on from this step; what was recorded later does not count."""

    step: int
    remark: str = ""  # why it may differ from a run that was never interrupted; empty: it is equal
    folder: str = ""


@dataclass(frozen=True)
class HistoryReplayed:
    """What a run that was recorded went through before; it does not happen again."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class EngineRestarted:
    """The engine's process died, and another goes on with the recorded run from `step`."""

    how: str  # 'signal 9'
    died_at: int  # the last step that was heard of
    step: int
    undone: tuple[str, ...] = ()  # what was changed after that: 'regime FL'

    @property
    def sentence(self) -> str:
        """What happened and what was lost, in words."""
        lost = max(0, self.died_at - self.step)
        where = f"from the checkpoint of step {self.step:,}" if self.step else "from its seed"
        steps = "1 step is" if lost == 1 else f"{lost:,} steps are"
        again = f"{steps} taken again" if lost else "no step is lost"
        change = f" To be changed again: {', '.join(self.undone)}." if self.undone else ""
        return (
            f"The engine process died ({self.how}) at step {self.died_at:,}; it was started "
            f"again and the run goes on {where}: {again}.{change}"
        )


@dataclass(frozen=True)
class Stopped:
    """The thread has ended; nothing comes after this."""


Event = (
    EngineReady
    | RunStarted
    | Running
    | Paused
    | Finished
    | Measured
    | ProbeScalars
    | RegimeSwapped
    | UndoChanged
    | Rewired
    | SettingChanged
    | FileListed
    | FileClosed
    | WeightsTaken
    | ComparisonOpened
    | ComparisonClosed
    | WeightsSaved
    | Refused
    | DiscardConfirmation
    | Working
    | Diverged
    | Failed
    | RecordingPaused
    | RecordingResumed
    | RunContinued
    | HistoryReplayed
    | RunsListed
    | RunShown
    | SessionSaved
    | EngineRestarted
    | Stopped
)
