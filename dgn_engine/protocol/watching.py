"""Commands that choose the probes and the examples they use, and their events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dgn_engine.frozen_data import dataclass
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.messages import Command, Event, UndoPolicy

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Array

ReadOn = tuple[int, int, str]  # examples used, out of how many, of which probe set


@dataclass(frozen=True)
class ProbeRequest:
    """A probe that a panel shows, with its options (a chosen layer, a chosen unit)."""

    probe: str
    options: tuple[tuple[str, OptionValue], ...] = ()


@dataclass(frozen=True)
class Watch(Command):
    """Compute exactly these probes from now on; replaces the previous request."""

    title = "watch"

    requests: tuple[ProbeRequest, ...]


@dataclass(frozen=True)
class SetWatchShare(Command):
    """Let everything except training take this fraction (0…1) of a run's time from now on."""

    title = "watch with a share of {share:.0%}"

    share: float


@dataclass(frozen=True)
class ReportWindow(Command):
    """Report the processor seconds of the window's thread since the last report, and its process.

    They are charged to the budget of watching. `relay`: seconds of the thread that passes messages
    on if the engine has its own process.
    """

    title = "report the window's time"

    drawing: float
    other: float
    process: int
    relay: float = 0.0


@dataclass(frozen=True)
class ProbesLeft(Event):
    """These probes are no longer watched: their traces have no points from here on."""

    step: int
    probes: tuple[str, ...]


@dataclass(frozen=True)
class CancelReading(Command):
    """Stop improving these readings, including those of a compared network."""

    title = "cancel the reading"

    probes: tuple[str, ...]


@dataclass(frozen=True)
class GoOnReading(Command):
    """Resume readings that were cancelled or failed."""

    title = "resume the reading"

    probes: tuple[str, ...]


@dataclass(frozen=True)
class ProbeSet:
    """The training examples used by every kernel panel, sorted by class.

    The last `drawn` are the user's own: their indices and class come after those of the data.
    """

    indices: tuple[int, ...]
    labels: tuple[int, ...]
    class_names: tuple[str, ...]
    digest: str  # sha256 of inputs and labels
    drawn: int = 0

    @property
    def classes(self) -> int:
        """The number of classes in the data."""
        return len(self.class_names) - (self.drawn > 0)


@dataclass(frozen=True)
class SetProbeExamples(Command):
    """Choose this many probe examples, as a new run with this number would; all panels share
    them."""

    title = "choose {examples} probe examples"
    undo = UndoPolicy("number of probe examples", reads=True)

    examples: int


@dataclass(frozen=True)
class ChooseProbeSet(Command):
    """Choose the probe set: a `ProbeChoice` as text, '' to balance it over all classes.

    Training is not affected.
    """

    title = "choose the probe set"
    undo = UndoPolicy("probe set", reads=True)

    choice: str = ""


@dataclass(frozen=True)
class ChooseMisclassified(Command):
    """Make the probe set of training examples that the network currently misclassifies."""

    title = "choose misclassified examples"
    undo = UndoPolicy("probe set", reads=True)


@dataclass(frozen=True)
class ProbeSetChanged(Event):
    """Another probe set of this many examples was chosen; `digest` identifies it, `choice` is its
    text in the setting `probe_set`."""

    step: int
    examples: int
    digest: str
    choice: str = ""


@dataclass(frozen=True)
class ListExamples(Command):
    """List `count` training examples to choose from, starting at `first`, among those of class
    `label` (-1: all classes)."""

    title = "list examples"

    label: int = -1
    first: int = 0
    count: int = 48


@dataclass(frozen=True)
class ExamplesListed(Event):
    """The answer to `ListExamples`: `found` are the requested examples, in the order of the data,
    out of `total` of the class `label` (-1: all)."""

    label: int
    first: int
    total: int
    found: ProbeExamples


@dataclass(frozen=True)
class ProbeExamples(Event):
    """The pictures of the probe examples, valid as long as `probe_set` is the probe set.

    `pixels`: uint8 (n, H, W) or (n, H, W, 3), in this `shape`; `numbers`: float32 (n, d) of
    examples that are not images. They are bytes, which are immutable. `missing`: why there is
    neither; `remark`: how the pictures were made, if they are not the raw pixels. Both are
    sentences, or empty.
    """

    probe_set: ProbeSet
    shape: tuple[int, ...] = ()
    pixels: bytes = b""
    numbers: bytes = b""
    missing: str = ""
    remark: str = ""
    one: tuple[int, ...] = ()  # the shape of an example in the data, and of drawn ones

    @property
    def images(self) -> Array | None:
        """(n, H, W) or (n, H, W, 3), uint8, read-only; None if they are not images."""
        if not self.pixels:
            return None
        import numpy as np  # listing recorded runs must not import numpy

        return np.frombuffer(self.pixels, np.uint8).reshape(self.shape)

    @property
    def vectors(self) -> Array | None:
        """(n, d), float32, read-only; None if they are images, or unknown."""
        if not self.numbers:
            return None
        import numpy as np

        return np.frombuffer(self.numbers, np.float32).reshape(self.shape)


@dataclass(frozen=True)
class ProbeScalars(Event):
    """The scalars of a reading; sent apart from frames, so that traces lose no points."""

    step: int
    probe: str
    values: Mapping[str, float]
    examples: int = 0  # probe examples used; 0: all of the initial probe set
    of: int = 0  # their total, if fewer were used: 32 of 64 are not a set of 32
    chosen: str = ""  # the probe set, if not the initial one

    @property
    def read_on(self) -> ReadOn:
        """The sample of the reading; values with the same sample belong to one trace."""
        return self.examples, self.of, self.chosen
