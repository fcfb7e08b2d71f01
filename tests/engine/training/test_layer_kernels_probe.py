"""Layer kernels against loops over examples and units, and what a permutation leaves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.training.probes import all_probes
from dgn_engine.training.run import Run
from tests.engine.kernels.enumeration import features

PROBE = all_probes()["layer_kernels"]
DENSE = NetConfig("fc", (("depth", 4), ("width", 5)))


def config(net: NetConfig) -> RunConfig:
    return RunConfig(data=DataConfig(train_limit=60), net=net, probe_examples=6)


def cosine(one: np.ndarray, two: np.ndarray) -> float:
    return float((one * two).sum() / np.sqrt((one * one).sum() * (two * two).sum()))


@pytest.mark.parametrize(
    "net", [DENSE, NetConfig("cnn4", (("channels", 2),)), NetConfig("resnet_fc")]
)
def test_each_overlap_and_the_product_are_those_counted_pair_by_pair(
    make_run: Callable[..., Run], net: NetConfig
) -> None:
    context = make_run("DL", config(net)).probed.probe_context()
    found = PROBE.read(context, {}, None)
    n, product = len(context.x), np.ones((len(context.x),) * 2)
    for layer, gates in enumerate(context.gates):
        flat = gates.double().numpy().reshape(n, -1)
        tau = np.array([[cosine(one, two) for two in flat] for one in flat])
        product *= tau
        np.testing.assert_allclose(found.arrays[f"tau_{layer}"], tau, rtol=1e-9)
        off = tau[~np.eye(n, dtype=bool)]
        assert found.scalars[f"each_{layer}"] == pytest.approx(off.mean())
        assert found.arrays["along"][layer] == pytest.approx(product[~np.eye(n, dtype=bool)].mean())
    np.testing.assert_allclose(found.arrays["product"], product, rtol=1e-9)
    assert "change" not in found.scalars


def test_a_permutation_leaves_the_product_of_dense_layers_and_says_so(
    make_run: Callable[..., Run],
) -> None:
    run = make_run("DL", config(DENSE))
    before = PROBE.read(run.probed.probe_context(), {}, None)
    run.control.rewire_gates((2, 0, 1))
    after = PROBE.read(run.probed.probe_context(), {}, None)
    assert after.scalars["change"] < 1e-12
    np.testing.assert_allclose(after.arrays["product"], before.arrays["product"], rtol=1e-12)
    np.testing.assert_array_equal(after.arrays["tau_0"], before.arrays["tau_2"])
    np.testing.assert_allclose(after.arrays["along_straight"], before.arrays["along"])
    assert abs(after.arrays["along"][0] - before.arrays["along"][0]) > 1e-4
    assert "does not matter" in after.facts["lambda"]


def test_what_a_permutation_changes_of_maps_is_that_of_all_paths(
    make_run: Callable[..., Run],
) -> None:
    net = NetConfig("cnn4", (("channels", 1),))
    run = make_run("FR-II", config(net))
    straight = [gates.double() for gates in run.probed.probe_context().gates]
    run.control.rewire_gates((3, 1, 0, 2))
    context = run.probed.probe_context()
    found = PROBE.read(context, {}, None)
    ones = torch.ones_like(context.x).double()
    lambdas = []
    for gates in (straight, [gates.double() for gates in context.gates]):
        # Λ is the path kernel whose K_0 is 1 at every pair of positions: of inputs that are 1.
        phi = features(context.architecture, gates, ones)
        kernel = (phi @ phi.T).numpy()
        root = np.sqrt(np.diagonal(kernel))
        lambdas.append(kernel / root[:, None] / root[None])
    plain, turned = lambdas
    expected = np.linalg.norm(turned - plain) / np.linalg.norm(plain)
    assert found.scalars["change"] == pytest.approx(expected, rel=1e-6)
    assert expected > 1e-4
    assert "depends on the order" in found.facts["lambda"]
