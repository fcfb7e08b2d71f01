"""The overlap τ_l of each gate layer, their products, and the effect of the order of the layers.

Overlaps have unit diagonal, NaN where an example has no open gate; τ_l is of the gates that value
layer l uses. For a dense chain Λ = Π τ_l (theory §3), so no permutation changes Λ. For a
convolution τ_l is averaged over positions, for display, and Λ is not their product: there, and with
residual blocks, Λ is computed in both orders.

Arrays: `labels`; `tau_{l}` (n, n); `product` (n, n) of all τ_l; `each` (L,), mean of τ_l over pairs
of different examples; `along` (L,), the same of τ_1 ⊙ … ⊙ τ_l; `along_straight` (L,), the same in
the order of the feature network, if that differs. Scalars: `each_{l}`, `product`, and for permuted
layers `change`, ‖Λ_π − Λ‖/‖Λ‖ of the whole network with unit diagonal. Facts: `lambda`, how Λ
follows from the τ; `order`, why orders cannot be compared.
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
    to_numpy,
)

FACTORS = "Λ is the product of all τ, so the order of the layers does not matter."
MAPS = "Λ of this network is not the product of the τ and depends on the order of the layers."
UNEQUAL = "The layers have different widths, so orders cannot be compared."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    if not context.gates:
        return ProbeResult(absent="This network has no gate layer.")
    if no_gate_is_open(context):
        return ProbeResult(absent=NO_GATE_OPEN)
    taus = [k.unit_diagonal(k.layer_overlap(gates.double())) for gates in context.gates]
    along = _cumulative_products(taus)
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    arrays |= {f"tau_{layer}": to_numpy(tau) for layer, tau in enumerate(taus)}
    arrays["product"] = to_numpy(along[-1])
    arrays["each"] = np.array([_pairs_mean(tau) for tau in taus])
    arrays["along"] = np.array([_pairs_mean(tau) for tau in along])
    scalars = {f"each_{layer}": float(mean) for layer, mean in enumerate(arrays["each"])}
    scalars["product"] = float(arrays["along"][-1])
    facts = {"lambda": FACTORS if is_dense_chain(context.architecture) else MAPS}
    order = _gate_order(context)
    if order != tuple(range(len(taus))):
        straight = _undo_order(context.gates, order)
        arrays["along_straight"] = np.array(
            [
                _pairs_mean(tau)
                for tau in _cumulative_products(
                    [taus[order.index(position)] for position in range(len(taus))]
                )
            ]
        )
        if [g.shape for g in straight] == [g.shape for g in context.gates]:
            scalars["change"] = _order_effect(context, straight, along[-1])
        else:
            facts["order"] = UNEQUAL
    return ProbeResult(arrays, scalars, facts)


def is_dense_chain(architecture: Architecture) -> bool:
    """Return whether Λ is the product of the layers' overlaps.

    Args:
        architecture: Architecture of the network.

    Returns:
        True if there are only dense layers.
    """
    return all(isinstance(node, (Dense, Flatten)) for node in architecture.nodes)


def _gate_order(context: ProbeContext) -> tuple[int, ...]:
    """Return the gate layer of each value layer; the identity without a feature network."""
    network = context.network
    return tuple(range(len(context.gates))) if network.own_gates else network.wiring


def _undo_order(gates: Sequence[Tensor], order: Sequence[int]) -> list[Tensor]:
    """Return the gates in the order of the feature network."""
    return [gates[order.index(source)] for source in range(len(order))]


def _order_effect(context: ProbeContext, straight: Sequence[Tensor], product: Tensor) -> float:
    """Return ‖Λ_π − Λ‖/‖Λ‖ over the finite entries."""
    if is_dense_chain(context.architecture):
        now = product
        before = _cumulative_products(
            [k.unit_diagonal(k.layer_overlap(g.double())) for g in straight]
        )[-1]
    else:
        masks = context.kernels.trace.value.masks
        now = context.kernels.overlap("cosine")
        before = k.overlap(context.architecture, straight, "cosine", masks)
    known = torch.isfinite(now) & torch.isfinite(before)
    return float((now - before)[known].norm() / before[known].norm())


def _cumulative_products(taus: Sequence[Tensor]) -> list[Tensor]:
    """Return τ_1, τ_1 ⊙ τ_2, …, all with unit diagonal."""
    products = [taus[0]]
    for tau in taus[1:]:
        products.append(products[-1] * tau)
    return products


def _pairs_mean(kernel: Tensor) -> float:
    """Return the mean over finite entries of different examples; NaN if there are none."""
    others = kernel[~torch.eye(len(kernel), dtype=torch.bool, device=kernel.device)]
    finite = others[torch.isfinite(others)]
    return float(finite.mean()) if len(finite) else float("nan")


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of Λ in two orders, unless it is the product of the τ.

    Args:
        architecture: Architecture of the network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return 0.0 if is_dense_chain(architecture) else 2.0 * k.npk_cost(architecture, examples)


PROBE = Probe("Layer kernels", read, cost)
