"""The run (A) and what it is compared with (B): labels, and the view of B alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Chart, Curve, Dash, Fact, Sides, with_matrix
from dgn_engine.scene.matrix_difference import difference_chart, reason_not_subtractable
from dgn_engine.scene.overlaid import is_automatic_name, short_name
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.scene.run_text import strip_dollars
from dgn_engine.scene.typeset import escape_label

_LONGEST = 28  # 'unchanged from step 12,345'
_SENTENCE = re.compile(r"(?<=\.) ")
_DASH_OF_B: dict[Dash, Dash] = dict.fromkeys(("solid", "dash", "dot", "dashdot"), "dash")
_DASHES_OF_B: dict[Dash, Dash] = _DASH_OF_B | {"solid": "dot", "dash": "dashdot"}


def pair_labels(compared: ComparedRun) -> tuple[str, str]:
    """Return the labels of A and B before curve names: 'A' and 'B', 'step 0' and 'step 900'."""
    return compared.labels[0] or "A", compared.labels[1] or "B"


def b_name(compared: ComparedRun) -> str:
    """Return 'B · resnet18.pth', cut in the middle if long; B's label if it has one."""
    if compared.labels[1]:
        return compared.labels[1]
    return f"B · {_short_name(compared)}"


def _short_name(compared: ComparedRun) -> str:
    """Return 'DL-fc 10:15 at step 40' for a recorded run; a long name is cut in the middle."""
    name, at, step = compared.name.partition(" at step ")
    named = short_name(name) if is_automatic_name(name) else strip_dollars(name, _LONGEST)
    return f"{named}{at}{step}"


def title_of_side(compared: ComparedRun, of_b: bool, what: str) -> str:
    """Return 'A, layer 1' or 'B, layer 1 · resnet18.pth': what is cut in a narrow chart is last."""
    title = ", ".join(filter(None, (pair_labels(compared)[of_b], what)))
    named = not of_b or bool(compared.labels[1])
    return title if named else f"{title} · {_short_name(compared)}"


def describe_b(compared: ComparedRun, how: str = "") -> str:
    """Return 'Dashed: B · resnet18.pth.' for a note; '' if each curve has a label of A or B."""
    return "" if compared.labels[1] else f"{how}{b_name(compared)}."


def overlay_charts(ours: Chart, theirs: Chart, names: tuple[str, str]) -> Chart:
    """Draw the curves of A and B in one chart, with axes that cover both.

    B has its own colour, and dashes that A does not use: the chart can be read in grey.
    """
    a, b = names
    dashes = _DASHES_OF_B if max(len(ours.curves), len(theirs.curves)) > 1 else _DASH_OF_B
    curves = [
        replace(
            curve,
            name=f"{b} {curve.name}".strip(),
            role="compared",
            dash=dashes[curve.dash],
            marker=curve.marker and curve.x.size == 1,
        )
        for curve in theirs.curves
    ]
    curves += (replace(curve, name=f"{a} {curve.name}".strip()) for curve in ours.curves)
    limits = [axis.limits for axis in (ours.y, theirs.y) if axis.limits is not None]
    reach = (min(low for low, _ in limits), max(high for _, high in limits)) if limits else None
    across = [axis.limits for axis in (ours.x, theirs.x) if axis.limits is not None]
    x = replace(ours.x, limits=max(across, key=lambda ends: ends[1], default=None))
    return replace(ours, curves=tuple(curves), x=x, y=replace(ours.y, limits=reach))


def curve_differences(
    ours: Sequence[Curve], theirs: Sequence[Curve], ratio: bool = False
) -> tuple[Curve, ...]:
    """Return A − B (or A / B) of curves with the same name, where both have a point.

    Nothing is interpolated: curves with fewer than two common points have no difference.
    """
    curves = []
    for curve in ours:
        other = next((one for one in theirs if one.name == curve.name), None)
        if other is None:
            continue
        x, at, at_other = np.intersect1d(curve.x, other.x, return_indices=True)
        a, b = curve.y[at].astype(np.float64), other.y[at_other].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            y = a / b if ratio else a - b
        y = np.where(np.isfinite(y) & (y > 0), y, np.nan) if ratio else y
        if x.size > 1:
            curves.append(replace(curve, x=x, y=y))
    return tuple(curves)


def compared_view(view: View) -> View | None:
    """Return the view as if B were the run; None if nothing is compared."""
    compared = view.compared
    if compared is None:
        return None
    run = view.run
    return replace(
        view,
        run=None if run is None else replace(run, layers=compared.layers),
        regime=compared.regime,
        wiring=compared.wiring,
        step=compared.step,
        readings=compared.readings,
        series=view.series if compared.own else compared.series,
        cursor=compared.at,
        marks=(),
        compared=None,
        outdated={},
        gaps={},
        tested=True,
    )


