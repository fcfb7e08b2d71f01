"""Search recorded runs by words and by settings: 'wide regime:DL best>90 tag:paper'.

The window's list of runs and `dgn runs list --filter` read the same terms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from operator import ge, gt, le, lt

from dgn_engine.protocol.runs import RecordedRun

_PART = re.compile(r'(?:[^\s"]|"[^"]*"?)+')  # quotes keep spaces: net:"fc 32×5"
_TERM = re.compile(r"([A-Za-z]+)(<=|>=|[:=<>])(.+)")
_DAY = timedelta(days=1)
Value = str | float | tuple[str, ...] | None


@dataclass(frozen=True)
class SearchField:
    """What runs can be searched by: `name:value`; a number also by `name>value` or `name>=value`.

    Attributes:
        example: A term that the window inserts.
        value: The value of a run; None if it has none.
        rounded: It equals what was typed if it does so to as many decimals: 96.11 is 96.1.
    """

    name: str
    about: str
    example: str
    value: Callable[[RecordedRun], Value]
    rounded: bool = False


def started_at(run: RecordedRun) -> datetime | None:
    """Return when a run was started, in local time; None if that is unknown."""
    try:
        if run.created:
            return datetime.fromisoformat(run.created).astimezone()
        return datetime.fromtimestamp(run.touched).astimezone() if run.touched else None
    except (ValueError, OverflowError, OSError):
        return None


def _days(run: RecordedRun) -> Value:
    at = started_at(run)
    if at is None:
        return None
    day, today = at.date(), date.today()
    words = {today: "today", today - _DAY: "yesterday"}.get(day)
    return (day.isoformat(), words) if words else (day.isoformat(),)


def _setting(name: str) -> Callable[[RecordedRun], Value]:
    return lambda run: run.settings.get(name)


def _known(run: RecordedRun, number: int) -> Value:
    """Return a number of the run, unless it is damaged, so that the number is not its own."""
    return None if run.status == "damaged" else float(number)


def _best_percent(run: RecordedRun) -> Value:
    # Rounded, since 100 * 0.29 is below 29, and 100 * 0.55 above 55.
    return round(100 * run.best, 9) if run.best == run.best else None


FIELDS: tuple[SearchField, ...] = (
    SearchField("regime", "regime", "regime:DL", lambda run: run.regime),
    SearchField("net", "network", "net:fc", lambda run: run.net),
    SearchField("data", "data set", "data:digits", lambda run: run.data),
    SearchField("seed", "seed", "seed:3", lambda run: _known(run, run.seed)),
    SearchField("best", "best test accuracy, %", "best>90", _best_percent, True),
    SearchField("steps", "steps", "steps>1000", lambda run: _known(run, run.step)),
    SearchField("depth", "weight layers", "depth:4", _setting("depth")),
    SearchField("width", "units per layer", "width:64", _setting("width")),
    SearchField("lr", "learning rate", "lr:0.001", _setting("lr")),
    SearchField("batch", "batch size", "batch:32", _setting("batch")),
    SearchField("optimiser", "optimiser", "optimiser:adam", _setting("optimiser")),
    SearchField("input", "value input", "input:ones", _setting("input")),
    SearchField("status", "status", "status:stopped", lambda run: run.status),
    SearchField("day", "day of its start", "day:today", _days),
    SearchField("tag", "tag: a word of the notes with #", "tag:paper", lambda run: run.tags),
)
_FIELDS: Mapping[str, SearchField] = {field.name: field for field in FIELDS}
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {"<": lt, ">": gt, "<=": le, ">=": ge}


def search_runs(text: str, runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Return the runs that match every word and term, in their order.

    A text matches a term if it or one of its words equals the value; if that is true of no run, if
    one of its words begins with it: 'regime:DL' leaves DLN out, 'regime:D' finds both.
    """
    selected = list(runs)
    for part in dict.fromkeys(_PART.findall(text.casefold())):  # each once
        if not selected:
            break
        word = part.replace('"', "")
        match = _TERM.fullmatch(word)
        field = _FIELDS.get(match[1]) if match is not None else None
        if match is None or field is None:
            selected = [run for run in selected if word in _searched_text(run)]
        else:
            selected = _select_by_term(field, match[2], match[3], selected, runs)
    return selected


def _select_by_term(
    field: SearchField,
    sign: str,
    wanted: str,
    selected: list[RecordedRun],
    runs: Iterable[RecordedRun],
) -> list[RecordedRun]:
    number = _as_number(wanted)
    if sign in _COMPARE:
        if number is None:
            return []
        compare = _COMPARE[sign]
        return [run for run in selected if _is_compared(field.value(run), compare, number)]
    if any(_equals(field, run, wanted, number) for run in runs):
        return [run for run in selected if _equals(field, run, wanted, number)]
    return [run for run in selected if any(w.startswith(wanted) for w in _words(field.value(run)))]


def _is_compared(value: Value, compare: Callable[[float, float], bool], number: float) -> bool:
    return isinstance(value, (int, float)) and compare(value, number)


def _equals(field: SearchField, run: RecordedRun, wanted: str, number: float | None) -> bool:
    value = field.value(run)
    if isinstance(value, (int, float)):
        if number is None:
            return False
        decimals = len(wanted.removesuffix("%").partition(".")[2])
        return value == number or (field.rounded and round(value, decimals) == number)
    return wanted in _words(value)


def _words(value: Value) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value.casefold()
        return (text, *re.split(r"[\s:/]+", text))
    return tuple(part.casefold() for part in value) if isinstance(value, tuple) else ()


def _as_number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").removesuffix("%"))
    except ValueError:
        return None


def _searched_text(run: RecordedRun) -> str:
    parts = (run.name, run.given_name, run.net, run.data, run.regime, run.status, run.notes)
    return " ".join((*parts, f"seed {run.seed}")).casefold()
