"""Command-line options of a run; they override the configuration file."""

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
SHORT = ("width", "depth", "channels", "stride")  # network options that have their own flag

numbers = list_of(int, "not a list of whole numbers such as 2,0,1")
_PAIR: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME=VALUE"}


def _option_name(setting: Setting) -> str:
    return setting.name.replace("_", "-") if setting.option is None else setting.option


PLACES: dict[str, tuple[str, str]] = {
    _option_name(setting).replace("-", "_"): (part, name)
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
    if _option_name(setting)
}
"""Maps names in argparse's namespace to (section, key) of the configuration; None if not given."""


def add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config",
        nargs="?",
        type=Path,
        metavar="CONFIG.toml",
        help="configuration of the run; options override it",
    )
    groups = {part: parser.add_argument_group(title) for part, title in _GROUPS.items()}
    groups[""] = groups["training"]
    for part, settings in SETTINGS.items():
        for setting in settings.values():
            if _option_name(setting):
                groups[part].add_argument(
                    f"--{_option_name(setting)}", **_argument_keywords(setting)
                )
            if (part, setting.name) == ("net", "name"):
                _add_net_options(groups[part])
        if part == "data":
            groups[part].add_argument("--data-option", **_PAIR, help="option of the data set")


def _add_net_options(group: argparse._ArgumentGroup) -> None:
    for name in SHORT:
        group.add_argument(f"--{name}", type=int, help=f"short for --option {name}=…")
    group.add_argument("--option", **_PAIR, help="option of the network, such as blocks=2")


def _argument_keywords(setting: Setting) -> dict[str, Any]:
    """Return keyword arguments of `add_argument`; the value is None if the option is not given."""
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
    """Return the file's configuration, overridden by the options; raises `UserError`."""
    base = read_config(arguments.config) if arguments.config else RunConfig()
    tree = base.to_dict()
    for option, (part, key) in PLACES.items():
        value = getattr(arguments, option)
        if value is not None:
            (tree[part] if part else tree)[key] = value
    if arguments.data not in (None, base.data.name):
        tree["data"]["options"] = {}
    tree["data"]["options"].update(
        parse_name_value(o, "--data-option") for o in arguments.data_option
    )
    if arguments.net not in (None, base.net.name):
        tree["net"]["options"] = {}
    tree["net"]["options"].update(_net_options(arguments))
    with name_options_in_errors(arguments):
        return RunConfig.from_dict(tree)


def typed_places(arguments: argparse.Namespace) -> frozenset[str]:
    """Return the settings that were given on the command line, such as 'training.momentum'."""
    return frozenset(
        f"{part}.{name}".lstrip(".")
        for option, (part, name) in PLACES.items()
        if getattr(arguments, option) is not None
    )


@contextmanager
def name_options_in_errors(arguments: argparse.Namespace) -> Iterator[None]:
    """Make errors name the options as typed, instead of the settings they stand for."""
    try:
        yield
    except UserError as refusal:
        raise refusal.rename_places(partial(typed_name, arguments)) from None


def typed_name(arguments: argparse.Namespace, place: str) -> str:
    """Return '--momentum' for 'training.momentum'.

    A setting from the configuration file keeps its key.
    """
    part, _, name = place.rpartition(".")
    if part.endswith(".options"):
        return _plug_in_option(part, name, arguments) or place
    if name not in SETTINGS.get(part, {}):
        return place
    option = _option_name(SETTINGS[part][name])
    may_be_typed = bool(part) and arguments.config is None
    known = option and (may_be_typed or place in typed_places(arguments))
    return f"--{option}" if known else place


def _plug_in_option(part: str, name: str, arguments: argparse.Namespace) -> str:
    """Return a network or data-set option as it was typed, or '' if it was not."""
    if part == "net.options" and name in SHORT and getattr(arguments, name) is not None:
        return f"--{name}"
    option, given = (
        ("--option", arguments.option)
        if part == "net.options"
        else ("--data-option", arguments.data_option)
    )
    return f"{option} {name}" if any(text.startswith(f"{name}=") for text in given) else ""


def _net_options(arguments: argparse.Namespace) -> Iterator[tuple[str, OptionValue]]:
    for name in SHORT:
        value = getattr(arguments, name)
        if value is not None:
            yield name, value
    for text in arguments.option:
        yield parse_name_value(text)


def parse_name_value(text: str, option: str = "--option") -> tuple[str, OptionValue]:
    """Parse the NAME=VALUE of an --option into name and value; raises `UserError`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(
            Where(option) + f" {text!r} must have the form NAME=VALUE.",
            kind="wrong-form",
            value=text,
        )
    return name, _parse_value(value)


def _parse_value(text: str) -> OptionValue:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
