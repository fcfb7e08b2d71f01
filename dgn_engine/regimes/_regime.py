"""What a regime is: whose gates, hard or soft, and what becomes of Θ^f when it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# 'aside': Θ^f is kept but not used; 'keep': as it is (from own gates: copied from Θ^v);
# 'redraw': fresh, independent of Θ^v; 'share-redrawn': Θ^v is redrawn and Θ^f := Θ^v;
# 'redraw-both': both are fresh.
OnEntry = Literal["aside", "keep", "redraw", "share-redrawn", "redraw-both"]

Trained = tuple[Literal["value", "feature"], ...]
"""Which of the two networks a step changes; K is the sum over these (THEORY §4)."""

GROUPS = ("One network", "Fixed gates", "Learnt gates", "Linear features")


@dataclass(frozen=True)
class Regime:
    """One row of the table in THEORY §1."""

    name: str
    title: str
    about: str
    order: int
    own_gates: bool  # the value network gates itself
    soft: bool
    on_entry: OnEntry
    # Its gates are copied from a file or learnt first; entering may redraw Θ^v, if wanted.
    takes_gates: bool = False
    pretrains_as: str = ""  # where it takes gates: the regime in which they are learnt first
    for_copied_gates: bool = False  # a run enters it when gates of a file are copied; just one
    standard: bool = False  # what networks of other programs are: own hard gates; just one
    trains: Trained = ("value",)
    linear_features: bool = False  # χ^f is the identity
    open_gates: bool = False  # every gate is 1
    drawn_gates: bool = False  # gates are i.i.d. Bernoulli, of training examples only
    aliases: tuple[str, ...] = ()

    @property
    def trains_value(self) -> bool:
        return "value" in self.trains

    @property
    def trains_feature(self) -> bool:
        return "feature" in self.trains

    @property
    def group(self) -> str:
        """One of `GROUPS`: its heading in a selector."""
        if self.own_gates:
            return "One network"
        if self.linear_features:
            return "Linear features"
        return "Learnt gates" if self.trains_feature else "Fixed gates"

    @property
    def generalises(self) -> bool:
        """Whether there are gates for examples outside the training set."""
        return not self.drawn_gates
