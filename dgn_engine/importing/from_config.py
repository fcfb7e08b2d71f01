"""Networks named in a configuration, with their options."""

from __future__ import annotations

from dgn_engine.config import NetConfig
from dgn_engine.config.setting import Setting, fill_options
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.nets import Net, all_nets
from dgn_engine.plugins import OptionValue


def find_net(config: NetConfig) -> Net | None:
    """Return the network that a configuration names; None for the network of a file.

    Raises:
        UserError: There is no network of this name.
    """
    if config.is_from_file:
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
    """Return the options of a network as settings that can be checked and shown in a form."""
    return tuple(Setting(**vars(option)) for option in net.options)


def options_of(config: NetConfig) -> dict[str, OptionValue]:
    """Return all options of the network, defaults included; none for the network of a file.

    Raises:
        UserError: The network or an option is unknown, or a value is out of range.
    """
    net = find_net(config)
    if net is None:
        return {}
    settings = settings_of_net(net)
    return fill_options(f"Network '{config.name}'", "net.options", settings, config.options)


def build_architecture(
    config: NetConfig, input_shape: tuple[int, ...], classes: int
) -> Architecture:
    """Return the architecture of a configuration for inputs of this shape; raises `UserError`.

    For the architecture of a file ('file:PATH') see `architecture_for`.
    """
    net = find_net(config)
    if net is None:
        raise LookupError(f"{config.name} is not a registered network; see architecture_for.")
    architecture = net.build(input_shape, classes, options_of(config))
    if not architecture.gated_nodes:
        raise UserError(f"Network '{config.name}' has no gated layer.", kind="empty")
    return architecture
