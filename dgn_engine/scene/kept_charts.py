"""Chart settings as plain JSON, in the user's settings and in session files.

A session file may come from a stranger: invalid values are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

from dgn_engine.scene.axes import Range
from dgn_engine.scene.chart_settings import PLAIN, ChartSettings
from dgn_engine.scene.elements import Ramp
from dgn_engine.scene.matrix_colours import ColourChoice, Span
from dgn_engine.scene.matrix_difference import Subtrahend

_MOST = 200  # charts of one panel, and characters of a name
_SPANS = get_args(Span)
_RAMPS = ("", *get_args(Ramp))


def charts_as_json(settings: Mapping[str, ChartSettings]) -> dict[str, Any]:
    """Return the settings that differ from the defaults, by chart key."""
    return {
        key: _settings_to_json(chart_settings)
        for key, chart_settings in settings.items()
        if chart_settings != PLAIN
    }


def charts_from_json(untrusted: Any) -> dict[str, ChartSettings]:
    """Return the valid settings; nothing is raised."""
    if not isinstance(untrusted, dict):
        return {}
    parsed = {
        key: _settings_from_json(entry)
        for key, entry in list(untrusted.items())[:_MOST]
        if _is_name(key) and isinstance(entry, dict)
    }
    return {key: entry for key, entry in parsed.items() if entry != PLAIN}


def _settings_to_json(one: ChartSettings) -> dict[str, Any]:
    minus, colours = one.minus, one.colours
    entries = {
        "last": one.last or None,
        "log_x": one.log_x or None,
        "log_y": one.log_y,
        "y_range": None if one.y_range is None else [float(end) for end in one.y_range],
        "smoothing": float(one.smoothing) or None,
        "span": colours.span or None,
        "fixed": [float(end) for end in colours.fixed] if colours.span == "fixed" else None,
        "ramp": colours.ramp or None,
        "minus": None if minus is None else [minus.chart, minus.option, minus.value],
    }
    return {name: value for name, value in entries.items() if value is not None}


def _settings_from_json(tree: dict[str, Any]) -> ChartSettings:
    last, smoothing, log_y = tree.get("last"), tree.get("smoothing"), tree.get("log_y")
    span, ramp = tree.get("span"), tree.get("ramp")
    fixed = _read_range(tree.get("fixed"))
    span = span if isinstance(span, str) and span in _SPANS else ""
    if span == "fixed" and fixed is None:
        span = ""
    return ChartSettings(
        last=last if type(last) is int and 0 <= last < 1 << 53 else 0,
        log_x=tree.get("log_x") is True,
        log_y=log_y if isinstance(log_y, bool) else None,
        y_range=_read_range(tree.get("y_range")),
        smoothing=smoothing if type(smoothing) is float and 0.0 <= smoothing < 1.0 else 0.0,
        colours=ColourChoice(
            span,  # type: ignore[arg-type]  # one of _SPANS
            fixed if fixed is not None and span == "fixed" else ColourChoice().fixed,
            ramp if isinstance(ramp, str) and ramp in _RAMPS else "",  # type: ignore[arg-type]  # one of _RAMPS
        ),
        minus=_read_subtrahend(tree.get("minus")),
    )


def _read_range(ends: Any) -> Range | None:
    if not isinstance(ends, list) or [type(end) for end in ends] != [float, float]:
        return None
    low, high = ends
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _read_subtrahend(names: Any) -> Subtrahend | None:
    if not isinstance(names, list) or len(names) != 3 or not all(map(_is_name, names)):
        return None
    return Subtrahend(*names)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _MOST
