"""The neural path kernel H of the probe set and its spectrum (THEORY §3 and §7).

Arrays: `npk` (n, n) scaled to trace 1, `eigenvalues` (n,) descending, `cumulative` (n,), their
running share, `alignment` (n,), (u_iᵀy)² as a share of yᵀy. Scalars: `nu`, `rank`,
`effective_rank`, `rho_min`, `rho_max`, `cutoff`, `outside` (the share of the labels' energy below
the cut-off, which is not in ν), `contradictory` (examples whose input occurs with another label).
With an example that has no label there is no `alignment`, no `nu`, `outside` or `contradictory`.

An estimate has no scalars: ν, rank and small eigenvalues are not to be had from it. It has
`npk_error` (n, n), one standard error of each entry, and `eigenvalues_error` (n,), the same
for every eigenvalue: by Weyl's inequality |ρ̂_i - ρ_i| ≤ ‖Ĥ - H‖₂, and the root mean square of
that is at most the Frobenius norm of the errors. Eigenvalues that are not above twice it, and what
follows from them, are NaN; so is the alignment of a vector whose eigenvalue is not that far from
its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import (
    Probe,
    ProbeContext,
    ProbeResult,
    Refinement,
    assumed_flops,
    numpy,
)
from dgn_engine.training.probes._refinement import (
    AT_ONCE,
    NOT_EXACT,
    PathReading,
    path_steps,
    refinements,
    widened,
    with_errors,
)

NOTHING_OPEN = "No path is open for any probe example: H is 0 and has no spectrum."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    return _exact(context, context.kernels.npk("trace"))


def _exact(context: ProbeContext, npk: Tensor) -> ProbeResult:
    """Of H scaled to trace one; it is 0 where no path is open."""
    if not bool(npk.any()):
        return ProbeResult(facts={"fault": "no open path"}, absent=NOTHING_OPEN)
    spectrum = k.spectrum(npk, _targets(context))
    arrays: dict[str, Array] = {
        "labels": numpy(context.labels),
        "npk": numpy(npk),
        "eigenvalues": numpy(spectrum.eigenvalues),
        "cumulative": numpy(spectrum.cumulative),
    }
    if spectrum.alignment is not None:
        arrays["alignment"] = numpy(spectrum.alignment)
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
    return ProbeResult(arrays, scalars)


def _targets(context: ProbeContext) -> Tensor | None:
    """One versus the rest; None where an example has no label, and so neither ν nor alignment."""
    return k.class_targets(context.labels, context.classes) if context.labelled else None


def refine(
    context: ProbeContext, options: Mapping[str, OptionValue], generator: torch.Generator
) -> Iterator[Refinement]:
    """H from random value networks, then pair by pair."""
    device = context.x.device
    if cost(context.architecture, len(context.x)) <= AT_ONCE * assumed_flops(device):
        yield Refinement(read(context, options, None), 1.0)
        return
    reading = PathReading(_inputs, _estimated, _by_pairs, passes=1.0)
    yield from refinements(lambda spent: path_steps(context, reading, generator, spent), device)


def _inputs(context: ProbeContext) -> k.PathInputs:
    shared = context.kernels
    return k.PathInputs(shared.gates, shared.x_value, shared.trace.value.masks)


def _by_pairs(context: ProbeContext, blocks: k.PathBlocks) -> ProbeResult:
    return _exact(context, blocks.kernel("trace"))


def _estimated(context: ProbeContext, estimator: k.PathEstimator) -> tuple[ProbeResult, float]:
    found = widened(estimator.kernel("trace"))
    if not bool(found.kernel.any()):
        return ProbeResult(facts={"fault": "no open path"}, absent=NOTHING_OPEN), NOT_EXACT
    spectrum = k.spectrum(found.kernel, _targets(context))
    reach = float(found.error.norm())
    values = spectrum.eigenvalues
    seen = values > 2.0 * reach
    gaps = torch.full_like(values, torch.inf)
    gaps[1:] = values[:-1] - values[1:]
    gaps[:-1] = torch.minimum(gaps[:-1], values[:-1] - values[1:])
    arrays: dict[str, Array] = {
        "labels": numpy(context.labels),
        **with_errors({"npk": found}),
        "eigenvalues": numpy(torch.where(seen, values, torch.nan)),
        "eigenvalues_error": numpy(torch.full_like(values, reach)),
        "cumulative": numpy(torch.where(seen, spectrum.cumulative, torch.nan)),
    }
    if spectrum.alignment is not None:
        apart = seen & (gaps > 2.0 * reach)
        arrays["alignment"] = numpy(torch.where(apart, spectrum.alignment, torch.nan))
    facts = {"estimate": f"{int(seen.sum())} of {len(values)} eigenvalues stand above their error"}
    return ProbeResult(arrays, facts=facts), max(found.relative, NOT_EXACT)


def cost(architecture: Architecture, examples: int) -> float:
    """The recursion alone; the eigenvalues of n ≤ 2,000 examples cost little compared with it."""
    return k.npk_cost(architecture, examples)


PROBE = Probe("Neural path kernel", read, cost, refine=refine)
