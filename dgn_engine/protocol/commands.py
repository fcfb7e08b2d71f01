"""Commands: what the viewer may ask. Obeyed between two steps; the answer is an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dgn_engine.config import DataConfig, OptionValue, RunConfig, ValueInput
from dgn_engine.protocol.recorded import ListRuns as ListRuns
from dgn_engine.protocol.recorded import OpenSession as OpenSession
from dgn_engine.protocol.recorded import SaveSession as SaveSession
from dgn_engine.protocol.recorded import ShowRun as ShowRun

# What a file is opened for: its gates into Θ^f, its weights into Θ^v, beside the run, or alone.
Purpose = Literal["", "gates", "weights", "compare", "network"]


@dataclass(frozen=True)
class StartRun:
    """Begin a new run with this configuration; the run in progress ends."""

    config: RunConfig
    paused: bool = False


@dataclass(frozen=True)
class ContinueRun:
    """Go on with the run that this folder recorded; the run in progress ends.

    `discard`: also where that is not recorded, and is lost.
    """

    folder: str
    paused: bool = False
    discard: bool = False


@dataclass(frozen=True)
class Resume:
    """Go on training."""


@dataclass(frozen=True)
class Pause:
    """Stop between two steps, keep everything."""


@dataclass(frozen=True)
class Advance:
    """Take this many steps, then pause."""

    steps: int = 1


@dataclass(frozen=True)
class Reset:
    """Begin the current run again with the same configuration and seed."""


@dataclass(frozen=True)
class SwapRegime:
    """Change the gating regime at the next step (THEORY §1, 'Swapping in mid-run').

    `restart_value` redraws the value network too; it is meant for FL, where it is the default.
    """

    regime: str
    restart_value: bool = True


@dataclass(frozen=True)
class Rewire:
    """Value layer l uses gate layer order[l] from the next step on (0-based permutation)."""

    order: tuple[int, ...]


@dataclass(frozen=True)
class Rotate:
    """Gate layers are turned from the next step on, the same for every example.

    The gates of value layer l by `rotation[l]` units, and in a map by `shift[l]` rows and columns;
    an empty list turns nothing.
    """

    rotation: tuple[int, ...]
    shift: tuple[int, ...] = ()


@dataclass(frozen=True)
class SetLearningRate:
    """Of the optimiser, from the next step on."""

    learning_rate: float


@dataclass(frozen=True)
class SetBeta:
    """Steepness of the soft gate, from the next step on."""

    beta: float


@dataclass(frozen=True)
class SetValueInput:
    """What the value network is fed."""

    value_input: ValueInput


@dataclass(frozen=True)
class SetPace:
    """At most this many steps a second; 0 lifts the limit."""

    steps_per_second: float


@dataclass(frozen=True)
class Undo:
    """Put the run back to before the last change of regime, weights, wires or dials."""


@dataclass(frozen=True)
class Redo:
    """The last change that was undone, once more."""


ANYWAY, ANYWAY_BESIDE = "anyway", "anyway_beside"


@dataclass(frozen=True)
class ProbeRequest:
    """A probe that somebody looks at, with its options (a chosen layer, a chosen unit).

    The option `ANYWAY`: also where a reading is held too expensive; `ANYWAY_BESIDE`: likewise of
    what stands beside the run, which has the same requests otherwise.
    """

    probe: str
    options: tuple[tuple[str, OptionValue], ...] = ()


@dataclass(frozen=True)
class Watch:
    """Compute just these probes from now on; replaces the previous request."""

    requests: tuple[ProbeRequest, ...]


@dataclass(frozen=True)
class OpenFile:
    """List what a checkpoint holds and match it with the layers. Training goes on meanwhile."""

    path: str
    purpose: Purpose = ""


@dataclass(frozen=True)
class PickTensors:
    """Match a listed file anew: one tensor for each weight layer, '' for none."""

    ticket: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class TakeGates:
    """Copy the matched weights of the file listed under `ticket` into the feature network (FL)."""

    ticket: int
    restart_value: bool = True


@dataclass(frozen=True)
class TakeWeights:
    """Copy the matched weights of a listed file into the value network, under any regime."""

    ticket: int


@dataclass(frozen=True)
class CompareFile:
    """Show the network of a listed file beside the run, on the same probe examples."""

    ticket: int


@dataclass(frozen=True)
class CompareRun:
    """Show a recorded run beside this one: its scores, and its network as it was last saved."""

    folder: str


@dataclass(frozen=True)
class CloseComparison:
    """Show the run alone again."""


@dataclass(frozen=True)
class InspectFile:
    """Show the network of a listed file without training it; the run in progress ends.

    `data`: on which examples; None: those of the run in progress.
    """

    ticket: int
    data: DataConfig | None = None


@dataclass(frozen=True)
class CloseFile:
    """Forget a listed file."""

    ticket: int


@dataclass(frozen=True)
class SaveWeights:
    """Write both networks to this file (safetensors)."""

    path: str


@dataclass(frozen=True)
class Shutdown:
    """End the run and the thread."""


Command = (
    ListRuns
    | ShowRun
    | OpenSession
    | SaveSession
    | StartRun
    | ContinueRun
    | Resume
    | Pause
    | Advance
    | Reset
    | SwapRegime
    | Rewire
    | Rotate
    | SetLearningRate
    | SetBeta
    | SetValueInput
    | SetPace
    | Undo
    | Redo
    | Watch
    | OpenFile
    | PickTensors
    | TakeGates
    | TakeWeights
    | CompareFile
    | CompareRun
    | CloseComparison
    | InspectFile
    | CloseFile
    | SaveWeights
    | Shutdown
)
