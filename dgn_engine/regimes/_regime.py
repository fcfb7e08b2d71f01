"""The definition of a regime: whose gates, hard or soft, and what happens to Θ^f on entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from dgn_engine.errors import ArgumentError, Where

# 'aside': Θ^f is kept but not used; 'keep': unchanged (copied from Θ^v if that made the gates);
# 'redraw': redrawn independently of Θ^v; 'share-redrawn': Θ^v is redrawn and Θ^f := Θ^v;
# 'redraw-both': both are redrawn.
OnEntry = Literal["aside", "keep", "redraw", "share-redrawn", "redraw-both"]

Trained = tuple[Literal["value", "feature"], ...]
"""Which of the two networks are trained; K is the sum over these (theory §4)."""

GROUPS = ("One network", "Fixed gates", "Learnt gates", "Linear features")


TRAINED: tuple[Trained, ...] = (("value",), ("feature",), ("value", "feature"))


@dataclass(frozen=True)
class Regime:
    """One row of the table of regimes in theory §1.

    Raises:
        ArgumentError: Fields contradict each other.
    """

    name: str
    title: str
    about: str
    order: int  # among the regimes in sight, or within its group under 'More'
    own_gates: bool  # the value network makes its own gates
    soft: bool
    on_entry: OnEntry
    # Gates are copied from a file or learnt first; entering may optionally redraw Θ^v.
    takes_gates: bool = False
    pretrains_as: str = ""  # if it takes gates: the regime in which they are learnt first
    for_copied_gates: bool = False  # entered when gates are copied from a file; exactly one
    standard: bool = False  # the regime of ordinary networks: own hard gates; exactly one
    trains: Trained = ("value",)
    linear_features: bool = False  # χ^f is the identity
    open_gates: bool = False  # every gate is 1
    drawn_gates: bool = False  # gates are i.i.d. Bernoulli, for training examples only
    in_sight: bool = False  # offered at once by a chooser; the others are under 'More'
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
        """Return whether the value network is trained.

        Returns:
            `True` if `trains` contains 'value'.
        """
        return "value" in self.trains

    @property
    def trains_feature(self) -> bool:
        """Return whether the feature network is trained.

        Returns:
            `True` if `trains` contains 'feature'.
        """
        return "feature" in self.trains

    @property
    def group(self) -> str:
        """Heading of the regime under 'More' in a chooser.

        Returns:
            One of `GROUPS`.
        """
        if self.own_gates:
            return "One network"
        if self.linear_features:
            return "Linear features"
        return "Learnt gates" if self.trains_feature else "Fixed gates"

    @property
    def generalises(self) -> bool:
        """Return whether there are gates for examples outside the training set.

        Returns:
            `False` for random gates (FRG) only.
        """
        return not self.drawn_gates


def _contradictions(regime: Regime) -> Iterator[tuple[str, str]]:
    """Yield fields that contradict others, with the reason."""
    feature_makes_gates = not (regime.own_gates or regime.drawn_gates)  # by the feature network
    if regime.on_entry not in get_args(OnEntry):
        yield "on_entry", f"must be one of {', '.join(get_args(OnEntry))}"
    if regime.trains not in TRAINED:
        yield "trains", f"must be one of {', '.join(map(repr, TRAINED))}"
    if regime.drawn_gates and regime.own_gates:
        yield "drawn_gates", "needs own_gates=False: these gates are random, not made by a network"
    if regime.drawn_gates and regime.soft:
        yield "drawn_gates", "needs soft=False: random gates are 0 or 1"
    if regime.open_gates and (regime.soft or not regime.own_gates):
        yield "open_gates", "needs own_gates=True and soft=False: all gates are 1"
    if feature_makes_gates and regime.on_entry == "aside":
        yield "on_entry", "is only for regimes whose feature network makes no gates"
    if not feature_makes_gates and regime.on_entry != "aside":
        yield "on_entry", "needs a feature network that makes the gates; use 'aside'"
    if regime.linear_features and not feature_makes_gates:
        yield "linear_features", "needs a feature network that makes the gates"
    if regime.trains_feature and not (feature_makes_gates and regime.soft):
        yield "trains", "needs soft gates of a feature network: others have no gradient"
    if regime.takes_gates and regime.on_entry != "keep":
        yield "takes_gates", "needs on_entry='keep': learnt gates must not be redrawn"
    if regime.takes_gates != bool(regime.pretrains_as):
        yield "takes_gates", "must be set together with pretrains_as"
    if regime.for_copied_gates and not regime.takes_gates:
        yield "for_copied_gates", "needs takes_gates=True"
    if regime.standard and (regime.soft or regime.open_gates or not regime.own_gates):
        yield "standard", "needs own hard gates"
