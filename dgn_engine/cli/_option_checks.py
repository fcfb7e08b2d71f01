"""Bounds of numeric options, checked before a command runs, and which options were given."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from dgn_engine.errors import UserError, Where

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class NumberBounds:
    """The bounds of a number.

    Attributes:
        least, most: inclusive bounds.
        above: exclusive lower bound.
        finite: whether infinity and NaN are rejected.
        counts: what it counts, such as 'steps', to be used in the error message.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    finite: bool = False
    counts: str = ""

    def is_within(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (math.isfinite(value) or not self.finite)
        )

    @property
    def way_out(self) -> str:
        if self.counts:
            return f"it must be a number of {self.counts}, {self.least:g} or more"
        if self.most is not None:
            return f"it must be between {self.least} and {self.most}"
        bound = f"least {self.least:g}" if self.above is None else f"greater than {self.above:g}"
        at = "at " if self.above is None else ""
        return f"it must be {at}{bound}{' and finite' if self.finite else ''}"


class BoundedNumber(argparse.Action):
    """An argparse action for a number, whose bounds are checked once all options are parsed."""

    def __init__(
        self, option_strings: list[str], dest: str, bounds: NumberBounds, **more: Any
    ) -> None:
        super().__init__(option_strings, dest, **more)
        self._bounds = bounds

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)

    def check_within_bounds(self, arguments: argparse.Namespace) -> None:
        """Raise `UserError` if the option was given and is out of bounds."""
        value = getattr(arguments, self.dest)
        if value is None or self._bounds.is_within(value):
            return
        shown = f"{value:g}" if isinstance(value, float) else value
        raise UserError(
            Where(self.option_strings[0]) + f" is {shown}; {self._bounds.way_out}.",
            kind="out-of-bounds",
            value=value,
            way_out=self._bounds.way_out,
        )


_NONE: Mapping[str, object] = MappingProxyType({})


def given_options(
    arguments: argparse.Namespace, *names: str, usual: Mapping[str, object] = _NONE
) -> Iterator[str]:
    """Yield those of the named options that were given: '--beta', '--value-input ones'.

    Args:
        usual: default values by name, which count as not given. Options whose default is a string
            are yielded with their value.
    """
    for name in names:
        value = getattr(arguments, name, None)
        if value is None or value is False or value == [] or value == usual.get(name):
            continue
        shown = f" {value}" if isinstance(usual.get(name), str) else ""
        yield f"--{name.replace('_', '-')}{shown}"


def bounded_number(kind: type[float], **bounds: Any) -> dict[str, Any]:
    """Return keyword arguments of `add_argument` for a number within `NumberBounds(**bounds)`."""
    return {"action": BoundedNumber, "type": kind, "bounds": NumberBounds(**bounds)}


def list_of(kind: type[T], example: str) -> Callable[[str], tuple[T, ...]]:
    """Return an argparse type for a comma-separated list such as '2,0,1'.

    Args:
        kind: type of the elements.
        example: completes the error message "'x' is …".
    """

    def parse_list(text: str) -> tuple[T, ...]:
        try:
            return tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is {example}") from None

    return parse_list


def name_data_option(arguments: argparse.Namespace, place: str) -> str:
    """Return '--data-root' for 'data.root' if the command has that option, else the place."""
    if "data_root" not in arguments:
        return place
    download = "--download" if "download" in arguments else "dgn train --download"
    return {"data.root": "--data-root", "data.download": download}.get(place, place)
