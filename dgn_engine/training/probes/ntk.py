"""The tangent kernel in its parts: value, feature and, for one soft network, cross (theory §4).

Arrays (n, n), averaged over logits: `value` K^V, `feature` K^F, `cross` K^X, where they exist; K is
their sum, over what the regime trains. Scalars: `trace_*` and `norm_*` (Frobenius) of each. Facts:
`trains`, the weights it is over; `value` and `feature`, why a part is missing.

An estimate has no scalars; it adds `{part}_error`, one standard error of each entry, and for K^V
and K^F `{part}_unit_error`, that of K[s, s']/√(K[s, s] K[s', s']).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.kernels.trained_weights import trained_weights
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import (
    Probe,
    ProbeContext,
    ProbeResult,
    Refinement,
    assumed_flops,
    to_numpy,
)
from dgn_engine.training.probes._refinement import (
    AT_ONCE,
    NOT_EXACT,
    iterate_refinements,
    tangent_steps,
    widen_errors,
    with_errors,
)


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    kernels = context.kernels.tangent
    parts = {"value": kernels.value, "feature": kernels.feature, "cross": kernels.cross}
    return _exact_result(context, {name: part for name, part in parts.items() if part is not None})


def refine(
    context: ProbeContext, options: Mapping[str, OptionValue], generator: torch.Generator
) -> Iterator[Refinement]:
    """Sketch one logit after another; exact after the last.

    Args:
        context: All probe examples.
        options: Unused.
        generator: Source of the sketches.

    Yields:
        Readings of growing accuracy.
    """
    device = context.x.device
    if cost(context.architecture, len(context.x)) <= AT_ONCE * assumed_flops(device):
        yield Refinement(read(context, options, None), 1.0)
        return
    yield from iterate_refinements(
        lambda spent: tangent_steps(context, _sketched_result, generator, spent), device
    )


def _sketched_result(
    context: ProbeContext, estimator: k.TangentEstimator
) -> tuple[ProbeResult, float]:
    parts = estimator.kernels()
    if estimator.is_exact:
        return _exact_result(context, {name: part.kernel for name, part in parts.items()}), 0.0
    parts = {name: widen_errors(part) for name, part in parts.items()}
    arrays = {"labels": to_numpy(context.labels), **with_errors(parts)}
    for name, part in estimator.kernels("cosine").items():
        if name != "cross":
            arrays[f"{name}_unit_error"] = to_numpy(widen_errors(part).error)
    error = max(part.relative for part in parts.values())
    return ProbeResult(arrays, facts=_describe_parts(context, parts)), max(error, NOT_EXACT)


def _exact_result(context: ProbeContext, parts: Mapping[str, Tensor]) -> ProbeResult:
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    scalars: dict[str, float] = {}
    for name, kernel in parts.items():
        arrays[name] = to_numpy(kernel)
        scalars[f"trace_{name}"] = float(kernel.diagonal().sum())
        scalars[f"norm_{name}"] = float(torch.linalg.matrix_norm(kernel))
    return ProbeResult(arrays, scalars, _describe_parts(context, parts))


def _describe_parts(context: ProbeContext, parts: Mapping[str, object]) -> dict[str, str]:
    """Return which weights train, and why a part that other regimes have is missing."""
    network, regime = context.network, context.regime.name
    facts = {"trains": trained_weights(network)}
    if "value" not in parts:
        facts["value"] = f"K^V = 0 in {regime}: the value network is frozen."
    if "feature" not in parts:
        why = (
            "hard gates have no gradient"
            if not network.gate.soft
            else "the feature network is fixed"
        )
        facts["feature"] = f"K^F = 0 in {regime}: {why}."
    return facts


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of one forward and one delta sweep.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return k.ntk_cost(architecture, examples)


PROBE = Probe("Neural tangent kernel", read, cost, refine=refine)
