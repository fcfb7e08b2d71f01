"""The weights of a network that belong to a module: read from it at every pass, never copied."""

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
from dgn_engine.model.adapt.module_trace import where_of
from dgn_engine.model.adapt.plain_access import copy_module, named_parts
from dgn_engine.model.choices import Initialisation
from dgn_engine.model.stack import LayerParameters, NormParameters, Stack

_IDLE = frozenset({"training", "momentum"})  # of no matter in evaluation
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
Setting = tuple[object, ...]


@dataclass(frozen=True)
class ModuleState:
    """Kinds, settings (slopes, ε, strides …), hooks and names of parameters of every layer.

    `volatile`: (layer, setting) that the module's own pass changes, such as a count of its calls.
    """

    layers: dict[str, dict[str, Setting]]
    volatile: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, module: nn.Module) -> ModuleState:
        seen: dict[int, int] = {}
        parts = named_parts(module, remove_duplicate=False)
        return cls({name: dict(_settings(part, seen)) for name, part in parts})

    def changed_by(self, later: ModuleState) -> frozenset[tuple[str, str]]:
        """The (layer, setting) in which a later state differs; '' stands for a layer's presence."""
        found = {(name, "") for name in self.layers.keys() ^ later.layers.keys()}
        for name in self.layers.keys() & later.layers.keys():
            one, two = self.layers[name], later.layers[name]
            found |= {(name, key) for key in one.keys() & two.keys() if one[key] != two[key]}
            found |= {(name, key) for key in one.keys() - two.keys()}
        return frozenset(found) - self.volatile

    def check(self, module: nn.Module) -> None:
        """Raise `ArgumentError` where the module is another one by now."""
        now = ModuleState.of(module)
        if now.layers == self.layers:
            return
        found = self.changed_by(now)
        changed = sorted(found, key=lambda pair: (pair[0], pair[1] != "kind", pair[1]))
        if not changed:
            return
        name, key = changed[0]
        part = dict(module.named_modules(remove_duplicate=False)).get(name)
        what = "the layers" if part is None else where_of(name, part)
        detail = f" ({key})" if key else ""
        raise ArgumentError(
            f"The module was changed after it was adapted: {what}{detail} is not as it was; adapt "
            "it again.",
            kind="changed",
        )


def _settings(part: nn.Module, seen: dict[int, int]) -> Iterator[tuple[str, Setting]]:
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
    """Where a weight layer comes from: names of its parameters in the module (no weight where
    channels are only scaled), and what is done to each channel of it before its gate, in order."""

    where: str
    weight: str | None
    bias: str | None
    after: tuple[NormCall | ScaleCall, ...] = ()

    def own(self) -> tuple[str, ...]:
        """Names of weight, bias, γ and shifts."""
        norms = [each for each in self.after if isinstance(each, NormCall)]
        pairs = [(self.weight, self.bias), *((norm.scale, norm.shift) for norm in norms)]
        return tuple(name for pair in pairs for name in pair if name is not None)

    def used(self) -> tuple[str, ...]:
        """`own` and the statistics of BatchNorms."""
        norms = [each for each in self.after if isinstance(each, NormCall)]
        return (*self.own(), *(name for norm in norms for name in (norm.mean, norm.variance)))

    @property
    def has_bias(self) -> bool:
        return self.bias is not None or any(isinstance(each, NormCall) for each in self.after)


