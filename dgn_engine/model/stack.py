"""A chain of weights: one network, run with its own gates or with gates that are given to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.model import architecture as arch
from dgn_engine.model.choices import Initialisation

EPSILON = 1e-5  # torch's own
MOMENTUM = 0.1


@dataclass(frozen=True)
class NormParameters:
    """A normalisation γ⊙u + shift of what a weight layer makes, its statistics constants.

    `unit`: weight and bias of the layer that makes u, where γ is trained; `shift`: it is trained.
    `scale` (outputs,) or (1,): what is behind multiplies by it; None: by 1.
    """

    unit: tuple[Tensor, Tensor | None] | None
    shift: bool
    scale: Tensor | None = None


@dataclass(frozen=True)
class LayerParameters:
    """Of a weight layer q = Wz + b: the parameters that W and b are made of.

    `bias`: a bias of its own is one. `scale` (outputs,) or (1,): W and b are so many times the
    weight and bias that are trained; None: they are these themselves. `weight`: it is trained; it
    is not where it is frozen, or where there is none (scaled channels).
    """

    bias: bool
    scale: Tensor | None = None
    norms: tuple[NormParameters, ...] = ()
    weight: bool = True

    @property
    def plain(self) -> bool:
        """Whether W and b are themselves what is trained."""
        return self.weight and self.scale is None and not self.norms

    @property
    def any_trained(self) -> bool:
        return self.weight or self.bias or bool(self.norms)


# Batch normalisation of one network: as published where it makes gates, γ alone where it does not.
#
# A network that gates itself, and a feature network, normalise each channel before its gate (Ioffe
# & Szegedy 2015, arXiv:1502.03167). A value network under the gates of another is not normalised:
# it keeps a learnable γ per channel, so that it stays linear in its inputs.
class BatchNorms(nn.Module):
    """γ, shift, running mean and variance of each normalised layer, (C,) each.

    `active`: normalise; else multiply by γ. `gathers`: by the statistics of each batch, which are
    gathered meanwhile; else by those gathered so far. Fresh, it changes nothing.
    """

    def __init__(self, architecture: arch.Architecture) -> None:
        super().__init__()
        self.widths = {
            place: layer.outputs
            for place, layer in enumerate(architecture.weighted)
            if isinstance(layer, arch.Conv) and layer.normal
        }
        widths = self.widths.values()
        self.scales = nn.ParameterList([torch.ones(width) for width in widths])
        self.shifts = nn.ParameterList([torch.zeros(width) for width in widths])
        for place, width in self.widths.items():
            self.register_buffer(f"mean_{place}", torch.zeros(width))
            self.register_buffer(f"variance_{place}", torch.ones(width))
        self._order = {place: number for number, place in enumerate(self.widths)}
        self.active = True
        self.gathers = False

    def _of(self, place: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """γ, shift, mean and variance of a weight layer."""
        number = self._order[place]
        scale, shift = cast(Tensor, self.scales[number]), cast(Tensor, self.shifts[number])
        mean, variance = (self.get_buffer(f"{name}_{place}") for name in ("mean", "variance"))
        return scale, shift, mean, variance

    def folded(
        self, place: int, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Weight and bias that do the same by themselves, with the statistics gathered so far."""
        if place not in self.widths:
            return weight, bias
        scale, shift, mean, variance = self._of(place)
        if not self.active:
            return weight * scale[:, None, None, None], None if bias is None else bias * scale
        slope = scale * torch.rsqrt(variance + EPSILON)
        moved = -mean if bias is None else bias - mean
        return weight * slope[:, None, None, None], moved * slope + shift

    def parts(
        self, place: int, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, NormParameters]:
        """Of a normalised layer: what multiplies its weight when it is folded, (C,), and what is
        trained of its normalisation."""
        scale, _, mean, variance = self._of(place)
        if not self.active:
            return scale, NormParameters((weight, bias), shift=False)
        root = torch.rsqrt(variance + EPSILON)
        moved = -mean if bias is None else bias - mean
        unit = weight * root[:, None, None, None], moved * root
        return scale * root, NormParameters(unit, shift=True)

    def by_batch(self, place: int, q: Tensor) -> Tensor:
        """What a weight layer makes, (n, C, H, W), by this batch's statistics; gathers them."""
        if place not in self.widths:
            return q
        scale, shift, mean, variance = self._of(place)
        return F.batch_norm(q, mean, variance, scale, shift, True, MOMENTUM, EPSILON)

    @torch.no_grad()
    def stands_for(self, place: int, bias: Tensor | None) -> bool:
        """Of a layer that was folded before: only a shift by its bias; whether it took that."""
        if place not in self.widths:
            return False
        scale, shift, mean, variance = self._of(place)
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
        """As if nothing had been learnt or gathered."""
        for place in self.widths:
            for tensor, value in zip(self._of(place), (1.0, 0.0, 0.0, 1.0), strict=True):
                tensor.fill_(value)

    @torch.no_grad()
    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Everything from the `state_dict` of another; raises `KeyError` where it lacks one."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(tensors[name])


