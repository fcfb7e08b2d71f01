"""The weights of one network, which runs with its own gates or with given ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.model import architecture as arch
from dgn_engine.model.choices import Initialisation

EPSILON = 1e-5  # torch's default
MOMENTUM = 0.1


@dataclass(frozen=True)
class NormParameters:
    """Trained parameters of a normalisation γ ⊙ u + shift of a layer's output.

    Its statistics are constants.

    Attributes:
        unit: Weight and bias of the layer that computes u, if γ is trained.
        shift: Whether the shift is trained.
        scale: Factor of everything that follows, `(outputs,)` or `(1,)`; `None` for 1.
    """

    unit: tuple[Tensor, Tensor | None] | None
    shift: bool
    scale: Tensor | None = None


@dataclass(frozen=True)
class LayerParameters:
    """The trained parameters behind W and b of a weight layer q = Wz + b.

    Attributes:
        bias: Whether a bias of its own is trained.
        scale: W and b are this times the trained weight and bias, `(outputs,)` or `(1,)`; `None` if
          they are trained directly.
        norms: Trained parameters of its normalisations.
        weight: Whether its weight is trained; not if it is frozen, or there is none (scaled
          channels).
    """

    bias: bool
    scale: Tensor | None = None
    norms: tuple[NormParameters, ...] = ()
    weight: bool = True

    @property
    def is_plain(self) -> bool:
        """Return whether W and b themselves are what is trained.

        Returns:
            `True` without scale, normalisation or frozen weight.
        """
        return self.weight and self.scale is None and not self.norms

    @property
    def any_trained(self) -> bool:
        """Return whether any parameter of the layer is trained.

        Returns:
            `True` if its weight, bias or a normalisation is.
        """
        return self.weight or self.bias or bool(self.norms)


# Networks that make gates (those with their own gates, and feature networks) normalise each channel
# before its gate (Ioffe & Szegedy 2015, arXiv:1502.03167). A value network under the gates of
# another is not normalised: it only has a learnable γ per channel, so that it stays linear in its
# inputs.
class BatchNorms(nn.Module):
    """γ, shift, running mean and variance of each normalised layer, `(C,)` each.

    A fresh instance changes nothing.

    Args:
        architecture: The network.

    Attributes:
        active: Whether to normalise; otherwise channels are only multiplied by γ.
        gathers: Whether to normalise by the statistics of each batch and update the running ones;
          otherwise by the running ones.
    """

    def __init__(self, architecture: arch.Architecture) -> None:
        super().__init__()
        self.widths = {
            layer_index: layer.outputs
            for layer_index, layer in enumerate(architecture.weight_layers)
            if isinstance(layer, arch.Conv) and layer.normal
        }
        widths = self.widths.values()
        self.scales = nn.ParameterList([torch.ones(width) for width in widths])
        self.shifts = nn.ParameterList([torch.zeros(width) for width in widths])
        for layer_index, width in self.widths.items():
            self.register_buffer(f"mean_{layer_index}", torch.zeros(width))
            self.register_buffer(f"variance_{layer_index}", torch.ones(width))
        self._order = {layer_index: number for number, layer_index in enumerate(self.widths)}
        self.active = True
        self.gathers = False

    def _norm_tensors(self, layer: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return γ, shift, mean and variance of a weight layer."""
        number = self._order[layer]
        scale, shift = cast(Tensor, self.scales[number]), cast(Tensor, self.shifts[number])
        mean, variance = (self.get_buffer(f"{name}_{layer}") for name in ("mean", "variance"))
        return scale, shift, mean, variance

    def fold_into(
        self, layer: int, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Fold the normalisation, with running statistics, into a layer.

            W' = γ W/√(σ² + ε),   b' = γ (b − μ)/√(σ² + ε) + β

        If it is not `active`, W' = γ W and b' = γ b.

        Args:
            layer: The weight layer.
            weight: W.
            bias: b, or `None`.

        Returns:
            W' and b'; unchanged for a layer that is not normalised.
        """
        if layer not in self.widths:
            return weight, bias
        scale, shift, mean, variance = self._norm_tensors(layer)
        if not self.active:
            return weight * scale[:, None, None, None], None if bias is None else bias * scale
        # γ(Wz + b − μ)/√(σ² + ε) + β = W'z + b'
        slope = scale * torch.rsqrt(variance + EPSILON)
        moved = -mean if bias is None else bias - mean
        return weight * slope[:, None, None, None], moved * slope + shift

    def trained_parts(
        self, layer: int, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, NormParameters]:
        """Return the trained parameters of a normalised layer.

        Args:
            layer: The weight layer.
            weight: W.
            bias: b, or `None`.

        Returns:
            Factor of the weight when folded, `(C,)`, and what is trained of its normalisation.
        """
        scale, _, mean, variance = self._norm_tensors(layer)
        if not self.active:
            return scale, NormParameters((weight, bias), shift=False)
        root = torch.rsqrt(variance + EPSILON)
        moved = -mean if bias is None else bias - mean
        unit = weight * root[:, None, None, None], moved * root
        return scale * root, NormParameters(unit, shift=True)

    def normalise_batch(self, layer: int, q: Tensor) -> Tensor:
        """Normalise by batch statistics and update the running ones.

        Args:
            layer: The weight layer.
            q: Its output, `(n, C, H, W)`.

        Returns:
            The normalised output; unchanged for a layer that is not normalised.
        """
        if layer not in self.widths:
            return q
        scale, shift, mean, variance = self._norm_tensors(layer)
        return F.batch_norm(q, mean, variance, scale, shift, True, MOMENTUM, EPSILON)

    @torch.no_grad()
    def absorb_bias(self, layer: int, bias: Tensor | None) -> bool:
        """Reset a layer whose normalisation was already folded, and keep its bias as the shift.

        Args:
            layer: The weight layer.
            bias: Its bias, or `None`.

        Returns:
            Whether the normalisation took over the bias.
        """
        if layer not in self.widths:
            return False
        scale, shift, mean, variance = self._norm_tensors(layer)
        scale.fill_(1.0)
        mean.zero_()
        variance.fill_(1.0 - EPSILON)
        if bias is None or not self.active:
            shift.zero_()
        else:
            shift.copy_(bias)
        return self.active

    @torch.no_grad()
    def reset(self) -> None:
        """Reset parameters and statistics to their initial values."""
        for layer in self.widths:
            for tensor, value in zip(self._norm_tensors(layer), (1.0, 0.0, 0.0, 1.0), strict=True):
                tensor.fill_(value)

    @torch.no_grad()
    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Copy everything from another instance.

        Args:
            tensors: Its `state_dict`.

        Raises:
            KeyError: A tensor is missing.
        """
        for name, tensor in self.state_dict().items():
            tensor.copy_(tensors[name])


@dataclass(frozen=True)
class Trace:
    """All intermediate values of one pass of n examples.

    Attributes:
        inputs: Inputs of weight layer l, `(n, a)` or `(n, C, H, W)`.
        pre: Pre-activations q_l of gate layer l.
        gates: Gates G_l, which multiply q_l.
        output: Logits, `(n, classes)`.
        masks: For each max pooling, the flat position of each maximum, `(n, C, H', W')`.
    """

    inputs: tuple[Tensor, ...]
    pre: tuple[Tensor, ...]
    gates: tuple[Tensor, ...]
    output: Tensor
    masks: tuple[Tensor, ...] = ()


def apply_weight(layer: arch.Weighted, weight: Tensor, bias: Tensor | None, z: Tensor) -> Tensor:
    """Apply a weight layer without its gate.

    Args:
        layer: The layer.
        weight: Its weight.
        bias: Its bias, or `None`.
        z: Its input, `(n, ...)`.

    Returns:
        Wz + b.
    """
    if isinstance(layer, arch.ChannelScale):
        axes = (-1, *[1] * (z.dim() - 2))
        scaled = z * weight.reshape(axes)
        return scaled if bias is None else scaled + bias.reshape(axes)
    if isinstance(layer, arch.Dense):
        return F.linear(z, weight, bias)
    if layer.circular:
        z = F.pad(z, (layer.padding,) * 4, mode="circular")
    return F.conv2d(z, weight, bias, layer.stride, 0 if layer.circular else layer.padding)


def run_chain(
    architecture: arch.Architecture,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
    x: Tensor,
    gate: Callable[[int, Tensor], Tensor],
    masks: Sequence[Tensor] | None = None,
    normal: Callable[[int, Tensor], Tensor] | None = None,
) -> Trace:
    """Run inputs through a chain of nodes, with z_l = q_l ⊙ G_l.

    Args:
        architecture: The chain.
        weights: Weight of each weight layer.
        biases: Bias of each weight layer, or `None`.
        x: Inputs, `(n, *input_shape)`.
        gate: Function of layer l and q_l that returns G_l.
        masks: Positions that max pooling selects. Default: the maxima of this pass.
        normal: Function of a weight layer and its output, applied to the latter.

    Returns:
        All intermediate values.
    """
    inputs: list[Tensor] = []
    taken_masks: list[Tensor] = []
    pre: list[Tensor] = []
    gates: list[Tensor] = []
    pending: list[Tensor] = []  # for each open block, the input of its skip, then its output
    z = x
    for node in architecture.nodes:
        match node:
            case arch.GlobalAveragePool():
                z = z.mean(dim=(2, 3))
            case arch.AveragePool():
                z = F.avg_pool2d(z, node.kernel, node.stride)
            case arch.MaxPool() | arch.GlobalMaxPool():
                mask = pool_argmax(node, z) if masks is None else masks[len(taken_masks)]
                taken_masks.append(mask)
                z = z.flatten(2).gather(2, mask.flatten(2)).reshape(mask.shape)
                z = z.flatten(1) if isinstance(node, arch.GlobalMaxPool) else z
            case arch.Flatten():
                z = z.flatten(1)
            case arch.FromInput():
                z = x
            case arch.Fork():
                pending.append(z)
            case arch.Skip():
                z, pending[-1] = pending[-1], z
            case arch.Merge():
                z = node.post * (node.pre * pending.pop() + z)
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                layer = len(inputs)
                inputs.append(z)
                z = apply_weight(node, weights[layer], biases[layer], z)
                z = z if normal is None else normal(layer, z)
        if arch.is_gated(node):
            pre.append(z)
            gates.append(gate(len(gates), z))
            z = z * gates[-1]  # z_l = q_l ⊙ G_l
    return Trace(tuple(inputs), tuple(pre), tuple(gates), z, tuple(taken_masks))


def pool_argmax(node: arch.MaxPool | arch.GlobalMaxPool, z: Tensor) -> Tensor:
    """Return the flat position of the maximum of each window.

    Args:
        node: The max pooling.
        z: Maps, `(n, C, H, W)`.

    Returns:
        Positions, `(n, C, H', W')`, int64.
    """
    if isinstance(node, arch.GlobalMaxPool):
        return z.detach().flatten(2).argmax(2)[..., None, None]
    sizes = ([node.kernel] * 2, [node.stride] * 2, [node.padding] * 2)
    indices: Tensor = F.max_pool2d_with_indices(z.detach(), *sizes)[1]
    return indices


class Stack(nn.Module):
    """The weights of one network.

    Args:
        architecture: The network.
        bias: Whether layers have biases: one value for all, or one per layer.

    Attributes:
        weights: One parameter per weight layer.
        biases: One parameter per weight layer, `None` for a layer without bias; empty if no layer
          has one.
        normalisation: The batch normalisations, or `None`.
    """

    def __init__(
        self, architecture: arch.Architecture, bias: bool | Sequence[bool] = False
    ) -> None:
        super().__init__()
        self.architecture = architecture
        layers = architecture.weight_layers
        has_bias = [bias] * len(layers) if isinstance(bias, bool) else list(bias)
        self.weights = nn.ParameterList([torch.zeros(arch.weight_shape(layer)) for layer in layers])
        biases = [
            torch.zeros(layer.outputs) if has else None
            for layer, has in zip(layers, has_bias, strict=True)
        ]
        self.biases = nn.ParameterList(biases if any(has_bias) else [])
        self.normalisation = BatchNorms(architecture) if architecture.has_batch_norm else None
        self._factors = [layer.factor if isinstance(layer, arch.Dense) else 1.0 for layer in layers]

    def folded_tensors(self) -> tuple[list[Tensor], list[Tensor | None]]:
        """Return the folded weights and biases.

        Constant factors, γ and statistics of normalisations are folded in.

        Returns:
            One weight and one bias (or `None`) per weight layer.
        """
        weights, biases = self._unnormalised_tensors()
        if self.normalisation is None:
            return weights, biases
        pairs = zip(weights, biases, strict=True)
        folded = [self.normalisation.fold_into(layer, *pair) for layer, pair in enumerate(pairs)]
        return [weight for weight, _ in folded], [bias for _, bias in folded]

    def _unnormalised_tensors(self) -> tuple[list[Tensor], list[Tensor | None]]:
        """Return weights and biases with constant factors, before normalisation."""
        weights = [cast(Tensor, weight) for weight in self.weights]
        biases: list[Tensor | None] = [cast("Tensor | None", bias) for bias in self.biases]
        biases = biases or [None] * len(weights)
        for layer, factor in enumerate(self._factors):
            if factor != 1.0:
                bias = biases[layer]
                weights[layer] = factor * weights[layer]
                biases[layer] = None if bias is None else factor * bias
        return weights, biases

    def layer_parameters(self, folded: bool = False) -> tuple[LayerParameters, ...]:
        """Return the trained parameters of each weight layer.

        Args:
            folded: Whether to treat the folded weights and biases as what is trained.

        Returns:
            One entry per weight layer.
        """
        if folded:
            return tuple(LayerParameters(bias is not None) for bias in self.folded_tensors()[1])
        return self._trained_parameters()

    def _trained_parameters(self) -> tuple[LayerParameters, ...]:
        """Return the parameters that are trained, before anything is folded."""
        weights, biases = self._unnormalised_tensors()
        parameters = [
            LayerParameters(
                bias is not None, None if factor == 1.0 else weight.new_full((1,), factor)
            )
            for weight, bias, factor in zip(weights, biases, self._factors, strict=True)
        ]
        if self.normalisation is not None:
            for index in self.normalisation.widths:
                slope, norm = self.normalisation.trained_parts(index, weights[index], biases[index])
                parameters[index] = LayerParameters(biases[index] is not None, slope, (norm,))
        return tuple(parameters)

    def slopes(self) -> tuple[Tensor, ...] | None:
        """Return the slopes of each gate layer for negative inputs.

        Returns:
            `(1,)` or `(C,)` per gate layer; `None` if all are ReLU.
        """
        return None

    @property
    def is_partly_frozen(self) -> bool:
        """Return whether some parameters are frozen although others train (as in a module).

        Returns:
            Always `False` here.
        """
        return False

    def trained_slopes(self) -> tuple[bool, ...]:
        """Return which gate layers have slopes that train.

        Returns:
            One bool per gate layer, or an empty tuple.
        """
        return ()

    def run(
        self,
        x: Tensor,
        gate: Callable[[int, Tensor], Tensor],
        masks: Sequence[Tensor] | None = None,
    ) -> Trace:
        """Run inputs through the network.

        Args:
            x: Inputs, `(n, *input_shape)`.
            gate: Function of layer l and q_l that returns G_l.
            masks: Positions that max pooling selects. Default: the maxima of this pass.

        Returns:
            All intermediate values.
        """
        normal = self.normalisation
        if normal is None or not normal.gathers:
            return run_chain(self.architecture, *self.folded_tensors(), x, gate, masks)
        return run_chain(
            self.architecture, *self._unnormalised_tensors(), x, gate, masks, normal.normalise_batch
        )

    def accepts_biases(self, biases: Sequence[Tensor | None]) -> bool:
        """Check whether imported biases can be stored, as biases or in a normalisation.

        Args:
            biases: Bias of each layer, or `None`.

        Returns:
            Whether they can.
        """
        normal = self.normalisation
        absorbing = normal.widths if normal is not None and normal.active else {}
        needed = any(
            bias is not None for layer, bias in enumerate(biases) if layer not in absorbing
        )
        return bool(len(self.biases)) or not needed

    @torch.no_grad()
    def load_layers(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
        """Copy imported weights into the first layers; a missing bias becomes zero.

        Args:
            weights: Weights of the first layers, with normalisations folded in.
            biases: Their biases, or `None`.
        """
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            self.weights[layer].copy_(weight)
            if self.normalisation is not None and self.normalisation.absorb_bias(layer, bias):
                bias = None
            if len(self.biases):
                target = self.biases[layer]
                target.copy_(bias) if bias is not None else target.zero_()

    @torch.no_grad()
    def init_weights(
        self,
        init: Initialisation,
        generator: torch.Generator,
        sigma: float = 0.0,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Initialise the weights at random, in place; biases become zero.

        Random numbers are drawn on the CPU, in float32 for float32 weights, so that a seed gives
        the same weights on every device and for every default dtype of torch.

        Args:
            init: 'kaiming' for N(0, 2/fan_in); 'bernoulli' for ±σ with equal probability (THEORY
              §4); 'glorot' for U(±√(6/(fan_in + fan_out))), as in Keras.
            generator: Source of randomness.
            sigma: σ of 'kaiming' and 'bernoulli'. Default: √(2/fan_in).
            before_layer: Called with the number of weights before each layer; it may raise to stop.
        """
        for layer, weight in zip(self.architecture.weight_layers, self.weights, strict=True):
            if isinstance(layer, arch.ChannelScale):
                weight.fill_(1.0)  # like γ of a new BatchNorm
                continue
            before_layer(weight.numel())
            dtype = torch.float32 if weight.dtype == torch.float32 else torch.get_default_dtype()
            weight.copy_(_draw_weight(layer, init, generator, sigma, dtype))
        for bias in self.biases:
            if bias is not None:
                bias.zero_()
        if self.normalisation is not None:
            self.normalisation.reset()


def _draw_weight(
    layer: arch.Weighted,
    init: Initialisation,
    generator: torch.Generator,
    sigma: float,
    dtype: torch.dtype,
) -> Tensor:
    """Draw the weight of one layer."""
    shape, inputs = arch.weight_shape(layer), arch.fan_in(layer)
    scale: float = sigma or (2.0 / inputs) ** 0.5
    if init == "bernoulli":
        signs: Tensor = torch.randint(0, 2, shape, generator=generator)
        return scale * (2.0 * signs.to(dtype) - 1.0)
    if init == "glorot":
        outputs = layer.outputs * (layer.kernel**2 if isinstance(layer, arch.Conv) else 1)
        bound: float = (6.0 / (inputs + outputs)) ** 0.5
        uniform: Tensor = torch.rand(shape, generator=generator, dtype=dtype)
        return bound * (2.0 * uniform - 1.0)
    normal: Tensor = torch.randn(shape, generator=generator, dtype=dtype)
    return scale * normal
