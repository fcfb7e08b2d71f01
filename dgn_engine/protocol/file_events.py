"""Events of a file as a network: does it take these data, how good is it, can it train."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.config import DataConfig
from dgn_engine.protocol.events import Event, FileUseCheck, Working
from dgn_engine.protocol.file_reading import FileReading, FittingReading, Unsaid
from dgn_engine.text.written_numbers import percent


@dataclass(frozen=True)
class CheckProgress(Event):
    """The data for a listed file are being read; `fraction` None: unknown."""

    ticket: int
    what: str
    fraction: float | None = None

    @property
    def sentence(self) -> str:
        """'Reading mnist, 40 %'."""
        return Working(self.what, self.fraction).sentence


@dataclass(frozen=True)
class NetworkChecked(Event):
    """Whether the network of a listed file takes these data, and why not.

    `data`: as they were asked about; `fitted`: as the network takes them (grey images in its
    channels, pixels and split of a file of ours).
    """

    ticket: int
    data: DataConfig
    network: FileUseCheck
    fitted: DataConfig


@dataclass(frozen=True)
class ReadingsFound(Event):
    """Readings of a listed file that fit these data, the best first, tried on test examples.

    `said`: what had been said of it already; `data`: as they were asked about, None: those that a
    listing is judged by.
    """

    ticket: int
    said: FileReading
    readings: tuple[FittingReading, ...]
    data: DataConfig | None = None


@dataclass(frozen=True)
class ReadingRefused(Event):
    """What was said of a listed file cannot be, and nothing was changed: what it was said about,
    and why, one sentence."""

    ticket: int
    about: Unsaid
    reason: str


@dataclass(frozen=True)
class FileScored(Event):
    """The accuracy of the network that is inspected, so far: right answers over `examples` test
    examples, in a random order, out of `total`.

    `unknown`: why there is none, the end of 'accuracy n/a: …'; empty where there is one.
    """

    run: int
    file: str
    data: DataConfig
    right: int
    examples: int
    total: int
    unknown: str = ""

    @property
    def sentence(self) -> str:
        """'right on 93.1 % of 2,000 of 10,000 test examples'; or why that is not known."""
        if self.unknown:
            return f"accuracy n/a: {self.unknown}"
        if not self.examples:
            return f"its accuracy on {self.total:,} test examples follows"
        share = percent(self.right / self.examples)
        part = "" if self.examples == self.total else f"{self.examples:,} of "
        return f"right on {share} of {part}{self.total:,} test examples"


@dataclass(frozen=True)
class TrainingOffered(Event):
    """In which regimes the network that is inspected can be trained on from its weights.

    `remark`: what would differ from the network of the file; where there is no regime, why not.
    """

    run: int
    regimes: tuple[str, ...]
    remark: str


@dataclass(frozen=True)
class TrainedOn(Event):
    """The run that began trains on from the weights of a file; `remark`: what differs from it."""

    step: int
    source: str
    regime: str
    remark: str

    @property
    def sentence(self) -> str:
        begins = f"This run trains on from the weights of {self.source} in {self.regime}."
        return f"{begins} {self.remark}".rstrip()
