"""The tangent kernel in its parts: value, feature and, for one soft network, cross (THEORY §4).

Arrays (n, n), mean over the logits: `value` K^V, `feature` K^F, `cross` K^X, where they exist.
Scalars: `trace_*` and `norm_*` (Frobenius) of each.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from dgn_engine import kernels as k
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
    return ProbeResult(arrays, scalars, _why_no_feature(context, found.feature is None))


def _why_no_feature(context: ProbeContext, absent: bool) -> dict[str, str]:
    if not absent:
        return {}
    if not context.network.gate.soft:
        return {"feature": f"K^F = 0 in {context.regime.name}: hard gates have no gradient."}
    return {"feature": f"K^F = 0 in {context.regime.name}: the feature network is fixed."}


def cost(architecture: Architecture, examples: int) -> float:
    """One forward and one delta sweep."""
    return k.ntk_cost(architecture, examples)


PROBE = Probe("Neural tangent kernel", read, cost)
