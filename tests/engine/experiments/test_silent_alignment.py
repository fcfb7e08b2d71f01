"""Silent alignment against descents in numpy, from whitening to kernel regression."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments import silent_alignment
from dgn_engine.experiments._initial_networks import dense_architecture, draw_network
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from tests.engine.experiments.by_hand import (
    copy_arrays,
    descent,
    gradients,
    outputs,
    relu_gates,
    tangent_kernel,
)

DIGITS = DataConfig("digits")
N, WIDTH = 12, 6


def drawn(seed: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels and targets of the chosen zeros and ones, and the pixels of the next 200."""
    whole = load_examples(DIGITS)
    chosen = whole.train_y < 2
    pixels = whole.train_x[chosen].reshape(chosen.sum(), -1).astype(float)
    order = torch.randperm(len(pixels), generator=random_stream("inputs", seed)).numpy()
    first, rest = order[:count], order[count : count + 200]
    return pixels[first], 2.0 * whole.train_y[chosen][first] - 1.0, pixels[rest]


@pytest.mark.parametrize("whitened", [True, False])
def test_inputs_are_whitened_with_their_own_mean_and_covariance(whitened: bool) -> None:
    x, y, held_out = silent_alignment.two_classes(DIGITS, N, 3, whitened)
    pixels, targets, rest = drawn(3, N)
    assert y.numpy() == pytest.approx(targets - targets.mean())
    centred = pixels - pixels.mean(0)
    covariance = (centred.T @ centred) / N
    values, vectors = np.linalg.eigh(covariance)
    used = values > 1e-6 * values[-1]
    if whitened:  # Mahalanobis products
        inverse = vectors[:, used] / values[used] @ vectors[:, used].T
    else:
        inverse = np.eye(len(values)) * used.sum() / values.sum()
    away = rest - pixels.mean(0)
    inside = vectors[:, used] @ vectors[:, used].T
    np.testing.assert_allclose(x @ x.T, centred @ inverse @ centred.T, atol=1e-8)
    np.testing.assert_allclose(held_out @ x.T, away @ inverse @ inside @ centred.T, atol=1e-8)
    assert float(x.square().sum()) == pytest.approx(used.sum() * N)


def cosine(one: np.ndarray, two: np.ndarray) -> float:
    return float((one * two).sum() / np.linalg.norm(one) / np.linalg.norm(two))


@pytest.mark.parametrize(("cell", "depth"), [("small", 2), ("usual", 3), ("plain", 2)])
def test_shape_scale_and_regression_are_those_of_a_descent_in_numpy(
    cell: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silent_alignment, "MOST", 250)
    given = {"cell": cell, "depth": depth, "seed": 4, "n": N, "width": WIDTH}
    given |= {"data": "digits", "root": "", "download": False}
    found = silent_alignment.alignment_in_training(CalculationInputs(given, Path(), {}))
    parts = silent_alignment.two_classes(DIGITS, N, 4, cell != "plain")
    x, y, held_out = (part.numpy() for part in parts)
    network = draw_network(
        dense_architecture(x.shape[1], WIDTH, depth), 4, own=True, init="kaiming"
    )
    factor = 1.0 if cell == "usual" else silent_alignment.SMALL[depth]
    weights = [factor * weight for weight in copy_arrays(network.value.weights)]
    first = tangent_kernel(weights, relu_gates(weights, x), x)
    rate = min(0.1 / np.linalg.eigvalsh(x.T @ x / N)[-1], 0.02 * N / np.linalg.eigvalsh(first)[-1])
    taken = descent(weights, x, y, rate / N, found["steps"][0], None)
    losses = [float(e @ e) for e, *_ in taken]
    steps = found["steps"][0]
    assert steps == 250 or losses[steps] <= 0.01 * losses[0] < losses[steps - 1]
    before = found["steps"][1]
    assert losses[before] > 0.9 * losses[0] >= losses[before + 1]
    _, last_weights, _, last = taken[-1]
    now = taken[before][3]
    start, turned = cosine(first, last), cosine(now, last)
    assert found["share"] == pytest.approx((turned - start) / (1 - start), rel=1e-5)
    assert found["turn"] == pytest.approx(turned - start, abs=1e-9)
    plain = [cosine(kernel, np.outer(y, y)) for kernel in (first, now, last)]
    assert found["plain"] == pytest.approx(plain, rel=1e-6)
    sizes = [np.linalg.norm(kernel) for kernel in (first, now, last)]
    assert found["scale"] == pytest.approx((sizes[1] - sizes[0]) / (sizes[2] - sizes[0]), rel=1e-5)
    middle = np.eye(N) - 1 / N
    cka = [cosine(middle @ kernel @ middle, np.outer(y, y)) for kernel in (first, now, last)]
    assert found["rise"] == pytest.approx(cka[1] - cka[0], rel=1e-5)
    assert found["last_cka"] == pytest.approx(cka[2], rel=1e-6)
    at = [round(t * before) for t in silent_alignment.TIMES if round(t * before) <= steps]
    assert found["loss"] == pytest.approx([losses[step] / losses[0] for step in at], rel=1e-8)
    assert found["cosine"] == pytest.approx([cosine(taken[s][3], last) for s in at], rel=1e-6)
    norms = [np.linalg.norm(taken[step][3]) / sizes[2] for step in at]
    assert found["norm"] == pytest.approx(norms, rel=1e-6)

    def predicted(of: list[np.ndarray]) -> np.ndarray:
        both = np.concatenate([x, held_out])
        rows = gradients(of, relu_gates(of, both), both)
        jacobian = np.concatenate([row.reshape(len(both), -1) for row in rows], 1)
        kernel = jacobian @ jacobian[:N].T
        inner = kernel[:N] + silent_alignment.RIDGE * np.trace(kernel[:N]) / N * np.eye(N)
        at_start = outputs(weights, relu_gates(weights, x), x)
        return kernel[N:] @ np.linalg.solve(inner, y - at_start)

    end = outputs(last_weights, relu_gates(last_weights, held_out), held_out)
    moved = end - outputs(weights, relu_gates(weights, held_out), held_out)
    far = [np.linalg.norm(moved - predicted(of)) for of in (weights, last_weights)]
    assert found["far"] == pytest.approx([one / np.linalg.norm(end) for one in far], rel=1e-4)
    assert found["learnt"] == pytest.approx(found["far"][0] - found["far"][1])


def test_a_loss_that_does_not_fall_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_alignment, "MOST", 5)
    given = {"cell": "small", "depth": 3, "seed": 4, "n": N, "width": WIDTH}
    given |= {"data": "digits", "root": "", "download": False}
    found = silent_alignment.alignment_in_training(CalculationInputs(given, Path(), {}))
    assert found["steps"] == [5, 5]
    assert all(np.isnan(found[name]) for name in ("share", "scale", "turn", "rise"))


def test_the_last_step_before_the_loss_falls_is_the_one_before_the_first_that_is_low() -> None:
    assert silent_alignment.last_step_before([1.0, 0.95, 0.9, 0.95]) == 1
    assert silent_alignment.last_step_before([1.0, 0.2]) == 0
    assert silent_alignment.last_step_before([1.0, 0.95, 0.93]) == 2
