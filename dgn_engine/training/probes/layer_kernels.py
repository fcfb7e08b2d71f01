"""The overlap τ_l of each gate layer, their products, and what the order of the layers changes.

All overlaps have unit diagonal, NaN where an example has no open gate; τ_l is that of the gates
that value layer l uses. Of a dense chain Λ = Π τ_l (THEORY §3), so that no permutation changes Λ;
of a convolution τ_l is averaged over positions, for display, and Λ is not the product: there, and
with residual blocks, Λ is computed in both orders.

Arrays: `labels`, `tau_{l}` (n, n), `product` (n, n) of all τ_l; `each` (L,), the mean of τ_l over
pairs of two different examples, `along` (L,), that of τ_1 ⊙ … ⊙ τ_l, and `along_straight` (L,), the
same for the gate layers in the order of the feature network (only under another order).
Scalars: `each_{l}`, `product`, and, where layers are permuted, `change`, ‖Λ_π − Λ‖/‖Λ‖ of the whole
network with unit diagonal. Facts: `lambda` says how Λ follows, `order` why there is no comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.model.architecture import Architecture, Dense, Flatten
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import (
    NO_GATE_OPEN,
    Probe,
    ProbeContext,
    ProbeResult,
    no_gate_is_open,
    numpy,
)

FACTORS = "Λ is the product of all τ: no order of the layers changes it."
MAPS = "Λ of this network is not the product of the τ: it depends on the order of the layers."
UNEQUAL = "In another order the layers would have other widths, so there is nothing to compare."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    if not context.gates:
        return ProbeResult(absent="This network has no gate layer.")
    if no_gate_is_open(context):
        return ProbeResult(absent=NO_GATE_OPEN)
    taus = [k.unit_diagonal(k.layer_overlap(gates.double())) for gates in context.gates]
    along = _products(taus)
    arrays: dict[str, Array] = {"labels": numpy(context.labels)}
    arrays |= {f"tau_{layer}": numpy(tau) for layer, tau in enumerate(taus)}
    arrays["product"] = numpy(along[-1])
    arrays["each"] = np.array([_pairs_mean(tau) for tau in taus])
    arrays["along"] = np.array([_pairs_mean(tau) for tau in along])
    scalars = {f"each_{layer}": float(mean) for layer, mean in enumerate(arrays["each"])}
    scalars["product"] = float(arrays["along"][-1])
    facts = {"lambda": FACTORS if is_dense_chain(context.architecture) else MAPS}
    order = _order(context)
    if order != tuple(range(len(taus))):
        straight = _straight(context.gates, order)
        arrays["along_straight"] = np.array(
            [
                _pairs_mean(tau)
                for tau in _products([taus[order.index(at)] for at in range(len(taus))])
            ]
        )
        if [g.shape for g in straight] == [g.shape for g in context.gates]:
            scalars["change"] = _change(context, straight, along[-1])
        else:
            facts["order"] = UNEQUAL
    return ProbeResult(arrays, scalars, facts)


def is_dense_chain(architecture: Architecture) -> bool:
    """Whether Λ is the product of the layers' overlaps."""
    return all(isinstance(node, (Dense, Flatten)) for node in architecture.nodes)


def _order(context: ProbeContext) -> tuple[int, ...]:
    """Which gate layer each value layer uses; a network with its own gates has no other order."""
    network = context.network
    return tuple(range(len(context.gates))) if network.own_gates else network.wiring


def _straight(gates: Sequence[Tensor], order: Sequence[int]) -> list[Tensor]:
    """The same gates in the order of the feature network."""
    return [gates[order.index(source)] for source in range(len(order))]


def _change(context: ProbeContext, straight: Sequence[Tensor], product: Tensor) -> float:
    if is_dense_chain(context.architecture):
        now = product
        before = _products([k.unit_diagonal(k.layer_overlap(g.double())) for g in straight])[-1]
    else:
        masks = context.kernels.trace.value.masks
        now = context.kernels.overlap("cosine")
        before = k.overlap(context.architecture, straight, "cosine", masks)
    known = torch.isfinite(now) & torch.isfinite(before)
    return float((now - before)[known].norm() / before[known].norm())


def _products(taus: Sequence[Tensor]) -> list[Tensor]:
    """τ_1, τ_1 ⊙ τ_2, …: with unit diagonal, as each of them is."""
    found = [taus[0]]
    for tau in taus[1:]:
        found.append(found[-1] * tau)
    return found


def _pairs_mean(kernel: Tensor) -> float:
    """Over the finite entries of two different examples; NaN where there is none."""
    others = kernel[~torch.eye(len(kernel), dtype=torch.bool, device=kernel.device)]
    finite = others[torch.isfinite(others)]
    return float(finite.mean()) if len(finite) else float("nan")


def cost(architecture: Architecture, examples: int) -> float:
    """Of Λ in two orders, where it is not the product of the τ."""
    return 0.0 if is_dense_chain(architecture) else 2.0 * k.npk_cost(architecture, examples)


PROBE = Probe("Layer kernels", read, cost)
