"""Forms: the questions that a plug-in asks (`OptionField`), and the answers checked."""

from __future__ import annotations

from collections.abc import Iterable

from dgn_engine.config import OptionValue
from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import OptionField


def filled(
    what: str,
    key: str,
    fields: Iterable[OptionField],
    answers: Iterable[tuple[str, OptionValue]],
) -> dict[str, OptionValue]:
    """Every question with its answer, or with its default where there is none.

    `what` and `key` name the form in refusals ("Network 'fc'", 'net.options'). Raises `UserError`
    for an unknown question and an answer of the wrong type or out of bounds.
    """
    known = {field.name: field for field in fields}
    chosen = {name: field.default for name, field in known.items()}
    for name, value in answers:
        if not known:
            raise UserError(f"{what} has no options, so '{name}' means nothing there.")
        if name not in known:
            raise UserError(f"{what} has no option '{name}'; it has {', '.join(known)}.")
        chosen[name] = _within(f"{key}.{name}", known[name], value)
    return chosen


def _within(name: str, field: OptionField, value: OptionValue) -> OptionValue:
    if type(field.default) is float and type(value) is int:
        value = float(value)
    if type(value) is not type(field.default):
        kind = type(field.default).__name__
        raise UserError(f"{name} is {value!r}; it must be of type {kind}.")
    if field.choices and value not in field.choices:
        raise UserError(f"{name} is {value!r}; it must be one of {', '.join(field.choices)}.")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # written so that 'not a number' is outside
        if field.least is not None and not value >= field.least:
            raise UserError(f"{name} is {value}; it must be at least {field.least:g}.")
        if field.most is not None and not value <= field.most:
            raise UserError(f"{name} is {value}; it must be at most {field.most:g}.")
    return value
