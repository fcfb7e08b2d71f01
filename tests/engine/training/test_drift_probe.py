"""Drift of a run against features and values that are listed path by path."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.training.probes import drift
from dgn_engine.training.run import Run
from tests.engine.kernels.enumeration import features

CONFIG = RunConfig(
    data=DataConfig(train_limit=60),
    net=NetConfig("fc", (("depth", 3), ("width", 3))),
    probe_examples=5,
)


def listed(run: Run) -> tuple[torch.Tensor, torch.Tensor]:
    """Φ (n, paths to a logit) and v (logits, paths), in float64."""
    context = run.probed.probe_context()
    gates = [gate.double() for gate in context.gates]
    phi = features(context.architecture, gates, context.x.double())
    one, two, out = (w.detach().double() for w in context.network.value.weights)
    return phi, torch.einsum("cb,ba,ai->cbai", out, two, one)


def test_the_drift_of_a_run_is_that_of_all_its_paths(make_run: Callable[..., Run]) -> None:
    run = make_run("DL", CONFIG)
    phi, v = listed(run)
    first = drift.PROBE.read(run.probed.probe_context(), {}, None)
    assert first.scalars["features"] == 0.0
    assert first.scalars["values"] < 1e-7
    before = [gate.clone() for gate in run.probed.probe_context().gates]
    for _ in range(5):
        run.step()
    found = drift.PROBE.read(run.probed.probe_context(), {}, first.memory)
    phi_t, v_t = listed(run)
    assert found.scalars["features"] == pytest.approx(
        float((phi_t - phi).norm() / phi.norm()), rel=1e-5
    )
    assert found.scalars["values"] == pytest.approx(float((v_t - v).norm() / v.norm()), rel=1e-5)
    cosine = float((phi_t * phi).sum() / phi.norm() / phi_t.norm())
    assert found.scalars["features_cosine"] == pytest.approx(cosine, rel=1e-6)
    each = ((phi_t - phi).norm(dim=1) / phi.norm(dim=1)).numpy()
    np.testing.assert_allclose(found.arrays["features"], each, rtol=1e-4)
    for layer, (then, now) in enumerate(zip(before, run.probed.probe_context().gates, strict=True)):
        share = float(((then >= 0.5) != (now >= 0.5)).double().mean())
        assert found.scalars[f"switched_{layer}"] == share


def test_gates_that_stand_still_do_not_drift_and_values_do(make_run: Callable[..., Run]) -> None:
    run = make_run("FR-II", CONFIG)
    memory = drift.PROBE.read(run.probed.probe_context(), {}, None).memory
    for _ in range(3):
        run.step()
    found = drift.PROBE.read(run.probed.probe_context(), {}, memory)
    assert found.scalars["features"] == 0.0
    assert found.scalars["values"] > 1e-4


def test_what_takes_too_long_is_read_of_fewer_examples_or_left_out(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("DL", CONFIG)
    each = drift.k.npk_cost(run.architecture, 2)
    monkeypatch.setattr(drift, "BUDGET", 4.5 * each)
    found = drift.PROBE.read(run.probed.probe_context(), {}, None)
    assert found.facts["features"] == "Φ from 4 of 5 probe examples."
    assert len(found.arrays["features"]) == len(found.arrays["labels"]) == 4
    monkeypatch.setattr(drift, "BUDGET", 2.5 * each)
    found = drift.PROBE.read(run.probed.probe_context(), {}, None)
    assert "features" not in found.arrays
    assert "too long" in found.facts["features"]
    assert "values" in found.scalars
