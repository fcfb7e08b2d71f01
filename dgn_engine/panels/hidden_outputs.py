"""Hidden outputs: each layer's output for one example, as is, with reversed gates and on ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, example_values
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Fact,
    Matrix,
    Scene,
    Shown,
    Subjects,
    largest_magnitude,
    with_matrix,
)
from dgn_engine.scene.layer_curves import layers_by_units
from dgn_engine.scene.panel_readings import draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, chosen_value
from dgn_engine.scene.run_text import layers_with_prefix
from dgn_engine.scene.trials import blind_value_network, reverse_layers
from dgn_engine.text.written_numbers import format_percent

_PASSES = (("as_is", "As is"), ("reversed", "Reversed"), ("ones", "On ones"))
_SHORT = {"as_is": "as is", "reversed": "reversed", "ones": "on ones"}
_LEAST, _MOST = 4, 8  # rows of tiles: the mean and some of the 7 channels in a reading
_FED = {"image": "the image", "ones": "ones already", "random": "one fixed random input"}


def _channel_values(view: View) -> Values:
    """List pages of channels, as many as there are rows below the mean; none without maps."""
    layers = view.run.layers if view.run is not None else ()
    shapes = [layer.shape for layer in layers if layer.kind == "conv"]
    count, page = max((shape[0] for shape in shapes), default=0), _tile_rows(len(shapes)) - 1
    return tuple(
        (str(first), f"channels {first}–{min(first + page, count) - 1}")
        for first in range(0, count, page)
    )


def _tile_rows(layers: int) -> int:
    """Return the number of rows of tiles that makes the picture about as high as wide."""
    return min(max(layers + 1, _LEAST), _MOST)


def _kind_values(view: View) -> Values:
    """Offer maps or dense layers for a network that has both."""
    reading = view.readings.get("hidden_outputs")
    arrays = reading.arrays if reading is not None else {}
    dimensions = {arrays[f"as_is_{layer}"].ndim for layer in layers_with_prefix(arrays, "as_is")}
    return (("maps", "maps"), ("units", "dense layers")) if len(dimensions) > 1 else ()


KIND = Option("kind", "Layers", _kind_values)
EXAMPLE = Option("example", "Example", example_values, True, ("example", 0))
CHANNEL = Option("channel", "Channels", _channel_values, engine=True)
SCALE = Option("scale", "Colours", always(("tile", "scaled alone"), ("layer", "scaled together")))


@draw_reading("hidden_outputs", "Layer outputs for one example appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw a chart per pass: maps as tiles, one column per layer, or one row per dense layer."""
    arrays = reading.arrays
    layers = layers_with_prefix(arrays, "as_is")
    maps = [layer for layer in layers if arrays[f"as_is_{layer}"].ndim == 3]
    dense = [layer for layer in layers if layer not in maps]
    tiled = bool(maps) and chosen_value(view, KIND) != "units"
    drawn_layers = maps if tiled else dense
    passes = [(name, title) for name, title in _PASSES if f"{name}_{layers[0]}" in arrays]
    largest = _layer_maxima(reading, drawn_layers, [name for name, _ in passes])
    shared_scale = chosen_value(view, SCALE) == "layer"
    charts = []
    for index, (name, title) in enumerate(passes):
        if tiled:
            chart = _draw_tiles(reading, name, drawn_layers, largest if shared_scale else None)
        else:
            scales = largest if shared_scale else _layer_maxima(reading, drawn_layers, [name])
            chart = _draw_units(reading, name, drawn_layers, scales)
        heading = f"{title}: {_describe_answer(view, reading, index)}"
        charts.append(_place_chart(chart, name, heading, index, len(passes)))
    return Scene(tuple(charts), _list_facts(reading), reading.step, _write_note(view, reading))


def _place_chart(chart: Chart, name: str, title: str, column: int, count: int) -> Chart:
    """Keep the colour bar on the last chart of the row and the layer names on the first."""
    if column < count - 1:
        chart = with_matrix(chart, bar="")
    y = chart.y if column == 0 else replace(chart.y, label="", ticks=())
    return replace(chart, key=f"{chart.key}_{name}", title=title, y=y, column=column)


