"""What a regime is: whose gates, hard or soft, and what becomes of Θ^f when it begins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from dgn_engine.errors import ArgumentError, Where

# 'aside': Θ^f is kept but not used; 'keep': as it is (from own gates: copied from Θ^v);
# 'redraw': fresh, independent of Θ^v; 'share-redrawn': Θ^v is redrawn and Θ^f := Θ^v;
# 'redraw-both': both are fresh.
OnEntry = Literal["aside", "keep", "redraw", "share-redrawn", "redraw-both"]

Trained = tuple[Literal["value", "feature"], ...]
"""Which of the two networks a step changes; K is the sum over these (THEORY §4)."""

GROUPS = ("One network", "Fixed gates", "Learnt gates", "Linear features")


TRAINED: tuple[Trained, ...] = (("value",), ("feature",), ("value", "feature"))


@dataclass(frozen=True)
class Regime:
    """One row of the table in THEORY §1. Raises `ArgumentError` where fields contradict each other,
    so that what can be declared can be trained, entered, saved and read."""

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

    def __post_init__(self) -> None:
        for field, why in _contradictions(self):
            raise ArgumentError(
                f"Regime '{self.name}': " + Where(field) + f"={getattr(self, field)!r} {why}.",
                kind="contradiction",
                value=getattr(self, field),
            )

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


def _contradictions(regime: Regime) -> Iterator[tuple[str, str]]:
    """Fields that cannot be what they are, and why."""
    made = not (regime.own_gates or regime.drawn_gates)  # by the feature network
    if regime.on_entry not in get_args(OnEntry):
        yield "on_entry", f"is none of {', '.join(get_args(OnEntry))}"
    if regime.trains not in TRAINED:
        yield "trains", f"is none of {', '.join(map(repr, TRAINED))}"
    if regime.drawn_gates and regime.own_gates:
        yield "drawn_gates", "needs own_gates=False: a coin makes these gates, and no network"
    if regime.drawn_gates and regime.soft:
        yield "drawn_gates", "needs soft=False: a coin gives 0 or 1"
    if regime.open_gates and (regime.soft or not regime.own_gates):
        yield "open_gates", "needs own_gates=True and soft=False: all gates are 1 and none is made"
    if made and regime.on_entry == "aside":
        yield "on_entry", "is for a feature network that makes no gates; choose another"
    if not made and regime.on_entry != "aside":
        yield "on_entry", "is for a feature network that makes the gates; choose 'aside'"
    if regime.linear_features and not made:
        yield "linear_features", "needs a feature network that makes the gates"
    if regime.trains_feature and not (made and regime.soft):
        yield "trains", "needs soft gates of a feature network: others pass it no gradient"
    if regime.takes_gates and regime.on_entry != "keep":
        yield "takes_gates", "needs on_entry='keep': gates that were learnt may not be redrawn"
    if regime.takes_gates != bool(regime.pretrains_as):
        yield "takes_gates", "needs pretrains_as to name a regime, and only then may it"
    if regime.for_copied_gates and not regime.takes_gates:
        yield "for_copied_gates", "needs takes_gates=True"
    if regime.standard and (regime.soft or regime.open_gates or not regime.own_gates):
        yield "standard", "is a network whose gates are its own hard ones"
