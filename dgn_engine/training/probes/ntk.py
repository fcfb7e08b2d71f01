"""The tangent kernel in its parts: value, feature and, for one soft network, cross (THEORY §4).

Arrays (n, n), mean over the logits: `value` K^V, `feature` K^F, `cross` K^X, where they exist: K is
their sum, over what the regime trains. Scalars: `trace_*` and `norm_*` (Frobenius) of each. Facts:
`trains` says over which weights, `value` and `feature` why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dgn_engine import kernels as k
from dgn_engine.kernels import TangentKernels
from dgn_engine.kernels.trained_weights import trained_weights
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.setting import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    found = context.kernels.tangent
    arrays: dict[str, Array] = {"labels": numpy(context.labels)}
    scalars: dict[str, float] = {}
    for name, kernel in (
        ("value", found.value),
        ("feature", found.feature),
        ("cross", found.cross),
    ):
        if kernel is not None:
            arrays[name] = numpy(kernel)
            scalars[f"trace_{name}"] = float(kernel.diagonal().sum())
            scalars[f"norm_{name}"] = float(torch.linalg.matrix_norm(kernel))
    return ProbeResult(arrays, scalars, _facts(context, found))


def _facts(context: ProbeContext, found: TangentKernels) -> dict[str, str]:
    """Over which weights, and why a part is absent that another regime has."""
    network, regime = context.network, context.regime.name
    facts = {"trains": trained_weights(network)}
    if found.value is None:
        facts["value"] = f"K^V = 0 in {regime}: the value network is frozen."
    if found.feature is None:
        why = (
            "hard gates have no gradient"
            if not network.gate.soft
            else "the feature network is fixed"
        )
        facts["feature"] = f"K^F = 0 in {regime}: {why}."
    return facts


def cost(architecture: Architecture, examples: int) -> float:
    """One forward and one delta sweep."""
    return k.ntk_cost(architecture, examples)


PROBE = Probe("Neural tangent kernel", read, cost)
