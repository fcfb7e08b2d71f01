"""Gate maps: which gates are open for which example, layer by layer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, example_axis, example_labels, example_rows
from dgn_engine.scene.compared import (
    b_name,
    compared_reading,
    compared_view,
    facts_of_view,
    reason_not_compared,
    title_of_side,
    with_difference,
)
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Empty,
    Fact,
    Matrix,
    Scene,
    Shown,
    Subjects,
    finite_range,
    with_matrix,
)
from dgn_engine.scene.layer_curves import make_overviews
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, chosen_value
from dgn_engine.scene.run_text import (
    is_conv,
    layer_name,
    layer_tag,
    layer_values,
    layers_with_prefix,
)
from dgn_engine.scene.trials import freeze_random_gates, keep_gates
from dgn_engine.text.written_numbers import format_percent


def _unit_values(view: View) -> Values:
    reading = view.readings.get("gates")
    layer = chosen_value(view, LAYER)
    if reading is None or not layer or not is_conv(view, reading, int(layer)):
        return ()
    units = reading.arrays[f"layer_{layer}"].shape[1]
    return tuple((str(unit), f"channel {unit}") for unit in range(units))


_HARD = "0 closed, 1 open"

LAYER = Option(
    "layer", "Layer", lambda view: layer_values(view, "gates", "layer"), True, ("layer", 0)
)
UNIT = Option("unit", "Channel", _unit_values, True, ("unit", 0))


@draw_reading("gates", "The gates of every layer appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw overviews of all layers, the chosen layer's map, and the maps of one channel."""
    layers = layers_with_prefix(reading.arrays, "layer")
    if not layers:
        return Empty("This network has no gate layers.", "no-gates")
    chosen = int(chosen_value(view, LAYER))
    note = _write_note(reading, chosen)
    if compared := _draw_comparison(view, reading, chosen, note):
        return compared
    charts_by_layer = {layer: _draw_overview(view, reading, layer) for layer in layers}
    small_charts, rows, per_row = make_overviews(charts_by_layer, chosen, LAYER.id)
    charts = (*small_charts, *_draw_large(view, reading, chosen, rows, per_row))
    note = join_sentences(note, _not_compared(view, chosen))
    return Scene(charts, _list_facts(view, chosen), reading.step, note)


def _gate_matrix(view: View, reading: Reading, layer: int) -> Matrix:
    values = reading.arrays[f"layer_{layer}"]
    labels = reading.arrays["labels"]
    dead = reading.arrays.get(f"dead_{layer}")
    conv = is_conv(view, reading, layer)
    soft = values.dtype != np.uint8
    bar = _HARD
    if conv or soft:
        bar = "mean gate over positions" if conv else "gate value"
    top = finite_range(values)[1] if values.size else 1.0
    return Matrix(
        name=f"gates of {layer_name(view, layer)}",
        values=values,
        ramp="gates",
        low=0.0,
        high=1.0 if top <= 1.0 + 1e-6 else math.ceil(top * 20 - 1e-6) / 20,
        bar=bar,
        row_name="example",
        column_name="channel" if conv else "unit",
        row_labels=example_labels(labels, class_names(view, labels)),
        dead_columns=tuple(int(unit) for unit in dead) if dead is not None else (),
        row_examples=example_rows(view, labels),
        layer=layer,
    )


def _unit_axis(reading: Reading, layer: int, label: str) -> Axis:
    units = range(reading.arrays[f"layer_{layer}"].shape[1])
    return Axis(label=label, subjects=Subjects("unit", units))


def _draw_overview(view: View, reading: Reading, layer: int) -> Chart:
    return Chart(
        key="",
        title=layer_tag(view, layer),
        x=_unit_axis(reading, layer, "unit"),
        y=Axis(label="example"),
        matrix=_gate_matrix(view, reading, layer),
    )


