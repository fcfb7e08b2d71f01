"""Declare a setting once, with its bounds and its texts on the command line and in forms.

A field of a configuration dataclass is a `setting(default, label, ...)`; a network or a data set
lists `Setting(name, label, default, ...)` as its own options. Validation, command-line options and
rows of forms are all derived from this declaration.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import reprlib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, TypeVar

from dgn_engine.errors import UserError, Where, did_you_mean
from dgn_engine.frozen_data import dataclass
from dgn_engine.plugins import OptionValue, PluginOption

MOST = 1 << 53  # integers up to here are exact in every file format
LONGEST = 4096  # characters of text; no path is longer
Conditions = Mapping[str, object]  # all must be met: {'net.init': 'bernoulli'}
# a tuple lists alternatives: {'net.init': ('kaiming', 'bernoulli')}

_Default = TypeVar("_Default")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 20


@dataclass(frozen=True)
class Setting(PluginOption):
    """One setting. The type of `default` determines its type, its option and its field in a form.

    `when` and `shown` compare other settings ('net.init'), or properties of the chosen regime and
    data set ('regime.soft', 'dataset.missing'), with a value. If `when` is not met, the setting has
    no row and takes its default; if `shown` is not met, it only has no row. A setting affects a run
    only if both are met, or if `effect` is, where that is given.
    """

    choices: tuple[str, ...] = ()
    above: float | None = None  # an exclusive lower bound
    share: bool = False  # from 0 to 1

    # on the command line
    option: str | None = None  # the name of its option, `name` by default; '' for none
    metavar: str | None = None
    help: str | None = None

    # in a form
    tip: str = ""
    advanced: bool = False  # collapsed while it has its default
    changed: str = ""  # its name in the collapsed heading, `label` by default
    order: int = 0  # rows with a lower order come first, then in order of declaration
    offered: bool = False  # the choices come from the engine's catalogue
    words: Mapping[str, str] = field(default_factory=dict, hash=False)  # the labels of choices
    span: tuple[float, float] | None = None  # of its field, if narrower than its bounds
    rungs: tuple[float, ...] | None = None  # the values per decade that its arrows step through
    zero: str = ""  # the label of 0
    unit: str = ""
    title: str = ""  # the full name, for screen readers and dialogs
    hint: str = ""  # the placeholder of an empty field
    path: Literal["", "file", "folder"] = ""
    when: Conditions = field(default_factory=dict, hash=False)
    shown: Conditions = field(default_factory=dict, hash=False)
    effect: Conditions | None = field(default=None, hash=False)

    def convert_value(self, place: str, value: Any) -> Any:
        """Convert a value from a file to the setting's type.

        Integers are accepted for floats. Raises `UserError` with `place` for any other type.
        """
        if self.choices:
            return value  # `check_allowed` lists them
        if self.default is None or isinstance(self.default, tuple):
            if not isinstance(value, (list, tuple)) or not all(type(v) is int for v in value):
                raise refused_value(place, value, "it must be a list of integers", "wrong-type")
            return tuple(value)
        kind = type(self.default)
        if kind is float and type(value) is int:
            check_value(place, value)
            return float(value)
        if type(value) is not kind:
            way_out = f"it must be of type {kind.__name__}"
            raise refused_value(place, value, way_out, "wrong-type")
        return value

    def check_allowed(self, place: str, value: Any) -> None:
        """Raise `UserError` with `place` if a value is not a valid choice, or out of bounds."""
        if self.choices and value not in self.choices:
            suggestion = did_you_mean(str(value), self.choices) if _is_name(value) else ""
            way_out = f"it must be one of {', '.join(self.choices)}"
            raise refused_value(place, value, way_out, "no-choice", f".{suggestion}")
        if value is None or isinstance(value, bool):
            return
        check_value(place, value)
        if isinstance(value, str):
            return
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                self._check_number(place, number)

    def _check_number(self, place: str, number: float) -> None:
        # comparisons are written so that NaN is out of bounds
        if self.share and not 0 <= number <= 1:
            raise refused_value(place, number, "it must be between 0 and 1")
        if self.above is not None and not self.above < number < math.inf:
            raise refused_value(place, number, f"it must be greater than {self.above:g}")
        if self.least is not None and not self.least <= number < math.inf:
            raise refused_value(place, number, f"it must be at least {self.least:g}")
        if self.most is not None and not number <= self.most:
            raise refused_value(place, number, f"it must be at most {self.most:g}")


def check_value(place: str, value: object) -> None:
    """Raise `UserError` with `place` for values that no setting may have: integers too large to be
    exact, text that is too long or cannot be encoded."""
    if isinstance(value, tuple):
        for item in value:
            check_value(place, item)
    elif isinstance(value, int) and abs(value) > MOST:
        bound = f"at most {MOST:,}" if value > 0 else f"at least {-MOST:,}"
        raise refused_value(place, value, f"it must be {bound}")
    elif isinstance(value, str) and len(value) > LONGEST:
        sentence = f" is {len(value):,} characters long; at most {LONGEST:,} are allowed."
        raise UserError(Where(place) + sentence, kind="too-long", value=value)
    elif isinstance(value, str) and not _is_text(value):
        raise refused_value(place, value, "it must be valid UTF-8 text", "no-text")


def refused_value(
    place: str, value: object, way_out: str, kind: str = "out-of-bounds", end: str = "."
) -> UserError:
    """Return a `UserError` that refuses a value and states what it must be."""
    sentence = Where(place) + f" is {short_repr(value)}; {way_out}{end}"
    return UserError(sentence, kind=kind, value=value, way_out=way_out)


def short_repr(value: object) -> str:
    """Return a value as text that fits into a sentence."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    return _SHORT.repr(value)


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def meets_condition(value: object, wanted: object) -> bool:
    """Return whether a value is the one that a condition requires, or one of several."""
    return value in wanted if isinstance(wanted, tuple) else value == wanted


