"""Networks by name: one file each with the constant NET."""

from __future__ import annotations

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.nets._net import Net
from dgn_engine.plugins import discover
from dgn_engine.protocol.catalogue import NetEntry
from dgn_engine.setting import filled

__all__ = ["Net", "all_nets", "build_architecture", "net_entries"]


def all_nets() -> dict[str, Net]:
    return discover("dgn_engine.model.nets", "NET", Net)


def net_entries() -> tuple[NetEntry, ...]:
    return tuple(NetEntry(name, net.title, net.options) for name, net in all_nets().items())


def build_architecture(
    config: NetConfig, input_shape: tuple[int, ...], classes: int
) -> Architecture:
    """The architecture of a configuration for inputs of this shape; raises `UserError`."""
    nets = all_nets()
    if config.name not in nets:
        raise UserError(
            f"There is no network '{config.name}'; choose one of {', '.join(nets)}."
            f"{did_you_mean(config.name, nets)}"
        )
    net = nets[config.name]
    options = filled(f"Network '{config.name}'", "net.options", net.options, config.options)
    return net.build(input_shape, classes, options)
