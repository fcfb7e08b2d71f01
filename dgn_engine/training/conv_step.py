"""One step of a chain of convolutions by hand: its losses and gradients without an autograd graph.

As `DenseStep`, in the order of memory that a processor convolves in (channels last), which takes
half to two thirds of the time of torch's usual order. Another pass over the maps costs about a
tenth of their convolution, so that what is needed no more is written over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.config import Loss
from dgn_engine.model import architecture as arch
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import STRAIGHT, Route
from dgn_engine.training.flat_weights import FlatWeights, side_by_side
from dgn_engine.training.losses import LossSlope

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_threshold_backward = torch.ops.aten.threshold_backward.grad_input
_convolution_backward = torch.ops.aten.convolution_backward.default


def is_chain_of_convolutions(network: GatedNetwork) -> bool:
    """Whether both networks are gated convolutions, one pooling over all positions or none, and a
    dense layer; neither normalised nor wrapped around."""
    stacks = (network.value, network.feature)
    return all(type(s) is Stack and is_convolution_architecture(s.architecture) for s in stacks)


def is_convolution_architecture(architecture: arch.Architecture) -> bool:
    """Return whether it is gated convolutions, one pooling or none, and an output layer."""
    *convs, pool, head = architecture.nodes if len(architecture.nodes) > 2 else [None] * 3
    return (
        all(
            isinstance(node, arch.Conv) and node.gated and not node.circular and not node.normal
            for node in convs
        )
        and isinstance(pool, (arch.GlobalAveragePool, arch.Flatten))
        and isinstance(head, arch.Dense)
        and not head.gated
        and head.factor == 1.0
    )


class _Convolutions:
    """The convolutions of one network, and where their gradients go."""

    def __init__(self, stack: Stack, flat: FlatWeights) -> None:
        self.flat = flat
        gradients = dict(zip(map(id, flat.parameters), flat.gradients, strict=True))
        self.nodes = [n for n in stack.architecture.nodes if isinstance(n, arch.Conv)]
        count = len(self.nodes)
        self._own = [cast(Tensor, weight).detach() for weight in stack.weights][:count]
        biases = list(stack.biases)[:count] or [None] * count
        self._biases = [None if b is None else cast(Tensor, b).detach() for b in biases]
        self._gradients = [gradients[id(weight)] for weight in list(stack.weights)[:count]]
        self._of_biases = [None if b is None else gradients[id(b)] for b in biases]
        self._weights: list[Tensor] = []

    def begin(self) -> None:
        """Take the weights as they are now, in the order of memory of the maps."""
        self._weights = [in_order(weight) for weight in self._own]

    def __call__(self, place: int, z: Tensor) -> Tensor:
        """q of one layer, for z (m, channels, height, width)."""
        node = self.nodes[place]
        return torch.conv2d(z, self._weights[place], self._biases[place], node.stride, node.padding)

    def back(
        self, place: int, delta: Tensor, fed: Tensor, collect: bool, scale: float = 1.0
    ) -> Tensor | None:
        """dL/dz of what a layer was fed (None for the images), for its dL/dq; `collect`: its
        gradients, times `scale`, go to their place."""
        if not collect and not place:
            return None
        node, bias = self.nodes[place], self._of_biases[place]
        into, weight, shift = _convolution_backward(
            delta,
            fed.expand(len(delta), -1, -1, -1),
            self._weights[place],
            None if bias is None else [len(bias)],
            [node.stride] * 2,
            [node.padding] * 2,
            [1, 1],
            False,
            [0, 0],
            1,
            [place > 0, collect, collect and bias is not None],
        )
        if collect:
            torch.mul(weight, scale, out=self._gradients[place])
            if bias is not None:
                torch.mul(shift, scale, out=bias)
        return cast("Tensor | None", into)


def in_order(maps: Tensor) -> Tensor:
    """In the order of memory that convolutions of this device are quickest in."""
    if maps.device.type != "cpu":
        return maps
    return maps.contiguous(memory_format=torch.channels_last)


@dataclass
class _Kept:
    """What the backward pass needs of one network: what each convolution was fed, ending with the
    output of the last; pre-activations; what its gates were made from, σ(βq)."""

    fed: list[Tensor]
    pre: list[Tensor] = field(default_factory=list)
    share: list[Tensor] = field(default_factory=list)


class ConvStep:
    """Losses and gradients of one network that `is_chain_of_convolutions`, in its regime of the
    moment.

    `trained`: of the last call, what trains and by what it moves.
    """

    def __init__(self, network: GatedNetwork, kind: Loss) -> None:
        self._network = network
        self._kind: Loss = kind
        self._pooled = isinstance(network.architecture.nodes[-2], arch.GlobalAveragePool)
        self._losses: dict[int, LossSlope] = {}  # by the size of the batch
        self.trained: list[FlatWeights] = []
        self._groups: list[FlatWeights] = []

    def settle(self) -> None:
        """Lay the weights side by side, unless that is where they are; no step moves them away."""
        if self._groups and all(group.intact for group in self._groups):
            return
        network = self._network
        count = len(network.architecture.gated_shapes)
        groups: list[list[nn.Parameter]] = []
        for stack, used in ((network.value, count + 1), (network.feature, count)):
            both = (list(stack.weights)[:used], list(stack.biases)[:used])
            groups.append([cast(nn.Parameter, p) for own in both for p in own if p is not None])
        self._groups = side_by_side(groups)
        self._value, self._feature = (
            _Convolutions(stack, flat)
            for stack, flat in zip((network.value, network.feature), self._groups, strict=True)
        )
        self._head = _Head(network.value, self._groups[0])
        self._losses.clear()

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss () and logits (m, C) for x (m, *input_shape), y (m,); fills the gradients."""
        self.settle()
        network = self._network
        self._value.begin()
        x = in_order(x)
        features: _Kept | None = None
        if network.own_gates:
            passed, slopes = self._forward_own(x)
        else:
            self._feature.begin()
            features, made = self._forward_features(x)
            slopes = [route(made[source]) for source, route in self._wires()]
            passed = self._forward_values(x, slopes)
        last = passed.fed[-1]
        flat = last.mean(dim=(2, 3)) if self._pooled else last.flatten(1)
        logits = self._head(flat)
        if len(x) not in self._losses:
            self._losses[len(x)] = LossSlope(self._kind, logits)
        value, delta = self._losses[len(x)](logits, y)
        trains = network.trains or ("value", "feature")
        soft = network.gate.soft and not network.gate.open
        learns = "feature" in trains and soft and features is not None
        self.trained = [self._value.flat] if "value" in trains else []
        self.trained += [self._feature.flat] if learns else []
        into = self._head.back(delta, flat, "value" in trains)
        into = self._unpool(into, last)
        arrived = self._backward_values(passed, slopes, into, "value" in trains, learns)
        if learns and features is not None:
            self._backward_features(features, arrived)
        return value, logits

    def _wires(self) -> Iterator[tuple[int, Route]]:
        """Of each value layer: the gate layer that it uses, and the way there."""
        return zip(self._network.wiring, self._network.routes, strict=True)

    def _unpool(self, delta: Tensor, like: Tensor) -> Tensor:
        """dL/dz of the last convolution's gated output."""
        if not self._pooled:
            return in_order(delta.view(like.shape))
        height, width = like.shape[2:]
        return (delta / (height * width))[:, :, None, None].expand_as(like)

    def _forward_own(self, x: Tensor) -> tuple[_Kept, list[Tensor]]:
        """And dz/dq of each layer (nothing where gates are open)."""
        kept, slopes, gate = _Kept([x]), [], self._network.gate
        for place in range(len(self._value.nodes)):
            q = self._value(place, kept.fed[-1])
            if gate.open:
                z = q
            elif gate.soft:
                made = gate(q)
                z = q * made
                slopes.append(gate.through(q, made).add_(made))
            else:
                slopes.append((q > 0).to(q.dtype))
                z = q * slopes[-1]
            kept.fed.append(z)
        return kept, slopes

    def _forward_features(self, x: Tensor) -> tuple[_Kept, list[Tensor]]:
        """And the gates, before their ways."""
        kept, made, gate = _Kept([x]), [], self._network.gate
        linear = self._network.feature_activation == "linear"
        last = len(self._feature.nodes) - 1
        for place in range(last + 1):
            q = self._feature(place, kept.fed[-1])
            if place < last:  # χ^f is not softened with the gate (THEORY §1)
                kept.fed.append(q if linear else torch.relu(q))
            if gate.open:
                made.append(torch.ones_like(q))
            elif gate.soft:
                share = torch.mul(q, gate.beta, out=None if linear else q).sigmoid_()
                kept.share.append(share)
                made.append(share * (1.0 + gate.epsilon) if gate.epsilon else share)
            else:
                made.append((q > 0).to(q.dtype))
        return kept, made

    def _forward_values(self, x: Tensor, gates: Sequence[Tensor]) -> _Kept:
        network = self._network
        fed = network.input_of_value(x if network.value_input == "image" else x[:1])
        kept = _Kept([in_order(fed)])
        for place, gate in enumerate(gates):
            kept.pre.append(self._value(place, kept.fed[-1]))
            kept.fed.append(kept.pre[-1] * gate)
        return kept

    def _backward_values(
        self,
        passed: _Kept,
        slopes: Sequence[Tensor],
        into: Tensor,
        trains: bool,
        learns: bool,
    ) -> list[Tensor]:
        """From dL/dz of the last layer; returns dL/dG of each, where gates learn."""
        arrived: list[Tensor] = []
        for place in range(len(self._value.nodes) - 1, -1, -1):
            if learns:
                pre = passed.pre[place]
                arrived.append(torch.mul(into, pre, out=pre if len(pre) == len(into) else None))
            room = None if into.stride(3) == 0 else into  # one number for all positions has none
            delta = torch.mul(into, slopes[place], out=room) if slopes else into
            found = self._value.back(place, delta, passed.fed[place], trains)
            if found is not None:
                into = found
        return arrived[::-1]

    def _backward_features(self, kept: _Kept, arrived: Sequence[Tensor]) -> None:
        """`arrived`: dL/dG of each value layer.

        All of it is linear in them, so that the steepness of the gates multiplies the gradients.
        """
        gate = self._network.gate
        deltas: dict[int, Tensor] = {}
        for (source, route), delta in zip(self._wires(), arrived, strict=True):
            back = delta if route == STRAIGHT else route.transpose(delta)
            deltas[source] = _sigmoid_backward(back, kept.share[source], grad_input=back)
        scale = gate.beta * (1.0 + gate.epsilon)
        into: Tensor | None = None
        for place in range(len(self._feature.nodes) - 1, -1, -1):
            delta = deltas[place]
            if into is not None:
                if self._network.feature_activation != "linear":
                    _threshold_backward(into, kept.fed[place + 1], 0.0, grad_input=into)
                delta.add_(into)
            into = self._feature.back(place, delta, kept.fed[place], True, scale)


class _Head:
    """The dense layer behind the convolutions."""

    def __init__(self, stack: Stack, flat: FlatWeights) -> None:
        gradients = dict(zip(map(id, flat.parameters), flat.gradients, strict=True))
        weight = stack.weights[-1]
        bias = stack.biases[-1] if len(stack.biases) else None
        self._weight, self._gradient = cast(Tensor, weight).detach(), gradients[id(weight)]
        self._bias = None if bias is None else cast(Tensor, bias).detach()
        self._of_bias = None if bias is None else gradients[id(bias)]

    def __call__(self, z: Tensor) -> Tensor:
        return nn.functional.linear(z, self._weight, self._bias)

    def back(self, delta: Tensor, fed: Tensor, collect: bool) -> Tensor:
        """dL/dz for dL/dlogits; `collect`: the gradients go to their place."""
        if collect:
            torch.mm(delta.t(), fed, out=self._gradient)
            if self._of_bias is not None:
                torch.sum(delta, dim=0, out=self._of_bias)
        return torch.mm(delta, self._weight)
