"""Steps of gradient descent on the probe examples, beside what a constant tangent kernel predicts.

Of the loss ½ Σ e² (squared), gradient descent moves the errors by e_{t+1} = e_t - αK_t e_t to
first order (THEORY §4); with the mean over n examples α becomes α/n, and of the cross entropy p -
y takes the place of e. The probe takes `STEPS` such steps on a copy of the network, on all probe
examples at once and at the run's learning rate times the option `times`, whatever the run's own
optimiser; what is predicted keeps K as it is now: f_{k+1} = f_k - αJJᵀ∂L/∂f, with JJᵀ applied by
one pass back and one forth at the present weights, never written out, all logits together. All of
it is in float64: late in training a step changes the logits by less than float32 resolves, and the
mismatch would be that of two roundings.

Arrays: `labels`, `measured` and `predicted` (STEPS + 1,), the mean loss; `change` (n, C), the
change of the logits in the first step, and `change_predicted`. Scalars: `one` and `all`, the
distance of predicted and measured change of the logits after the first and after all steps,
relative to the measured one; absent where nothing changes. Facts: `rate`; `run`, whether the
run's own steps are these.
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
from dgn_engine.text.written_numbers import number
from dgn_engine.training.probes._probe import (
    Probe,
    ProbeContext,
    ProbeResult,
    TrainingState,
    numpy,
)
from dgn_engine.training.probes._trained_layers import pass_cost
from dgn_engine.training.probes.gradients import FROZEN, UNTRAINED
from dgn_engine.training.steps.losses import loss

STEPS = 10
OWN = "The run's own steps are these: plain gradient descent on all training examples."
OTHERS = "The run's own steps are others: "
Parameters = dict[str, Tensor]


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    context = context.with_labels()
    training = context.training
    if training is None:
        return ProbeResult(facts={"fault": "no training"}, absent=UNTRAINED)
    network = _copy_in_float64(context.network)
    start = {
        name: one.detach().clone() for name, one in network.named_parameters() if one.requires_grad
    }
    if not start:
        return ProbeResult(absent=FROZEN)
    rate = training.learning_rate * float(options.get("times", 1))
    outputs = _Outputs(network, context.x.double())
    slope = _Slope(training, context.labels)
    measured, real = _descend(outputs, slope, start, rate)
    predicted, linear = _predict(outputs, slope, start, rate)
    arrays: dict[str, Array] = {
        "labels": numpy(context.labels),
        "measured": np.array(measured),
        "predicted": np.array(predicted),
        "change": numpy(real[1] - real[0]),
        "change_predicted": numpy(linear[1] - linear[0]),
    }
    scalars = {}
    for name, step in (("one", 1), ("all", STEPS)):
        size = float((real[step] - real[0]).norm())
        off = float((linear[step] - real[step]).norm())
        if size > 0.0 and np.isfinite(off / size):
            scalars[name] = off / size
    facts = {"rate": number(rate, 3), "loss": training.loss, "run": _own(training, len(context.x))}
    return ProbeResult(arrays, scalars, facts)


def _copy_in_float64(network: GatedNetwork) -> GatedNetwork:
    copied = copy.deepcopy(network).double()
    given = copied.given_gates  # no buffers, so that double() leaves them
    return copied if given is None else copied.with_gates(tuple(gates.double() for gates in given))


class _Outputs:
    """The logits (n, C) as a function of the weights that train."""

    def __init__(self, network: GatedNetwork, x: Tensor) -> None:
        self._network, self._x = network, x

    def __call__(self, weights: Parameters) -> Tensor:
        found: Tensor = functional_call(self._network, weights, (self._x,))
        return found


class _Slope:
    """The mean loss of logits (n, C), and its gradient by them."""

    def __init__(self, training: TrainingState, labels: Tensor) -> None:
        self._training, self._labels = training, labels

    def __call__(self, logits: Tensor) -> tuple[float, Tensor]:
        with torch.enable_grad():
            own = logits.detach().requires_grad_(True)
            value = loss(self._training.loss, own, self._labels)
            (slope,) = torch.autograd.grad(value, [own])
        return float(value.detach()), slope


def _descend(
    outputs: _Outputs, slope: _Slope, start: Parameters, rate: float
) -> tuple[list[float], list[Tensor]]:
    """Losses and logits before each step and after the last, every step at its own weights."""
    weights, losses, seen = start, [], []
    for step in range(STEPS + 1):
        linear = _Linearised(outputs, weights)
        value, by_logits = slope(linear.logits)
        losses.append(value)
        seen.append(linear.logits)
        if step < STEPS:
            moved = linear.back(by_logits)
            weights = {name: one - rate * moved[name] for name, one in weights.items()}
    return losses, seen


def _predict(
    outputs: _Outputs, slope: _Slope, start: Parameters, rate: float
) -> tuple[list[float], list[Tensor]]:
    """The same with the tangent kernel of the first step throughout."""
    linear = _Linearised(outputs, start)
    logits = linear.logits
    losses, seen = [], []
    for step in range(STEPS + 1):
        value, by_logits = slope(logits)
        losses.append(value)
        seen.append(logits)
        if step < STEPS:
            logits = logits - rate * linear.forth(linear.back(by_logits))
    return losses, seen


class _Linearised:
    """The logits at some weights, and their Jacobian J (logits by weights) applied both ways.

    J forth is the derivative of Jᵀu by u: two passes of reverse mode, as forward mode has to be
    compiled first.
    """

    def __init__(self, outputs: _Outputs, weights: Parameters) -> None:
        with torch.enable_grad():
            self._names = list(weights)
            self._weights = [one.detach().requires_grad_(True) for one in weights.values()]
            self._made = outputs(dict(zip(self._names, self._weights, strict=True)))
            self.logits = self._made.detach()

    def back(self, by_logits: Tensor) -> Parameters:
        """Jᵀ of (n, C); weights that the logits do not depend on get zeros."""
        return dict(zip(self._names, self._transposed(by_logits, graph=False), strict=True))

    def forth(self, direction: Parameters) -> Tensor:
        """J of a direction of all weights, (n, C)."""
        with torch.enable_grad():
            u = torch.zeros_like(self.logits, requires_grad=True)
            transposed = self._transposed(u, graph=True)
            pairs = zip(transposed, direction.values(), strict=True)
            whole = sum(((one * other).sum() for one, other in pairs), u.new_zeros(()))
            (found,) = torch.autograd.grad(whole, [u])
        return found

    def _transposed(self, by_logits: Tensor, graph: bool) -> list[Tensor]:
        found = torch.autograd.grad(
            self._made,
            self._weights,
            by_logits,
            retain_graph=True,
            create_graph=graph,
            allow_unused=True,
        )
        pairs = zip(found, self._weights, strict=True)
        return [torch.zeros_like(weight) if one is None else one for one, weight in pairs]


def _own(training: TrainingState, examples: int) -> str:
    reasons = []
    if training.optimiser != "sgd":
        reasons.append(f"{training.optimiser} is no plain gradient descent")
    elif training.momentum:
        reasons.append("they have momentum")
    if training.batch < training.examples:
        reasons.append(f"batches of {training.batch:,}")
    elif examples < training.examples:
        reasons.append(f"{training.examples:,} examples")
    if training.augmented:
        reasons.append("augmented images")
    return OTHERS + ", ".join(reasons) + "." if reasons else OWN


def cost(architecture: Architecture, examples: int) -> float:
    """For each step a pass back and forth at its own weights, and the same of the prediction;
    float64 takes about twice the time of float32."""
    return 2.0 * 2.0 * 8.0 * STEPS * pass_cost(architecture, examples)


PROBE = Probe("Error prediction", read, cost)
