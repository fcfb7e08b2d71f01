"""The share that gates recover of the gap between random gates and a network, and its sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dgn_engine.experiments._claims import LEAST
from dgn_engine.experiments._grid import averaged
from dgn_engine.protocol.experiments import PlottedLine
from dgn_engine.sweep.statistics import ratio_of_means

RISE = 0.5  # points of test accuracy: a kind that changes by more in its last quarter goes on
_ONE = 2.0  # times as much may one seed by itself
_MOST = 16  # times the epochs that were trained are suggested at most
MINUS = "−"


@dataclass(frozen=True)
class SeedCurves:
    """Test accuracies (percent) at the ends of the epochs, of the runs of one kind, seed by seed.

    `trouble`: by the seed, what became of a run that has no accuracy to count ('diverged at step
    12').
    """

    name: str  # after 'behind': 'its gates'
    test: Sequence[Sequence[float]]
    trouble: dict[int, str] = field(default_factory=dict)

    @property
    def last(self) -> tuple[float, ...]:
        """The accuracy of each seed after its last epoch; NaN where there is none to count."""
        ends = ((curve[-1] if curve else math.nan) for curve in self.test)
        return tuple(math.nan if seed in self.trouble else a for seed, a in enumerate(ends))


@dataclass(frozen=True)
class CurveEnding:
    """How test accuracy changed from the last quarter but one of the epochs to the last quarter.

    `mean`: over the seeds, `most`: of the seed in which it changed most; in points, NaN where no
    seed has two epochs. A kind has `converged` where neither is beyond its bound, either way.
    """

    mean: float
    most: float
    seed: int
    converged: bool


@dataclass(frozen=True)
class GateShare:
    """(gates − random)/(own − random), in percent; NaN where it is not defined.

    The accuracies, in percent, are means over the seeds that have both; the share is the ratio of
    the mean differences, as the sentence with its three numbers says, and `low` and `high` are the
    ends of Fieller's 95 % interval over these seeds. `by_seed`: the share of each seed by itself.
    """

    own: float
    gates: float
    random: float
    percent: float
    low: float
    high: float
    n: int
    by_seed: tuple[float, ...]

    @property
    def bounded(self) -> bool:
        """Whether the seeds tell the network from random gates, so that there is an interval."""
        return math.isfinite(self.low) and self.own > self.random


@dataclass(frozen=True)
class GateAnswer:
    """What the share says: 'recovered' (above 0 beyond the seeds' spread), 'worse' (below 0),
    'open' (the interval holds 0) or 'none' (nothing can be said), and its sentence."""

    kind: Literal["recovered", "worse", "open", "none"]
    sentence: str


def gate_share(own: float, gates: Sequence[float], random: Sequence[float]) -> GateShare:
    """Return the share of an accuracy `own` and those of each seed, in percent.

    A seed is a pair: value networks with the same first weights and the same order of examples,
    one behind the gates that are measured, one behind random gates. Seeds without both (NaN) are
    left out. Where own accuracy is not above random gates beyond what the seeds differ, the share
    is no number: the denominator may be zero (`ratio_of_means`).
    """
    pairs = [(g, r) for g, r in zip(gates, random, strict=True) if math.isfinite(g + r)]
    by_seed = tuple(
        100 * (g - r) / (own - r) if math.isfinite(g + r) and own != r else math.nan
        for g, r in zip(gates, random, strict=True)
    )
    if not pairs:
        none = math.nan
        return GateShare(own, none, none, none, none, none, 0, by_seed)
    kept = list(zip(*pairs, strict=True))
    mean, mean_random = (sum(one) / len(pairs) for one in kept)
    gained, open_ = [g - r for g, r in pairs], [own - r for _, r in pairs]
    share, low, high = (100 * value for value in ratio_of_means(gained, open_))
    if len(set(pairs)) == 1:  # test examples too few to tell the seeds apart: no spread is known
        low = high = math.nan
    return GateShare(own, mean, mean_random, share, low, high, len(pairs), by_seed)


def ending(curves: SeedCurves, test_examples: int) -> CurveEnding:
    """Judge whether more epochs would change the accuracies.

    The mean over the last quarter of a run's epochs is compared with that over the quarter before:
    less noisy than single epochs, and without the drift of a maximum. It has converged where the
    mean over the seeds changes by at most half a point and no seed by more than one; where half a
    test example is more than that, by at most so much, and twice as much.
    """
    changes = {
        seed: _change(curve)
        for seed, curve in enumerate(curves.test)
        if len(curve) > 1 and seed not in curves.trouble
    }
    if not changes:
        return CurveEnding(math.nan, math.nan, 0, False)
    mean = sum(changes.values()) / len(changes)
    seed = max(changes, key=lambda one: abs(changes[one]))
    bound = max(RISE, 50.0 / test_examples)
    close = abs(mean) <= bound and abs(changes[seed]) <= _ONE * bound
    return CurveEnding(mean, changes[seed], seed, close)


def epochs_enough(change: float, epochs: int, test_examples: int) -> int:
    """Return how many epochs would do: twice as often doubled as the change must be halved.

    Errors that shrink as 1/epochs change in the last quarter as 1/epochs too.
    """
    times = abs(change) / max(RISE, 50.0 / test_examples) if math.isfinite(change) else _MOST
    doubled = 2 ** math.ceil(math.log2(times)) if times > 1 else 2
    return epochs * int(min(max(2, doubled), _MOST))


def answer_of(
    share: GateShare, left_out: Sequence[str], chance: float, converged: bool
) -> GateAnswer:
    """Answer 'do the gates carry it?', or say why there is no answer.

    Args:
        left_out: why seeds were left out, in words; with any of them nothing is claimed.
        chance: the accuracy in percent, beyond which a network has learnt something.
    """
    why = _why_not(share, left_out, chance)
    if why:
        rest = f" {_beyond(share, left_out, converged)}".rstrip()
        return GateAnswer("none", f"There is no answer: {why}.{rest}")
    so_far = "" if converged else "So far (training has not converged) "
    the = "the" if so_far else "The"
    number, gap, interval = percent(share.percent), _gap(share), _interval(share)
    if share.low > 0:
        sentence = f"{so_far}{the} gates recover {number} of {gap}, {interval}."
        return GateAnswer("recovered", sentence)
    if share.high < 0:
        sentence = f"{so_far}{the} gates do worse than random ones: {number} of {gap}, {interval}."
        return GateAnswer("worse", sentence)
    return GateAnswer(
        "open",
        f"{so_far}{the} gates may recover nothing: the estimate is {number} of {gap}, but its "
        f"{interval} includes 0.",
    )


def _why_not(share: GateShare, left_out: Sequence[str], chance: float) -> str:
    """Return what forbids an answer; '' where nothing does."""
    random, own = f"random gates ({share.random:.1f} %)", f"the network ({share.own:.1f} %)"
    if left_out:
        return "; ".join(left_out)
    if not share.n:
        return "no seed has both an accuracy behind its gates and one behind random gates"
    if max(share.gates, share.random) <= chance:
        return (
            f"value networks learned nothing, neither behind its gates ({share.gates:.1f} %) nor "
            f"behind {random}; try more epochs or a larger step"
        )
    if share.own <= share.random:
        return f"{own} is no better than {random}, so there is no gap to recover"
    if share.n < LEAST:
        few = "1 seed is" if share.n == 1 else f"{share.n} seeds are"
        return f"{few} too few; use at least {LEAST}"
    if not share.bounded:
        if all(value == share.by_seed[0] for value in share.by_seed):
            return "all seeds have the same accuracies, so there are too few test examples"
        return (
            f"the gap between {random} and {own} is no larger than the differences between seeds, "
            "so the share of it is not defined"
        )
    return ""


def _beyond(share: GateShare, left_out: Sequence[str], converged: bool) -> str:
    """Return what was measured all the same, as a sentence; '' where it is nothing."""
    if not (share.n and share.own > share.random and math.isfinite(share.percent)):
        return ""
    number = percent(share.percent) + ("" if converged else " (not converged)")
    if left_out and share.n >= LEAST and share.bounded:
        those = "that one" if len(left_out) == 1 else "those"
        return f"Without {those} it is {number} of {_gap(share)}, {_interval(share)}."
    if share.n >= LEAST:
        return ""
    seeds = f"{share.n} seed{'s' * (share.n > 1)}"
    interval = _interval(share) if share.bounded else f"without an interval, over {seeds}"
    return f"What was measured is {number} of {_gap(share)}, {interval}."


def _gap(share: GateShare) -> str:
    return (
        f"the gap between random gates ({share.random:.1f} %) and the network ({share.own:.1f} %)"
    )


def _interval(share: GateShare) -> str:
    ends = f"[{percent(share.low)}, {percent(share.high)}]"
    return f"95 % interval {ends} over {share.n} seeds"


def percent(value: float) -> str:
    """'79 %', '−4 %'; no '−0 %'."""
    return f"{round(value) + 0:,} %".replace("-", MINUS)


def why_not_converged(kinds: Sequence[SeedCurves], ends: Sequence[CurveEnding]) -> str:
    """Say where curves still change, as a sentence; '' where none does."""
    going = [pair for pair in zip(kinds, ends, strict=True) if not pair[1].converged]
    if not going:
        return ""
    if any(math.isnan(end.mean) for _, end in going):
        return "Whether accuracy still changes cannot be seen in fewer than two epochs."
    words = " and ".join(_change_in_words(kind, end) for kind, end in going)
    return f"In the last quarter of the epochs test accuracy still {words}."


def _change_in_words(kind: SeedCurves, end: CurveEnding) -> str:
    steady = abs(end.mean) <= RISE  # the mean over the seeds
    change = end.most if steady else end.mean
    seed = f" in seed {end.seed}" if steady else ""
    verb = "rose" if change > 0 else "fell"
    return f"{verb} by {abs(change):.2f} points behind {kind.name}{seed}"


def mean_curve(curves: SeedCurves) -> PlottedLine:
    """Return mean accuracies over the seeds at the ends of the epochs, with their 95 % interval.

    A run that ended early because it was flat keeps its last accuracy; one with trouble counts as
    far as it goes.
    """
    longest = max((len(curve) for curve in curves.test), default=0)
    kept = [
        [*curve, *list(curve[-1:]) * (0 if seed in curves.trouble else longest - len(curve))]
        for seed, curve in enumerate(curves.test)
    ]
    return averaged(curves.name, range(1, longest + 1), kept)


def _change(curve: Sequence[float]) -> float:
    """From the quarter before the last one to the last one, in points."""
    quarter = max(1, len(curve) // 4)
    last, before = curve[-quarter:], curve[-2 * quarter : -quarter]
    return sum(last) / quarter - sum(before) / len(before)