@dataclass(frozen=True)
class Trace:
    """Everything one pass computed, for n examples.

    `inputs[l]`: what weight layer l was fed, (n, a) or (n, C, H, W); `pre[l]`: what gate layer l
    was made from and `gates[l]` what it multiplied it with; `output`: (n, classes).
    `masks[i]`: for max pooling i, the flat position (n, C, H', W') that each output was taken from.
    """

    inputs: tuple[Tensor, ...]
    pre: tuple[Tensor, ...]
    gates: tuple[Tensor, ...]
    output: Tensor
    masks: tuple[Tensor, ...] = ()


def apply_weight(layer: arch.Weighted, weight: Tensor, bias: Tensor | None, z: Tensor) -> Tensor:
    """One weight layer without its gate."""
    if isinstance(layer, arch.ChannelScale):
        axes = (-1, *[1] * (z.dim() - 2))
        scaled = z * weight.reshape(axes)
        return scaled if bias is None else scaled + bias.reshape(axes)
    if isinstance(layer, arch.Dense):
        return F.linear(z, weight, bias)
    if layer.circular:
        z = F.pad(z, (layer.padding,) * 4, mode="circular")
    return F.conv2d(z, weight, bias, layer.stride, 0 if layer.circular else layer.padding)


def run(
    architecture: arch.Architecture,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
    x: Tensor,
    gate: Callable[[int, Tensor], Tensor],
    masks: Sequence[Tensor] | None = None,
    normal: Callable[[int, Tensor], Tensor] | None = None,
) -> Trace:
    """Pass x (n, *input_shape) through the chain; `gate(l, q)` gives G_l, and z_l = q_l ⊙ G_l.

    Max pooling takes what `masks` name, or its own largest where None are given. `normal`, where
    it is given, is applied to what each weight layer makes.
    """
    inputs: list[Tensor] = []
    taken: list[Tensor] = []
    pre: list[Tensor] = []
    gates: list[Tensor] = []
    kept: list[Tensor] = []  # of the open blocks: what their skips begin with, then their ends
    z = x
    for node in architecture.nodes:
        match node:
            case arch.GlobalAveragePool():
                z = z.mean(dim=(2, 3))
            case arch.AveragePool():
                z = F.avg_pool2d(z, node.kernel, node.stride)
            case arch.MaxPool() | arch.GlobalMaxPool():
                mask = argmax(node, z) if masks is None else masks[len(taken)]
                taken.append(mask)
                z = z.flatten(2).gather(2, mask.flatten(2)).reshape(mask.shape)
                z = z.flatten(1) if isinstance(node, arch.GlobalMaxPool) else z
            case arch.Flatten():
                z = z.flatten(1)
            case arch.Fork():
                kept.append(z)
            case arch.Skip():
                z, kept[-1] = kept[-1], z
            case arch.Merge():
                z = node.post * (node.pre * kept.pop() + z)
            case arch.Dense() | arch.Conv() | arch.ChannelScale():
                place = len(inputs)
                inputs.append(z)
                z = apply_weight(node, weights[place], biases[place], z)
                z = z if normal is None else normal(place, z)
        if arch.is_gated(node):
            pre.append(z)
            gates.append(gate(len(gates), z))
            z = z * gates[-1]
    return Trace(tuple(inputs), tuple(pre), tuple(gates), z, tuple(taken))


def argmax(node: arch.MaxPool | arch.GlobalMaxPool, z: Tensor) -> Tensor:
    """Flat positions of the largest of each window: (n, C, H', W') for maps (n, C, H, W)."""
    if isinstance(node, arch.GlobalMaxPool):
        return z.detach().flatten(2).argmax(2)[..., None, None]
    sizes = ([node.kernel] * 2, [node.stride] * 2, [node.padding] * 2)
    indices: Tensor = F.max_pool2d_with_indices(z.detach(), *sizes)[1]
    return indices


