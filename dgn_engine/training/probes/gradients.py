"""The norm of the gradient of the run's loss by each weight layer, on the probe examples.

It is computed anew, by autograd, of the mean loss of the probe examples: the step's own gradients
are of another batch each time, and are neither read nor changed.

Arrays: `labels`, and `value` and `feature` (D,), the Frobenius norm ‖∂L/∂Θ_l‖ of each of D weight
layers, for each network that is trained (biases left out). Scalars: `value_{l}`, `feature_{l}`, and
`loss`, the mean loss of the probe examples.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy
from dgn_engine.training.probes._trained_layers import pass_cost, trained_layers
from dgn_engine.training.steps.losses import loss

UNTRAINED = "Nothing trains this network, so there is no loss whose gradient it would be."
FROZEN = "This regime trains no weights."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    context = context.with_labels()
    if context.training is None:
        return ProbeResult(facts={"fault": "no training"}, absent=UNTRAINED)
    trained = trained_layers(context.network)
    if not trained:
        return ProbeResult(absent=FROZEN)
    weights = [weight for each in trained.values() for weight in each]
    with torch.enable_grad():
        value = loss(context.training.loss, context.network(context.x), context.labels)
        slopes = torch.autograd.grad(value, weights, allow_unused=True)
    norms = iter(0.0 if slope is None else float(slope.double().norm()) for slope in slopes)
    arrays: dict[str, Array] = {"labels": numpy(context.labels)}
    scalars = {"loss": float(value.detach())}
    for name, each in trained.items():
        arrays[name] = np.array([next(norms) for _ in each])
        scalars |= {f"{name}_{layer}": float(norm) for layer, norm in enumerate(arrays[name])}
    return ProbeResult(arrays, scalars)


def cost(architecture: Architecture, examples: int) -> float:
    """A pass forth and back through both networks."""
    return 6.0 * pass_cost(architecture, examples)


PROBE = Probe("Gradients", read, cost)
