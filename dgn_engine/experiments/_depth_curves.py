"""[DGN]: gradient descent gets faster with depth, and then slower; how that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dgn_engine.experiments import Claim
from dgn_engine.experiments._claims import Sample, above, judge
from dgn_engine.experiments._power import Design

ABOUT = (
    "the depth between is the best one of the even draws; only the odd draws are judged, so that "
    "no minimum of noise counts for the claim"
)


def ends_against_middle(
    words: str,
    depths: Sequence[int],
    curves: Sequence[Sequence[float]],
    designs: tuple[Design, Design],
) -> Iterator[Claim]:
    """Judge that the error left is larger at both ends than at a depth between (dgn-2).

    Where the best depth lies is not known before: half of the draws choose it, the other half
    test it.

    Args:
        curves: log10 of the error left at each depth, for each draw.
        designs: of the shallow and of the deep end.
    """
    choosing, testing = curves[0::2], curves[1::2]
    between = range(1, len(depths) - 1)
    best = min(between, key=lambda place: sum(curve[place] for curve in choosing))
    for end, design in zip((0, -1), designs, strict=True):
        gaps = Sample(tuple(curve[end] - curve[best] for curve in testing), "draws")
        statistic = f"{words}: log10 error left, d = {depths[end]} − best depth between"
        remark = f"the best depth of the other {len(choosing)} draws: d = {depths[best]}"
        yield judge("dgn-2", statistic, above(gaps), remark, design)
