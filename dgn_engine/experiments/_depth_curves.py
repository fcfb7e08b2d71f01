"""Judge the claim of [DGN] that gradient descent first gets faster with depth, then slower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dgn_engine.experiments import Claim
from dgn_engine.experiments._claims import Sample, above, judge
from dgn_engine.experiments._power import Design

ABOUT = (
    "the best depth in between is chosen on the even draws and tested on the odd ones, so that a "
    "minimum due to noise does not support the claim"
)


def ends_against_middle(
    label: str,
    depths: Sequence[int],
    curves: Sequence[Sequence[float]],
    designs: tuple[Design, Design],
) -> Iterator[Claim]:
    """Judge that the remaining error is larger at both ends than at a depth in between (dgn-2).

    As the best depth is not known in advance, half of the draws choose it and the others test it.

    Args:
        label: start of the description of the statistic.
        depths: the depths.
        curves: log10 of the remaining error at each depth, for each draw.
        designs: designs for the shallow and the deep end.
    """
    choosing, testing = curves[0::2], curves[1::2]
    between = range(1, len(depths) - 1)
    best = min(between, key=lambda place: sum(curve[place] for curve in choosing))
    for end, design in zip((0, -1), designs, strict=True):
        gaps = Sample(tuple(curve[end] - curve[best] for curve in testing), "draws")
        statistic = f"{label}: remaining log10 error, d = {depths[end]} − best depth in between"
        remark = f"the best depth of the other {len(choosing)} draws: d = {depths[best]}"
        yield judge("dgn-2", statistic, above(gaps), remark, design)
