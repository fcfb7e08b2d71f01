"""How often each claim of the catalogue is held in its null worlds and in that of its paper.

    python -m tests.engine.experiments.world_rates    # docs/measurements/worlds.json, minutes

A claim without a number in its paper has no rate there. The rate in null worlds is the highest of
those in which the statistic lies at the edge of the claimed region or outside.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from dgn_engine.experiments import _grid, duality_48
from dgn_engine.experiments import find_experiment as find
from dgn_engine.experiments._grid import TrainedCell
from dgn_engine.protocol.experiments import Claim, PlottedLine
from tests.engine.experiments import worlds
from tests.engine.experiments.catalogue_worlds import World, all_worlds
from tests.engine.experiments.made_up import MadeUpResults

PATH = Path(__file__).parents[3] / "docs" / "measurements" / "worlds.json"
DRAWS = 400


@dataclass(frozen=True)
class ClaimRate:
    """How often a claim was held in a world.

    `is_false`: its statistic is at the edge of the claimed region in the mean of the draws, as far
    as those can tell, or outside.
    """

    claim: Claim
    held: float
    mean: float
    is_false: bool


@contextmanager
def quick_findings() -> Iterator[None]:
    """Only what claims need: no figures, and the variances of the made-up test sets."""
    nothing = PlottedLine("", (), ())
    with ExitStack() as patches:
        for target, name, value in (
            ("scipy.stats.t", "", worlds.QuickT),
            (TrainedCell, "accuracy_line", lambda *_: nothing),
            (TrainedCell, "loss_line", lambda *_: nothing),
            (_grid, "_test_variance", worlds.variance_of),
            (duality_48, "_report_rows", lambda *_: ()),
            (duality_48, "_make_figures", lambda *_: ()),
        ):
            patches.enter_context(
                patch.object(target, name, value) if name else patch(str(target), value)
            )
        yield


def rates_in(world: World, draws: int) -> dict[str, ClaimRate]:
    """The rates of the claims that are not exact, by id and statistic."""
    random, findings = np.random.default_rng(20261129), find(world.experiment).findings
    found: dict[str, list[Claim]] = {}
    with quick_findings():
        for _ in range(draws):
            for claim in findings(world.request, MadeUpResults(*world.draw(random))).claims:
                if claim.n and not claim.exact:
                    found.setdefault(f"{claim.id} {claim.statistic}", []).append(claim)
    return {words: _rate(claims) for words, claims in found.items()}


def _rate(claims: list[Claim]) -> ClaimRate:
    values = np.array([claim.value for claim in claims])
    mean, error = float(values.mean()), float(values.std()) / math.sqrt(len(values))
    low, high = worlds.claimed_region(claims[0].statistic)
    is_false = not low + 4 * error < mean < high - 4 * error
    held = sum(claim.verdict == "held" for claim in claims) / len(claims)
    return ClaimRate(claims[-1], held, mean, is_false)


def table(draws: int, chosen: Iterable[World]) -> list[dict[str, object]]:
    """One entry per claim: its rates in null worlds and in its paper's world."""
    nulls: dict[tuple[str, str], float] = {}
    papers: dict[tuple[str, str], ClaimRate] = {}
    for world in chosen:
        for words, rate in rates_in(world, draws).items():
            key = world.experiment, words
            if world.kind == "paper":
                papers[key] = rate
            elif rate.is_false:
                nulls[key] = max(nulls.get(key, 0.0), rate.held)
    return [
        {
            "experiment": name,
            "claim": rate.claim.id,
            "statistic": rate.claim.statistic,
            "null": nulls.get((name, words)),
            "paper": None if math.isnan(rate.claim.power) else rate.held,
            "n": rate.claim.n,
            "draws": draws,
        }
        for (name, words), rate in papers.items()
    ]


def main() -> int:
    entries = table(DRAWS, all_worlds())
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    PATH.write_text(f"[\n{lines}\n]\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
