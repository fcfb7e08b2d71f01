"""Networks that a configuration names, with their options."""

from __future__ import annotations

from dgn_engine.config import NetConfig
from dgn_engine.config.setting import Setting, filled
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.nets import Net, all_nets
from dgn_engine.plugins import OptionValue


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
            f"{did_you_mean(config.name, nets)}",
            kind="unknown-name",
        )
    return nets[config.name]


def settings_of_net(net: Net) -> tuple[Setting, ...]:
    """Return the options of a network as settings, which can be checked and shown in a form."""
    return tuple(Setting(**vars(option)) for option in net.options)


def options_of(config: NetConfig) -> dict[str, OptionValue]:
    """Return every option of the network, defaults included; none where it is that of a file.

    Raises `UserError` where the network or an option is unknown, or a value is out of range.
    """
    net = find_net(config)
    if net is None:
        return {}
    settings = settings_of_net(net)
    return filled(f"Network '{config.name}'", "net.options", settings, config.options)


def build_architecture(
    config: NetConfig, input_shape: tuple[int, ...], classes: int
) -> Architecture:
    """Return the architecture of a configuration for inputs of this shape; raises `UserError`.

    The architecture of a file ('file:PATH') is read by `architecture_for`, not here.
    """
    net = find_net(config)
    if net is None:
        raise LookupError(f"{config.name} is no registered network; see architecture_for.")
    architecture = net.build(input_shape, classes, options_of(config))
    if not architecture.gated:
        raise UserError(f"Network '{config.name}' has no gated layer.", kind="empty")
    return architecture