class ModuleStack(Stack):
    """A `Stack` whose weights and biases are those of `module` at the time of asking, with factors
    and BatchNorms (as in evaluation, with the statistics gathered so far) folded in anew.

    The module is not a part of the stack: it is neither moved nor saved with it. Where it is
    another one than `state` says, its weights are asked for in vain (`ArgumentError`).
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
        self._module = (module,)  # in a tuple, so that it is not registered
        self._bind()

    def _bind(self) -> None:
        """Register the parameters that the module has now; it may have been given others."""
        for place, source in enumerate(self._sources):
            if source.weight is not None:
                self.weights[place] = _parameter(self._held(source.weight))
            if len(self.biases):
                bias = source.bias
                self.biases[place] = None if bias is None else _parameter(self._held(bias))

    def __deepcopy__(self, memo: dict[int, object]) -> ModuleStack:
        """With a copy of the module that runs none of its code."""
        memo[id(self._module)] = (copy_module(self._module[0], memo),)
        made = memo[id(self)] = type(self).__new__(type(self))
        vars(made).update({name: deepcopy(value, memo) for name, value in vars(self).items()})
        return made

    def draw(
        self,
        init: Initialisation,
        generator: torch.Generator,
        sigma: float = 0.0,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._bind()
        super().draw(init, generator, sigma, before_layer)

    def take(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> None:
        self._bind()
        super().take(weights, biases)

    def slopes(self) -> tuple[Tensor, ...] | None:
        if not self._slopes:
            return None
        like = self.tensors()[0][0].detach()
        return tuple(
            self._held(slope) if isinstance(slope, str) else like.new_tensor([slope])
            for slope in self._slopes
        )

    def trained_slopes(self) -> tuple[bool, ...]:
        return tuple(
            isinstance(slope, str) and self._held(slope).requires_grad for slope in self._slopes
        )

    def _held(self, name: str) -> Tensor:
        return held(self._module[0], name)

    def _scaled(self) -> tuple[list[Tensor], list[Tensor | None]]:
        if self._state is not None:
            self._state.check(self._module[0])
        pairs = zip(self.architecture.weighted, self._sources, strict=True)
        folded = [self._folded(layer, source) for layer, source in pairs]
        return [weight for weight, _ in folded], [bias for _, bias in folded]

    def _folded(self, layer: arch.Weighted, source: LayerSource) -> tuple[Tensor, Tensor | None]:
        weight = self._weight(layer, source)
        bias = None if source.bias is None else self._held(source.bias)
        if weight.shape != arch.weight_shape(layer):
            raise UserError(
                f"{source.where} has another shape by now, {tuple(weight.shape)}: adapt it again.",
                kind="wrong-shape",
            )
        for each in source.after:
            if isinstance(each, ScaleCall):
                weight, bias = each.factor * weight, None if bias is None else each.factor * bias
                continue
            slope, mean, shift = self._norm(each)
            weight = weight * slope.reshape(-1, *[1] * (weight.dim() - 1))
            moved = -mean if bias is None else bias - mean
            bias = moved * slope if shift is None else moved * slope + shift
        return weight, bias

    def _trained_parameters(self) -> tuple[LayerParameters, ...]:
        pairs = zip(self.architecture.weighted, self._sources, strict=True)
        return tuple(self._parameters_of(layer, source) for layer, source in pairs)

    def _parameters_of(self, layer: arch.Weighted, source: LayerSource) -> LayerParameters:
        """Weight, bias, γ and shifts of the module itself: each moves q by what is behind it."""
        bias = None if source.bias is None else self._held(source.bias)
        made: tuple[Tensor, Tensor | None] = (self._weight(layer, source), bias)
        steps: list[tuple[Tensor, NormParameters | None]] = []
        for each in source.after:
            if isinstance(each, ScaleCall):
                factor = made[0].new_full((1,), each.factor)
                made = _scaled_by(factor, *made)
                steps.append((factor, None))
                continue
            slope, mean, shift = self._norm(each)
            centred = (made[0], -mean if made[1] is None else made[1] - mean)
            unit = _scaled_by(torch.rsqrt(self._held(each.variance) + each.epsilon), *centred)
            norm = NormParameters(
                unit if self._trains(each.scale) else None, self._trains(each.shift)
            )
            weight, moved = _scaled_by(slope, *centred)
            made = (weight, moved if shift is None or moved is None else moved + shift)
            steps.append((slope, norm))
        behind: Tensor | None = None
        norms: list[NormParameters] = []
        for factor, step in reversed(steps):
            if step is not None and (step.unit is not None or step.shift):
                norms.append(replace(step, scale=behind))
            behind = factor if behind is None else factor * behind
        trained = (self._trains(source.bias), behind, tuple(norms), self._trains(source.weight))
        return LayerParameters(*trained)

    def layer_parameters(self, folded: bool = False) -> tuple[LayerParameters, ...]:
        if folded and self.frozen:
            raise UserError(
                "A part of its parameters is frozen: there is no kernel of folded weights of which "
                "a part does not train.",
                kind="frozen",
            )
        return super().layer_parameters(folded)

    @property
    def frozen(self) -> bool:
        return not all(self._trains(name) for source in self._sources for name in source.own())

    def _trains(self, name: str | None) -> bool:
        return name is not None and self._held(name).requires_grad

    def _weight(self, layer: arch.Weighted, source: LayerSource) -> Tensor:
        """As it is in the module; ones where channels are only scaled."""
        if source.weight is not None:
            return self._held(source.weight)
        last = self._sources[-1].weight
        assert last is not None
        return self._held(last).detach().new_ones(layer.outputs)

    def _norm(self, norm: NormCall) -> tuple[Tensor, Tensor, Tensor | None]:
        """γ / √(σ² + ε), μ and β, (C,) each."""
        slope = torch.rsqrt(self._held(norm.variance) + norm.epsilon)
        if norm.scale is not None:
            slope = slope * self._held(norm.scale)
        shift = None if norm.shift is None else self._held(norm.shift)
        return slope, self._held(norm.mean), shift


def held(module: nn.Module, name: str) -> Tensor:
    """The module's parameter or buffer of this name, now."""
    owner, _, own = name.rpartition(".")
    return cast(Tensor, getattr(module.get_submodule(owner), own))


def _scaled_by(factor: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """A layer whose channels are multiplied by (C,) or (1,) numbers."""
    by_channel = factor.reshape(-1, *[1] * (weight.dim() - 1))
    return weight * by_channel, None if bias is None else bias * factor


def _parameter(tensor: Tensor) -> nn.Parameter:
    if isinstance(tensor, nn.Parameter):
        return tensor
    return nn.Parameter(tensor, requires_grad=False)  # a buffer
