"""Half-spaces: the hyperplanes at which gates switch, beside the cuts of the labels."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Curve,
    Fact,
    Matrix,
    Role,
    Scene,
    Shown,
    Subjects,
    finite_range,
    largest_magnitude,
)
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    is_from_file,
    is_read_again,
    layers_note,
    over_steps,
    recorded_curve,
)
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, chosen_value
from dgn_engine.scene.run_text import layers_with_prefix
from dgn_engine.scene.scatter import scatter_curve, segment_curve
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number

_ROLES: tuple[Role, ...] = ("value", "cross", "muted")
_MOVED = ("moved", "angle moved")
_TITLES = {"cuts": "Angle to the cuts, °", "moved": "Angle since first reading, °"}


def _layer_values(view: View) -> Values:
    reading = view.readings.get("half_spaces")
    layers = layers_with_prefix(reading.arrays, "planes") if reading else []
    return tuple((str(layer), f"layer {layer + 1}") for layer in layers)


def _step_values(view: View) -> Values:
    reading = view.readings.get("half_spaces")
    known = reading is not None and "cuts" in reading.arrays
    return ((("cuts", "angle to cuts"),) if known else ()) + (
        () if is_from_file(view) else (_MOVED,)
    )


LAYER = Option("layer", "Layer", _layer_values, follows=("layer", 0))
OVER_STEPS = Option("steps", "Over steps", _step_values)


@draw_reading("half_spaces", "The hyperplanes of the gates appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw the hyperplanes of one layer, and angles over steps."""
    layer = int(chosen_value(view, LAYER))
    planes = reading.arrays[f"planes_{layer}"]
    if "points" in reading.arrays:
        left = _draw_plane(view, reading, layer, planes)
    elif "image" in reading.arrays:
        left = _draw_images(reading, layer, planes)
    elif "cuts" in reading.arrays:
        left = _draw_angles(reading, layer, planes)
    else:
        left = _draw_normals(reading, layer, planes)
    count = len(layers_with_prefix(reading.arrays, "planes"))
    note = join_sentences(
        _note_shown(reading, layer), reading.facts.get("later", ""), layers_note(count)
    )
    over_steps = (_over_steps(view, count),) if _step_values(view) else ()
    return Scene((left, *over_steps), _list_facts(view, reading), reading.step, note)


def _draw_plane(view: View, reading: Reading, layer: int, planes: Array) -> Chart:
    points, labels = reading.arrays["points"], reading.arrays["labels"]
    names = class_names(view, labels)
    reach = 1.1 * max(float(np.abs(points).max()), 1e-6)
    curves: list[Curve] = []
    for index, label in enumerate(np.unique(labels).tolist()):
        chosen = points[labels == label]
        role = _ROLES[index % len(_ROLES)]
        curves.append(scatter_curve(names[int(label)], chosen[:, 0], chosen[:, 1], role))
    lines: list[tuple[str, Array, Role, bool]] = [(f"layer {layer + 1}", planes, "feature", False)]
    if "cuts" in reading.arrays:
        lines.append(("cuts of the labels", reading.arrays["cuts"], "text", True))
    for name, rows, role, thick in lines:
        starts, ends = clip_lines(rows, reach)
        if len(starts):
            curves.append(replace(segment_curve(name, starts, ends, role), thick=thick))
    return Chart(
        key="plane",
        title=f"Hyperplanes, layer {layer + 1}",
        x=Axis("x", limits=(-reach, reach)),
        y=Axis("y", limits=(-reach, reach)),
        curves=tuple(curves),
        square=True,
        narrow=(0, 0, 1, 1),
    )