def compared_reading(view: View, probe: str) -> Reading | None:
    """Return B's reading of a probe; None if it is missing or absent."""
    reading = view.compared.readings.get(probe) if view.compared is not None else None
    return None if reading is None or reading.absent else reading


def compared_note(view: View, probe: str, how: str) -> str:
    """Return 'Dashed: B · resnet18.pth. All else: A.' if B has such a reading, else why not."""
    if view.compared is not None and compared_reading(view, probe) is not None:
        return (
            f"{describe_b(view.compared, how)} All else: {pair_labels(view.compared)[0]}.".lstrip()
        )
    return reason_not_compared(view, probe)


def facts_of_both(
    ours: Sequence[Fact], theirs: Sequence[Fact], compared: ComparedRun
) -> tuple[Fact, ...]:
    """Return each number of A and of B as one fact, 'A 12.4 | B 9.1'; '–' for a missing one."""
    a, b = pair_labels(compared)
    names = ("A ", "B ") if (a, b) == ("A", "B") else ("", "")  # steps are in the titles
    merged = []
    for name in dict.fromkeys(fact.name for fact in (*ours, *theirs)):
        pair = [next((f for f in side if f.name == name), None) for side in (ours, theirs)]
        texts = [
            f"{letter}{'–' if fact is None else fact.value}"
            for letter, fact in zip(names, pair, strict=True)
        ]
        abouts = [fact.about for fact in pair if fact is not None]
        about = f"{a} | {b}. {abouts[0]}"
        if len(set(abouts)) > 1:  # with numbers of its own
            about = notes_of_both(abouts[0], abouts[-1], compared)
        aside = all(fact.aside for fact in pair if fact is not None)
        merged.append(Fact(name, " | ".join(texts), about, aside))
    return tuple(merged)


def notes_of_both(ours: str, theirs: str, compared: ComparedRun) -> str:
    """Return the notes of A and of B: first what both say, then what only one says."""
    a, b = pair_labels(compared)
    notes = [[part for part in _SENTENCE.split(note) if part] for note in (ours, theirs)]
    common = [part for part in notes[0] if part in notes[1]]
    of_each = [" ".join(part for part in note if part not in common) for note in notes]
    named = (f"{name}: {part}" for name, part in zip((a, b), of_each, strict=True) if part)
    return " ".join((*common, *named))


def facts_of_view(
    view: View, probe: str, list_facts: Callable[[Reading], Sequence[Fact]]
) -> tuple[Fact, ...]:
    """Return the facts of a probe's reading; in a comparison, of A and of B."""
    ours = tuple(list_facts(view.readings[probe]))
    if view.compared is None:
        return ours
    theirs = compared_reading(view, probe)
    return facts_of_both(ours, () if theirs is None else list_facts(theirs), view.compared)


def with_difference(
    pair: Sequence[Chart], key: str, compared: ComparedRun
) -> tuple[tuple[Chart, ...], str]:
    """Append a third chart, A − B entry by entry, to the matrices of A and of B.

    The left chart alone has the names of the rows, and pictures. The three know each other's
    values (`Matrix.sides`).

    Returns:
        The charts, and why there is no difference in one sentence; '' if there is one.
    """
    a, b = pair_labels(compared)
    if len(pair) != 2:
        return tuple(pair), ""
    ours, theirs = pair
    if why := reason_not_subtractable(ours, theirs):
        return (ours, theirs), f"No {a} − {b}: {why}."
    result = with_matrix(difference_chart(ours, theirs), name=f"{a} - {b}", bar=f"{a} − {b}")
    narrow = None
    if theirs.narrow is not None:
        row, column, *spans = theirs.narrow
        one_below = ours.narrow is not None and ours.narrow[0] < row
        narrow = (row + one_below, column + (not one_below), spans[0], spans[1])
    column = theirs.column + theirs.column_span
    result = replace(result, key=key, title=f"{a} − {b}", column=column, narrow=narrow)
    charts = (ours, _without_rows(theirs), _without_rows(result))
    matrices = [chart.matrix.values for chart in charts if chart.matrix is not None]
    sides = Sides(key, (a, b, f"{a} − {b}"), tuple(matrices))
    return tuple(with_matrix(chart, sides=sides) for chart in charts), ""


def _without_rows(chart: Chart) -> Chart:
    """Return the chart without the names of its rows and their pictures."""
    return replace(chart, y=replace(chart.y, label="", ticks=()), pictures=None)


def reason_not_compared(view: View, probe: str) -> str:
    """Return why B is not shown, in one sentence; '' if it is, or if there is no B."""
    if view.compared is None:
        return ""
    reading = view.compared.readings.get(probe)
    if reading is None:
        return f"{b_name(view.compared)}: no reading yet." if view.compared.layers else ""
    return f"{b_name(view.compared)}: {escape_label(reading.absent)}" if reading.absent else ""
