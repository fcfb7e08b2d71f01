"""Networks by name: one file each with the constant NET."""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.architecture import Architecture
from dgn_engine.config import NetConfig, OptionValue
from dgn_engine.discovery import discover
from dgn_engine.nets._net import Net
from dgn_engine.protocol.catalogue import NetEntry, OptionField
from dgn_engine.refusal import Refusal

__all__ = ["Net", "all_nets", "build_architecture", "net_entries"]


def all_nets() -> dict[str, Net]:
    """Every network by id."""
    return discover("dgn_engine.nets", "NET", Net)


def net_entries() -> tuple[NetEntry, ...]:
    """The networks with their forms, as the viewer shows them."""
    return tuple(NetEntry(name, net.title, net.options) for name, net in all_nets().items())


def build_architecture(
    config: NetConfig, input_shape: tuple[int, ...], classes: int
) -> Architecture:
    """The architecture of a configuration for inputs of this shape; raises `Refusal`."""
    nets = all_nets()
    if config.name not in nets:
        raise Refusal(f"There is no network '{config.name}'; choose one of {', '.join(nets)}.")
    net = nets[config.name]
    return net.build(input_shape, classes, _checked(config, net))


def _checked(config: NetConfig, net: Net) -> Mapping[str, OptionValue]:
    fields = {field.name: field for field in net.options}
    chosen: dict[str, OptionValue] = {name: field.default for name, field in fields.items()}
    for name, value in config.options:
        if name not in fields:
            raise Refusal(
                f"Network '{config.name}' has no option '{name}'; it has {', '.join(fields)}."
            )
        chosen[name] = _within(f"net.options.{name}", fields[name], value)
    return chosen


def _within(name: str, field: OptionField, value: OptionValue) -> OptionValue:
    if type(value) is not type(field.default):
        kind = type(field.default).__name__
        raise Refusal(f"{name} is {value!r}; it must be of type {kind}.")
    if field.choices and value not in field.choices:
        raise Refusal(f"{name} is {value!r}; it must be one of {', '.join(field.choices)}.")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if field.least is not None and value < field.least:
            raise Refusal(f"{name} is {value}; it must be at least {field.least:g}.")
        if field.most is not None and value > field.most:
            raise Refusal(f"{name} is {value}; it must be at most {field.most:g}.")
    return value
