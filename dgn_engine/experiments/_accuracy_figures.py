"""Figures of accuracies: measured and printed, the models of each regime, learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dgn_engine.experiments._grid import TrainedCell, mean_line
from dgn_engine.protocol.experiments import PRINTED_SPREAD, Figure, PlottedLine, Printed, Row
from dgn_engine.sweep.statistics import mean_and_half_width

ACCURACY = "test accuracy (%)"


def plot_measured_and_printed(name: str, label: str, rows: Mapping[str, Row]) -> Figure:
    """Plot measured means with 95 % intervals next to the printed means, by column.

    Args:
        name: file name of the figure.
        label: label of the table row.
        rows: the cells of the table row, by column.
    """
    lines = [_measured_line("measured", list(rows.values()))]
    note = f"Points: means over n = {_format_counts(list(rows.values()))}; bars: 95 % intervals."
    printed = [row.printed for row in rows.values()]
    if any(printed):
        lines.append(_printed_line(printed))
        note += f" Printed bars: {PRINTED_SPREAD}."
    title = f"{label}: measured and printed" if any(printed) else f"{label}: measured"
    return Figure(name, title, "", ACCURACY, tuple(lines), categories=tuple(rows), note=note)


def plot_groups(
    name: str, title: str, groups: Mapping[str, Mapping[str, Row]], level: Row | None = None
) -> Figure:
    """Plot the means of each group side by side with 95 % intervals, and perhaps a level line.

    Args:
        name: file name of the figure.
        title: its title.
        groups: the rows by group and category.
        level: the row of the level line.
    """
    categories = tuple(dict.fromkeys(name for rows in groups.values() for name in rows))
    lines = [
        _measured_line(group, [rows.get(name) for name in categories])
        for group, rows in groups.items()
    ]
    drawn = "Points (in the order of the key)"
    if level is not None:
        lines.append(PlottedLine("ReLU", (), (_mean(level),)))
        drawn += " and dashed line"
    counts = _format_counts([row for rows in groups.values() for row in rows.values()])
    note = (
        f"{drawn}: means over n = {counts}; bars: 95 % intervals of each mean. The claims compare "
        "networks of the same seed."
    )
    return Figure(name, title, "", ACCURACY, tuple(lines), categories=categories, note=note)


def model_boxes(
    name: str,
    label: str,
    regimes: Sequence[str],
    models: Mapping[str, Mapping[str, Sequence[float]]],
    networks: Mapping[str, Sequence[float]],
    printed: Mapping[str, Printed | None],
) -> Figure:
    """Plot a box per regime over all its models, and each model as a point.

    Args:
        name: file name of the figure.
        label: label of the table row.
        regimes: the categories in order.
        models: accuracies (percent) of the models by kind and regime, drawn as points per kind.
        networks: accuracies (percent) of single networks by regime, one per seed, without a box.
        printed: the paper's numbers by regime.
    """
    boxes = [
        (float(position), value)
        for position, regime in enumerate(regimes)
        for kind in models.values()
        for value in kind.get(regime, ())
    ]
    lines = [PlottedLine("", *_split_points(boxes), style="boxes")]
    for kind, of_regime in models.items():
        points = [(float(regimes.index(r)), v) for r, values in of_regime.items() for v in values]
        lines.append(PlottedLine(kind, *_split_points(points), style="cloud"))
    single = [(float(regimes.index(r)), v) for r, values in networks.items() for v in values]
    lines.append(PlottedLine("one network", *_split_points(single), style="cloud"))
    printed_numbers = [printed.get(regime) for regime in regimes]
    note = (
        "Points: models (means over seeds), and for "
        f"{' and '.join(networks)} one network per seed. "
        "Boxes: quartiles and median over all models of a regime; whiskers extend to the furthest "
        "model within 1.5 interquartile ranges."
    )
    if any(printed_numbers):
        lines.append(_printed_line(printed_numbers))
    title = f"{label}: the models of each regime"
    return Figure(name, title, "", ACCURACY, tuple(lines), categories=tuple(regimes), note=note)


def model_curves(name: str, label: str, models: Mapping[str, Sequence[TrainedCell]]) -> Figure:
    """Plot test accuracies against epochs by regime, averaged over models, then over seeds.

    The band is the interval over seeds, not over models, which share the gates of their seed.
    """
    lines = []
    for regime, cells in models.items():
        by_seed = [
            [cell.runs[seed] for cell in cells] for seed in range(min(len(c.runs) for c in cells))
        ]
        curves = [TrainedCell(runs).accuracy_line("") for runs in by_seed]
        longest = max(curves, key=lambda curve: len(curve.x))
        lines.append(mean_line(regime, longest.x, [curve.y for curve in curves]))
    note = (
        "Lines: means over the models of a regime and its seeds; bands: 95 % intervals over the "
        "seeds. Runs that stopped early are included up to their end."
    )
    return Figure(name, f"{label}: learning", "epoch", ACCURACY, tuple(lines), note=note)


def _measured_line(label: str, rows: Sequence[Row | None]) -> PlottedLine:
    """Return the means of the rows with their intervals, one per category."""
    positions, means, halves = [], [], []
    for position, row in enumerate(rows):
        values = _finite_values(row) if row is not None else ()
        if values:
            mean, half = mean_and_half_width(values)
            positions.append(float(position))
            means.append(mean)
            halves.append(half)
    return PlottedLine(label, tuple(positions), tuple(means), tuple(halves), "points")


def _mean(row: Row) -> float:
    return mean_and_half_width(_finite_values(row))[0]


def _printed_line(found: Sequence[Printed | None]) -> PlottedLine:
    points = [
        (float(position), number) for position, number in enumerate(found) if number is not None
    ]
    spread = tuple(number.half_width or 0.0 for _, number in points)
    return PlottedLine(
        "printed",
        tuple(position for position, _ in points),
        tuple(number.value for _, number in points),
        spread if any(spread) else (),
        "printed",
    )


def _finite_values(row: Row) -> tuple[float, ...]:
    return tuple(value for value in row.values if math.isfinite(value))


def _format_counts(rows: Sequence[Row]) -> str:
    """Format the numbers of replicates as '3 seeds', or '3 or 5 seeds' if they differ."""
    counts = sorted({len(_finite_values(row)) for row in rows})
    kinds = dict.fromkeys(row.of for row in rows)
    return f"{' or '.join(map(str, counts))} {' or '.join(kinds)}"


def _split_points(
    points: Sequence[tuple[float, float]],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x for x, _ in points), tuple(y for _, y in points)
