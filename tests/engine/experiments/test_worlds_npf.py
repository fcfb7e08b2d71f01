"""How often the claims of [NPF] and [WS] are held where they are just false, or just as printed.

All networks of a cell share a chance error on the test set, and so do all cells: both are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from dgn_engine.experiments import Request, _grid, npf_nu
from dgn_engine.experiments._accuracy_designs import ALONE, TEST_EXAMPLES
from dgn_engine.experiments._published import find_printed
from dgn_engine.protocol.experiments import Printed
from tests.daily import nightly
from tests.engine.experiments.made_up import FULL
from tests.engine.experiments.worlds import (
    Runs,
    Values,
    claim_rates,
    claims_held_too_often,
    errors_above_power,
    scored,
)

Draw = Callable[[np.random.Generator], tuple[Runs, Values]]
NOTHING: Values = {}
SEEDS = 5
REGIMES = {"FR-II": "FRNPF(II)", "FR-DI": "FRNPF(DI)", "DL": "DNPFL", "FL": "FLNPF", "ReLU": "ReLU"}
TABLE = "npf_npk_2020_table2"
LEARNT = ("FL", "DL", "ReLU")

pytestmark = pytest.mark.usefixtures("draws", "quick_worlds")


def variance_of(terms: Sequence[_grid._Scored], _size: int, _at: str) -> float:
    """That of the worlds below, of accuracies in percent."""
    parts = [(one.coefficient, np.mean(one.accuracies)) for one in terms]
    alone = ALONE * 100 * sum(factor**2 * (100 - mean) for factor, mean in parts)
    common = sum(factor for factor, _ in parts) ** 2
    mean = parts[0][1]
    return float(alone + common * (100 - mean) * (mean - 100 * ALONE)) / TEST_EXAMPLES


@pytest.fixture(autouse=True)
def known_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs record no answers: the variance that those would show is that of the world."""
    monkeypatch.setattr(_grid, "_test_variance", variance_of)


def cells(means: Mapping[str, Printed]) -> Draw:
    """Networks by cell with these means and spreads, five of each."""

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        runs, mean = {}, float(np.mean([cell.value for cell in means.values()]))
        common = math.sqrt((100 - mean) * (mean - 100 * ALONE) / TEST_EXAMPLES) * random.normal()
        for name, cell in means.items():
            alone = math.sqrt(ALONE * 100 * (100 - cell.value) / TEST_EXAMPLES) * random.normal()
            for seed in range(SEEDS):
                own = random.normal(0, cell.spread)
                runs[f"{name}-s{seed}"] = scored(cell.value + common + alone + own)
        return runs, NOTHING

    return draw


def row(name: str, prefix: str, **other: float) -> dict[str, Printed]:
    """A row of Table 2 with its printed ±, some means replaced."""
    found = {}
    for regime, column in REGIMES.items():
        cell = find_printed(TABLE, name, column)
        assert cell is not None
        value = other.get(regime.replace("-", ""), cell.value)
        found[f"{prefix}-{regime}"] = Printed(value, cell.half_width)
    return found


def code(only: str) -> Request:
    return Request(scale="full", protocol="as-in-code", only=only)


FC, GCONV = "FC(w=128,d=6)/Adam/MNIST", "GCONV/Adam/CIFAR-10"
SAME = dict.fromkeys(("FRII", "FRDI", "DL"), 97.0)


def agree(rates: Mapping[str, float], claims: Sequence[Any]) -> None:
    quoted = [claim for claim in claims if not math.isnan(claim.power)]
    assert quoted
    for claim in quoted:
        assert abs(errors_above_power(rates[f"{claim.id} {claim.statistic}"], claim.power)) < 3.5, (
            claim
        )


