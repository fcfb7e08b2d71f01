"""Differences between the run (A) and what it is compared with (B): settings, scores, scalars.

Every number is a `Measurement` with its run and step. Rows are made by `_make_row` alone, which
leaves out a number that does not belong to A or B, and says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.scene.panel_spec import Series, View, run_key
from dgn_engine.text import written_numbers
from dgn_engine.text.written_numbers import format_number

_SCORES = {
    "train_loss": "train loss",
    "train_accuracy": "train accuracy",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
}
_SCALARS = {
    ("npk", "nu"): "ν of the path kernel",
    ("npk", "outside"): "label energy not in ν",
    ("ntk", "trace_value"): "trace of K, value part",
    ("ntk", "trace_feature"): "trace of K, feature part",
    ("ntk", "trace_cross"): "trace of K, cross part",
    ("overlap", "mean_active"): "mean overlap Λ",
    ("overlap", "mean_sensitive"): "mean overlap S",
    ("gates", "churn"): "switched gates",
}
_WIRING = "gating.wiring"
_PERCENT = ("train_accuracy", "test_accuracy", "churn")
_PACE = "training.pace"  # does not affect results
_CHANGEABLE = (  # while a run trains: a configuration has their values at one step
    *("gating.regime", _WIRING, "gating.rotation", "gating.shift", "gating.beta"),
    *("gating.value_input", "training.learning_rate", "probe_examples", "probe_set"),
)
NONE = "–"


@dataclass(frozen=True)
class Measurement:
    """A number and its origin.

    `run`: as in `Series.run`; `source`: TRAINING or a probe, and the name of the curve.
    """

    value: float
    run: str
    step: int
    source: tuple[str, str]


@dataclass(frozen=True)
class Side:
    """A run and a step of it that A or B stands for; `at` None: its current state."""

    letter: str
    name: str
    run: str
    at: int | None = None

    @property
    def in_words(self) -> str:
        """Letter and name: 'B: FR-II from step 300'; 'A: this run, current state'."""
        return f"{self.letter}: {self.name}"

    def reason_against(self, number: Measurement | None, words: str, until: int | None) -> str:
        """Return why a number does not belong to this side, in one sentence; '' if it does.

        `until`: the step up to which one was looked for; None: up to now.
        """
        if number is None:
            # The same sentence for everything not measured: it appears once below its group.
            sought = "" if until is None else f" up to step {until:,}"
            return f"{self.letter} was not measured{sought}."
        if number.run != self.run:
            return f"The {words} of {self.letter} is omitted: it belongs to another run."
        if self.at is not None and number.step > self.at:
            return (
                f"The {words} of {self.letter} is omitted: it is from step {number.step:,}, but "
                f"{self.letter} is step {self.at:,}."
            )
        return ""


@dataclass(frozen=True)
class Difference:
    """One row: its name, and A, B and B - A as text.

    `where`: the steps at which they were measured. `numbers`: the measurements of A and B, None if
    missing; `why`: why '–' is shown instead of one, in one sentence.
    """

    name: str
    a: str
    b: str
    change: str = ""
    where: str = ""
    numbers: tuple[Measurement | None, Measurement | None] = (None, None)
    why: str = ""


@dataclass(frozen=True)
class Differences:
    """All differences between A and B.

    `sides`: what A and B stand for. `settings`: settings that differ; `remark`: which of them are
    not compared. `scores` and `scalars`: if B is the current state of a run, both at the newest
    common step, or without one each at its newest, as `where` says; else each at its newest up to
    the step that A and B stand for.
    """

    settings: tuple[Difference, ...] = ()
    scores: tuple[Difference, ...] = ()
    scalars: tuple[Difference, ...] = ()
    sides: tuple[Side, Side] | None = None
    remark: str = ""


def find_differences(view: View, a: RunConfig | None) -> Differences:
    """Return the differences in a view with a comparison.

    `a`: the configuration of the run at the step shown.
    """
    compared = view.compared
    if compared is None:
        return Differences()
    sides = compared_sides(view)
    scores = {(TRAINING, name): words for name, words in _SCORES.items()}
    both_known = a is not None and compared.config is not None
    return Differences(
        tuple(_compare_settings(view, a, compared.config)),
        tuple(_compare_scalars(view, sides, scores)),
        tuple(_compare_scalars(view, sides, _list_scalars(view))),
        sides,
        _NOT_KNOWN if both_known and not compared.config_at else "",
    )


_NOT_KNOWN = (
    "Of the settings that can change during training, only regime and gate layers are compared at "
    "an earlier step."
)


def compared_sides(view: View) -> tuple[Side, Side]:
    """Return what A and B stand for in a view with a comparison."""
    compared = view.compared
    assert compared is not None
    at = view.cursor
    when = "current state" if at is None else f"at step {at:,}"
    ours = Side("A", f"this run, {when}", run_key(view.run), at)
    name = compared.name
    if compared.own and compared.at is not None:
        name = f"this run, at step {compared.at:,}"
    return ours, Side("B", name, compared.run, compared.at)


def _compare_settings(view: View, a: RunConfig | None, b: RunConfig | None) -> Iterator[Difference]:
    """Yield the settings that differ, in the order of the form.

    If `b` is not the configuration at the step of B, regime and order are those of the view.
    """
    ours, theirs = ({}, {}) if a is None or b is None else (_flatten_config(a), _flatten_config(b))
    compared = view.compared
    assert compared is not None
    if not compared.config_at:
        for flat, regime, wiring in (
            (ours, view.regime, view.wiring),
            (theirs, compared.regime, compared.wiring),
        ):
            for name in _CHANGEABLE:
                flat.pop(name, None)
            flat["gating.regime"], flat[_WIRING] = regime, wiring
    for name in dict.fromkeys((*ours, *theirs)):
        word = _format_wiring if name == _WIRING else _format_setting
        texts = word(ours.get(name)), word(theirs.get(name))
        if texts[0] != texts[1] and name != _PACE:
            yield Difference(_setting_label(name), *texts)


def _flatten_config(config: RunConfig) -> dict[str, Any]:
    """Flatten a configuration: 'training.learning_rate', 'net.options.width', 'seed'."""
    flat: dict[str, Any] = {}

    def add_tree(tree: Mapping[str, Any], path: str) -> None:
        for name, value in tree.items():
            key = f"{path}.{name}" if path else name
            if isinstance(value, Mapping):
                add_tree(value, key)
            else:
                flat[key] = value

    add_tree(config.to_dict(), "")
    return flat


def _setting_label(place: str) -> str:
    if place == _WIRING:
        return "gate layers"  # the name of their order in the form of a branch
    part, _, name = place.rpartition(".")
    setting = SETTINGS.get(part, {}).get(name)
    return (setting.label if setting is not None and setting.label else name).replace("_", " ")


def _format_setting(value: Any) -> str:
    """Format a setting as in the form: '0.01', '–' if it is empty."""
    if value is None or value == "" or value == [] or value == ():
        return NONE
    if isinstance(value, (list, tuple)):
        return " ".join(str(item) for item in value)
    return format_number(value) if isinstance(value, float) else str(value)


def _format_wiring(wiring: Sequence[int] | None) -> str:
    """Format a wiring counted from 1, as everywhere in the window."""
    if not wiring or list(wiring) == sorted(wiring):
        return "in order"
    return " ".join(str(layer + 1) for layer in wiring)


def _list_scalars(view: View) -> dict[tuple[str, str], str]:
    """Return known scalars first, then the share of open gates by layer."""
    names = dict(_SCALARS)
    for source, name in view.series:
        if source == "gates" and name.startswith("active_"):
            layer = int(name.removeprefix("active_")) + 1
            names[source, name] = f"open gates, layer {layer}"
    return names


def _compare_scalars(
    view: View, sides: tuple[Side, Side], wanted: Mapping[tuple[str, str], str]
) -> Iterator[Difference]:
    """Yield a row for each curve of A and B; for a score also if one of them lacks it."""
    compared = view.compared
    assert compared is not None
    for key, label in wanted.items():
        ours = view.series.get(key)
        theirs = ours if compared.own else compared.series.get(key)
        if ours is None and theirs is None:
            continue
        if key[0] != TRAINING and (ours is None or theirs is None):
            continue  # a probe that nobody watches has no number: not a fact about the run
        until = sides[0].at, sides[1].at
        last = _last_of_both(until[0], ours, theirs) if until[1] is None else None
        if last is not None:  # compare two training runs at the same step
            until = last, last
        numbers = _pair_measurements(key, ours, theirs, until, common=last is not None)
        if any(number is not None for number in numbers):
            yield _make_row(label, numbers, sides, until)


_Numbers = tuple[Measurement | None, Measurement | None]


def _last_of_both(at: int | None, ours: Series | None, theirs: Series | None) -> int | None:
    """Return the step up to which both were measured, None if one was not; `at`: A's step."""
    ends = (_newest_point(ours.until(at) if ours is not None else None), _newest_point(theirs))
    steps = [end[0] for end in ends if end is not None]
    return min(steps) if len(steps) == len(ends) else None


