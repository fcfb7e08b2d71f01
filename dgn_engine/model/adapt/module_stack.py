"""Weights of a network that belong to a module: read from it at every pass, never copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.adapt.module_calls import NormCall, ScaleCall
from dgn_engine.model.adapt.module_trace import layer_label
from dgn_engine.model.adapt.plain_access import copy_module, named_parts
from dgn_engine.model.choices import Initialisation
from dgn_engine.model.stack import LayerParameters, NormParameters, Stack

_IDLE = frozenset({"training", "momentum"})  # irrelevant in evaluation mode
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
Setting = tuple[object, ...]


@dataclass(frozen=True)
class ModuleState:
    """Types, settings (slopes, ε, strides …), hooks and parameter names of every layer of a module.

    Attributes:
        layers: Settings by layer.
        volatile: Pairs (layer, setting) that the module's own forward pass changes, such as a call
          counter.
    """

    layers: dict[str, dict[str, Setting]]
    volatile: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def from_module(cls, module: nn.Module) -> ModuleState:
        """Record the state of a module.

        Args:
            module: The module.

        Returns:
            The state.
        """
        numbers: dict[int, int] = {}
        parts = named_parts(module, remove_duplicate=False)
        return cls({name: dict(_layer_settings(part, numbers)) for name, part in parts})

    def changed_by(self, later: ModuleState) -> frozenset[tuple[str, str]]:
        """Compare with a later state.

        Args:
            later: The later state.

        Returns:
            Pairs (layer, setting) that differ or are gone, without volatile ones; settings that
            only the later state has do not count. '' stands for a layer's presence.
        """
        changes = {(name, "") for name in self.layers.keys() ^ later.layers.keys()}
        for name in self.layers.keys() & later.layers.keys():
            earlier_layer, later_layer = self.layers[name], later.layers[name]
            changes |= {
                (name, key)
                for key in earlier_layer.keys() & later_layer.keys()
                if earlier_layer[key] != later_layer[key]
            }
            changes |= {(name, key) for key in earlier_layer.keys() - later_layer.keys()}
        return frozenset(changes) - self.volatile

    def refuse_changes(self, module: nn.Module) -> None:
        """Check that a module has not changed.

        Args:
            module: The module now.

        Raises:
            ArgumentError: It has changed.
        """
        now = ModuleState.from_module(module)
        if now.layers == self.layers:
            return
        changes = self.changed_by(now)
        changed = sorted(changes, key=lambda pair: (pair[0], pair[1] != "kind", pair[1]))
        if not changed:
            return
        name, key = changed[0]
        part = dict(module.named_modules(remove_duplicate=False)).get(name)
        what = "the layers" if part is None else layer_label(name, part)
        detail = f" ({key})" if key else ""
        raise ArgumentError(
            f"The module has changed since it was adapted: {what}{detail} is different; adapt it "
            "again.",
            kind="changed",
        )


def _layer_settings(part: nn.Module, seen: dict[int, int]) -> Iterator[tuple[str, Setting]]:
    """Yield the settings of one layer."""
    yield "kind", (type(part),)
    held = vars(part)
    hooks = tuple(tuple(held[name]) for name in _HOOKS if held.get(name))
    yield "hooks", hooks
    yield "forward", ("forward" in held,)
    tensors = [*part._parameters.items(), *part._buffers.items()]
    yield (
        "parameters",
        tuple(
            (name, None if tensor is None else seen.setdefault(id(tensor), len(seen)))
            for name, tensor in tensors
        ),
    )
    idle = _IDLE | {"p"} if isinstance(part, nn.modules.dropout._DropoutNd) else _IDLE
    for name, value in held.items():
        if name[0] != "_" and name not in idle and _is_plain(value):
            yield name, (type(value), value)


def _is_plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


@dataclass(frozen=True)
class LayerSource:
    """The origin of a weight layer in a module.

    Attributes:
        where: The layer, for messages.
        weight: Name of its weight; `None` if channels are only scaled.
        bias: Name of its bias, or `None`.
        after: What is applied to each channel before the gate, in order.
    """

    where: str
    weight: str | None
    bias: str | None
    after: tuple[NormCall | ScaleCall, ...] = ()

    def parameter_names(self) -> tuple[str, ...]:
        """Return the names of weight, bias, γ and shifts.

        Returns:
            The names.
        """
        norms = [step for step in self.after if isinstance(step, NormCall)]
        pairs = [(self.weight, self.bias), *((norm.scale, norm.shift) for norm in norms)]
        return tuple(name for pair in pairs for name in pair if name is not None)

    def tensor_names(self) -> tuple[str, ...]:
        """Return the names of all parameters and BatchNorm statistics.

        Returns:
            The names.
        """
        norms = [step for step in self.after if isinstance(step, NormCall)]
        return (
            *self.parameter_names(),
            *(name for norm in norms for name in (norm.mean, norm.variance)),
        )

    @property
    def has_bias(self) -> bool:
        """Return whether the folded layer has a bias.

        Returns:
            `True` if the layer has a bias or a BatchNorm follows.
        """
        return self.bias is not None or any(isinstance(step, NormCall) for step in self.after)


class ModuleStack(Stack):
    """A `Stack` whose weights are the current ones of a module.

    Constant factors and BatchNorms (with running statistics) are folded in whenever they are read.
    The module is not a submodule: it is neither moved nor saved with the stack. If it no longer
    matches `state`, reading weights raises `ArgumentError`.

    Args:
        architecture: The network.
        sources: Where each weight layer comes from.
        module: The module.
        slopes: Slope of each gate layer, a number or the name of a parameter; empty for ReLU.
        state: State to compare the module with, or `None`.
    """

    def __init__(
        self,
        architecture: arch.Architecture,
        sources: Sequence[LayerSource],
        module: nn.Module,
        slopes: Sequence[float | str] = (),
        state: ModuleState | None = None,
    ) -> None:
        super().__init__(architecture, bias=[source.has_bias for source in sources])
        self._sources = tuple(sources)
        self._slopes = tuple(slopes)
        self._state = state
        self._module = (module,)  # in a tuple, so that torch does not register it
        self._register_parameters()

    def _register_parameters(self) -> None:
        """Register the current parameters of the module, which may have been replaced."""
        for layer, source in enumerate(self._sources):
            if source.weight is not None:
                self.weights[layer] = _as_parameter(self._named_tensor(source.weight))
            if len(self.biases):
                bias = source.bias
                self.biases[layer] = (
                    None if bias is None else _as_parameter(self._named_tensor(bias))
                )

    def __deepcopy__(self, memo: dict[int, object]) -> ModuleStack:
        """Copy the stack together with its module, without running code of the latter."""
        memo[id(self._module)] = (copy_module(self._module[0], memo),)
        copied = memo[id(self)] = type(self).__new__(type(self))
        vars(copied).update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        return copied

    def init_weights(
        self,
        init: Initialisation,
        generator: torch.Generator,
        sigma: float = 0.0,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Initialise the module's weights at random (see `Stack.init_weights`).

        Args:
            init: As for `Stack.init_weights`.
            generator: As for `Stack.init_weights`.
            sigma: As for `Stack.init_weights`.
            before_layer: As for `Stack.init_weights`.
        """
        self._register_parameters()
        super().init_weights(init, generator, sigma, before_layer)

    def load_layers(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
        """Copy weights into the module (see `Stack.load_layers`).

        Args:
            weights: As for `Stack.load_layers`.
            biases: As for `Stack.load_layers`.
        """
        self._register_parameters()
        super().load_layers(weights, biases)

    def slopes(self) -> tuple[Tensor, ...] | None:
        """Return the current slopes of each gate layer.

        Returns:
            `(1,)` or `(C,)` per gate layer; `None` if all are ReLU.
        """
        if not self._slopes:
            return None
        like = self.folded_tensors()[0][0].detach()
        return tuple(
            self._named_tensor(slope) if isinstance(slope, str) else like.new_tensor([slope])
            for slope in self._slopes
        )

    def trained_slopes(self) -> tuple[bool, ...]:
        """Return which slopes are parameters that train.

        Returns:
            One bool per gate layer, or an empty tuple if all are ReLU.
        """
        return tuple(
            isinstance(slope, str) and self._named_tensor(slope).requires_grad
            for slope in self._slopes
        )

    def _named_tensor(self, name: str) -> Tensor:
        return module_tensor(self._module[0], name)

    def _unnormalised_tensors(self) -> tuple[list[Tensor], list[Tensor | None]]:
        if self._state is not None:
            self._state.refuse_changes(self._module[0])
        pairs = zip(self.architecture.weight_layers, self._sources, strict=True)
        folded = [self._fold_layer(layer, source) for layer, source in pairs]
        return [weight for weight, _ in folded], [bias for _, bias in folded]

    def _fold_layer(
        self, layer: arch.Weighted, source: LayerSource
    ) -> tuple[Tensor, Tensor | None]:
        """Return weight and bias of a layer with everything that follows folded in."""
        weight = self._layer_weight(layer, source)
        bias = None if source.bias is None else self._named_tensor(source.bias)
        if weight.shape != arch.weight_shape(layer):
            raise UserError(
                f"{source.where} now has weights of shape {tuple(weight.shape)}; adapt the module "
                "again.",
                kind="wrong-shape",
            )
        for step in source.after:
            if isinstance(step, ScaleCall):
                weight, bias = step.factor * weight, None if bias is None else step.factor * bias
                continue
            slope, mean, shift = self._norm_factors(step)
            weight = weight * slope.reshape(-1, *[1] * (weight.dim() - 1))
            moved = -mean if bias is None else bias - mean
            bias = moved * slope if shift is None else moved * slope + shift
        return weight, bias

    def _trained_parameters(self) -> tuple[LayerParameters, ...]:
        pairs = zip(self.architecture.weight_layers, self._sources, strict=True)
        return tuple(self._parameters_of(layer, source) for layer, source in pairs)

    def _parameters_of(self, layer: arch.Weighted, source: LayerSource) -> LayerParameters:
        """Collect a layer's trained parameters, with the factors that follow each of them."""
        bias = None if source.bias is None else self._named_tensor(source.bias)
        current: tuple[Tensor, Tensor | None] = (self._layer_weight(layer, source), bias)
        steps: list[tuple[Tensor, NormParameters | None]] = []
        for step_call in source.after:
            if isinstance(step_call, ScaleCall):
                factor = current[0].new_full((1,), step_call.factor)
                current = _scale_channels(factor, *current)
                steps.append((factor, None))
                continue
            # u = (Wz + b − μ)/√(σ² + ε);  γu + β
            slope, mean, shift = self._norm_factors(step_call)
            centred = (current[0], -mean if current[1] is None else current[1] - mean)
            unit = _scale_channels(
                torch.rsqrt(self._named_tensor(step_call.variance) + step_call.epsilon), *centred
            )
            norm = NormParameters(
                unit if self._is_trained(step_call.scale) else None,
                self._is_trained(step_call.shift),
            )
            weight, moved = _scale_channels(slope, *centred)
            current = (weight, moved if shift is None or moved is None else moved + shift)
            steps.append((slope, norm))
        # What follows a normalisation multiplies its gradient: accumulate factors from the end.
        following: Tensor | None = None
        norms: list[NormParameters] = []
        for factor, step in reversed(steps):
            if step is not None and (step.unit is not None or step.shift):
                norms.append(replace(step, scale=following))
            following = factor if following is None else factor * following
        trained = (
            self._is_trained(source.bias),
            following,
            tuple(norms),
            self._is_trained(source.weight),
        )
        return LayerParameters(*trained)

    def layer_parameters(self, folded: bool = False) -> tuple[LayerParameters, ...]:
        """Return the trained parameters of each weight layer.

        Args:
            folded: Whether to treat the folded weights and biases as what is trained.

        Returns:
            One entry per weight layer.

        Raises:
            UserError: `folded` is set, but some parameters are frozen.
        """
        if folded and self.is_partly_frozen:
            raise UserError(
                "folded=True needs all parameters to train, but some are frozen.",
                kind="frozen",
            )
        return super().layer_parameters(folded)

    @property
    def is_partly_frozen(self) -> bool:
        """Return whether some of the module's parameters are frozen, slopes aside.

        Returns:
            `True` if a weight, bias, γ or shift does not require gradients.
        """
        return not all(
            self._is_trained(name) for source in self._sources for name in source.parameter_names()
        )

    def _is_trained(self, name: str | None) -> bool:
        return name is not None and self._named_tensor(name).requires_grad

    def _layer_weight(self, layer: arch.Weighted, source: LayerSource) -> Tensor:
        """Return the module's weight; ones if channels are only scaled."""
        if source.weight is not None:
            return self._named_tensor(source.weight)
        last = self._sources[-1].weight
        assert last is not None
        return self._named_tensor(last).detach().new_ones(layer.outputs)

    def _norm_factors(self, norm: NormCall) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return γ/√(σ² + ε), μ and β, `(C,)` each."""
        slope = torch.rsqrt(self._named_tensor(norm.variance) + norm.epsilon)
        if norm.scale is not None:
            slope = slope * self._named_tensor(norm.scale)
        shift = None if norm.shift is None else self._named_tensor(norm.shift)
        return slope, self._named_tensor(norm.mean), shift


def module_tensor(module: nn.Module, name: str) -> Tensor:
    """Return the current parameter or buffer of a module.

    Args:
        module: The module.
        name: Qualified name of the tensor.

    Returns:
        The tensor.
    """
    owner, _, attribute = name.rpartition(".")
    return cast(Tensor, getattr(module.get_submodule(owner), attribute))


def _scale_channels(
    factor: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Multiply the channels of a layer by `(C,)` or `(1,)` numbers."""
    by_channel = factor.reshape(-1, *[1] * (weight.dim() - 1))
    return weight * by_channel, None if bias is None else bias * factor


def _as_parameter(tensor: Tensor) -> nn.Parameter:
    """Return a tensor as a parameter; a buffer becomes one that does not train."""
    if isinstance(tensor, nn.Parameter):
        return tensor
    return nn.Parameter(tensor, requires_grad=False)  # a buffer
