"""The share of the accuracy gap between random gates and a network that its gates recover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from dgn_engine.experiments._claims import LEAST
from dgn_engine.experiments._grid import mean_line
from dgn_engine.protocol.experiments import PlottedLine
from dgn_engine.sweep.statistics import ratio_of_means

RISE = 0.5  # maximum change of the mean test accuracy (points) in the last quarter
_ONE = 2.0  # factor on it for a single seed
_MOST = 16  # maximum factor on the epochs to suggest
MINUS = "−"


@dataclass(frozen=True)
class SeedCurves:
    """Test accuracy curves of one kind of value networks, one per seed.

    Attributes:
        name: the kind, such as 'its gates'.
        test: test accuracies (percent) at the end of each epoch.
        trouble: why a seed has no valid accuracy ('diverged at step 12').
    """

    name: str
    test: Sequence[Sequence[float]]
    trouble: dict[int, str] = field(default_factory=dict)

    @property
    def last(self) -> tuple[float, ...]:
        """Accuracy of each seed after its last epoch; NaN if it has no valid one."""
        ends = ((curve[-1] if curve else math.nan) for curve in self.test)
        return tuple(math.nan if seed in self.trouble else a for seed, a in enumerate(ends))


@dataclass(frozen=True)
class CurveEnding:
    """The change of test accuracy from the third to the last quarter of the epochs, in points.

    Attributes:
        mean: mean over the seeds; NaN if no seed has two epochs.
        most: change in the seed with the largest change; NaN likewise.
        seed: that seed.
        converged: whether both are within their bounds.
    """

    mean: float
    most: float
    seed: int
    converged: bool


@dataclass(frozen=True)
class GateShare:
    """(gates − random)/(own − random), in percent; NaN if undefined.

    Attributes:
        own: accuracy of the network itself, in percent.
        gates, random: mean accuracies over the seeds that have both, in percent.
        percent: the share, a ratio of mean differences.
        low, high: Fieller's 95 % interval over these seeds.
        n: number of these seeds.
        by_seed: the share of each seed.
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
    def has_interval(self) -> bool:
        """True if the network is significantly better than random gates, as the share needs."""
        return math.isfinite(self.low) and self.own > self.random


@dataclass(frozen=True)
class GateAnswer:
    """The conclusion from a share, with a sentence.

    `kind` is 'recovered' (significantly above 0), 'worse' (below 0), 'open' (the interval includes
    0) or 'none' (no conclusion).
    """

    kind: Literal["recovered", "worse", "open", "none"]
    sentence: str


def gate_share(own: float, gates: Sequence[float], random: Sequence[float]) -> GateShare:
    """Compute the share of the gap that the gates recover.

    A seed is a pair of value networks with the same initial weights and order of examples, one with
    the measured gates and one with random gates. Seeds without both (NaN) are left out. If the
    network is not significantly better than random gates, the denominator may be zero and the share
    is undefined (see `ratio_of_means`).

    Args:
        own: accuracy of the network, in percent.
        gates, random: accuracies per seed, in percent.
    """
    pairs = [(g, r) for g, r in zip(gates, random, strict=True) if math.isfinite(g + r)]
    by_seed = tuple(
        100 * (g - r) / (own - r) if math.isfinite(g + r) and own != r else math.nan
        for g, r in zip(gates, random, strict=True)
    )
    if not pairs:
        none = math.nan
        return GateShare(own, none, none, none, none, none, 0, by_seed)
    columns = list(zip(*pairs, strict=True))
    mean, mean_random = (sum(column) / len(pairs) for column in columns)
    gained, open_ = [g - r for g, r in pairs], [own - r for _, r in pairs]
    share, low, high = (100 * value for value in ratio_of_means(gained, open_))
    if len(set(pairs)) == 1:  # the spread is unknown: too few test examples to tell seeds apart
        low = high = math.nan
    return GateShare(own, mean, mean_random, share, low, high, len(pairs), by_seed)


def curve_ending(curves: SeedCurves, test_examples: int) -> CurveEnding:
    """Judge whether training has converged.

    The mean over the last quarter of the epochs is compared with that over the quarter before,
    which is less noisy than single epochs and, unlike a maximum, does not drift. Training has
    converged if the mean over seeds changes by at most half a point, and no seed by more than one
    point; if half a test example is more than half a point, that is the bound instead.

    Args:
        curves: accuracy curves by seed.
        test_examples: number of test examples.
    """
    changes = {
        seed: _last_quarter_change(curve)
        for seed, curve in enumerate(curves.test)
        if len(curve) > 1 and seed not in curves.trouble
    }
    if not changes:
        return CurveEnding(math.nan, math.nan, 0, False)
    mean = sum(changes.values()) / len(changes)
    seed = max(changes, key=lambda number: abs(changes[number]))
    bound = max(RISE, 50.0 / test_examples)
    close = abs(mean) <= bound and abs(changes[seed]) <= _ONE * bound
    return CurveEnding(mean, changes[seed], seed, close)


def sufficient_epochs(change: float, epochs: int, test_examples: int) -> int:
    """Estimate how many epochs are needed: doubled as often as the change must be halved.

    If errors shrink as 1/epochs, so does the change in the last quarter.
    """
    times = abs(change) / max(RISE, 50.0 / test_examples) if math.isfinite(change) else _MOST
    doubled = 2 ** math.ceil(math.log2(times)) if times > 1 else 2
    return epochs * int(min(max(2, doubled), _MOST))