@pytest.mark.parametrize(
    ("name", "prefix", "relu_less_fl"),
    [
        (FC, "fc-adam-0.0001", 0.32 + 0.5),
        (GCONV, "gconv-adam-0.0003", -1.0),
        *nightly((FC, "fc-adam-0.0001", 0.32 - 0.5), (GCONV, "gconv-adam-0.0003", 1.0)),
    ],
)
def test_table_2_where_its_claims_are_just_false(
    name: str, prefix: str, relu_less_fl: float
) -> None:
    means = row(name, prefix, **SAME, ReLU=97.0, FL=97.0 - relu_less_fl)
    rates, claims = claim_rates("npf-table2", code(name), cells(means))
    assert len(claims) == 5
    assert claims_held_too_often(rates) == {}
    assert any(rates.values()), "at the edge, some are held by chance"


def test_to_choose_one_step_for_a_row_makes_no_claim_true() -> None:
    """Three steps of equal means: the best of them in the mean favours no column."""
    name = "FC(w=128,d=6)/SGD/MNIST"
    means: dict[str, Printed] = {}
    for step in ("0.1", "0.01", "0.001"):
        means |= row(name, f"fc-sgd-{step}", **SAME, ReLU=97.0, FL=97.0 - 0.75 - 0.5)
    rates, _ = claim_rates("npf-table2", Request(scale="full", only=name), cells(means))
    assert claims_held_too_often(rates) == {}


@pytest.mark.parametrize(("name", "prefix"), [(FC, "fc-adam-0.0001"), (GCONV, "gconv-adam-0.0003")])
def test_table_2_as_printed_is_held_as_often_as_the_power_says(name: str, prefix: str) -> None:
    rates, claims = claim_rates("npf-table2", code(name), cells(row(name, prefix)))
    agree(rates, claims)
    by_id = {claim.id: claim for claim in claims}
    assert by_id["npf-1"].power > 0.99
    if name == FC:
        assert by_id["npf-8"].power > 0.9
    else:
        assert by_id["npf-2"].power < 0.2, "the printed difference of 0.75 is nearly the bar of 1"
        assert by_id["npf-2"].enough == 0, "more seeds do not make the test set larger"


ARCH = "Arch-1 w=128 d=6 Adam MNIST"


def arch(**means: float) -> dict[str, Printed]:
    found = {
        f"Arch-1-adam-0.0001-{name.replace('_', '-')}": Printed(mean, 0.1)
        for name, mean in means.items()
    }
    for noise in ("labels", "pixels"):
        found[f"Arch-1-adam-0.0001-{noise}-gates"] = Printed(10.0, 0.1)
    return found


@pytest.mark.parametrize("relu", [98.0, *nightly(96.0)])
def test_workshop_table_4_where_its_claims_are_just_false(relu: float) -> None:
    others = dict.fromkeys(("DL", "FR_II", "FR_DI", "FL", "labels", "pixels"), 97.0)
    rates, claims = claim_rates("workshop-table4", code(ARCH), cells(arch(ReLU=relu, **others)))
    assert len(claims) == 7
    assert claims_held_too_often(rates) == {}
    assert any(rates.values())


def test_workshop_table_4_as_printed_is_held_as_often_as_the_power_says() -> None:
    columns = {
        "ReLU": "ReLU",
        "DL": "Twin (decoupled)",
        "FR-II": "NPF(II)",
        "FR-DI": "NPF(DI)",
        "FL": "NPF trained, true labels",
        "labels": "NPF trained, random labels",
    }
    means = arch(pixels=95.0)
    for name, column in columns.items():
        cell = find_printed("npf_workshop_table4", ARCH, column)
        assert cell is not None
        means[f"Arch-1-adam-0.0001-{name}"] = cell
    rates, claims = claim_rates("workshop-table4", code(ARCH), cells(means))
    agree(rates, claims)
    assert {claim.statistic for claim in claims if math.isnan(claim.power)} == {
        f"{ARCH}: random gates ({frozen}) − random-pixel gates; above 0"
        for frozen in ("FR-II", "FR-DI")
    }, "the column of random pixels is not printed"


