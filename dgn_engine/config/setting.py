"""What a setting is: declared once, with its bounds and the words of command line and form.

A field of a configuration dataclass is a `setting(default, label, ...)`; a network or a data set
lists `Setting(name, label, default, ...)` as its own options. Values are checked, command-line
options added and rows of forms built from the same declaration.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import reprlib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from dgn_engine.errors import UserError, Where, did_you_mean
from dgn_engine.plugins import OptionValue, PluginOption

MOST = 1 << 53  # whole numbers up to here are exact wherever they are written
LONGEST = 4096  # characters of a word; paths are no longer
Conditions = Mapping[str, object]  # {'net.init': 'bernoulli'}: every one of them holds
# {'net.init': ('kaiming', 'bernoulli')}: one of these

_Default = TypeVar("_Default")
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 20


@dataclass(frozen=True)
class Setting(PluginOption):
    """One setting. The type of `default` decides its type, its option and its field in a form.

    `when` and `shown` compare other settings by their place ('net.init'), or properties of the
    chosen regime and data set ('regime.soft', 'dataset.missing'), with a value. A setting whose
    `when` does not hold has no row and its default; one that is not `shown` only has no row.
    It changes a run only where both hold, or where `effect` holds, if that says something else.
    """

    choices: tuple[str, ...] = ()
    above: float | None = None  # it must be greater than this
    share: bool = False  # it lies between 0 and 1

    # on the command line
    option: str | None = None  # its name there, else `name`; '' for none
    metavar: str | None = None
    help: str | None = None

    # in a form
    tip: str = ""
    advanced: bool = False  # folded away while it has its default
    changed: str = ""  # what the folded heading calls it, else `label`
    order: int = 0  # rows of a lower order come first, those of one order as they are declared
    offered: bool = False  # the engine's catalogue says what can be chosen
    words: Mapping[str, str] = field(default_factory=dict, hash=False)  # of choices
    span: tuple[float, float] | None = None  # of its field, where narrower than its bounds
    rungs: tuple[float, ...] | None = None  # the numbers of a decade that its arrows step through
    zero: str = ""  # the words for 0
    unit: str = ""
    title: str = ""  # in full, for screen readers and dialogs
    hint: str = ""  # what an empty field shows
    path: Literal["", "file", "folder"] = ""
    when: Conditions = field(default_factory=dict, hash=False)
    shown: Conditions = field(default_factory=dict, hash=False)
    effect: Conditions | None = field(default=None, hash=False)

    def typed(self, place: str, value: Any) -> Any:
        """A value from a file in the setting's type; raises `UserError` naming `place`.

        Whole numbers are accepted where others are meant.
        """
        if self.choices:
            return value  # `check` names them
        if self.default is None or isinstance(self.default, tuple):
            if not isinstance(value, (list, tuple)) or not all(type(v) is int for v in value):
                raise refused_value(
                    place, value, "it must be a list of whole numbers", "wrong-type"
                )
            return tuple(value)
        kind = type(self.default)
        if kind is float and type(value) is int:
            check_value(place, value)
            return float(value)
        if type(value) is not kind:
            way_out = f"it must be of type {kind.__name__}"
            raise refused_value(place, value, way_out, "wrong-type")
        return value

    def check(self, place: str, value: Any) -> None:
        """Raise `UserError`, naming `place`, for what is no choice or out of bounds."""
        if self.choices and value not in self.choices:
            meant = did_you_mean(str(value), self.choices) if _is_name(value) else ""
            way_out = f"it must be one of {', '.join(self.choices)}"
            raise refused_value(place, value, way_out, "no-choice", f".{meant}")
        if value is None or isinstance(value, bool):
            return
        check_value(place, value)
        if isinstance(value, str):
            return
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                self._check_number(place, number)

    def _check_number(self, place: str, number: float) -> None:
        # written so that 'not a number' is outside
        if self.share and not 0 <= number <= 1:
            raise refused_value(place, number, "it must be between 0 and 1")
        if self.above is not None and not self.above < number < math.inf:
            raise refused_value(place, number, f"it must be greater than {self.above:g}")
        if self.least is not None and not self.least <= number < math.inf:
            raise refused_value(place, number, f"it must be at least {self.least:g}")
        if self.most is not None and not number <= self.most:
            raise refused_value(place, number, f"it must be at most {self.most:g}")


def check_value(place: str, value: object) -> None:
    """Raise `UserError`, naming `place`, for what no setting can be: numbers beyond counting, words
    without end, words with half a character in them.
    """
    if isinstance(value, tuple):
        for each in value:
            check_value(place, each)
    elif isinstance(value, int) and abs(value) > MOST:
        bound = f"at most {MOST:,}" if value > 0 else f"at least {-MOST:,}"
        raise refused_value(place, value, f"it must be {bound}")
    elif isinstance(value, str) and len(value) > LONGEST:
        long = f" is {len(value):,} characters long; {LONGEST:,} are allowed."
        raise UserError(Where(place) + long, kind="too-long", value=value)
    elif isinstance(value, str) and not _is_text(value):
        raise refused_value(place, value, "that is no text that can be written", "no-text")


def refused_value(
    place: str, value: object, way_out: str, kind: str = "out-of-bounds", end: str = "."
) -> UserError:
    """Return the refusal of what was given at a place, which says what it must be."""
    sentence = Where(place) + f" is {in_short(value)}; {way_out}{end}"
    return UserError(sentence, kind=kind, value=value, way_out=way_out)


def in_short(value: object) -> str:
    """A value as a sentence shows it, short whatever it is."""
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


def meets(value: object, wanted: object) -> bool:
    """Whether a value is what a condition wants, or one of what it wants."""
    return value in wanted if isinstance(wanted, tuple) else value == wanted


def setting(default: _Default, label: str = "", **declared: Any) -> _Default:
    """A field of a configuration dataclass that is a `Setting`, without its name."""
    metadata = {"setting": Setting("", label, default, **declared)}
    made: _Default = field(default=default, metadata=metadata)
    return made


@functools.cache
def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """The settings of a configuration dataclass by name; the choices are those of a `Literal`."""
    types = typing.get_type_hints(kind)
    found = {}
    for item in dataclasses.fields(kind):
        if "setting" in item.metadata:
            literal = typing.get_origin(types[item.name]) is Literal
            choices = typing.get_args(types[item.name]) if literal else ()
            declared: Setting = item.metadata["setting"]
            found[item.name] = dataclasses.replace(declared, name=item.name, choices=choices)
    return found


def filled(
    what: str,
    place: str,
    settings: Iterable[Setting],
    answers: Iterable[tuple[str, OptionValue]],
) -> dict[str, OptionValue]:
    """The value of every option of a plug-in: the answer, else the default.

    `what` and `place` name them in refusals ("Network 'fc'", 'net.options'). Raises `UserError`
    for an unknown option and an answer of the wrong type or out of bounds.
    """
    known = {setting.name: setting for setting in settings}
    values: dict[str, OptionValue] = {name: setting.default for name, setting in known.items()}
    for name, answer in answers:
        if not known:
            raise UserError(
                f"{what} has no options, so '{name}' means nothing there.",
                kind="unknown-name",
                value=name,
            )
        if name not in known:
            raise UserError(
                f"{what} has no option '{name}'; it has {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
                value=name,
            )
        values[name] = known[name].typed(f"{place}.{name}", answer)
        known[name].check(f"{place}.{name}", values[name])
    return values
