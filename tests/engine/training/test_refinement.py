"""Heavy kernels step by step: estimates with their errors, then what an ordinary reading gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine import kernels as k
from dgn_engine.kernels.kernel_average import KernelAverage
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork
from dgn_engine.regimes.relu import REGIME
from dgn_engine.training.probes import ProbeContext, Refinement
from dgn_engine.training.probes import _refinement as refining
from dgn_engine.training.probes import npk as npk_probe
from dgn_engine.training.probes import ntk as ntk_probe
from dgn_engine.training.probes import overlap as overlap_probe
from dgn_engine.training.probes._refinement import (
    Spent,
    WorkSlice,
    _path_estimator,
    _tangent_estimator,
    iterate_refinements,
    widen_errors,
)
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network

MODULES = {"npk": npk_probe, "overlap": overlap_probe, "ntk": ntk_probe}
HEAVY = sorted(MODULES)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def never_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These networks are small: let none of them count as small, and see the clock go on."""
    for module in MODULES.values():
        monkeypatch.setattr(module, "AT_ONCE", 0.0)
    ticks = itertools.count()

    def clock() -> float:
        return 0.01 * next(ticks)

    for module in MODULES.values():
        monkeypatch.setattr(
            module, "iterate_refinements", with_clock(refining.iterate_refinements, clock=clock)
        )


def with_clock(function: Callable[..., object], **more: object) -> Callable[..., object]:
    return lambda *given: function(*given, **more)


def context_of(network: GatedNetwork, n: int = 12) -> ProbeContext:
    x = draw_images(network.architecture, n)
    return ProbeContext(network, x, torch.arange(n) % 2, REGIME)


def a_network(name: str = "conv-gap", **how: object) -> GatedNetwork:
    network = make_network(ARCHITECTURES[name], **{"soft": True, **how})  # type: ignore[arg-type]
    network.trains = ("value", "feature")
    return network


def refined(probe: str, context: ProbeContext, seed: int = 0) -> list[Refinement]:
    refine = MODULES[probe].PROBE.refine
    assert refine is not None
    return list(refine(context, {}, torch.Generator().manual_seed(seed)))


@pytest.mark.wide
@pytest.mark.parametrize("probe", HEAVY)
@pytest.mark.parametrize("name", ["conv-gap", "basic-blocks", "fc-deep"])
@pytest.mark.parametrize("own", [True, False])
def test_refinements_end_at_the_ordinary_reading(probe: str, name: str, own: bool) -> None:
    network = a_network(name, own=own)
    last = refined(probe, context_of(network))[-1]
    exact = MODULES[probe].PROBE.read(context_of(network), {}, None)
    assert last.done == 1.0
    assert last.error == 0.0
    assert last.result.arrays.keys() == exact.arrays.keys()
    for key, values in exact.arrays.items():
        # Vectors of a kernel that has equal eigenvalues, or none, are not determined.
        if key != "alignment":
            np.testing.assert_allclose(last.result.arrays[key], values, rtol=1e-6, atol=1e-9)
    assert last.result.scalars.keys() == exact.scalars.keys()
    assert last.result.facts == exact.facts


@pytest.mark.parametrize("probe", HEAVY)
def test_estimates_have_the_shapes_of_the_reading_errors_and_no_scalars(
    probe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = make_network(replace_classes("conv-gap", 12), soft=True)
    network.trains = ("value", "feature")
    monkeypatch.setattr(refining, "FIRST_PICTURE", 0.0)  # do not wait for all logits
    found = refined(probe, context_of(network))
    exact = MODULES[probe].PROBE.read(context_of(network), {}, None)
    estimates = [one for one in found if one.error > 0.0]
    assert estimates
    assert [one.done for one in found] == sorted(one.done for one in found)
    assert all(0.0 < one.done <= 1.0 for one in found)
    for one in estimates:
        assert not one.result.scalars
        assert exact.arrays.keys() <= one.result.arrays.keys()
        extra = one.result.arrays.keys() - exact.arrays.keys()
        assert extra
        assert all(key.endswith("_error") for key in extra)
        for key, values in one.result.arrays.items():
            twin = exact.arrays.get(key.removesuffix("_error").removesuffix("_unit"))
            assert twin is not None, key
            assert values.shape == twin.shape


@pytest.mark.parametrize("probe", HEAVY)
def test_refining_draws_no_number_of_the_run_and_changes_no_weight(probe: str) -> None:
    network = a_network()
    before = torch.get_rng_state()
    weights = [one.detach().clone() for one in network.parameters()]
    refined(probe, context_of(network))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(weights, network.parameters(), strict=True))


