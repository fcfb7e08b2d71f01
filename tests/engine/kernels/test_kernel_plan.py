"""A report of kernels computes what fits in its memory, and says what does not."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine import kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels import gram, kernel_plan
from dgn_engine.kernels.kernel_plan import kernel_of, plan_kernels, quantities_wanted
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from dgn_engine.kernels.quantities import ON_DEMAND, QUANTITIES
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.drawn_networks import drawn_network
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network
from tests.refusals import refused

PLENTY = 1 << 40
USUAL = [name for name in QUANTITIES if name not in ON_DEMAND]


def large_maps() -> GatedNetwork:
    """A network whose pairs of positions take far more than all the rest."""
    nodes = (Conv(1, 2), Conv(2, 2), Flatten(), Dense(2 * 40 * 40, 2, gated=False))
    return GatedNetwork(Architecture((1, 40, 40), nodes))


@pytest.mark.wide
@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("seed", range(6))
def test_a_quantity_takes_at_most_what_is_said_of_it(seed: int, name: str, take: Take) -> None:
    take("nothing hidden")
    gram.onednn_is_faster()
    drawn = drawn_network(seed)
    network, x = drawn.network, drawn.x
    labels = torch.arange(len(x)) % network.architecture.classes
    settings = KernelSettings("mean", "none", PLENTY, drawn.folded, (name,))
    plan = settings.make_plan(network, x, labels)
    taken = peak_bytes(partial(kernel_arrays, network, x, labels, settings, plan))
    assert taken <= plan.whole <= k.kernel_bytes(network, len(x))


@pytest.mark.wide
@pytest.mark.parametrize("logits", ["mean", "full", "perclass"])
@pytest.mark.parametrize("seed", range(6))
def test_all_quantities_together_take_what_the_whole_report_does(
    seed: int, logits: k.Logits
) -> None:
    drawn = drawn_network(seed)
    n = len(drawn.x)
    plan = plan_kernels(drawn.network, n, PLENTY, logits, labelled=True)
    assert plan.whole == k.kernel_bytes(drawn.network, n, logits)
    assert plan.fits == n
    assert (plan.notes, plan.settings) == ([], {"left_out": {}})
    needs = [each.needed for each in plan.quantities]
    assert needs == sorted(needs)
    assert all(each.alone <= each.needed <= plan.whole for each in plan.quantities)


def test_what_does_not_fit_is_left_out_and_the_rest_is_as_in_a_whole_report() -> None:
    torch.manual_seed(0)
    network, x = large_maps(), torch.randn(2, 1, 40, 40)
    settings = KernelSettings(memory_bytes=60 << 20)
    labels = torch.arange(2)
    plan = settings.make_plan(network, x, labels)
    arrays = kernel_arrays(network, x, labels, settings, plan)
    whole = kernel_arrays(network, x, labels, KernelSettings())
    left = {"npk", "overlap", "sensitive"}
    assert set(plan.settings["left_out"]) == {
        *left,
        "eigenvalues",
        "eigenvalues_overlap",
        "eigenvalues_sensitive",
        "nu",
    }
    assert set(whole) - set(arrays) == {
        name for name in whole if kernel_of(name) in left or name.startswith("nu")
    }
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, whole[name])
    enough = KernelSettings(memory_bytes=plan.whole)
    assert enough.make_plan(network, x, labels).settings == {"left_out": {}}
    with pytest.raises(UserError):
        KernelSettings(memory_bytes=60 << 20, only=("npk",)).make_plan(network, x, labels)


def test_a_quantity_that_fits_by_itself_is_computed_where_it_is_asked_for_alone() -> None:
    network = make_network(ARCHITECTURES["fc-deep"])
    needed = {each.name: each for each in plan_kernels(network, 3000, PLENTY).quantities}
    allowed = needed["npk"].alone
    assert allowed < needed["npk"].needed
    plan = plan_kernels(network, 3000, allowed)
    assert not plan.computes("npk")
    assert plan.computes("ntk")
    assert plan_kernels(network, 3000, allowed, only=("npk",)).computes("npk")
    assert plan_kernels(network, plan.fits, allowed).settings == {"left_out": {}}
    assert plan_kernels(network, plan.fits + 1, allowed).settings != {"left_out": {}}
    assert f"{plan.fits:,} inputs" in plan.notes[0]


@pytest.mark.parametrize(
    ("only", "logits", "gated", "wanted"),
    [
        (["gates", "ntk"], "mean", True, ["ntk", "gates"]),
        (["nu"], "mean", True, ["nu"]),
        (["nu", "ntk"], "mean", True, ["ntk", "nu_ntk"]),
        (["nu", "ntk", "npk"], "mean", True, ["ntk", "npk", "nu"]),
        (["eigenvalues", "gram"], "mean", True, ["gram", "eigenvalues_gram"]),
        (["eigenvalues", "ntk", "npk"], "perclass", True, ["ntk", "npk", "eigenvalues"]),
        (None, "mean", False, ["ntk", "nu_ntk", "eigenvalues_ntk"]),
        (None, "full", False, ["ntk", "eigenvalues_ntk"]),
        (None, "perclass", False, ["ntk"]),
        (["eigenvalues"], "full", False, ["eigenvalues_ntk"]),
    ],
)
def test_eigenvalues_and_nu_are_those_of_the_kernels_that_are_named(
    only: list[str] | None, logits: k.Logits, gated: bool, wanted: list[str]
) -> None:
    assert list(quantities_wanted(only, logits, True, gated)) == wanted


@pytest.mark.parametrize(
    ("only", "logits", "labelled", "kind"),
    [
        (["nu"], "mean", False, "contradiction"),
        (["nu", "ntk"], "perclass", True, "contradiction"),
        (["ntk", "eigenvalues"], "perclass", True, "contradiction"),
        (["tau"], "mean", True, "unknown-name"),
    ],
)
def test_a_name_that_says_nothing_is_refused(
    only: list[str], logits: k.Logits, labelled: bool, kind: str
) -> None:
    with refused(kind):
        quantities_wanted(only, logits, labelled)


@pytest.mark.parametrize("name", USUAL)
def test_a_report_of_one_quantity_holds_that_alone(name: str) -> None:
    architecture = ARCHITECTURES["conv-gap"]
    network, x = make_network(architecture), draw_images(architecture, 4)
    labels = torch.arange(4) % 2
    whole = kernel_arrays(network, x, labels, KernelSettings())
    arrays = kernel_arrays(network, x, labels, KernelSettings(only=(name,)))
    begins = {"gates": "tau_"}.get(name, name)
    assert arrays
    assert set(arrays) == {each for each in whole if each.startswith(begins)}
    for each, array in arrays.items():
        np.testing.assert_array_equal(array, whole[each])


def test_k_alone_is_kept_where_its_eigenvalues_do_not_fit() -> None:
    module = nn.Linear(3, 2)
    plan = kernel_plan.plan_tangent_kernel(module, 100, 2, 100**2 * 4, labelled=True)
    assert [each.name for each in plan.quantities if each.is_computed] == ["ntk"]
    assert set(plan.settings["left_out"]) == {"nu_ntk", "eigenvalues_ntk"}


@pytest.mark.parametrize("logits", ["mean", "full"])
def test_large_kernels_give_leading_eigenvalues_and_the_same_nu(
    take: Take, logits: k.Logits
) -> None:
    architecture = ARCHITECTURES["fc-deep"]
    network, x = make_network(architecture, soft=True), draw_images(architecture, 12)
    labels = torch.arange(12) % 2
    whole = kernel_arrays(network, x, labels, KernelSettings(logits))
    take("large")
    large = kernel_arrays(network, x, labels, KernelSettings(logits))
    for name in ("eigenvalues", "eigenvalues_ntk", "eigenvalues_overlap"):
        assert large[name].shape == (4,)
        assert large[name] == pytest.approx(whole[name][:4], rel=1e-9)
    parts = ("nu", "nu_rank", "nu_cutoff", "nu_ridge", "nu_outside", "nu_contradictory")
    assert [float(large[name]) for name in parts] == pytest.approx(
        [float(whole[name]) for name in parts], rel=1e-6, abs=1e-12
    )
    kernel, targets = torch.from_numpy(large["npk"]), k.class_targets(labels, 2)
    assert large["nu"] == pytest.approx(k.spectrum(kernel, targets).nu, rel=1e-8)


def test_a_report_says_which_inputs_contradict_each_other_and_what_nu_leaves_out() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x = draw_images(network.architecture, 3)[[0, 1, 2, 0]]
    found = kernel_arrays(network, x, torch.tensor([0, 1, 0, 1]), KernelSettings())
    assert found["nu_contradictory"] == 2
    assert found["nu_rank"] == 3
    assert found["nu_outside"] == pytest.approx(0.5)  # (1, −1)/√2 on the pair


@pytest.mark.wide
@pytest.mark.parametrize("name", ["fc-deep", "conv-gap", "residual-dense"])
@pytest.mark.parametrize("logits", ["mean", "perclass", "full"])
@pytest.mark.parametrize("others", [None, 50])
def test_the_number_that_fits_fits_and_one_more_does_not(
    name: str, logits: k.Logits, others: int | None
) -> None:
    network, budget = make_network(ARCHITECTURES[name]), 200 << 20
    with refused("too-large") as large:
        k.check_budget(network, 10**6, budget, logits, others=others)
    most = large.error.value
    assert isinstance(most, int)
    for _ in range(2):
        k.check_budget(network, most, budget, logits, others=others)
        with refused("too-large", value=most):
            k.check_budget(network, most + 1, budget, logits, others=others)
    assert k.kernel_bytes(network, most, logits, others) <= budget
    assert k.kernel_bytes(network, most + 1, logits, others) > budget


def test_shared_kernels_keep_to_their_budget_and_a_refusal_takes_none_of_it() -> None:
    network = make_network(ARCHITECTURES["conv-gap"])
    x = draw_images(ARCHITECTURES["conv-gap"], 3)
    enough = k.kernel_bytes(network, 3)
    for budget, other in ((1000, None), (1000, x), (enough - 1, None)):
        with refused("too-large"):
            k.SharedKernels(network, x, other=other, budget_bytes=budget)
    for _ in range(2):
        k.SharedKernels(network, x, budget_bytes=enough)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("only", ["ntk", "gram", "npk"])
def test_kernels_whose_entries_overflow_are_refused_by_name(only: str, dtype: torch.dtype) -> None:
    network = make_network(ARCHITECTURES["fc-deep"]).to(dtype)
    x = draw_images(network.architecture, 3).to(dtype)
    large = x * (1e30 if dtype == torch.float32 else 1e200)
    settings = KernelSettings(only=(only,))
    kernel_arrays(network, x, None, settings)
    with refused("not-finite") as refusal:
        kernel_arrays(network, large, None, settings)
    assert f"'{only}" in str(refusal.error) or only == "ntk"


def test_an_example_without_an_open_path_has_no_cosine_and_is_no_fault() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    with torch.no_grad():
        network.feature.weights[0].abs_()
    x = draw_images(network.architecture, 3).abs()
    x[1] = -x[1]  # every gate of its first layer is closed
    arrays = kernel_arrays(network, x, None, KernelSettings(normalise="cosine", only=("npk",)))
    assert np.isnan(arrays["npk"][1]).all()
    assert np.isfinite(arrays["npk"][np.ix_([0, 2], [0, 2])]).all()


def test_the_same_settings_serve_one_network_after_another() -> None:
    architecture = ARCHITECTURES["conv-gap"]
    networks = [make_network(architecture, own=own, soft=True, bias=own) for own in (True, False)]
    x, settings = draw_images(architecture, 4), KernelSettings()
    labels = torch.arange(4) % 2
    found = [kernel_arrays(one, x, labels, settings) for one in (*networks, networks[0])]
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[2][name])
    fresh = kernel_arrays(networks[1], x, labels, KernelSettings())
    for name, array in fresh.items():
        np.testing.assert_array_equal(array, found[1][name])
    assert not np.array_equal(found[0]["ntk"], found[1]["ntk"])
