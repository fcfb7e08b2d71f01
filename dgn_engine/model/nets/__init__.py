"""Networks by name: one file each with the constant NET."""

from __future__ import annotations

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.nets._net import Net
from dgn_engine.plugins import discover
from dgn_engine.protocol.catalogue import NetEntry
from dgn_engine.setting import OptionValue, filled

__all__ = ["Net", "all_nets", "build_architecture", "find_net", "net_entries", "options_of"]


def all_nets() -> dict[str, Net]:
    return discover("dgn_engine.model.nets", "NET", Net)


def net_entries() -> tuple[NetEntry, ...]:
    return tuple(NetEntry(name, net.title, net.options) for name, net in all_nets().items())


def find_net(config: NetConfig) -> Net | None:
    """Return the network by the name of a configuration; None where it is that of a file.

    Raises `UserError` where there is no network of this name.
    """
    if config.of_file:
        return None
    nets = all_nets()
    if config.name not in nets:
        raise UserError(
            f"There is no network '{config.name}'; choose one of {', '.join(nets)}."
            f"{did_you_mean(config.name, nets)}"
        )
    return nets[config.name]


def options_of(config: NetConfig) -> dict[str, OptionValue]:
    """Return every option of the network, defaults included; none where it is that of a file.

    Raises `UserError` where the network or an option is unknown, or a value is out of range.
    """
    net = find_net(config)
    if net is None:
        return {}
    return filled(f"Network '{config.name}'", "net.options", net.options, config.options)


def build_architecture(
    config: NetConfig, input_shape: tuple[int, ...], classes: int
) -> Architecture:
    """Return the architecture of a configuration for inputs of this shape; raises `UserError`.

    The architecture of a file ('file:PATH') is read by `architecture_for`, not here.
    """
    net = find_net(config)
    if net is None:
        raise LookupError(f"{config.name} is no registered network; see architecture_for.")
    return net.build(input_shape, classes, options_of(config))