def test_an_estimated_spectrum_shows_only_eigenvalues_above_their_error() -> None:
    network = a_network()
    for one in refined("npk", context_of(network)):
        if not one.error:
            continue
        arrays = one.result.arrays
        seen = np.isfinite(arrays["eigenvalues"])
        assert (arrays["eigenvalues"][seen] > arrays["eigenvalues_error"][seen]).all()
        assert np.array_equal(np.isfinite(arrays["eigenvalues_error"]), seen)
        assert np.array_equal(np.isfinite(arrays["cumulative"]), seen)
        assert not (np.isfinite(arrays["alignment"]) & ~seen).any()


def test_the_first_picture_is_of_few_examples_where_all_of_them_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refining, "FIRST_PICTURE", 0.0)
    for probe in HEAVY:
        found = refined(probe, context_of(a_network(), 16))
        assert len(found[0].result.arrays["labels"]) == 8
        assert found[0].error > 0.0
        assert len(found[-1].result.arrays["labels"]) == 16


def test_where_the_exact_kernel_takes_too_long_the_last_one_is_an_estimate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refining, "LONGEST", 0.05)
    monkeypatch.setattr(refining, "LOOK_AFTER", 0.01)
    for probe in HEAVY:
        last = refined(probe, context_of(a_network(), 20))[-1]
        assert last.done == 1.0
        if probe != "ntk":  # whose logits are soon all taken
            assert last.error > 0.0
            assert not last.result.scalars


@pytest.mark.parametrize("probe", HEAVY)
def test_a_good_picture_of_few_examples_stays_until_that_of_all_is_good(
    probe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refining, "TOO_ROUGH", 0.0)  # until it is exact
    monkeypatch.setattr(refining, "measure_pace", lambda context, *_: (0.0, context.subsample(2)))
    found = refined(probe, context_of(a_network(), 16))
    sizes = [len(one.result.arrays["labels"]) for one in found]
    if found[0].error:  # else nothing is better than this reading
        assert all(one.error for one in found if len(one.result.arrays["labels"]) == 8)
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1], found[-1].error) == (8, 16, 0.0)


def test_an_estimate_that_stays_rough_never_takes_the_place_of_an_exact_picture() -> None:
    few, sharp = (a_slice(8, error) for error in (0.0, 0.1))
    rough, whole = a_slice(64, 0.5), a_slice(64, 0.0)
    assert refining.should_show(a_slice(8, 0.9), None)
    assert refining.should_show(few, a_slice(8, 0.9))
    assert refining.should_show(few, a_slice(16, 0.9))
    assert not refining.should_show(few, a_slice(16, 0.1))
    for shown in (few, sharp):
        assert not refining.should_show(rough, shown)
        assert refining.should_show(a_slice(64, 0.2), shown)
        assert refining.should_show(whole, shown)
    assert refining.should_show(rough, a_slice(8, 0.9))
    assert refining.should_show(rough, a_slice(64, 0.1)), "of as many examples the newer one"
    steps = iter((rough, few, rough, a_slice(64, 0.3, left=0.0)))
    last = list(iterate_refinements(lambda _: steps, CPU, lambda: 0.0))[-1]
    assert (last.result, last.error, last.done) == (few.result, 0.0, 1.0)


def test_a_spectrum_of_few_examples_stays_until_eight_eigenvalues_stand_above_the_error() -> None:
    few = spectrum_slice(8, 8, 0.0)
    for shown, taken in ((2, False), (7, False), (8, True), (64, True)):
        assert refining.should_show(spectrum_slice(64, shown, 0.03), few) == taken
    assert refining.should_show(spectrum_slice(64, 5, 0.0), few), "an exact one may have rank 5"