def setting(default: _Default, label: str = "", **declared: Any) -> _Default:
    """Declare a field of a configuration dataclass as a `Setting`; its name is that of the
    field."""
    metadata = {"setting": Setting("", label, default, **declared)}
    declared_field: _Default = field(default=default, metadata=metadata)
    return declared_field


@functools.cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """Return the settings of a configuration dataclass by name, with the choices of a `Literal`."""
    types = typing.get_type_hints(kind)
    settings = {}
    for item in dataclasses.fields(kind):
        if "setting" in item.metadata:
            literal = typing.get_origin(types[item.name]) is Literal
            choices = typing.get_args(types[item.name]) if literal else ()
            declared: Setting = item.metadata["setting"]
            settings[item.name] = dataclasses.replace(declared, name=item.name, choices=choices)
    return settings


def fill_options(
    what: str,
    place: str,
    settings: Iterable[Setting],
    answers: Iterable[tuple[str, OptionValue]],
) -> dict[str, OptionValue]:
    """Return the value of every option of a plug-in: the answer, or the default.

    `what` and `place` identify the plug-in in refusals ("Network 'fc'", 'net.options').

    Raises:
        UserError: An option is unknown, or an answer has the wrong type or is out of bounds.
    """
    known = {setting.name: setting for setting in settings}
    values: dict[str, OptionValue] = {name: setting.default for name, setting in known.items()}
    for name, answer in answers:
        if not known:
            raise UserError(
                f"{what} has no options, so '{name}' cannot be set.",
                kind="unknown-name",
                value=name,
            )
        if name not in known:
            raise UserError(
                f"{what} has no option '{name}'. Available: {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
                value=name,
            )
        values[name] = known[name].convert_value(f"{place}.{name}", answer)
        known[name].check_allowed(f"{place}.{name}", values[name])
    return values
