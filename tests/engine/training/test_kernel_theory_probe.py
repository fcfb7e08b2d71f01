"""K^V against sums over all sign patterns of a tiny network, whose mean is βH exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.training.probes import all_probes
from dgn_engine.training.run import Run
from tests.engine.training.probe_cases import in_float64

PROBE = all_probes()["kernel_theory"]
CONFIG = RunConfig(
    data=DataConfig(name="correlated", options=(("n", 12), ("dim", 2), ("rho", 0.5))),
    net=NetConfig("fc", (("depth", 2), ("width", 2)), init="bernoulli"),
    probe_examples=4,
)


def test_the_expectation_is_the_mean_over_all_signs_of_the_weights(
    make_run: Callable[..., Run],
) -> None:
    context = in_float64(make_run("FR-II", CONFIG))
    weights = list(context.network.value.weights)
    sizes = [weight.numel() for weight in weights]
    assert sum(sizes) <= 10
    sigmas = [float(weight.detach().abs().mean()) for weight in weights]
    total, count, expected = np.zeros((len(context.x),) * 2), 0, None
    for signs in itertools.product((-1.0, 1.0), repeat=sum(sizes)):
        parts = torch.tensor(signs, dtype=torch.float64).split(sizes)
        with torch.no_grad():
            for weight, part, sigma in zip(weights, parts, sigmas, strict=True):
                weight.copy_(sigma * part.view(weight.shape))
        context.drop_kernels()
        found = PROBE.read(context, {}, None)
        assert not found.absent
        expected = found.arrays["expected"]
        total, count = total + found.arrays["value"], count + 1
    np.testing.assert_allclose(total / count, expected, rtol=1e-9, atol=1e-12)


def test_the_numbers_are_those_of_both_matrices(make_run: Callable[..., Run]) -> None:
    found = PROBE.read(make_run("DL").probed.probe_context(), {}, None)
    value, expected = found.arrays["value"], found.arrays["expected"]
    off = np.sqrt(((value - expected) ** 2).sum()) / np.sqrt((expected**2).sum())
    assert found.scalars["distance"] == pytest.approx(off)
    assert found.scalars["traces"] == pytest.approx(np.trace(value) / np.trace(expected))
    cosine = (value * expected).sum() / np.linalg.norm(value) / np.linalg.norm(expected)
    assert found.scalars["cosine"] == pytest.approx(cosine)
    assert found.facts == {"width": "16"}


def test_where_the_statement_does_not_hold_that_is_said(make_run: Callable[..., Run]) -> None:
    assert "makes its own" in PROBE.read(make_run("ReLU").probed.probe_context(), {}, None).absent
    assert "frozen" in PROBE.read(make_run("gates-only").probed.probe_context(), {}, None).absent
    assert (
        "start as copies"
        in PROBE.read(make_run("FR-DI").probed.probe_context(), {}, None).facts["depends"]
    )
