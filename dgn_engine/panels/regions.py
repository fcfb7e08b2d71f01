"""Regions: how the gates cut the plane, the decision there, and the examples in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Fact, Matrix, Role, Scene, Shown
from dgn_engine.scene.layer_curves import chart_over_steps, recorded_curve
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, chosen_value
from dgn_engine.scene.scatter import scatter_curve
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_decimals, format_number

THIRD = Option("third", "Right", always(("points", "examples"), ("steps", "over steps")))
_ROLES: tuple[Role, ...] = ("value", "feature", "cross")
_FEW = 12  # points that are drawn larger


@draw_reading("regions", "Gate cuts and decision boundary appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw where gates switch, the decision, and the examples with the boundary or a curve."""
    third = (
        _draw_points(view, reading) if chosen_value(view, THIRD) == "points" else _over_steps(view)
    )
    charts = (_draw_cuts(view, reading), _draw_decision(view, reading), third)
    return Scene(charts, _list_facts(reading), reading.step, _write_note(reading))


def _draw_cuts(view: View, reading: Reading) -> Chart:
    switch = reading.arrays["switch"]
    layers = max(int(switch.max()), len(view.wiring), 1)
    values = np.where(switch > 0, switch, 0).astype(np.float64)
    return _draw_map(
        reading,
        Matrix(
            name="first layer that switches",
            values=values,
            ramp="sequential",
            low=0.0,
            high=float(layers),
            bar="gate layer, 0: none",
            scale="first gate layer that switches here",
        ),
        "cuts",
        "Where gates switch",
        0,
    )


def _draw_decision(view: View, reading: Reading) -> Chart:
    margin, winner = reading.arrays["margin"], reading.arrays["winner"]
    two = bool((margin < 0).any()) or int(winner.max()) < 2
    names = class_names(view, np.array([int(max(winner.max(), 1))]))
    return _draw_map(
        reading,
        Matrix(
            name="margin",
            values=-margin if two else margin,  # in the colours of the classes' points
            ramp="diverging" if two else "sequential",
            low=-1.0 if two else 0.0,
            high=1.0,
            bar=f"1: {names[0]}, −1: {names[1]}" if two else "margin of the top class",
            scale="difference of two probabilities",
        ),
        "decision",
        "Decision" if two else "Margin of the top class",
        1,
    )


def _draw_map(reading: Reading, matrix: Matrix, key: str, title: str, column: int) -> Chart:
    x, y = reading.arrays["x"], reading.arrays["y"]
    labels = _axis_labels(reading)
    return Chart(
        key=key,
        title=title,
        x=_map_axis(labels[0], x),
        y=_map_axis(labels[1], y),
        matrix=replace(
            matrix,
            row_name=labels[1],
            column_name=labels[0],
            row_labels=tuple(f"{labels[1]} = {format_decimals(value, 2)}" for value in y.tolist()),
            column_labels=tuple(
                f"{labels[0]} = {format_decimals(value, 2)}" for value in x.tolist()
            ),
        ),
        square=True,
        column=column,
        narrow=(0, column, 1, 1),
    )


def _axis_labels(reading: Reading) -> tuple[str, str]:
    return ("x", "y") if reading.facts.get("plane") == "data" else ("s", "t")


def _map_axis(label: str, at: Array) -> Axis:
    """Return the axis of a map, with its coordinates at the cells that they fall into."""
    values = _tick_coordinates(at)
    order = np.argsort(at)
    cells = np.interp(values, at[order], order.astype(np.float64))
    return Axis(label=label, limits=(-0.5, len(at) - 0.5), ticks=_label_ticks(cells, values))


def _plane_axis(label: str, at: Array) -> Axis:
    """Return the axis of the points, with the same coordinates as beside the maps."""
    values = _tick_coordinates(at)
    limits = float(at.min()), float(at.max())
    return Axis(label=label, limits=limits, ticks=_label_ticks(values, values))


def _tick_coordinates(at: Array) -> Array:
    """Return round coordinates, none in a corner, where they would meet the other axis's."""
    low, high = float(at.min()), float(at.max())
    step = next(s for s in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 1e9) if (high - low) / s <= 7)
    values = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    edge = 0.04 * (high - low)
    inside: Array = values[(values >= low + edge) & (values <= high - edge)]
    return inside


def _label_ticks(places: Array, values: Array) -> tuple[tuple[float, str], ...]:
    texts = (format_number(value, 6) for value in values)
    return tuple(zip(places.tolist(), texts, strict=True))


