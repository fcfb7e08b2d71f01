"""Each claim that is judged at full scale can fail where it is false, and be held where the paper
is right: for the whole catalogue, or excluded here with a reason."""

from __future__ import annotations

import math
import re

import pytest

from dgn_engine.experiments import all_experiments, dgn_frg_spectrum, duality_48
from dgn_engine.experiments._power import GOAL
from tests.daily import nightly
from tests.engine.experiments.catalogue_worlds import all_worlds
from tests.engine.experiments.world_rates import ClaimRate, rates_in
from tests.engine.experiments.worlds import FALSE, claimed_region
from tests.plugins import own

# Experiments whose claims are all exact.
ONLY_EXACT = {"dgn-hard-data", "npf-eigenvalue-bound", "theory-dynamics"}
NO_NUMBER = {  # claims for which the paper prints nothing, so that no power is known
    r"dual-13 .*: DLGN/DNN": "the abstract has a bound, and the table is missing from our copy",
    r"dual-12 M1\(\d\d\): peak − first epoch": "the first epoch of figure 5 is not printed",
    r"regions-3 ": "no number in print, and 100,000 steps were too long for a pilot",
    r"ws-1 Arch-5.* − random-(label|pixel) gates": "Table 4 has no gates from noise on CIFAR-10",
}
SLOW = {"npf-table2", "workshop-table4", "duality-48", "path-pruning"}  # a draw takes 50 ms or more
NAMES = [
    name
    for name in own(all_experiments())
    if all_experiments()[name].claims and name not in ONLY_EXACT
]


@pytest.fixture(autouse=True)
def fewer_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One depth, of which the mean over depths is made, and 8 of 24 orders."""
    monkeypatch.setattr(dgn_frg_spectrum, "DEPTHS", (2,))
    monkeypatch.setattr(duality_48, "ORDERS", duality_48.EIGHT)


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        *((name, 12 if name in SLOW else 40) for name in NAMES),
        *nightly(*((name, 100) for name in NAMES)),
    ],
)
def test_every_claim_can_fail_and_can_be_held(name: str, draws: int) -> None:
    rates = [(world, rates_in(world, draws)) for world in all_worlds() if world.experiment == name]
    papers = {
        words: rate
        for world, found in rates
        if world.kind == "paper"
        for words, rate in found.items()
    }
    assert papers, "no world of the paper"
    false: dict[str, float] = {}
    for world, found in rates:
        for words, rate in found.items():
            if world.kind == "null" and rate.is_false:
                false[words] = max(false.get(words, 0.0), rate.held)
    assert set(papers) - set(false) == set(), "claims without a null world"
    error = math.sqrt(FALSE * (1 - FALSE) / draws)
    assert {words: held for words, held in false.items() if held > FALSE + 2.33 * error} == {}
    for words, rate in papers.items():
        _assert_needs_its_effect(words)
        if not any(re.match(pattern, words) for pattern in NO_NUMBER):
            _assert_can_be_held(words, rate, draws)


def _assert_needs_its_effect(words: str) -> None:
    """A value around which a claim is made must not be claimed where there is no effect.

    For a difference that is 0, for a share of a gap also the whole of it.
    """
    low, high = claimed_region(words)
    if " of " in words.rpartition("; ")[2]:
        absent = (0.0, 100.0) if ")/(" in words else (0.0,)
        assert not any(low < none < high for none in absent), words


def _assert_can_be_held(words: str, rate: ClaimRate, draws: int) -> None:
    claim = rate.claim
    assert not rate.is_false, f"{words}: {rate.mean}, where the paper is right"
    assert claim.enough > 0, f"{words}: no number of seeds has a power of {GOAL:g}"
    chance = 0.05 + 3 * math.sqrt(max(claim.power * (1 - claim.power), 0.01) / draws)
    assert rate.held >= claim.power - chance, (words, rate.held, claim.power)


def test_what_has_no_number_in_print_is_in_the_catalogue() -> None:
    names = {"dlgn-rows", "duality-noise", "region-phases", "workshop-table4"}
    words = {
        word
        for world in all_worlds()
        if world.kind == "paper" and world.experiment in names
        for word, rate in rates_in(world, 1).items()
        if math.isnan(rate.claim.power)
    }
    for pattern in NO_NUMBER:
        assert any(re.match(pattern, word) for word in words), pattern
    assert all(any(re.match(pattern, word) for pattern in NO_NUMBER) for word in words)
