"""Commands that choose what is read of a network, for which examples, and what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.messages import Command, Event, UndoPolicy

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Array

ReadOn = tuple[int, int, str]  # probe examples, out of how many, of which set


@dataclass(frozen=True)
class ProbeRequest:
    """A probe that a panel shows, with its options (a chosen layer, a chosen unit)."""

    probe: str
    options: tuple[tuple[str, OptionValue], ...] = ()


@dataclass(frozen=True)
class Watch(Command):
    """Compute just these probes from now on; replaces the previous request."""

    title = "watch"

    requests: tuple[ProbeRequest, ...]


@dataclass(frozen=True)
class SetWatchShare(Command):
    """Let all that is not training take this share (0…1) of a run's time from now on."""

    title = "watch with a share of {share:.0%}"

    share: float


@dataclass(frozen=True)
class ReportWindow(Command):
    """What the window's thread has taken since the last report, in processor seconds, and in which
    process: it is charged to the budget of watching."""

    title = "report the window's time"

    drawing: float
    other: float
    process: int


@dataclass(frozen=True)
class ProbesLeft(Event):
    """Nobody watches these probes any more: from here on their traces have no points."""

    step: int
    probes: tuple[str, ...]


@dataclass(frozen=True)
class CancelReading(Command):
    """Do not make these readings better than they are now, those of a compared network either."""

    title = "cancel the reading"

    probes: tuple[str, ...]


@dataclass(frozen=True)
class GoOnReading(Command):
    """Go on with readings that were cancelled, or that failed."""

    title = "go on with the reading"

    probes: tuple[str, ...]


@dataclass(frozen=True)
class ProbeSet:
    """The training examples that feed every kernel panel, sorted by class.

    The last `drawn` are the user's own: their indices and their class lie behind those of the data.
    """

    indices: tuple[int, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    digest: str  # sha256 of inputs and labels
    drawn: int = 0

    @property
    def classes(self) -> int:
        """How many the data have."""
        return len(self.class_names) - (self.drawn > 0)


@dataclass(frozen=True)
class SetProbeExamples(Command):
    """Choose so many probe examples, as a new run with this number would; all panels share them."""

    title = "choose {examples} probe examples"
    undo = UndoPolicy("number of probe examples", reads=True)

    examples: int


@dataclass(frozen=True)
class ChooseProbeSet(Command):
    """Make the probe set of these examples: a `ProbeChoice` as text, '' for one balanced over all
    classes. Training does not notice."""

    title = "choose the probe set"
    undo = UndoPolicy("probe set", reads=True)

    choice: str = ""


@dataclass(frozen=True)
class ChooseMisclassified(Command):
    """Make it of training examples that the network, as it is now, gets wrong."""

    title = "choose misclassified examples"
    undo = UndoPolicy("probe set", reads=True)


@dataclass(frozen=True)
class ProbeSetChanged(Event):
    """Another probe set was asked for, of so many examples; `digest` of the one that was chosen,
    `choice` as the setting `probe_set` has it."""

    step: int
    examples: int
    digest: str
    choice: str = ""


@dataclass(frozen=True)
class ListExamples(Command):
    """List training examples to choose from: so many from place `first` among those of class
    `label` (-1: of all classes)."""

    title = "list examples"

    label: int = -1
    first: int = 0
    count: int = 48


@dataclass(frozen=True)
class ExamplesListed(Event):
    """The answer to `ListExamples`: `found` are those asked for, in the order of the data, out of
    `total` of the class `label` (-1: of all)."""

    label: int
    first: int
    total: int
    found: ProbeExamples


@dataclass(frozen=True)
class ProbeExamples(Event):
    """What the probe examples look like; it holds as long as `probe_set` is the probe set.

    `pixels`: uint8 (n, H, W) or (n, H, W, 3), in this `shape`; `numbers`: float32 (n, d) of
    examples that are no images. Bytes, because nobody can write to them. `missing`: why there is
    neither; `remark`: how the pictures were made, where they are not the pixels as they are. Both
    are sentences, or empty.
    """

    probe_set: ProbeSet
    shape: tuple[int, ...] = ()
    pixels: bytes = b""
    numbers: bytes = b""
    missing: str = ""
    remark: str = ""
    one: tuple[int, ...] = ()  # the shape of an example in the data: what is drawn has it

    @property
    def images(self) -> Array | None:
        """(n, H, W) or (n, H, W, 3), uint8, read-only; None where they are no images."""
        if not self.pixels:
            return None
        import numpy as np  # recorded runs are listed without it

        return np.frombuffer(self.pixels, np.uint8).reshape(self.shape)

    @property
    def vectors(self) -> Array | None:
        """(n, d), float32, read-only; None where they are images, or nothing is known."""
        if not self.numbers:
            return None
        import numpy as np

        return np.frombuffer(self.numbers, np.float32).reshape(self.shape)


@dataclass(frozen=True)
class ProbeScalars(Event):
    """The scalars of a probe's reading, so that no point of a trace is lost with a frame."""

    step: int
    probe: str
    values: Mapping[str, float]
    examples: int = 0  # probe examples that were read; 0: all with which the run began
    of: int = 0  # all that there were, where fewer were read: 32 of 64 are not 32 that were chosen
    chosen: str = ""  # of which set, where not of that with which the run began

    @property
    def read_on(self) -> ReadOn:
        """Values with the same belong to one trace."""
        return self.examples, self.of, self.chosen
