"""Commands that open the network of a file and use it, and their events."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from dgn_engine.config import DataConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.file_reading import FileReading, FittingReading, OpenQuestion, Unsaid
from dgn_engine.protocol.messages import Command, Event, UndoPolicy, Working
from dgn_engine.text.written_numbers import format_percent

# The use of a file: its gates for Θ^f, its weights for Θ^v, to compare, or as a network.
Purpose = Literal["", "gates", "weights", "compare", "network"]


@dataclass(frozen=True)
class OpenFile(Command):
    """List the contents of a checkpoint and match it with the layers, while training continues."""

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
    """The tensor that a layer of the network would receive, or the reason why there is none."""

    layer: str
    needed: tuple[int, ...]
    tensor: str  # empty: none found
    found: tuple[int, ...] | None
    fits: bool
    remark: str = ""  # 'with bias', …


@dataclass(frozen=True)
class FileUseCheck:
    """The verdict on one use of an opened file: in one sentence, and layer by layer.

    `with_biases`: it has biases and the run has none; `BeginWithBiases` uses them. `remarks`: what
    was assumed or folded, or which inputs the data provide that do not fit, in sentences.
    """

    fits: bool
    verdict: str
    matches: tuple[LayerMatch, ...] = ()
    with_biases: bool = False
    remarks: str = ""


@dataclass(frozen=True)
class FileListed(Event):
    """A checkpoint was read in a child process; nothing has been changed yet.

    `matches`, `fits` and `verdict` are about its gates, `weights` about its weights in the value
    network; `network` is whether it is a network of its own on these examples. `questions` are what
    the file leaves open about that network, `reading` the answers so far. Emitted again with the
    same ticket when tensors are picked for layers or a question is answered.
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
    purpose: Purpose = ""  # its intended use; empty: not chosen yet
    picked: bool = False  # the tensors were picked by the user
    with_biases: bool = False  # for its gates, as in `FileUseCheck`
    would_call: tuple[str, ...] = ()  # what Python would call to load it; none of it was run
    would_look_up: tuple[str, ...] = ()  # likewise, other names that are not known to be harmless
    would_import: tuple[str, ...] = ()  # likewise, modules of such names
    questions: tuple[OpenQuestion, ...] = ()
    reading: FileReading = field(default=FileReading())


@dataclass(frozen=True)
class PickTensors(Command):
    """Match an opened file again: one tensor for each weight layer, '' for none."""

    title = "match these tensors"

    ticket: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class SayReading(Command):
    """Answer all open questions about an opened file; `FileListed` or `ReadingRefused` follows."""

    title = "apply this reading"

    ticket: int
    reading: FileReading


@dataclass(frozen=True)
class ReadingsFound(Event):
    """Readings of an opened file that fit the data, the best first, tried on test examples.

    `said` are the answers given so far; `data` are the requested data, None for those that a
    listing is checked against.
    """

    ticket: int
    said: FileReading
    readings: tuple[FittingReading, ...]
    data: DataConfig | None = None


@dataclass(frozen=True)
class ReadingRefused(Event):
    """An answer about an opened file is impossible, and nothing was changed: which, and why."""

    ticket: int
    about: Unsaid
    reason: str


@dataclass(frozen=True)
class CloseFile(Command):
    """Close an opened file."""

    title = "close the file"

    ticket: int


@dataclass(frozen=True)
class FileClosed(Event):
    """The opened file was used or closed."""

    ticket: int


@dataclass(frozen=True)
class TakeGates(Command):
    """Copy the matched weights of the opened file into the feature network (FL)."""

    title = "copy the gates"
    undo = UndoPolicy("gates of {file}")

    ticket: int
    restart_value: bool = True


@dataclass(frozen=True)
class TakeWeights(Command):
    """Copy the matched weights of an opened file into the value network, in any regime."""

    title = "copy the weights"
    undo = UndoPolicy("weights of {file}")

    ticket: int


@dataclass(frozen=True)
class WeightsTaken(Event):
    """The weights of a file were copied into the value network; its optimiser state was reset."""

    step: int
    source: str  # 'resnet18.pth'
    layers: int  # how many weight layers were copied
    kept: tuple[str, ...] = ()  # layers that were not changed: 'output'
    biases: bool = False  # with biases

    @property
    def sentence(self) -> str:
        words = [
            f"Value network at step {self.step:,}: weights of {self.source} in {self.layers:,} "
            f"layer{'' if self.layers == 1 else 's'}{', with its biases' if self.biases else ''}."
        ]
        if self.kept:
            words.append(f"Unchanged: {', '.join(self.kept)}.")
        words.append("Its optimiser state was reset; the gates are not affected.")
        return " ".join(words)


@dataclass(frozen=True)
class BeginWithBiases(Command):
    """Restart the current run with biases, and copy the gates or weights of an opened file into it.

    Nothing changes if they would not fit.
    """

    title = "start a run with biases"

    ticket: int
    purpose: Literal["gates", "weights"]
    restart_value: bool = True


@dataclass(frozen=True)
class InspectFile(Command):
    """Show the network of an opened file without training it; the current run ends.

    `data` are the examples to read it on, None for those of the current run.
    """

    title = "open it as a network"

    ticket: int
    data: DataConfig | None = None


@dataclass(frozen=True)
class FileScored(Event):
    """The accuracy of the inspected network so far: `right` of `examples` test examples, in random
    order, out of `total`.

    `unknown`: why there is none, the end of 'accuracy n/a: …'; empty if there is one.
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
        """'93.1 % test accuracy (2,000 of 10,000 examples)', or why it is not known."""
        if self.unknown:
            return f"accuracy n/a: {self.unknown}"
        if not self.examples:
            return f"computing its accuracy on {self.total:,} test examples"
        share = format_percent(self.right / self.examples)
        part = "" if self.examples == self.total else f"{self.examples:,} of "
        return f"{share} test accuracy ({part}{self.total:,} examples)"


@dataclass(frozen=True)
class CheckNetwork(Command):
    """Check whether the network of an opened file accepts these data; `NetworkChecked` follows.

    The data are read while training continues; a newer request replaces an older one.
    """

    title = "check the data"

    ticket: int
    data: DataConfig


@dataclass(frozen=True)
class CheckProgress(Event):
    """The data for an opened file are being read; `fraction` is None if unknown."""

    ticket: int
    what: str
    fraction: float | None = None

    @property
    def sentence(self) -> str:
        """'Reading mnist, 40 %'."""
        return Working(self.what, self.fraction).sentence


@dataclass(frozen=True)
class NetworkChecked(Event):
    """The verdict on the network of an opened file with these data.

    `data` are the requested data; `fitted` are the data as the network takes them (grey images
    repeated over its channels, pixels and split of one of our files).
    """

    ticket: int
    data: DataConfig
    network: FileUseCheck
    fitted: DataConfig


@dataclass(frozen=True)
class TrainOn(Command):
    """Start a run from the weights of the inspected network, in a regime of `TrainingOffered`.

    The file is read again, and must not have changed.
    """

    title = "train from this network"

    regime: str
    paused: bool = False


@dataclass(frozen=True)
class TrainingOffered(Event):
    """The regimes in which the inspected network can be trained from its weights.

    `remark`: how it would differ from the network of the file; without a regime, why not.
    """

    run: int
    regimes: tuple[str, ...]
    remark: str


@dataclass(frozen=True)
class TrainedOn(Event):
    """The new run trains from the weights of a file; `remark`: how it differs from the file."""

    step: int
    source: str
    regime: str
    remark: str

    @property
    def sentence(self) -> str:
        begins = f"This run starts from the weights of {self.source} in {self.regime}."
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