def stages(first: float, last: float, random: float, relu: float) -> dict[str, Printed]:
    rise = {f"fl{k + 1}": Printed(first + (last - first) * k / 5, 0.32) for k in range(6)}
    return {**rise, "fr": Printed(random, 0.58), "relu": Printed(relu, 0.35)}


@pytest.mark.parametrize("relu", [77.43 + 4.2, *nightly(77.43 + 2.1, 77.43 - 2.1)])
def test_the_stages_where_their_claims_are_just_false(relu: float) -> None:
    """Gates of all stages are alike, and like random ones."""
    draw = cells(stages(77.43, 77.43, 77.43, relu))
    rates, claims = claim_rates("npf-stages", FULL, draw)
    assert len(claims) == 5
    assert claims_held_too_often(rates) == {}


def test_the_stages_as_printed_are_held_as_often_as_the_power_says() -> None:
    rates, claims = claim_rates("npf-stages", FULL, cells(stages(72.0, 79.68, 67.08, 80.43)))
    agree(rates, claims)
    assert all(claim.power > 0.75 for claim in claims)


def of_nu(logs: Callable[[np.random.Generator], np.ndarray]) -> Draw:
    """ν at 26 kept epochs of five seeds; `logs`: log10 of it, (26,)."""
    runs = {f"relu-s{seed}": scored(99.0) for seed in range(SEEDS)}

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        values = {}
        for seed in range(SEEDS):
            found = {"epochs": list(range(0, 52, 2)), "nu": (10 ** logs(random)).tolist()}
            values[f"nu-s{seed}"] = (found, 1.0)
        return runs, values

    return draw


@pytest.mark.parametrize("drifting", [False, True])
def test_a_flat_noisy_nu_and_one_that_wanders_do_not_fall(drifting: bool) -> None:
    """A random walk is monotone often enough that Spearman's ρ of five seeds would be −1."""

    def logs(random: np.random.Generator) -> np.ndarray:
        steps = random.normal(0, 0.05, 26)
        return 4 + (steps.cumsum() if drifting else steps)

    rates, _ = claim_rates("npf-nu", FULL, of_nu(logs))
    assert claims_held_too_often(rates) == {}


def test_a_nu_that_falls_as_in_the_pilot_is_held_as_often_as_the_power_says() -> None:
    def logs(random: np.random.Generator) -> np.ndarray:
        fall = random.normal(npf_nu.EXPECTED.expected, npf_nu.EXPECTED.spread)
        return 4 + np.repeat((0.0, fall), (5, 21))

    agree(*claim_rates("npf-nu", FULL, of_nu(logs)))


def of_kernels(mean: float) -> Draw:
    """Ratios of K^V and K^F whose largest logarithm is this in the mean over seeds."""
    runs = {f"dl-s{seed}": scored(97.0) for seed in range(SEEDS)}
    shape = np.array([0.2, 1.0, 0.6, -0.5])

    def draw(random: np.random.Generator) -> tuple[Runs, Values]:
        values = {}
        for seed in range(SEEDS):
            found: dict[str, Any] = {"epochs": [0, 20, 40, 60]}
            for name in ("trace", "norm"):
                ratio = 10 ** (shape * math.exp(random.normal(math.log(mean), 0.2)))
                found |= {f"{name}_value": ratio.tolist(), f"{name}_feature": [1.0] * 4}
            values[f"kernels-s{seed}"] = (found, 1.0)
        return runs, values

    return draw


def test_kernels_a_decade_apart_are_not_of_one_scale_and_those_of_a_third_are() -> None:
    rates, claims = claim_rates("npf-kernels", FULL, of_kernels(1.0))
    assert len(claims) == 2
    assert claims_held_too_often(rates) == {}
    agree(*claim_rates("npf-kernels", FULL, of_kernels(0.5)))
