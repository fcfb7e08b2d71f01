"""What a module consists of beside its numbers, so that a change of it after `adapt` is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from dgn_engine.errors import ArgumentError
from dgn_engine.model.importing.module_trace import where_of
from dgn_engine.model.importing.plain_access import named_parts

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
    def of(
        cls, module: nn.Module, volatile: frozenset[tuple[str, str]] = frozenset()
    ) -> ModuleState:
        seen: dict[int, int] = {}
        parts = named_parts(module, remove_duplicate=False)
        return cls({name: dict(_settings(part, seen)) for name, part in parts}, volatile)

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
            "it again."
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
