"""Unit vectors with pairwise correlation ρ and random labels ([DGN], GaLU against ReLU)."""

from __future__ import annotations

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import Setting
from dgn_engine.data._dataset import DataSet, Examples, Report
from dgn_engine.data._variants import frozen_stream
from dgn_engine.data._vectors import (
    COUNT,
    DIMENSION,
    Vectors,
    balanced_labels,
    signed_examples,
    unit_vector,
    vector_counts,
    vector_sizes,
)


def load_correlated(config: DataConfig, _report: Report) -> Examples:
    """Generate (n, dim) inputs by `variant_seed`."""
    n, dim = vector_counts(config)
    rho = float(dict(config.options)["rho"])
    x = draw_correlated(n, dim, rho, frozen_stream("correlated", config.variant_seed))
    return signed_examples("correlated", x, balanced_labels("correlated", n, config.variant_seed))


def draw_correlated(n: int, dim: int, rho: float, stream: np.random.RandomState) -> Vectors:
    """Return x_s = √ρ u + √(1-ρ) v_s with unit vectors v_s ⟂ u.

    Then ⟨x_s, x_s'⟩ = ρ + (1-ρ)⟨v_s, v_s'⟩. For n < dim the v_s are orthonormal and every
    correlation is ρ; otherwise they are independent, and it is ρ on average, with spread
    (1-ρ)/√(dim-1).
    """
    common = unit_vector(dim, stream)
    own = stream.normal(size=(n, dim))
    own -= np.outer(own @ common, common)
    if n < dim:
        own = np.linalg.qr(own.T)[0].T
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    vectors: Vectors = np.sqrt(rho) * common + np.sqrt(1 - rho) * own
    return vectors


DATA = DataSet(
    "Correlated inputs",
    load_correlated,
    "Generated on demand.",
    (COUNT, DIMENSION, Setting("rho", "correlation ρ", 0.9, least=0.0, most=1.0)),
    sizes=vector_sizes,
)