def _layer_maxima(reading: Reading, layers: list[int], names: list[str]) -> dict[int, float]:
    """Return the largest finite magnitude of each layer in these passes; 1 where all are 0."""
    maxima = {}
    for layer in layers:
        values = [reading.arrays[f"{name}_{layer}"].ravel() for name in names]
        maxima[layer] = largest_magnitude(np.concatenate(values))
    return maxima


def _draw_tiles(
    reading: Reading, name: str, layers: list[int], largest: dict[int, float] | None
) -> Chart:
    """Draw tiles: rows are the mean and channels, columns the value input and the layers.

    `largest`: the magnitude of each layer, where its tiles share one scale. The value input is
    shown only where it is a map.
    """
    arrays = reading.arrays
    layer_maps = [arrays[f"{name}_{layer}"] for layer in layers]
    rows = min(_tile_rows(len(layers)), max(len(maps) for maps in layer_maps))
    value_input = arrays.get(f"input_{name}")
    columns: list[tuple[str, str, Array]] = []
    if value_input is not None:
        columns.append(("x", "value input", value_input[None] / largest_magnitude(value_input)))
    offset = len(columns)
    for layer, maps in zip(layers, layer_maps, strict=True):
        sizes = np.array(
            [[[largest[layer] if largest else largest_magnitude(tile_map)]] for tile_map in maps]
        )
        columns.append((str(layer + 1), f"layer {layer + 1}", maps / sizes))
    high = max(maps.shape[1] for _, _, maps in columns)
    wide = max(maps.shape[2] for _, _, maps in columns)
    canvas = np.full((rows * (high + 1) - 1, len(columns) * (wide + 1) - 1), np.nan)
    first = int(reading.facts.get("channel", "0"))
    labels = []
    for row in range(rows):
        row_label = "mean of all channels" if row == 0 else f"channel {first + row - 1}"
        for column, (_, column_label, maps) in enumerate(columns):
            labels.append(
                column_label if column_label == "value input" else f"{column_label}, {row_label}"
            )
            if row < len(maps):
                first_row, first_column = row * (high + 1), column * (wide + 1)
                tile = _enlarge_tile(maps[row], high, wide)
                canvas[first_row : first_row + high, first_column : first_column + wide] = tile
    tags = [tag for tag, _, _ in columns]
    row_names = ["mean", *(str(first + row) for row in range(rows - 1))]
    return Chart(
        key="maps",
        title="",
        x=_tile_axis("layer", tags, wide, "layer", layers, offset),
        y=_tile_axis("channel", row_names, high, "unit", range(first, first + rows - 1), 1),
        matrix=Matrix(
            name=f"hidden maps, {name}",
            values=canvas,
            ramp="diverging",
            low=-1.0,
            high=1.0,
            bar="relative to max",
            scale="relative to the layer's max" if largest else "relative to the tile's max",
            row_name="row",
            column_name="column",
            row_labels=tuple(labels),
            tile=(high, wide),
        ),
        square=True,
    )


def _enlarge_tile(tile: Array, high: int, wide: int) -> Array:
    """Enlarge a map to the size of a tile by repeating its pixels."""
    rows = np.arange(high) * tile.shape[0] // high
    columns = np.arange(wide) * tile.shape[1] // wide
    enlarged: Array = tile[rows][:, columns]
    return enlarged


