"""The neural path kernel H of the probe set and its spectrum (THEORY §3 and §7).

Arrays: `npk` (n, n) scaled to trace 1, `eigenvalues` (n,) descending, `cumulative` (n,), their
running share, `alignment` (n,), (u_iᵀy)² as a share of yᵀy. Scalars: `nu`, `rank`,
`effective_rank`, `rho_min`, `rho_max`, `cutoff`, `outside` (the share of the labels' energy below
the cut-off, which is not in ν), `contradictory` (examples whose input occurs with another label).
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine import kernels as k
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.setting import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy

NOTHING_OPEN = "No path is open for any probe example: H is 0 and has no spectrum."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    if not bool(context.kernels.npk().any()):
        return ProbeResult(facts={"fault": "no open path"}, absent=NOTHING_OPEN)
    npk = context.kernels.npk("trace")
    targets = k.class_targets(context.labels, context.classes)
    spectrum = k.spectrum(npk, targets)
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


def cost(architecture: Architecture, examples: int) -> float:
    """The recursion alone; the eigenvalues of n ≤ 2,000 examples cost little compared with it."""
    return k.npk_cost(architecture, examples)


PROBE = Probe("Neural path kernel", read, cost)