def _draw_points(view: View, reading: Reading) -> Chart:
    points, labels = reading.arrays["points"], reading.arrays["labels"]
    answers = reading.arrays["answers"]
    names = class_names(view, labels)
    x, y = reading.arrays["x"], reading.arrays["y"]
    few = len(labels) <= _FEW
    curves: list[Curve] = []
    border = decision_boundary(reading)
    if len(border):
        curves.append(scatter_curve("boundary", border[:, 0], border[:, 1], "muted"))
    for index, label in enumerate(np.unique(labels).tolist()):
        selected = labels == label
        role = _ROLES[index % len(_ROLES)]
        curves.append(
            scatter_curve(names[int(label)], points[selected, 0], points[selected, 1], role, few)
        )
    wrong = answers != labels
    if wrong.any():
        ringed = scatter_curve("wrong", points[wrong, 0], points[wrong, 1], "text", few)
        curves.append(replace(ringed, ring=True))
    horizontal, vertical = _axis_labels(reading)
    return Chart(
        key="points",
        title="Probe examples and boundary",
        x=_plane_axis(horizontal, x),
        y=_plane_axis(vertical, y),
        curves=tuple(curves),
        column=2,
        square=True,
        narrow=(1, 0, 1, 2),
    )


def decision_boundary(reading: Reading) -> Array:
    """Return the points (m, 2) where the winning class changes between grid neighbours."""
    winner, x, y = (reading.arrays[name] for name in ("winner", "x", "y"))
    rows, columns = np.nonzero(winner[:, 1:] != winner[:, :-1])
    across = np.stack([(x[columns] + x[columns + 1]) / 2, y[rows]], axis=1)
    rows, columns = np.nonzero(winner[1:] != winner[:-1])
    down = np.stack([x[columns], (y[rows] + y[rows + 1]) / 2], axis=1)
    return np.concatenate([across, down])


def _over_steps(view: View) -> Chart:
    curves = recorded_curve(view, ("regions", "regions"), "regions", "feature")
    return chart_over_steps(view, "Regions on the grid", curves, (1, 0, 1, 2), 2)


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    labels, answers = reading.arrays["labels"], reading.arrays["answers"]
    facts = []
    if (count := reading.scalars.get("regions")) is not None:
        about = "Gate patterns at the points of the grid; finer regions are missed."
        # If every grid point is a region of its own, the count is a lower bound.
        all_distinct = int(count) == reading.arrays["winner"].size
        facts.append(Fact("regions", f"{'≥ ' if all_distinct else ''}{int(count):,}", about))
    correct = int((labels == answers).sum())
    facts.append(
        Fact("right", f"{correct} of {len(labels)}", "Correct answers on the examples shown.")
    )
    return tuple(facts)


def _write_note(reading: Reading) -> str:
    side = len(reading.arrays["x"])
    plane = "Plane through three probe examples, at (0, 0), (1, 0) and (0, 1)."
    plane = "" if reading.facts.get("plane") == "data" else plane
    return join_sentences(f"Grid of {side} × {side} points.", plane, reading.facts.get("soft", ""))


PANEL = PanelSpec(
    title="Regions",
    probes=("regions",),
    draw=draw,
    about=About(
        text=(
            "A network with hard gates is linear wherever no gate switches: the gates cut the "
            "input space into regions, each with one active sub-network. Left: the cuts, coloured "
            "by the first layer whose gates switch there. Cuts of the first layer are straight "
            "lines; those of deeper layers bend where they cross an earlier one. Middle: the "
            "network's decision; right: the probe examples and the decision boundary. Data in the "
            "plane (moons, circles, spirals, XOR) are shown directly, others on the plane through "
            "three probe examples. Compare FR-II, whose cuts stay fixed while the values learn, "
            "with DL and ReLU, whose cuts move to the boundary."
        ),
        formulas=(
            r"$\hat{y}(x) = \sum_p x(p_0) A(x, p) v(p)$",
            r"$A(x, \cdot)$ constant $\Rightarrow \hat{y}$ linear",
        ),
        symbols=(
            "$p$: a path, $x(p_0)$: the input where it starts; $A$: 1 if all its gates are open "
            "for $x$; $v$: the product of its weights."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: active sub-networks; the regions follow from them, the count on a "
            "grid is ours"
        ),
        computed=(
            "On a grid of points: a region that fits between two of them is missed, and each "
            "border is known to within one cell."
        ),
        trials=(
            freeze_random_gates(
                "The cuts stay fixed from then on, while the decision boundary keeps moving."
            ),
        ),
    ),
    options=(THIRD,),
    area="left",
    order=12,
    opened=False,
)
