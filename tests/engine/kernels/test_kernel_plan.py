"""A report of kernels computes what fits in its memory, and says what does not."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine import kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels import gram, kernel_plan, peak_memory
from dgn_engine.kernels.kernel_plan import kernel_of, plan_kernels, quantities_wanted
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from dgn_engine.kernels.quantities import QUANTITIES
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.drawn_networks import drawn_network
from tests.engine.kernels.tiny import ARCHITECTURES, images, make_network

LIBRARIES = 1 << 20  # as in the test of all quantities at once
PLENTY = 1 << 40


def large_maps() -> GatedNetwork:
    """A network whose pairs of positions take far more than all the rest."""
    nodes = (Conv(1, 2), Conv(2, 2), Flatten(), Dense(2 * 40 * 40, 2, gated=False))
    return GatedNetwork(Architecture((1, 40, 40), nodes))


@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("seed", range(6))
def test_a_quantity_takes_at_most_what_is_said_of_it(
    seed: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (peak_memory, kernel_plan):
        monkeypatch.setattr(module, "WORKING", LIBRARIES)  # else it hides what is measured
    gram.onednn_is_faster()
    drawn = drawn_network(seed)
    network, x = drawn.network, drawn.x
    labels = torch.arange(len(x)) % network.architecture.classes
    settings = KernelSettings("mean", "none", PLENTY, drawn.folded, (name,))
    plan = settings.plan(network, x, labels)
    taken = peak_bytes(partial(kernel_arrays, network, x, labels, settings, plan))
    assert taken <= plan.whole <= k.kernel_bytes(network, len(x))


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
    plan = settings.plan(network, x, labels)
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
    assert enough.plan(network, x, labels).settings == {"left_out": {}}
    with pytest.raises(UserError):
        KernelSettings(memory_bytes=60 << 20, only=("npk",)).plan(network, x, labels)


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
    ("only", "logits", "labelled"),
    [
        (["nu"], "mean", False),
        (["nu", "ntk"], "perclass", True),
        (["ntk", "eigenvalues"], "perclass", True),
        (["tau"], "mean", True),
    ],
)
def test_a_name_that_says_nothing_is_refused(
    only: list[str], logits: k.Logits, labelled: bool
) -> None:
    with pytest.raises(UserError):
        quantities_wanted(only, logits, labelled)


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_report_of_one_quantity_holds_that_alone(name: str) -> None:
    architecture = ARCHITECTURES["conv-gap"]
    network, x = make_network(architecture), images(architecture, 4)
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