def clip_lines(rows: Array, reach: float) -> tuple[Array, Array]:
    """Return the ends (m, 2) of the lines w·(x, y) + b = 0 in the square of ±`reach`.

    Rows are (w, b), or (w, 0, b) for points (x, y, 1); lines that miss the square are left out.
    """
    starts, ends = [], []
    for row in rows.astype(np.float64):
        normal, offset = row[:2], row[-1]
        size = float(np.linalg.norm(normal))
        if not np.isfinite(row).all() or size == 0:
            continue
        foot = -offset * normal / size**2
        along = np.array([-normal[1], normal[0]]) / size
        # |foot + t·along| ≤ reach in both coordinates
        low, high = -math.inf, math.inf
        for at, slope in zip(foot, along, strict=True):
            if abs(slope) < 1e-12:
                high = high if abs(at) <= reach else -math.inf
            else:
                first, last = sorted(((-reach - at) / slope, (reach - at) / slope))
                low, high = max(low, first), min(high, last)
        if low < high:
            starts.append(foot + low * along)
            ends.append(foot + high * along)
    return np.array(starts).reshape(-1, 2), np.array(ends).reshape(-1, 2)


def _draw_images(reading: Reading, layer: int, planes: Array) -> Chart:
    """Tile the normals as images, each scaled to its largest entry; colours are averaged."""
    _, high, wide = reading.arrays["image"].tolist()
    images = planes[:, :-1].reshape(len(planes), -1, high, wide).mean(axis=1)
    across = max(math.ceil(math.sqrt(len(images) * high / wide)), 1)
    down = math.ceil(len(images) / across)
    canvas = np.full((down * (high + 1) - 1, across * (wide + 1) - 1), np.nan, dtype=np.float32)
    for index, image in enumerate(images):
        row, column = index // across * (high + 1), index % across * (wide + 1)
        canvas[row : row + high, column : column + wide] = image / largest_magnitude(image)
    matrix = Matrix(
        name="normals",
        values=canvas,
        ramp="diverging",
        low=-1.0,
        high=1.0,
        bar="weight, scaled per unit",
        row_labels=_unit_names(reading, layer),
        tile=(high, wide),
        layer=layer,
    )
    blank = Axis(ticks=())
    return _matrix_chart("images", f"Normals, layer {layer + 1}", blank, blank, matrix, True)


def _draw_angles(reading: Reading, layer: int, planes: Array) -> Chart:
    normals, cuts = (
        np.where(np.isfinite(rows[:, :-1]), rows[:, :-1], np.nan).astype(np.float64)
        for rows in (planes, reading.arrays["cuts"])
    )
    cosines = np.clip(np.abs(normals @ cuts.T), 0.0, 1.0)
    matrix = Matrix(
        name="angle",
        values=np.degrees(np.arccos(cosines)),
        ramp="sequential",
        low=0.0,
        high=90.0,
        bar="angle, °",
        row_name="unit",
        column_name="cut",
        row_labels=_unit_names(reading, layer),
        column_labels=tuple(f"cut {index}" for index in range(len(cuts))),
        layer=layer,
    )
    title = f"Angle to each cut, layer {layer + 1}"
    return _matrix_chart("angles", title, Axis("cut"), _unit_axis(reading, layer), matrix)


def _draw_normals(reading: Reading, layer: int, planes: Array) -> Chart:
    normals = planes[:, :-1]
    size = max(map(abs, finite_range(normals))) or 1.0
    matrix = Matrix(
        name="normals",
        values=normals,
        ramp="diverging",
        low=-size,
        high=size,
        bar="entry of the unit normal",
        row_name="unit",
        column_name="input",
        row_labels=_unit_names(reading, layer),
        layer=layer,
    )
    title = f"Normals, layer {layer + 1}"
    return _matrix_chart("normals", title, Axis("input"), _unit_axis(reading, layer), matrix)


def _matrix_chart(
    key: str, title: str, x: Axis, y: Axis, matrix: Matrix, square: bool = False
) -> Chart:
    return Chart(key, title, x, y, matrix=matrix, square=square, narrow=(0, 0, 1, 1))


def _unit_axis(reading: Reading, layer: int) -> Axis:
    units = range(len(reading.arrays[f"planes_{layer}"]))
    return Axis("unit", subjects=Subjects("unit", units))


