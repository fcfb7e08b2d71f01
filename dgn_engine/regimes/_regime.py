"""What a regime is: whose gates, hard or soft, and what becomes of Θ^f when it begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# 'aside': Θ^f is kept but not used; 'keep': as it is (from own gates: copied from Θ^v);
# 'redraw': fresh, independent of Θ^v; 'share-redrawn': Θ^v is redrawn and Θ^f := Θ^v.
OnEntry = Literal["aside", "keep", "redraw", "share-redrawn"]


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
    aliases: tuple[str, ...] = ()
