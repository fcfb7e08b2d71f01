"""Events of files that the user opened: what they hold, where they went, what stands beside."""

from __future__ import annotations

from dataclasses import dataclass, field

from dgn_engine.protocol.commands import Purpose
from dgn_engine.protocol.layers import LayerInfo
from dgn_engine.protocol.scores import Measured


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a listed file."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LayerMatch:
    """What a layer of the network would receive, or why not."""

    layer: str
    needed: tuple[int, ...]
    tensor: str  # empty: nothing found
    found: tuple[int, ...] | None
    fits: bool
    remark: str = ""  # 'with bias', …


@dataclass(frozen=True)
class FileUseCheck:
    """One use of a listed file: whether it can be made of it, in a sentence, layer by layer."""

    fits: bool
    verdict: str
    matches: tuple[LayerMatch, ...] = ()


@dataclass(frozen=True)
class FileListed:
    """A checkpoint was read in a child process; nothing has been changed yet.

    `matches`, `fits` and `verdict` say what becomes of its gates, `weights` what of its weights in
    the value network; `network`: whether it is a network of its own on these examples. Told again,
    with the same ticket, when tensors were picked for layers.
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


@dataclass(frozen=True)
class FileClosed:
    """The listed file was used or forgotten."""

    ticket: int


@dataclass(frozen=True)
class WeightsTaken:
    """The value network has the weights of a file; its optimiser state was forgotten."""

    step: int
    source: str  # 'resnet18.pth'
    layers: int  # how many weight layers were copied
    kept: tuple[str, ...] = ()  # layers that were left as they are: 'output'
    biases: bool = False  # they came with biases

    @property
    def sentence(self) -> str:
        """What it did to which weights, in words."""
        words = [
            f"Value network at step {self.step:,}: weights of {self.source} in {self.layers:,} "
            f"layer{'' if self.layers == 1 else 's'}{', with its biases' if self.biases else ''}."
        ]
        if self.kept:
            words.append(f"Left as it was: {', '.join(self.kept)}.")
        words.append("Its optimiser state was forgotten; the gates go on as before.")
        return " ".join(words)


@dataclass(frozen=True)
class ComparisonOpened:
    """A network, or a recorded run, stands beside the current run; it is not trained.

    Its readings come with the frames, under `beside`; `scores` are what its run recorded.
    """

    name: str  # 'resnet18.pth', 'run 2026-11-20 digits'
    about: str  # what it is, in words: 'ReLU · 4 gate layers · 21,450 weights · step 1,200'
    regime: str
    layers: tuple[LayerInfo, ...]
    wiring: tuple[int, ...] = ()
    step: int = 0  # that its weights belong to, where that is known
    scores: tuple[Measured, ...] = ()
    remark: str = ""  # what cannot be compared, in one sentence


@dataclass(frozen=True)
class ComparisonClosed:
    """Nothing stands beside the run any more; `reason` where the user did not ask for it."""

    reason: str = ""