def _unit_names(reading: Reading, layer: int) -> tuple[str, ...]:
    return tuple(f"unit {unit}" for unit in reading.arrays[f"units_{layer}"].tolist())


def _over_steps(view: View, count: int) -> Chart:
    what = chosen_value(view, OVER_STEPS)
    curves = over_steps(view, "half_spaces", what, count)
    if what == "cuts":
        whole = recorded_curve(view, ("half_spaces", "cuts"), "all layers", "text", thick=True)
        curves = (*curves, *whole)
    return chart_over_steps(view, _TITLES[what], curves, (1, 0, 1, 1), 1)


def _list_facts(view: View, reading: Reading) -> tuple[Fact, ...]:
    facts = []
    if (angle := reading.scalars.get("cuts")) is not None:
        about = "Angle of each cut with the nearest hyperplane of any layer, mean over the cuts."
        facts.append(Fact("cuts", f"{format_number(angle, 3)}°", about))
        about = "Difference of their distances from the origin, mean over the cuts."
        facts.append(Fact("offset", format_number(reading.scalars["offset"], 3), about))
    moved = {n: value for n, value in reading.scalars.items() if n.startswith("moved_")}
    if any(is_read_again(view, ("half_spaces", name)) for name in moved):
        about = "Mean angle between the hyperplanes now and at the first reading."
        facts.append(Fact("moved", f"{format_number(sum(moved.values()) / len(moved), 3)}°", about))
    return tuple(facts)


def _note_shown(reading: Reading, layer: int) -> str:
    shown = len(reading.arrays[f"planes_{layer}"])
    angles = reading.arrays.get(f"angles_{layer}")
    if angles is not None and len(angles) > shown:
        return f"The first {shown} of {len(angles)} units are drawn; angles are over all units."
    return ""


PANEL = PanelSpec(
    title="Half-spaces",
    probes=("half_spaces",),
    draw=draw,
    about=About(
        text=(
            "The gates of linear features (DL-linear) and of parallel feature layers are open on "
            "half-spaces, in every layer. With linear features in a chain, the normal of a unit of "
            "a later layer is a product of weights. In the plane the hyperplanes of a layer are "
            "lines over the examples; for images the normals are images. Where the labels are "
            "those of an oblique decision tree, whose cuts are known, the curves show how near the "
            "hyperplanes come: the angle between each cut and the nearest hyperplane, averaged "
            "over the cuts. In a chain of ReLU features only the first layer has half-spaces. Try "
            "the data set oblique-tree with DL-linear."
        ),
        formulas=(
            r"$q_l(x) = W_l \cdots W_1 x + b$",
            r"$\frac{1}{m} \sum_c \min_u \angle(w_u, w_c)$",
        ),
        symbols=(
            "$q_l$: pre-activations of gate layer $l$; $W_l$: its weights; $w_u$: normal of the "
            "hyperplane of unit $u$; $w_c$: normal of cut $c$ of the labels, of which there are "
            "$m$; the nearest hyperplane is that with the smallest distance of unit normals and "
            "offsets, whichever side is up."
        ),
        source=(
            "Yadav, Ramaswamy & Lakshminarayanan, Half-Space Feature Learning in Neural Networks, "
            "2024, arXiv:2404.04312: gates of linear features are half-spaces; trees and their "
            "cuts: Banerjee et al., Deep Networks Learn Features From Local Discontinuities in the "
            "Label Function, ICLR 2025; the average of nearest angles is ours"
        ),
        computed=(
            "Exact: derivatives of the pre-activations. In a feature map, the unit of each channel "
            "at the middle position stands for the channel."
        ),
        trials=(
            freeze_random_gates(
                "The hyperplanes stay where they are, and so does their angle to the cuts."
            ),
        ),
    ),
    options=(LAYER, OVER_STEPS),
    area="left",
    order=23,
    opened=False,
)
