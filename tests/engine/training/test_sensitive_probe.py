"""S beside δ, and the bound beside ν, as the panels read them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dgn_engine import kernels as k
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.training.probes import ProbeContext, all_probes
from dgn_engine.training.run import Run
from tests.engine.training.probe_cases import in_float64, probed_config

PROBE = all_probes()["sensitive"]
NPK = all_probes()["npk"]
Make = Callable[..., Run]


def test_both_matrices_are_those_of_the_kernels_with_unit_diagonal(make_run: Make) -> None:
    context = in_float64(make_run("DL", probed_config("fc")))
    found = PROBE.read(context, {}, None)
    delta = k.path_gradient_overlap(context.network, context.x)
    root = delta.diagonal().sqrt()
    unit = (delta / torch.outer(root, root)).numpy()
    np.testing.assert_allclose(found.arrays["delta"], unit, rtol=1e-12)
    overlap = all_probes()["overlap"].read(context, {}, None)
    np.testing.assert_array_equal(found.arrays["sensitive"], overlap.arrays["sensitive"])
    pairs = ~np.eye(len(unit), dtype=bool)
    assert found.scalars["mean_delta"] == pytest.approx(unit[pairs].mean())
    assert found.scalars["mean_sensitive"] == pytest.approx(overlap.scalars["mean_sensitive"])
    correlation = np.corrcoef(unit[pairs], overlap.arrays["sensitive"][pairs])[0, 1]
    assert found.scalars["agreement"] == pytest.approx(correlation)


@pytest.mark.parametrize(
    ("regime", "net"),
    [("ReLU", "fc"), ("soft-ReLU", "fc"), ("FR-II", "fc"), ("FRG", "fc"), ("DL", "cnn4")],
)
def test_where_the_lemma_does_not_apply_there_is_a_reason(
    make_run: Make, regime: str, net: str
) -> None:
    found = PROBE.read(make_run(regime, probed_config(net)).probed.probe_context(), {}, None)
    assert found.absent
    assert not found.arrays


def test_nothing_but_this_panel_computes_delta(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("δ was computed")

    monkeypatch.setattr("dgn_engine.kernels.path_gradient_overlap", refuse)
    context = make_run("DL", probed_config("fc")).probed.probe_context()
    for name in ("overlap", "npk", "ntk"):
        all_probes()[name].read(context, {}, None)


def digits_context(make_run: Make, net: str = "fc", regime: str = "DL") -> ProbeContext:
    return make_run(regime, probed_config(net)).probed.probe_context()


def test_the_bound_beside_nu_is_that_of_a_wide_relu_network_and_computed_once(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = digits_context(make_run)
    first = NPK.read(context, {}, None)
    targets = k.class_targets(context.labels, context.classes)
    bound = k.relu_bound(context.x, targets, 3)
    assert first.scalars["bound"] == bound.value
    assert first.scalars["bound_outside"] == bound.outside
    half = context.subsample(2)
    other = NPK.read(half, {}, first.memory)  # other examples: computed again
    assert other.scalars["bound"] == k.relu_bound(half.x, targets[::2], 3).value
    monkeypatch.setattr("dgn_engine.kernels.relu_bound", None)
    again = NPK.read(digits_context(make_run, regime="FR-II"), {}, first.memory)
    assert again.scalars["bound"] == bound.value


def test_convolutions_and_inputs_of_zeros_have_no_bound(make_run: Make) -> None:
    assert "bound" not in NPK.read(digits_context(make_run, "cnn4"), {}, None).scalars
    context = digits_context(make_run)
    context.x[0] = 0.0
    found = NPK.read(context, {}, None)
    assert "nu" in found.scalars
    assert "bound" not in found.scalars


def test_the_lemma_of_a_pair_of_classes_has_the_same_matrices(make_run: Make) -> None:
    config = RunConfig(
        data=DataConfig(name="correlated", options=(("n", 12), ("dim", 3), ("rho", 0.5))),
        net=NetConfig("fc", (("depth", 3), ("width", 3))),
        probe_examples=4,
    )
    context = in_float64(make_run("DL", config))
    found = PROBE.read(context, {}, None)
    delta = k.expected_feature_kernel(context.network, context.x, sigmas=[1.0] * 3)
    delta = delta / k.input_gram(context.x)
    np.testing.assert_allclose(found.arrays["delta"], k.unit_diagonal(delta).numpy(), rtol=1e-9)
