"""Descriptions of charts for screen readers: title, content and range."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dgn_engine.scene.elements import Chart, Curve, finite_range
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.text.written_numbers import format_number


def describe_charts(charts: Iterable[Chart]) -> str:
    """Describe charts: 'Accuracy, %: test over step 0 to 1,234, 11 to 97.'"""
    return " ".join(_describe_chart(chart) for chart in charts if not chart.small)


def _describe_chart(chart: Chart) -> str:
    title = strip_markup(chart.title)
    if chart.matrix is not None:
        rows, columns = chart.matrix.values.shape
        low, high = finite_range(chart.matrix.values)
        of = f"{rows} {chart.matrix.row_name}s by {columns} {chart.matrix.column_name}s"
        return f"{title}: {of}, {format_number(low, 3)} to {format_number(high, 3)}."
    curves = "; ".join(_describe_curve(chart, curve) for curve in chart.curves if curve.x.size)
    return f"{title}: {curves}." if curves else f"{title}: no curves yet."


def _describe_curve(chart: Chart, curve: Curve) -> str:
    first, last = finite_range(curve.x)
    low, high = finite_range(curve.y)
    over = strip_markup(chart.x.label) or "x"
    name = f"{strip_markup(curve.name)} " if curve.name else ""
    reach = f"{format_number(low, 3)} to {format_number(high, 3)}"
    finite = curve.y[np.isfinite(curve.y)]
    end = f", {format_number(float(finite[-1]), 3)} at the end" if finite.size else ""
    return f"{name}over {over} {format_number(first)} to {format_number(last)}, {reach}{end}"
