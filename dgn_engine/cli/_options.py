"""The options of a run on the command line, which override a configuration file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dgn_engine.cli._option_checks import list_of
from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.config.setting import Setting
from dgn_engine.errors import UserError, Where
from dgn_engine.plugins import OptionValue
from dgn_engine.storage.config_file import read_config

_GROUPS = {"data": "data", "net": "network", "gating": "gating", "training": "training"}
SHORT = ("width", "depth", "channels", "stride")  # options of networks with an option of their own

numbers = list_of(int, "not a list of whole numbers such as 2,0,1")
_PAIR: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=VALUE"}


def _option(setting: Setting) -> str:
    return setting.name.replace("_", "-") if setting.option is None else setting.option


PLACES: dict[str, tuple[str, str]] = {
    _option(setting).replace("-", "_"): (part, name)
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
    if _option(setting)
}
"""Name in argparse's namespace → place in the configuration; its value is None where not given."""


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="?",
        type=Path,
        metavar="CONFIG.toml",
        help="settings of a run; options go over them",
    )
    groups = {part: parser.add_argument_group(title) for part, title in _GROUPS.items()}
    groups[""] = groups["training"]
    for part, settings in SETTINGS.items():
        for setting in settings.values():
            if _option(setting):
                groups[part].add_argument(f"--{_option(setting)}", **_argument(setting))
            if (part, setting.name) == ("net", "name"):
                _add_net_options(groups[part])
        if part == "data":
            groups[part].add_argument("--data-option", **_PAIR, help="of the data set")


def _add_net_options(group: argparse._ArgumentGroup) -> None:
    for name in SHORT:
        group.add_argument(f"--{name}", type=int, help=f"short for --option {name}=…")
    group.add_argument("--option", **_PAIR, help="of the network, such as blocks=2")


def _argument(setting: Setting) -> dict[str, Any]:
    """The keywords of `add_argument`; where the option is not given, its value is None."""
    if isinstance(setting.default, bool):
        return {"action": "store_true", "default": None, "help": setting.help}
    keywords: dict[str, Any] = {"metavar": setting.metavar, "help": setting.help}
    if setting.choices:
        return keywords | {"choices": setting.choices}
    if isinstance(setting.default, str):
        return keywords
    is_number = isinstance(setting.default, (int, float))
    return keywords | {"type": type(setting.default) if is_number else numbers}


def run_config(arguments: argparse.Namespace) -> RunConfig:
    """The configuration of the file, with the options laid over it; raises `UserError`."""
    base = read_config(arguments.config) if arguments.config else RunConfig()
    tree = base.to_dict()
    for option, (part, key) in PLACES.items():
        value = getattr(arguments, option)
        if value is not None:
            (tree[part] if part else tree)[key] = value
    if arguments.data not in (None, base.data.name):
        tree["data"]["options"] = {}
    tree["data"]["options"].update(value_of(o, "--data-option") for o in arguments.data_option)
    if arguments.net not in (None, base.net.name):
        tree["net"]["options"] = {}
    tree["net"]["options"].update(_net_options(arguments))
    with options_named(arguments):
        return RunConfig.from_dict(tree)


def typed_places(arguments: argparse.Namespace) -> frozenset[str]:
    """The places of the settings that were given on the command line."""
    return frozenset(
        f"{part}.{name}".lstrip(".")
        for option, (part, name) in PLACES.items()
        if getattr(arguments, option) is not None
    )


@contextmanager
def options_named(arguments: argparse.Namespace) -> Iterator[None]:
    """Let refusals name options as they were typed, not the places of their settings."""
    try:
        yield
    except UserError as refusal:
        raise refusal.renamed(partial(typed_name, arguments)) from None


def typed_name(arguments: argparse.Namespace, place: str) -> str:
    """Return '--momentum' for 'training.momentum'.

    What stands in a configuration file and was not typed keeps its key.
    """
    part, _, name = place.rpartition(".")
    if part.endswith(".options"):
        return _plug_in_option(part, name, arguments) or place
    if name not in SETTINGS.get(part, {}):
        return place
    option = _option(SETTINGS[part][name])
    may_be_typed = bool(part) and arguments.config is None
    known = option and (may_be_typed or place in typed_places(arguments))
    return f"--{option}" if known else place


def _plug_in_option(part: str, name: str, arguments: argparse.Namespace) -> str:
    """How an option of the network or the data set was typed; '' where it was not."""
    if part == "net.options" and name in SHORT and getattr(arguments, name) is not None:
        return f"--{name}"
    option, given = (
        ("--option", arguments.option)
        if part == "net.options"
        else ("--data-option", arguments.data_option)
    )
    return f"{option} {name}" if any(one.startswith(f"{name}=") for one in given) else ""


def _net_options(arguments: argparse.Namespace) -> Iterator[tuple[str, OptionValue]]:
    for name in SHORT:
        value = getattr(arguments, name)
        if value is not None:
            yield name, value
    for text in arguments.option:
        yield value_of(text)


def value_of(text: str, option: str = "--option") -> tuple[str, OptionValue]:
    """Name and value of an --option NAME=VALUE; raises `UserError`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(
            Where(option) + f" {text!r} must be of the form NAME=VALUE.",
            kind="wrong-form",
            value=text,
        )
    return name, _value(value)


def _value(text: str) -> OptionValue:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
