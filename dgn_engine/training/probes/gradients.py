"""Norms of the loss gradient with respect to each weight layer, on the probe examples.

Computed separately by autograd, from the mean loss on the probe examples: the gradients of training
steps are of another batch each time, and are neither read nor changed.

Arrays: `labels`; `value` and `feature` (D,), Frobenius norms ‖∂L/∂Θ_l‖ of the D weight layers of
each trained network, without biases. Scalars: `value_{l}`, `feature_{l}`, and `loss`, the mean
loss.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes._trained_layers import pass_cost, trained_layers
from dgn_engine.training.steps.losses import compute_loss

UNTRAINED = "dgn-viewer does not train this network, so its loss gradient is not known."
FROZEN = "This regime trains no weights."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step; its training state must be known.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays and scalars as above.
    """
    context = context.with_labels()
    if context.training is None:
        return ProbeResult(facts={"fault": "no training"}, absent=UNTRAINED)
    trained = trained_layers(context.network)
    if not trained:
        return ProbeResult(absent=FROZEN)
    weights = [weight for layers in trained.values() for weight in layers]
    with torch.enable_grad():
        value = compute_loss(context.training.loss, context.network(context.x), context.labels)
        slopes = torch.autograd.grad(value, weights, allow_unused=True)
    norms = iter(0.0 if slope is None else float(slope.double().norm()) for slope in slopes)
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    scalars = {"loss": float(value.detach())}
    for name, layers in trained.items():
        arrays[name] = np.array([next(norms) for _ in layers])
        scalars |= {f"{name}_{layer}": float(norm) for layer, norm in enumerate(arrays[name])}
    return ProbeResult(arrays, scalars)


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of a forward and backward pass through both networks.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return 6.0 * pass_cost(architecture, examples)


PROBE = Probe("Gradients", read, cost)
