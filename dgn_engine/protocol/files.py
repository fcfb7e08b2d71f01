"""Commands that open a network of a file and use it, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dgn_engine.config import DataConfig
from dgn_engine.protocol.file_reading import FileReading, FittingReading, OpenQuestion, Unsaid
from dgn_engine.protocol.messages import Command, Event, UndoPolicy, Working
from dgn_engine.text.written_numbers import percent

# What a file is opened for: its gates into Θ^f, its weights into Θ^v, to compare, or by itself.
Purpose = Literal["", "gates", "weights", "compare", "network"]


@dataclass(frozen=True)
class OpenFile(Command):
    """List what a checkpoint holds and match it with the layers. Training goes on meanwhile."""

    title = "open {path}"

    path: str
    purpose: Purpose = ""


@dataclass(frozen=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LayerMatch:
    """The tensor that a layer of the network would receive, or why there is none."""

    layer: str
    needed: tuple[int, ...]
    tensor: str  # empty: nothing found
    found: tuple[int, ...] | None
    fits: bool
    remark: str = ""  # 'with bias', …


@dataclass(frozen=True)
class FileUseCheck:
    """Whether a listed file has this use: in one sentence, and layer by layer.

    `with_biases`: it has biases and the run has none; `BeginWithBiases` takes them. `remarks`: what
    was assumed or folded, or what the data give that it does not fit, in sentences.
    """

    fits: bool
    verdict: str
    matches: tuple[LayerMatch, ...] = ()
    with_biases: bool = False
    remarks: str = ""


@dataclass(frozen=True)
class FileListed(Event):
    """A checkpoint was read in a child process; nothing has been changed yet.

    `matches`, `fits` and `verdict` say what becomes of its gates, `weights` what of its weights in
    the value network; `network`: whether it is a network of its own on these examples.
    `questions`: what the file leaves open of that network, `reading`: what was said of it. Emitted
    again, with the same ticket, when tensors were picked for layers or a reading was said.
    """

    ticket: int
    path: str
    file_name: str
    tensors: tuple[TensorInfo, ...]
    matches: tuple[LayerMatch, ...]
    fits: bool
    verdict: str  # one sentence
    ignored: tuple[str, ...] = field(default=())
    weights: FileUseCheck = field(default=FileUseCheck(False, ""))
    network: FileUseCheck = field(default=FileUseCheck(False, ""))
    purpose: Purpose = ""  # what it was opened for; empty: not said yet
    picked: bool = False  # the tensors are those that the user picked
    with_biases: bool = False  # of its gates, as in `FileUseCheck`
    would_call: tuple[str, ...] = ()  # what Python would call to load it; nothing of it was run
    would_look_up: tuple[str, ...] = ()  # other names that are not known to be harmless, likewise
    would_import: tuple[str, ...] = ()  # modules of such names, likewise
    questions: tuple[OpenQuestion, ...] = ()
    reading: FileReading = field(default=FileReading())


@dataclass(frozen=True)
class PickTensors(Command):
    """Match a listed file anew: one tensor for each weight layer, '' for none."""

    title = "match these tensors"

    ticket: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class SayReading(Command):
    """Say of a listed file what it does not say of its network, all of it anew; `FileListed`
    follows, or `ReadingRefused`."""

    title = "read the file so"

    ticket: int
    reading: FileReading


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
class CloseFile(Command):
    title = "close the file"

    ticket: int


@dataclass(frozen=True)
class FileClosed(Event):
    """The listed file was used or forgotten."""

    ticket: int


@dataclass(frozen=True)
class TakeGates(Command):
    """Copy the matched weights of the file listed under `ticket` into the feature network (FL)."""

    title = "copy the gates"
    undo = UndoPolicy("gates of {file}")

    ticket: int
    restart_value: bool = True


@dataclass(frozen=True)
class TakeWeights(Command):
    """Copy the matched weights of a listed file into the value network, under any regime."""

    title = "copy the weights"
    undo = UndoPolicy("weights of {file}")

    ticket: int


@dataclass(frozen=True)
class WeightsTaken(Event):
    """The value network has the weights of a file; its optimiser state was forgotten."""

    step: int
    source: str  # 'resnet18.pth'
    layers: int  # how many weight layers were copied
    kept: tuple[str, ...] = ()  # layers that were left as they are: 'output'
    biases: bool = False  # they came with biases

    @property
    def sentence(self) -> str:
        words = [
            f"Value network at step {self.step:,}: weights of {self.source} in {self.layers:,} "
            f"layer{'' if self.layers == 1 else 's'}{', with its biases' if self.biases else ''}."
        ]
        if self.kept:
            words.append(f"Left as it was: {', '.join(self.kept)}.")
        words.append("Its optimiser state was forgotten; the gates go on as before.")
        return " ".join(words)


@dataclass(frozen=True)
class BeginWithBiases(Command):
    """Begin the current run anew with biases, and copy the gates or weights of a listed file that
    has some into it at once. Nothing changes where they would not fit."""

    title = "begin a run with biases"

    ticket: int
    purpose: Literal["gates", "weights"]
    restart_value: bool = True


@dataclass(frozen=True)
class InspectFile(Command):
    """Show the network of a listed file without training it; the run in progress ends.

    `data`: on which examples; None: those of the run in progress.
    """

    title = "open it as a network"

    ticket: int
    data: DataConfig | None = None


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
class CheckNetwork(Command):
    """Say whether the network of a listed file takes these data; `NetworkChecked` follows.

    They are read meanwhile, a newer request takes the place of an older one, and training goes on.
    """

    title = "check the data"

    ticket: int
    data: DataConfig


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
class TrainOn(Command):
    """Begin a run with the weights of the network that is inspected, in one of the regimes that
    `TrainingOffered` names; the file is read anew, and must be the one that was opened."""

    title = "train on from this network"

    regime: str
    paused: bool = False


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


@dataclass(frozen=True)
class SaveWeights(Command):
    """Write both networks to this file (safetensors)."""

    title = "save {path}"

    path: str


@dataclass(frozen=True)
class WeightsSaved(Event):
    """Both networks were written to this file."""

    step: int
    path: str