class Stack(nn.Module):
    """The weights of one network: `weights.l` and, where there are any, `biases.l`.

    `bias`: for all layers, or for each of them; `biases` is empty where none has one, and None
    stands for a layer without one.
    """

    def __init__(
        self, architecture: arch.Architecture, bias: bool | Sequence[bool] = False
    ) -> None:
        super().__init__()
        self.architecture = architecture
        layers = architecture.weighted
        each = [bias] * len(layers) if isinstance(bias, bool) else list(bias)
        self.weights = nn.ParameterList([torch.zeros(arch.weight_shape(layer)) for layer in layers])
        biases = [
            torch.zeros(layer.outputs) if has else None
            for layer, has in zip(layers, each, strict=True)
        ]
        self.biases = nn.ParameterList(biases if any(each) else [])
        self.normalisation = BatchNorms(architecture) if architecture.normalised else None
        self._factors = [layer.factor if isinstance(layer, arch.Dense) else 1.0 for layer in layers]

    def tensors(self) -> tuple[list[Tensor], list[Tensor | None]]:
        """Weights and biases, one of each per weight layer (None where there is no bias), with all
        that multiplies or moves them folded in: constants, γ, statistics of a normalisation."""
        weights, biases = self._scaled()
        if self.normalisation is None:
            return weights, biases
        pairs = zip(weights, biases, strict=True)
        folded = [self.normalisation.folded(place, *pair) for place, pair in enumerate(pairs)]
        return [weight for weight, _ in folded], [bias for _, bias in folded]

    def _scaled(self) -> tuple[list[Tensor], list[Tensor | None]]:
        weights = [cast(Tensor, weight) for weight in self.weights]
        biases: list[Tensor | None] = [cast("Tensor | None", bias) for bias in self.biases]
        biases = biases or [None] * len(weights)
        for place, factor in enumerate(self._factors):
            if factor != 1.0:
                bias = biases[place]
                weights[place] = factor * weights[place]
                biases[place] = None if bias is None else factor * bias
        return weights, biases

    def layer_parameters(self, folded: bool = False) -> tuple[LayerParameters, ...]:
        """What is trained of each weight layer; `folded`: as if that were what `tensors` gives."""
        if folded:
            return tuple(LayerParameters(bias is not None) for bias in self.tensors()[1])
        return self._trained_parameters()

    def _trained_parameters(self) -> tuple[LayerParameters, ...]:
        weights, biases = self._scaled()
        found = [
            LayerParameters(
                bias is not None, None if factor == 1.0 else weight.new_full((1,), factor)
            )
            for weight, bias, factor in zip(weights, biases, self._factors, strict=True)
        ]
        if self.normalisation is not None:
            for place in self.normalisation.widths:
                slope, norm = self.normalisation.parts(place, weights[place], biases[place])
                found[place] = LayerParameters(biases[place] is not None, slope, (norm,))
        return tuple(found)

    def slopes(self) -> tuple[Tensor, ...] | None:
        """Of each gate layer the slopes for negative inputs, (1,) or (C,); None: all are ReLU."""
        return None

    @property
    def frozen(self) -> bool:
        """Whether a part of it does not train though the rest does (frozen layers of a module)."""
        return False

    def trained_slopes(self) -> tuple[bool, ...]:
        """Of each gate layer, whether its slopes are parameters that train."""
        return ()

    def run(
        self,
        x: Tensor,
        gate: Callable[[int, Tensor], Tensor],
        masks: Sequence[Tensor] | None = None,
    ) -> Trace:
        normal = self.normalisation
        if normal is None or not normal.gathers:
            return run(self.architecture, *self.tensors(), x, gate, masks)
        return run(self.architecture, *self._scaled(), x, gate, masks, normal.by_batch)

    def has_room_for(self, biases: Sequence[Tensor | None]) -> bool:
        """Whether imported biases can be taken: as biases, or by a normalisation."""
        normal = self.normalisation
        takes = normal.widths if normal is not None and normal.active else {}
        needed = any(bias is not None for place, bias in enumerate(biases) if place not in takes)
        return bool(len(self.biases)) or not needed

    @torch.no_grad()
    def take(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
        """Imported layers in the place of the first ones, normalisations folded in; a bias that
        is not given becomes zero."""
        for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            self.weights[place].copy_(weight)
            if self.normalisation is not None and self.normalisation.stands_for(place, bias):
                bias = None
            if len(self.biases):
                target = self.biases[place]
                target.copy_(bias) if bias is not None else target.zero_()

    @torch.no_grad()
    def draw(
        self,
        init: Initialisation,
        generator: torch.Generator,
        sigma: float = 0.0,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Draw fresh weights in place; biases become zero. `before_layer` is told the numbers of
        each layer, and may raise.

        'kaiming': N(0, 2/fan_in); 'bernoulli': ±σ with equal chance, σ = √(2/fan_in) unless given
        (THEORY §4, normalising choice); 'glorot': U(±√(6/(fan_in+fan_out))) as Keras draws it.
        Drawn on the CPU, and in float32 for weights in float32, so that a seed means the same
        weights on every device and whatever torch's default dtype is.
        """
        for layer, weight in zip(self.architecture.weighted, self.weights, strict=True):
            if isinstance(layer, arch.ChannelScale):
                weight.fill_(1.0)  # as γ of a new BatchNorm
                continue
            before_layer(weight.numel())
            dtype = torch.float32 if weight.dtype == torch.float32 else torch.get_default_dtype()
            weight.copy_(_fresh(layer, init, generator, sigma, dtype))
        for bias in self.biases:
            if bias is not None:
                bias.zero_()
        if self.normalisation is not None:
            self.normalisation.reset()


def _fresh(
    layer: arch.Weighted,
    init: Initialisation,
    generator: torch.Generator,
    sigma: float,
    dtype: torch.dtype,
) -> Tensor:
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
