"""The mean of the e.c.d.f., by which spectra of GaLU and ReLU are compared, in other ways."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.experiments import dgn_galu_relu
from dgn_engine.experiments._initial_networks import unit_inputs
from dgn_engine.sweep.unit import CalculationInputs
from tests.engine.experiments.made_up import QUICK, approximately, read_findings


def mean_by_gini(eigenvalues: np.ndarray) -> float:
    """(1 + 1/n − G)/2 with Gini's mean difference G = Σ|λ_i − λ_j| / (2n Σλ)."""
    n, total = len(eigenvalues), 0.0
    for one, other in product(eigenvalues, repeat=2):
        total += abs(one - other)
    return float((1 + 1 / n - total / (2 * n * eigenvalues.sum())) / 2)


def test_a_better_spectrum_is_one_of_more_equal_eigenvalues() -> None:
    random = np.random.default_rng(3)
    spectra, values = {}, {}
    for kind, depth, seed in product(dgn_galu_relu.KINDS, dgn_galu_relu.DEPTHS, range(20)):
        eigenvalues = np.sort(random.gamma(0.5, size=7))
        if kind == "galu" and depth == 2:
            eigenvalues[:] = 3.0
        spectra[kind, depth, seed] = mean_by_gini(eigenvalues)
        calculated = {
            "distribution": list(np.cumsum(eigenvalues) / eigenvalues.sum()),
            "steps": [0],
            "errors": [1.0],
        }
        values[f"{kind}-d{depth}-s{seed}"] = (calculated, 1.0)
    found = read_findings("dgn-galu-relu", QUICK, values=values)
    rows = {row.label: row.values for row in found.rows}
    for (kind, name), depth in product(dgn_galu_relu.KINDS.items(), dgn_galu_relu.DEPTHS):
        expected = tuple(spectra[kind, depth, seed] for seed in range(20))
        label = f"{name}, d = {depth}: mean of the e.c.d.f. of K_0"
        assert rows[label] == approximately(expected)
    assert rows["GaLU, d = 2: mean of the e.c.d.f. of K_0"] == approximately((0.5 + 1 / 14,) * 20)


def overlap(correlation: np.ndarray) -> np.ndarray:
    """Probability that a unit is active for both inputs, over ½."""
    return 1 - np.arccos(np.clip(correlation, -1, 1)) / np.pi


def rectified(correlation: np.ndarray) -> np.ndarray:
    """Correlation after a ReLU layer."""
    r = np.clip(correlation, -1, 1)
    return (np.sqrt(1 - r * r) + (np.pi - np.arccos(r)) * r) / np.pi


@pytest.mark.parametrize("depth", [2, 4])
def test_spectra_of_wide_networks_are_those_of_the_limit_where_galu_is_better(depth: int) -> None:
    """Σ_l Σ^(l−1) Π_{k≥l} κ_0(Σ^(k−1)) for ReLU, d Σ^(0) Π_k κ_0(Σ^(k−1)) for GaLU."""
    x = unit_inputs(12, (100,), 100, 0.9).numpy()
    layers = [x @ x.T]
    for _ in range(depth - 1):
        layers.append(rectified(layers[-1]))
    gates = [overlap(layer) for layer in layers[:-1]]
    limits = {
        "galu": depth * layers[0] * np.prod(gates, axis=0),
        "relu": sum(layers[i] * np.prod(gates[i:], axis=0) for i in range(depth)),
    }
    means = {kind: mean_by_gini(np.linalg.eigvalsh(limit)) for kind, limit in limits.items()}
    assert means["galu"] > 1.05 * means["relu"]
    for kind, expected in means.items():
        given = {"kind": kind, "n": 12, "width": 1500, "depth": depth, "seed": 100, "steps": 0}
        wide = dgn_galu_relu.trained(CalculationInputs(given, Path(), {}))
        assert np.mean(wide["distribution"]) == pytest.approx(expected, rel=0.08), kind