def _pair_measurements(
    key: tuple[str, str],
    ours: Series | None,
    theirs: Series | None,
    until: tuple[int | None, int | None],
    common: bool,
) -> _Numbers:
    """Return the newest of each up to a step; with `common` at the newest step of both, if any."""
    both = [
        None if series is None else series.until(step)
        for series, step in zip((ours, theirs), until, strict=True)
    ]
    points = [_newest_point(series) for series in both]
    a, b = both
    if common and a is not None and b is not None:
        points = list(_at_common_step(a, b) or points)
    measurements: list[Measurement | None] = []
    for series, point in zip(both, points, strict=True):
        if series is None or point is None:
            measurements.append(None)
        else:
            measurements.append(Measurement(point[1], series.run, point[0], key))
    return measurements[0], measurements[1]


def _make_row(
    words: str, numbers: _Numbers, sides: tuple[Side, Side], until: tuple[int | None, int | None]
) -> Difference:
    """Make a row of numbers, with '–' for a number that does not belong to its side."""
    triples = zip(sides, numbers, until, strict=True)
    reasons = [side.reason_against(measurement, words, step) for side, measurement, step in triples]
    name = next(measurement.source[1] for measurement in numbers if measurement is not None)
    a, b = (None if why else measurement for measurement, why in zip(numbers, reasons, strict=True))
    percent = name in _PERCENT or name.startswith("active_")
    change, where = "", ""
    if a is not None and b is not None:
        change = _format_change(b.value - a.value, percent)
        where = f"A {a.step:,} · B {b.step:,}" if a.step != b.step else f"step {a.step:,}"
    elif (only := a or b) is not None:
        where = f"{'A' if b is None else 'B'} {only.step:,}"
    texts = [
        NONE if measurement is None else _format_measured(measurement.value, percent)
        for measurement in (a, b)
    ]
    why = next(filter(None, reasons), "")
    return Difference(words, texts[0], texts[1], change, where, (a, b), why)


def _at_common_step(a: Series, b: Series) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Return step and value of each at the newest step of both; None if there is none."""
    both = np.intersect1d(a.steps[np.isfinite(a.values)], b.steps[np.isfinite(b.values)])
    if not both.size:
        return None
    step = int(both[-1])
    return (step, _value_of_step(a, step)), (step, _value_of_step(b, step))


def _newest_point(series: Series | None) -> tuple[int, float] | None:
    """Return step and value at its newest step; None if there is nothing."""
    if series is None:
        return None
    last = np.flatnonzero(np.isfinite(series.values))[-1:]
    return (int(series.steps[last[0]]), float(series.values[last[0]])) if last.size else None


def _value_of_step(series: Series, step: int) -> float:
    """Return the newest finite value of this step."""
    values = series.values[(series.steps == step) & np.isfinite(series.values)]
    return float(values[-1])


def _format_measured(value: float, percent: bool) -> str:
    return (
        written_numbers.format_percent(value, 2)
        if percent
        else written_numbers.format_number(value, 4)
    )


def _format_change(value: float, percent: bool) -> str:
    if percent:
        return written_numbers.format_percent(value, 2, signed=True).removesuffix(" %")
    return written_numbers.format_number(value, 3, signed=True)
