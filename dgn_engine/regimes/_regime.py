"""What a regime is: whose gates, hard or soft, and what becomes of Θ^f when it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# 'aside': Θ^f is kept but not used; 'keep': as it is (from own gates: copied from Θ^v);
# 'redraw': fresh, independent of Θ^v; 'share-redrawn': Θ^v is redrawn and Θ^f := Θ^v;
# 'redraw-both': both are fresh.
OnEntry = Literal["aside", "keep", "redraw", "share-redrawn", "redraw-both"]

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
    trains_feature: bool
    on_entry: OnEntry
    offers_restart: bool = False  # entering may redraw Θ^v too, if the user wants it
    pretrains_as: str = "ReLU"  # where it offers a restart: how its gates are learnt first
    trains_value: bool = True
    linear_features: bool = False  # χ^f is the identity
    open_gates: bool = False  # every gate is 1
    drawn_gates: bool = False  # gates are coins, one for each training example and unit
    aliases: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """One of `GROUPS`: what it stands under where there are many to choose from."""
        if self.own_gates:
            return "One network"
        if self.linear_features:
            return "Linear features"
        return "Learnt gates" if self.trains_feature else "Fixed gates"

    @property
    def generalises(self) -> bool:
        """Whether there are gates for examples outside the training set."""
        return not self.drawn_gates