def spectrum_slice(examples: int, above: int, error: float) -> WorkSlice:
    """A picture whose first so many eigenvalues stand above the error."""
    values = np.where(np.arange(examples) < above, 1.0, np.nan)
    arrays = {"labels": np.zeros(examples), "eigenvalues": values}
    return WorkSlice(1.0, refining.ProbeResult(arrays), error)


def a_slice(examples: int, error: float, left: float = 1.0) -> WorkSlice:
    labels = np.zeros(examples, dtype=np.int64)
    return WorkSlice(left, refining.ProbeResult({"labels": labels}), error)


def test_what_is_done_is_the_share_of_the_time() -> None:
    ticks = iter(range(100))

    def steps(spent: Spent) -> Iterator[WorkSlice]:
        yield WorkSlice(9.0)  # there is no picture yet
        yield WorkSlice(6.0, nothing := empty(), 0.5)
        assert spent.seconds == 2.0
        yield WorkSlice(3.0)
        yield WorkSlice(9.0)
        yield WorkSlice(0.0, nothing)

    found = list(iterate_refinements(steps, CPU, lambda: float(next(ticks))))
    assert [one.done for one in found] == [0.25, 0.5, 0.5, 1.0]
    assert [one.error for one in found] == [0.5, 0.5, 0.5, 0.0]


def empty() -> refining.ProbeResult:
    return refining.ProbeResult()


@pytest.mark.parametrize("probe", ["npk", "overlap"])
def test_draws_that_agree_by_chance_end_no_estimate(
    probe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def estimator(*given: object) -> object:
        made.append(_path_estimator(*given))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(refining, "_path_estimator", estimator)
    monkeypatch.setattr(refining, "ROUGH", 10.0)  # what two draws say is always small enough
    monkeypatch.setattr(refining, "SHARP", 10.0)
    monkeypatch.setattr(refining, "LONGEST", 1e-6)
    monkeypatch.setattr(refining, "LOOK_AFTER", 1e6)
    last = refined(probe, context_of(a_network()))[-1]
    assert last.error > 0.0
    assert made[-1].draws >= refining.TRUSTED


def test_logits_that_agree_by_chance_end_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refining, "SHARP", 10.0)
    monkeypatch.setattr(refining, "LONGEST", 1.0)  # not enough for all logits
    monkeypatch.setattr(refining, "FIRST_PICTURE", 0.0)
    architecture = replace_classes("conv-gap", 40)
    network = make_network(architecture, soft=True)
    network.trains = ("value", "feature")
    made = []

    def estimator(*given: object) -> object:
        made.append(_tangent_estimator(*given))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(refining, "_tangent_estimator", estimator)
    last = refined("ntk", context_of(network))[-1]
    assert last.done == 1.0
    assert refining.TRUSTED <= made[-1].draws < 40


def replace_classes(name: str, classes: int) -> Architecture:
    architecture = ARCHITECTURES[name]
    *nodes, last = architecture.nodes
    assert isinstance(last, Dense)
    return replace(architecture, nodes=(*nodes, replace(last, outputs=classes)))


def test_errors_of_two_draws_hold_as_often_as_those_of_many() -> None:
    for draws in (2, 3, 8):
        held = []
        for seed in range(400):
            random = torch.Generator().manual_seed(1000 * draws + seed)
            average = KernelAverage()
            for _ in range(draws):
                average.add_sample(torch.randn(1, 1, generator=random, dtype=torch.float64))
            found = widen_errors(average.mean_estimate())
            held.append(abs(float(found.kernel)) <= float(found.error))
        assert abs(np.mean(held) - 0.6827) < 4 * (0.6827 * 0.3173 / 400) ** 0.5


def test_pictures_of_two_draws_have_widened_errors() -> None:
    network = a_network()
    context = context_of(network)
    inputs = npk_probe._path_inputs(context)
    plain = k.PathEstimator(network.architecture, inputs, torch.Generator().manual_seed(0))
    plain.add_draws(2)
    found, error = npk_probe._estimated_result(context, plain)
    expected = plain.kernel("trace")
    factor = 1.0 + 0.5 + 0.25 + 0.0625  # Student's 1.84, to two percent
    np.testing.assert_allclose(found.arrays["npk_error"], factor * expected.error.numpy())
    assert error == pytest.approx(factor * expected.relative)
