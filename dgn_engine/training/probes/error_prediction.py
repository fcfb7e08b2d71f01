"""Compare gradient descent on the probe examples with the prediction of a constant tangent kernel.

For the loss ½ Σ e², gradient descent moves the errors by e_{t+1} = e_t - αK_t e_t to first order
(theory §4). With the mean over n examples α becomes α/n, and for cross entropy p - y replaces e.
The probe takes `STEPS` full-batch steps on a copy of the network, at the run's learning rate times
the option `times`, whatever the run's optimiser. The prediction keeps the current K: f_{k+1} = f_k
- αJJᵀ ∂L/∂f, applying JJᵀ with one backward and one forward product, without forming it. Everything
is float64: late in training a step changes the logits by less than float32 resolves.

Arrays: `labels`; `measured` and `predicted` (STEPS + 1,), mean losses; `change` (n, C), change of
the logits in the first step, and `change_predicted`. Scalars: `one` and `all`, distance of
predicted and measured change after the first and after all steps, relative to the measured change;
missing if nothing changes. Facts: `rate`; `run`, whether the run itself takes such steps.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.probes._probe import (
    Probe,
    ProbeContext,
    ProbeResult,
    TrainingState,
    to_numpy,
)
from dgn_engine.training.probes._trained_layers import pass_cost
from dgn_engine.training.probes.gradients import FROZEN, UNTRAINED
from dgn_engine.training.steps.losses import compute_loss

STEPS = 10
OWN = "The run itself takes these steps: full-batch gradient descent."
OTHERS = "The run itself takes other steps: "
Parameters = dict[str, Tensor]


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step; its training state must be known.
        options: 'times', factor of the learning rate.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    context = context.with_labels()
    training = context.training
    if training is None:
        return ProbeResult(facts={"fault": "no training"}, absent=UNTRAINED)
    network = _copy_in_float64(context.network)
    start = {
        name: weight.detach().clone()
        for name, weight in network.named_parameters()
        if weight.requires_grad
    }
    if not start:
        return ProbeResult(absent=FROZEN)
    rate = training.learning_rate * float(options.get("times", 1))
    outputs = _Outputs(network, context.x.double())
    slope = _Slope(training, context.labels)
    measured, real = _run_descent(outputs, slope, start, rate)
    predicted, linear = _predict_descent(outputs, slope, start, rate)
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        "measured": np.array(measured),
        "predicted": np.array(predicted),
        "change": to_numpy(real[1] - real[0]),
        "change_predicted": to_numpy(linear[1] - linear[0]),
    }
    scalars = {}
    for name, step in (("one", 1), ("all", STEPS)):
        size = float((real[step] - real[0]).norm())
        off = float((linear[step] - real[step]).norm())
        if size > 0.0 and np.isfinite(off / size):
            scalars[name] = off / size
    facts = {
        "rate": format_number(rate, 3),
        "loss": training.loss,
        "run": _describe_own_steps(training, len(context.x)),
    }
    return ProbeResult(arrays, scalars, facts)


def _copy_in_float64(network: GatedNetwork) -> GatedNetwork:
    copied = copy.deepcopy(network).double()
    given = copied.given_gates  # not buffers, so double() does not convert them
    return copied if given is None else copied.with_gates(tuple(gates.double() for gates in given))


class _Outputs:
    """The logits (n, C) as a function of the trained weights."""

    def __init__(self, network: GatedNetwork, x: Tensor) -> None:
        self._network, self._x = network, x

    def __call__(self, weights: Parameters) -> Tensor:
        """Return the logits (n, C) at some weights."""
        logits: Tensor = functional_call(self._network, weights, (self._x,))
        return logits


class _Slope:
    """The mean loss of logits (n, C), and its gradient."""

    def __init__(self, training: TrainingState, labels: Tensor) -> None:
        self._training, self._labels = training, labels

    def __call__(self, logits: Tensor) -> tuple[float, Tensor]:
        """Return the loss, and dL/df (n, C)."""
        with torch.enable_grad():
            logits_leaf = logits.detach().requires_grad_(True)
            value = compute_loss(self._training.loss, logits_leaf, self._labels)
            (slope,) = torch.autograd.grad(value, [logits_leaf])
        return float(value.detach()), slope


def _run_descent(
    outputs: _Outputs, slope: _Slope, start: Parameters, rate: float
) -> tuple[list[float], list[Tensor]]:
    """Return losses and logits before each step and after the last, with exact gradients."""
    weights, losses, trajectory = start, [], []
    for step in range(STEPS + 1):
        linear = _Linearised(outputs, weights)
        value, by_logits = slope(linear.logits)
        losses.append(value)
        trajectory.append(linear.logits)
        if step < STEPS:
            moved = linear.apply_transpose(by_logits)  # dL/dΘ = Jᵀ dL/df
            weights = {name: weight - rate * moved[name] for name, weight in weights.items()}
    return losses, trajectory


def _predict_descent(
    outputs: _Outputs, slope: _Slope, start: Parameters, rate: float
) -> tuple[list[float], list[Tensor]]:
    """Return the same with the tangent kernel of the first step throughout."""
    linear = _Linearised(outputs, start)
    logits = linear.logits
    losses, trajectory = [], []
    for step in range(STEPS + 1):
        value, by_logits = slope(logits)
        losses.append(value)
        trajectory.append(logits)
        if step < STEPS:
            # f_{k+1} = f_k - α J Jᵀ dL/df
            logits = logits - rate * linear.apply_jacobian(linear.apply_transpose(by_logits))
    return losses, trajectory


class _Linearised:
    """The logits at some weights, with products by their Jacobian J (logits × weights) and Jᵀ.

    Jv is the derivative of Jᵀu with respect to u: two reverse-mode passes, as forward mode would
    have to be compiled first.
    """

    def __init__(self, outputs: _Outputs, weights: Parameters) -> None:
        with torch.enable_grad():
            self._names = list(weights)
            self._weights = [weight.detach().requires_grad_(True) for weight in weights.values()]
            self._made = outputs(dict(zip(self._names, self._weights, strict=True)))
            self.logits = self._made.detach()

    def apply_transpose(self, by_logits: Tensor) -> Parameters:
        """Return Jᵀu for u (n, C); zeros for weights that the logits do not depend on."""
        return dict(zip(self._names, self._transposed_product(by_logits, graph=False), strict=True))

    def apply_jacobian(self, direction: Parameters) -> Tensor:
        """Return Jv, (n, C), for a direction v in weight space."""
        with torch.enable_grad():
            u = torch.zeros_like(self.logits, requires_grad=True)
            transposed = self._transposed_product(u, graph=True)
            pairs = zip(transposed, direction.values(), strict=True)
            # Jv = ∂⟨Jᵀu, v⟩/∂u
            whole = sum(((a * b).sum() for a, b in pairs), u.new_zeros(()))
            (product,) = torch.autograd.grad(whole, [u])
        return product

    def _transposed_product(self, by_logits: Tensor, graph: bool) -> list[Tensor]:
        gradients = torch.autograd.grad(
            self._made,
            self._weights,
            by_logits,
            retain_graph=True,
            create_graph=graph,
            allow_unused=True,
        )
        pairs = zip(gradients, self._weights, strict=True)
        return [
            torch.zeros_like(weight) if gradient is None else gradient for gradient, weight in pairs
        ]


def _describe_own_steps(training: TrainingState, examples: int) -> str:
    """Return whether the run takes such steps, and if not, why not."""
    reasons = []
    if training.optimiser != "sgd":
        reasons.append(f"{training.optimiser} instead of gradient descent")
    elif training.momentum:
        reasons.append("with momentum")
    if training.batch < training.examples:
        reasons.append(f"batches of {training.batch:,}")
    elif examples < training.examples:
        reasons.append(f"{training.examples:,} examples")
    if training.augmented:
        reasons.append("augmented images")
    return OTHERS + ", ".join(reasons) + "." if reasons else OWN


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of a reading: per step one product by J and one by Jᵀ, twice, in float64.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP, in float32 equivalents.
    """
    return 2.0 * 2.0 * 8.0 * STEPS * pass_cost(architecture, examples)


PROBE = Probe("Error prediction", read, cost)