def _draw_large(view: View, reading: Reading, layer: int, row: int, columns: int) -> list[Chart]:
    labels = reading.arrays["labels"]
    axis = example_axis(labels, class_names(view, labels), "class")
    matrix, name = _gate_matrix(view, reading, layer), layer_name(view, layer)
    maps = reading.arrays.get("unit_map") if matrix.column_name == "channel" else None
    # Overviews share the full width; the large map and the channel's maps take half each.
    span = max(columns // 2, 1) if maps is not None else columns
    large = Chart(
        key="large",
        title=f"{name[:1].upper()}{name[1:]}",
        x=_unit_axis(reading, layer, matrix.column_name),
        y=axis,
        matrix=matrix,
        row=row,
        column_span=span,
        pick=UNIT.id if maps is not None else "",
        pictures=view.pictures if matrix.row_examples else None,
    )
    if maps is None:
        return [large]
    map_of = reading.facts.get("unit_map", f"layer {layer}, unit {chosen_value(view, UNIT) or '0'}")
    unit = Chart(
        key="unit",
        title=f"Channel {map_of.rpartition(' ')[2]}",
        x=Axis(ticks=()),
        y=Axis(ticks=()),
        matrix=_tile_maps(view, maps, labels, layer),
        row=row,
        column=span,
        column_span=max(columns - span, 1),
        square=True,
    )
    return [large, unit]


def _draw_comparison(view: View, reading: Reading, layer: int, note: str) -> Scene | None:
    """Draw the layer in A, in B and A − B, with the maps of one channel of a convolution.

    None where B has no such layer. Overviews are left out: the maps need the room.
    """
    view_of_b, theirs = compared_view(view), compared_reading(view, "gates")
    if view_of_b is None or view.compared is None or theirs is None:
        return None
    if f"layer_{layer}" not in theirs.arrays:
        return None
    drawn_of_each = [
        [
            replace(
                with_matrix(chart, of_compared=index > 0),
                key=f"{chart.key}_{index}",
                title=title_of_side(
                    view.compared, index > 0, f"{chart.title[:1].lower()}{chart.title[1:]}"
                ),
                column=index + 3 * place,  # A − B is between
                column_span=1,
                narrow=(index, place, 1, 1),
            )
            for place, chart in enumerate(_draw_large(owner, source, layer, 0, 2))
        ]
        for index, (owner, source) in enumerate(((view, reading), (view_of_b, theirs)))
    ]
    pair = _on_one_scale([charts[0] for charts in drawn_of_each])
    channels = _on_one_scale([chart for charts in drawn_of_each for chart in charts[1:]])
    if not channels:
        pair = [replace(chart, narrow=None) for chart in pair]
    drawn, reason = with_difference(pair, "large_difference", view.compared)
    note = join_sentences(note, reason)
    return Scene((*drawn, *channels), _list_facts(view, layer), reading.step, note)


def _on_one_scale(charts: list[Chart]) -> list[Chart]:
    """Give the maps of A and B the same colours, with one bar."""
    matrices = [chart.matrix for chart in charts if chart.matrix is not None]
    high = max((matrix.high for matrix in matrices), default=1.0)
    bar = next((matrix.bar for matrix in matrices if matrix.bar != _HARD), _HARD)
    last = len(charts) - 1
    return [
        with_matrix(chart, high=high, bar=bar if index == last else "")
        for index, chart in enumerate(charts)
    ]


def _not_compared(view: View, layer: int) -> str:
    why = reason_not_compared(view, "gates")
    reading = compared_reading(view, "gates")
    if why or view.compared is None or reading is None or f"layer_{layer}" in reading.arrays:
        return why
    return f"{b_name(view.compared)} has no layer {layer + 1}."


def _tile_maps(view: View, maps: Array, labels: Array, layer: int) -> Matrix:
    """Tile the (n, H, W) maps of one channel in reading order, with an empty line between."""
    n, high, wide = maps.shape
    across = max(math.ceil(math.sqrt(n * high / wide)), 1)
    down = math.ceil(n / across)
    canvas = np.full((down * (high + 1) - 1, across * (wide + 1) - 1), np.nan, dtype=np.float32)
    for index in range(n):
        first_row, first_column = index // across * (high + 1), index % across * (wide + 1)
        canvas[first_row : first_row + high, first_column : first_column + wide] = maps[index]
    return Matrix(
        name="maps of one channel",
        values=canvas,
        ramp="gates",
        low=0.0,
        high=max(1.0, float(maps.max())),
        row_labels=example_labels(labels, class_names(view, labels)),
        tile=(high, wide),
        row_examples=example_rows(view, labels),
        layer=layer,
    )


def _list_facts(view: View, layer: int) -> tuple[Fact, ...]:
    return facts_of_view(view, "gates", lambda reading: _facts_of_layer(reading, layer))


def _facts_of_layer(reading: Reading, layer: int) -> list[Fact]:
    facts = []
    if (active := reading.scalars.get(f"active_{layer}")) is not None:
        facts.append(
            Fact("open", format_percent(active), "Mean gate of the layer on the probe examples.")
        )
    dead = reading.arrays.get(f"dead_{layer}")
    if dead is not None and dead.size:
        facts.append(Fact("dead", str(dead.size), "Units closed for every probe example."))
    if (churn := reading.scalars.get("churn")) is not None:
        about = "Share of gates that switched since the last reading."
        facts.append(Fact("churn", format_percent(churn, 2), about))
    return facts


def _write_note(reading: Reading, layer: int) -> str:
    dead = reading.arrays.get(f"dead_{layer}")
    return "Hatched: closed for every probe example." if dead is not None and dead.size else ""


PANEL = PanelSpec(
    title="Gate maps",
    probes=("gates",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "Each row is a probe example, each column a unit of the chosen layer; examples are "
            "sorted by class. A gate decides whether a unit passes its input on: hard gates are "
            "open or closed, soft gates take any value in between. Units that open for the same "
            "classes show up as blocks. Hatched units are closed for every probe example. For "
            "convolutions a column is the mean over all positions, with the maps of one channel "
            "beside it."
        ),
        formulas=(
            r"$z^{\mathrm{v}}_l = q^{\mathrm{v}}_l \odot G_l$",
            r"$\gamma_r(q) = 1\{q > 0\}, \quad \gamma_{sr}(q) = \frac{1}{1 + e^{-\beta q}}$",
        ),
        symbols=(
            "$q_l$: pre-activations of layer $l$; $G_l$: its gates; $z_l$: its outputs; ⊙: "
            "entrywise product; v: of the value network; $γ_r$, $γ_{sr}$: hard and soft gate; "
            "$β$: steepness of the soft gate."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: hard and soft gates, deep gated networks"
        ),
        computed=(
            "Exact: one forward pass over the probe examples, leaving the network unchanged. Each "
            "reading shows its step."
        ),
        trials=(
            freeze_random_gates(
                "The maps freeze from the next step on and the class blocks are gone: the value "
                "network now learns through noise."
            ),
            keep_gates(
                "The maps freeze. The value network starts from scratch, yet the accuracy "
                "recovers: what was learnt is in the gates."
            ),
        ),
    ),
    options=(LAYER, UNIT),
    area="left",
    prompt=True,
)
