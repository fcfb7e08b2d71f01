"""What the slow run knows of the theory: the table of regimes, and the state of a run."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dgn_engine.protocol.training import Measured
from dgn_engine.regimes import find_regime


@dataclass(frozen=True)
class Row:
    """One row of the table in theory §1. `entry`: what becomes of the weights when it begins."""

    entry: str
    own: bool = False
    soft: bool = False
    trains_feature: bool = False
    trains_value: bool = True
    linear: bool = False
    open: bool = False
    drawn: bool = False
    learnt_in: str = ""  # the regime before it, where gates are learnt first


TABLE = {
    "ReLU": Row("aside", own=True),
    "soft-ReLU": Row("aside", own=True, soft=True),
    "DLN": Row("aside", own=True, open=True),
    "FR-II": Row("redraw"),
    "FR-II-soft": Row("redraw", soft=True),
    "FR-DI": Row("share"),
    "FL": Row("keep", learnt_in="ReLU"),
    "DL": Row("keep", soft=True, trains_feature=True),
    "gates-only": Row("redraw both", soft=True, trains_feature=True, trains_value=False),
    "FRG": Row("aside", drawn=True),
    "DL-linear": Row("keep", soft=True, trains_feature=True, linear=True),
    "FL-linear": Row("keep", linear=True, learnt_in="DL-linear"),
    "FR-linear": Row("redraw", linear=True),
}
_ENTRIES = {"share-redrawn": "share", "redraw-both": "redraw both"}


def row_of(name: str) -> Row:
    """The row of the table; of a regime that was plugged in, what its file says."""
    if name in TABLE:
        return TABLE[name]
    r = find_regime(name)
    return Row(
        _ENTRIES.get(r.on_entry, r.on_entry),
        r.own_gates,
        r.soft,
        r.trains_feature,
        r.trains_value,
        r.linear_features,
        r.open_gates,
        r.drawn_gates,
        r.pretrains_as,
    )


class Refusal(Exception):  # noqa: N818 - nothing was changed
    """The engine has to refuse this."""


@dataclass(frozen=True)
class File:
    """A checkpoint: weights of every layer and, perhaps, biases; `head`: the last one fits."""

    name: str
    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...] = ()
    head: bool = True

    @property
    def taken(self) -> int:
        return len(self.weights) if self.head else len(self.weights) - 1


@dataclass(frozen=True)
class SlowData:
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    classes: int
    signed: bool


@dataclass
class State:
    """What a checkpoint has to hold."""

    regime: str
    wiring: tuple[int, ...]
    rotation: tuple[int, ...]
    shift: tuple[int, ...]
    learning_rate: float
    beta: float
    value_input: str
    pretrain: int
    total: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    draws: int = 0
    step: int = 0
    undone: int = 0  # of these steps: their batches come again
    loss_sum: float = 0.0
    right: float = 0.0
    seen: int = 0
    epoch_right: float = 0.0
    epoch_seen: int = 0
    source: str = ""  # the file whose gates are in force
    awaited: Measured | None = None
    scored: tuple[int, ...] = ()  # the steps of all scores that were told

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss_sum)

    @property
    def finite_weights(self) -> bool:
        return all(bool(torch.isfinite(t).all()) for t in self.tensors.values())


@dataclass(frozen=True)
class Change:
    """A change with the whole state before it, which is worth having back where it is `finite`."""

    what: str
    kind: str
    before: State
    finite: bool
    at: float


def stream(*key: object) -> torch.Generator:
    digest = hashlib.sha256(repr(key).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
