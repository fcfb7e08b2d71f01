"""S beside δ of [DGN] Lemma 3.1, two measures of sensitive sub-networks (theory §5).

δ(s, s') = Σ_θ Σ_p ∂_θA(x_s, p) ∂_θA(x_s', p) over the feature weights θ and the paths p is what the
lemma puts into E[K^F_0] = σ^{2d} Σ ⊙ δ. S is this program's own, cheaper contraction of it: it
differentiates by the pre-activations, each layer on its own.

Arrays: `labels`; `sensitive` (S) and `delta` (δ), (n, n) with unit diagonal, NaN where the diagonal
is zero. Scalars: `mean_sensitive` and `mean_delta`, over pairs of different examples; `agreement`,
the correlation of S and δ over these pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dgn_engine import kernels as k
from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.expected_features import path_gradient_cost
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays and scalars as above.
    """
    try:
        delta = k.path_gradient_overlap(context.network, context.x, normalise="cosine")
    except ArgumentError as refused:  # says why the lemma does not apply to this network
        return ProbeResult(absent=str(refused))
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        "sensitive": to_numpy(context.kernels.sensitive_overlap("cosine")),
        "delta": to_numpy(delta),
    }
    return ProbeResult(arrays, _compare_pairs(arrays["sensitive"], arrays["delta"]))


def _compare_pairs(sensitive: Array, delta: Array) -> dict[str, float]:
    """Return the means over pairs of different examples, and the correlation."""
    pairs = ~np.eye(len(delta), dtype=bool) & np.isfinite(sensitive) & np.isfinite(delta)
    ours, theirs = sensitive[pairs].astype(np.float64), delta[pairs].astype(np.float64)
    if not ours.size:
        return {}
    scalars = {"mean_sensitive": float(ours.mean()), "mean_delta": float(theirs.mean())}
    if float(ours.std()) > 0.0 and float(theirs.std()) > 0.0:
        scalars["agreement"] = float(np.corrcoef(ours, theirs)[0, 1])
    return scalars


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of δ, beside which S is cheap.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return path_gradient_cost(architecture, examples)


PROBE = Probe("Sensitive sub-networks", read, cost)
