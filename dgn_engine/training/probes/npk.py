"""The neural path kernel H of the probe set and its spectrum (theory §3 and §7).

Arrays: `npk` (n, n) with trace 1; `eigenvalues` (n,), descending; `cumulative` (n,), their running
share; `alignment` (n,), (u_iᵀy)² as a share of yᵀy. Scalars: `nu`, `rank`, `effective_rank`,
`rho_min`, `rho_max`, `cutoff`; `outside`, share of the labels' energy below the cut-off, which ν
leaves out; `contradictory`, number of examples whose input also occurs with another label. If any
example has no label, `alignment`, `nu`, `outside` and `contradictory` are missing. For dense
networks without biases also `bound`, that of Cao & Gu for a wide ReLU network of the same depth,
whatever the gates (`kernels.relu_bound`), and `bound_outside`, the share of the labels' energy left
out.

An estimate has no scalars, since ν, rank and the smallest eigenvalues cannot be estimated from it.
It adds `npk_error` (n, n) and `eigenvalues_error` (n,), one standard error of each entry and of
each eigenvalue, the latter with its bias, by the jackknife over groups of draws. Eigenvalues not
above their error, and what follows from them, are NaN; so is the alignment of an eigenvector whose
eigenvalue is within twice their errors of a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.generalisation import has_relu_bound
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
    GROUPS,
    NOT_EXACT,
    PathReading,
    iterate_refinements,
    path_steps,
    student_factor,
    widen_errors,
    with_errors,
)

NOTHING_OPEN = "No path is open for any probe example, so H = 0 and has no spectrum."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: The bound, which does not change in training.

    Returns:
        Arrays and scalars as above.
    """
    bound = memory if isinstance(memory, _Bound) and memory.is_of(context) else None
    return _exact_result(context, context.kernels.npk("trace"), bound)


@dataclass(frozen=True)
class _Bound:
    """The scalars of the bound, and the examples that they are of."""

    x: Tensor
    labels: Tensor
    depth: int
    scalars: Mapping[str, float]

    @staticmethod
    def of_context(context: ProbeContext, targets: Tensor | None) -> _Bound:
        """Compute the bound; there are no scalars where it does not apply."""
        depth = len(context.architecture.weight_layers)
        scalars = {}
        if targets is not None and has_relu_bound(context.network):
            try:
                bound = k.relu_bound(context.x, targets, depth)
            except ArgumentError:  # an input is zero
                bound = None
            if bound is not None:
                scalars = {"bound": bound.value, "bound_outside": bound.outside}
        return _Bound(context.x, context.labels, depth, scalars)

    def is_of(self, context: ProbeContext) -> bool:
        """Return whether the examples and the depth are the same."""
        return (
            self.depth == len(context.architecture.weight_layers)
            and self.x.shape == context.x.shape
            and torch.equal(self.x, context.x)
            and torch.equal(self.labels, context.labels)
        )


def _exact_result(context: ProbeContext, npk: Tensor, bound: _Bound | None = None) -> ProbeResult:
    """Return the result for H with trace 1, which is 0 if no path is open."""
    if not bool(npk.any()):
        return ProbeResult(facts={"fault": "no open path"}, absent=NOTHING_OPEN)
    targets = _class_targets(context)
    spectrum = k.spectrum(npk, targets)
    bound = bound or _Bound.of_context(context, targets)
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        "npk": to_numpy(npk),
        "eigenvalues": to_numpy(spectrum.eigenvalues),
        "cumulative": to_numpy(spectrum.cumulative),
    }
    if spectrum.alignment is not None:
        arrays["alignment"] = to_numpy(spectrum.alignment)
    scalars = {
        "rank": float(spectrum.rank),
        "effective_rank": spectrum.effective_rank,
        "rho_min": spectrum.rho_min,
        "rho_max": spectrum.rho_max,
        "cutoff": spectrum.cutoff,
    }
    if spectrum.nu is not None:
        scalars["nu"] = spectrum.nu
    if spectrum.outside is not None:
        scalars["outside"] = spectrum.outside
        scalars["contradictory"] = float(len(k.contradictory_examples(context.x, context.labels)))
    return ProbeResult(arrays, scalars | dict(bound.scalars), memory=bound)


def _class_targets(context: ProbeContext) -> Tensor | None:
    """Return one-versus-rest targets; None if an example has no label."""
    return k.class_targets(context.labels, context.classes) if context.is_labelled else None


def refine(
    context: ProbeContext, options: Mapping[str, OptionValue], generator: torch.Generator
) -> Iterator[Refinement]:
    """Estimate H with random value networks, then compute it pair by pair.

    Args:
        context: All probe examples.
        options: Unused.
        generator: Source of the random value weights.

    Yields:
        Readings of growing accuracy.
    """
    device = context.x.device
    if cost(context.architecture, len(context.x)) <= AT_ONCE * assumed_flops(device):
        yield Refinement(read(context, options, None), 1.0)
        return
    reading = PathReading(_path_inputs, _estimated_result, _by_pairs, passes=1.0)
    yield from iterate_refinements(
        lambda spent: path_steps(context, reading, generator, spent), device
    )


def _path_inputs(context: ProbeContext) -> k.PathInputs:
    shared = context.kernels
    return k.PathInputs(shared.gates, shared.x_value, shared.trace.value.masks)


def _by_pairs(context: ProbeContext, blocks: k.PathBlocks) -> ProbeResult:
    return _exact_result(context, blocks.kernel("trace"))


def _estimated_result(
    context: ProbeContext, estimator: k.PathEstimator
) -> tuple[ProbeResult, float]:
    estimate = widen_errors(estimator.kernel("trace"))
    if not bool(estimate.kernel.any()):
        return ProbeResult(facts={"fault": "no open path"}, absent=NOTHING_OPEN), NOT_EXACT
    spectrum = k.spectrum(estimate.kernel, _class_targets(context))
    values = spectrum.eigenvalues
    widened = student_factor(min(estimator.draws, GROUPS))
    errors = values * estimator.eigenvalue_errors() * widened
    resolved = (values > spectrum.cutoff) & (values > errors)
    # An eigenvector is resolved where its eigenvalue is apart from the next one on either side.
    apart = resolved.clone()
    distinct = values[:-1] - values[1:] > 2.0 * (errors[:-1] + errors[1:])
    apart[1:] &= distinct
    apart[:-1] &= distinct
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        **with_errors({"npk": estimate}),
        "eigenvalues": to_numpy(torch.where(resolved, values, torch.nan)),
        "eigenvalues_error": to_numpy(torch.where(resolved, errors, torch.nan)),
        "cumulative": to_numpy(torch.where(resolved, spectrum.cumulative, torch.nan)),
    }
    if spectrum.alignment is not None:
        arrays["alignment"] = to_numpy(torch.where(apart, spectrum.alignment, torch.nan))
    facts = {"estimate": f"{int(resolved.sum())} of {len(values)} eigenvalues exceed their error"}
    return ProbeResult(arrays, facts=facts), max(estimate.relative, NOT_EXACT)


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of the recursion; the eigenvalues of n ≤ 2,000 examples are cheap beside it.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return k.npk_cost(architecture, examples)


PROBE = Probe("Neural path kernel", read, cost, refine=refine)