def _tile_axis(
    label: str, names: list[str], side: int, kind: str, ids: Sequence[int], before: int
) -> Axis:
    """Name at most about eight rows or columns of tiles, each at its middle.

    `ids`: the subjects of the tiles, which start after `before` other tiles.
    """
    pitch, middle = side + 1, (side - 1) / 2
    stride = max(1, -(-len(names) // 9))
    ticks = tuple((index * pitch + middle, name) for index, name in enumerate(names))[::stride]
    subjects = Subjects(kind, tuple(ids), middle + before * pitch, float(pitch), float(side))
    return Axis(label, limits=(-0.5, len(names) * pitch - 1.5), ticks=ticks, subjects=subjects)


def _draw_units(reading: Reading, name: str, layers: list[int], scales: dict[int, float]) -> Chart:
    """Draw a row per layer and a column per unit; NaN beyond a layer's width."""
    outputs = [reading.arrays[f"{name}_{layer}"] / scales[layer] for layer in layers]
    widest = max(len(output) for output in outputs)
    values = np.full((len(outputs), widest), np.nan)
    for row, output in enumerate(outputs):
        values[row, : len(output)] = output
    matrix = Matrix(
        name=f"hidden outputs, {name}",
        values=values,
        ramp="diverging",
        low=-1.0,
        high=1.0,
        bar="relative to max",
        scale="relative to the layer's max",
    )
    return layers_by_units("", tuple(layers), matrix)


def _describe_answer(view: View, reading: Reading, place: int) -> str:
    says = reading.arrays["says"]
    return f"predicts {class_names(view, says)[int(says[place])]}"


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    count = len(reading.arrays["labels"])
    facts: list[Fact] = []
    for name, title in _SHORT.items():
        share = reading.scalars.get(f"right_{name}")
        if share is not None:
            about = f"Correct answers on {count} probe examples in this pass."
            facts.append(
                Fact(title, format_percent(share, 0) + ("" if facts else " correct"), about)
            )
    return tuple(facts)


def _write_note(view: View, reading: Reading) -> str:
    facts, example = reading.facts, int(reading.facts.get("example", "0"))
    example_text = f"Example {example}"
    if view.run is not None and example < len(view.run.probe_set.labels):
        labels = np.array(view.run.probe_set.labels)
        example_text += f", class {class_names(view, labels)[int(labels[example])]}"
    fed = _FED.get(facts.get("fed", "image"), "the image")
    order = facts.get("order", "")
    reversal = f"Reversed: gate layers {order}." if order else "No two gate layers share a shape."
    return f"{example_text}. As is, the value network sees {fed}. {reversal}"


PANEL = PanelSpec(
    title="Hidden outputs",
    probes=("hidden_outputs",),
    draw=draw,
    about=About(
        text=(
            "What every gate layer passes on for one example, in three passes through the same "
            "value weights: as they are, with the gate layers in reverse order, and with ones "
            "instead of the image, under the gates of the example. For convolutions the tiles are "
            "maps: the mean over all channels on top, single channels below, one column per "
            "layer, as in the papers' figures. For dense layers a row is a layer and a column a "
            "unit. The papers compare a ReLU network with one trained under reversed gates on a "
            "random input: both answer about equally well, so what they know is in the gates, not "
            "in what the layers seem to extract. Above the charts: how many probe examples each "
            "pass gets right. Weights that never saw reversed gates fail at first; train with "
            "them and watch that number rise."
        ),
        formulas=(
            r"$z_l = G_{\pi(l)} \odot (\Theta_l z_{l-1}), \quad z_0 = x^v$",
            r"$\pi(l) = l$ or $d - l$, $\quad x^v = x$ or $\mathbf{1}$",
        ),
        symbols=(
            "$z_l$: output of layer $l$; $Θ_l$: its weights; $G$: gates; $π$: which of the $d-1$ "
            "gate layers it uses; $x^v$: input of the value network."
        ),
        source=(
            "Lakshminarayanan & Singh, Deep Learning Is Composite Kernel Learning, Figure 5; "
            "reversed gates and ones as input: arXiv:2110.03403"
        ),
        computed=(
            "Exact: one pass each through the value network, with the gates held at those of the "
            "example; accuracies are on the probe examples, or on fewer where a pass is "
            "expensive. Maps with more than 48 rows or columns are averaged down."
        ),
        trials=(
            reverse_layers(
                "'As is' becomes what 'reversed' was; its accuracy drops and recovers as the "
                "weights learn."
            ),
            blind_value_network(
                "The first tile no longer shows a picture, yet the accuracy recovers: the gates "
                "know the image."
            ),
        ),
    ),
    options=(KIND, EXAMPLE, CHANNEL, SCALE),
    area="left",
    order=14,
    opened=False,
)