def answer_of(
    share: GateShare, left_out: Sequence[str], chance: float, converged: bool
) -> GateAnswer:
    """Draw the conclusion from a share, or say why there is none.

    Args:
        share: the share.
        left_out: why seeds were left out; if there are any, there is no conclusion.
        chance: accuracy (percent) above which a network has learnt something.
        converged: whether training has converged.
    """
    why = _reason_no_answer(share, left_out, chance)
    if why:
        rest = f" {_describe_partial_result(share, left_out, converged)}".rstrip()
        return GateAnswer("none", f"No conclusion: {why}.{rest}")
    so_far = "" if converged else "So far (training has not converged), "
    the = "the" if so_far else "The"
    number, gap, interval = (
        whole_percent(share.percent),
        _describe_gap(share),
        _describe_interval(share),
    )
    if share.low > 0:
        sentence = f"{so_far}{the} gates recover {number} of {gap}, {interval}."
        return GateAnswer("recovered", sentence)
    if share.high < 0:
        sentence = f"{so_far}{the} gates are worse than random ones: {number} of {gap}, {interval}."
        return GateAnswer("worse", sentence)
    return GateAnswer(
        "open",
        f"{so_far}{the} gates may recover nothing: the estimate is {number} of {gap}, but its "
        f"{interval} includes 0.",
    )


def _reason_no_answer(share: GateShare, left_out: Sequence[str], chance: float) -> str:
    """Return why there is no conclusion, '' if there is one."""
    random, own = f"random gates ({share.random:.1f} %)", f"the network ({share.own:.1f} %)"
    if left_out:
        return "; ".join(left_out)
    if not share.n:
        return "no seed has accuracies for both its gates and random gates"
    if max(share.gates, share.random) <= chance:
        return (
            f"value networks learned nothing, neither with its gates ({share.gates:.1f} %) nor "
            f"with {random}; try more epochs or a larger learning rate"
        )
    if share.own <= share.random:
        return f"{own} is no better than {random}, so there is no gap to recover"
    if share.n < LEAST:
        few = "1 seed is" if share.n == 1 else f"{share.n} seeds are"
        return f"{few} not enough; use at least {LEAST}"
    if not share.has_interval:
        if all(value == share.by_seed[0] for value in share.by_seed):
            return "all seeds have the same accuracies; more test examples are needed"
        return (
            f"the gap between {random} and {own} is not larger than the differences between "
            "seeds, so the share is undefined"
        )
    return ""


def _describe_partial_result(share: GateShare, left_out: Sequence[str], converged: bool) -> str:
    """Return a sentence on what was measured despite the lack of a conclusion, or ''."""
    if not (share.n and share.own > share.random and math.isfinite(share.percent)):
        return ""
    number = whole_percent(share.percent) + ("" if converged else " (not converged)")
    if left_out and share.n >= LEAST and share.has_interval:
        those = "that one" if len(left_out) == 1 else "those"
        return (
            f"Without {those} it is {number} of {_describe_gap(share)}, "
            f"{_describe_interval(share)}."
        )
    if share.n >= LEAST:
        return ""
    seeds = f"{share.n} seed{'s' * (share.n > 1)}"
    interval = (
        _describe_interval(share) if share.has_interval else f"without an interval, over {seeds}"
    )
    return f"The estimate is {number} of {_describe_gap(share)}, {interval}."


def _describe_gap(share: GateShare) -> str:
    return (
        f"the gap between random gates ({share.random:.1f} %) and the network ({share.own:.1f} %)"
    )


def _describe_interval(share: GateShare) -> str:
    ends = f"[{whole_percent(share.low)}, {whole_percent(share.high)}]"
    return f"95 % interval {ends} over {share.n} seeds"


def whole_percent(value: float) -> str:
    """Format as '79 %' or '−4 %', never '−0 %'."""
    return f"{round(value) + 0:,} %".replace("-", MINUS)


def why_not_converged(kinds: Sequence[SeedCurves], ends: Sequence[CurveEnding]) -> str:
    """Return a sentence on which curves still change, '' if none does."""
    unconverged = [pair for pair in zip(kinds, ends, strict=True) if not pair[1].converged]
    if not unconverged:
        return ""
    if any(math.isnan(end.mean) for _, end in unconverged):
        return "At least two epochs are needed to see whether accuracy still changes."
    changes = " and ".join(_change_in_words(kind, end) for kind, end in unconverged)
    return f"In the last quarter of the epochs, test accuracy still {changes}."


def _change_in_words(kind: SeedCurves, end: CurveEnding) -> str:
    steady = abs(end.mean) <= RISE  # the mean over the seeds
    change = end.most if steady else end.mean
    seed = f" in seed {end.seed}" if steady else ""
    verb = "rose" if change > 0 else "fell"
    return f"{verb} by {abs(change):.2f} points with {kind.name}{seed}"


def mean_curve(curves: SeedCurves) -> PlottedLine:
    """Return the mean accuracy curve over the seeds with its 95 % interval.

    A run that stopped early because it was flat keeps its last accuracy; an invalid one counts as
    far as it goes.
    """
    longest = max((len(curve) for curve in curves.test), default=0)
    extended = [
        [*curve, *list(curve[-1:]) * (0 if seed in curves.trouble else longest - len(curve))]
        for seed, curve in enumerate(curves.test)
    ]
    return mean_line(curves.name, range(1, longest + 1), extended)


def _last_quarter_change(curve: Sequence[float]) -> float:
    """Return the change from the third to the last quarter of a curve, in points."""
    quarter = max(1, len(curve) // 4)
    last, before = curve[-quarter:], curve[-2 * quarter : -quarter]
    return sum(last) / quarter - sum(before) / len(before)
