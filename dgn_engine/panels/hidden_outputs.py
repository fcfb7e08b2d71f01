"""Hidden outputs: what each layer makes of an example, as it is, under other gates, and on ones."""

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
    reach_of,
    with_matrix,
)
from dgn_engine.scene.layer_curves import layers_by_units
from dgn_engine.scene.panel_readings import draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, choice
from dgn_engine.scene.run_text import layers_in
from dgn_engine.scene.trials import blind_value_network, reverse_layers
from dgn_engine.text.written_numbers import percent

_PASSES = (("as_is", "As it is"), ("reversed", "Reversed"), ("ones", "On ones"))
_SHORT = {"as_is": "as it is", "reversed": "reversed", "ones": "on ones"}
_LEAST, _MOST = 4, 8  # rows of tiles: the mean and some of the 7 channels of a reading
_FED = {"image": "the image", "ones": "ones already", "random": "one fixed random input"}


def _channels(view: View) -> Values:
    """Pages of channels, of a network with maps: as many as there are rows below the mean."""
    layers = view.run.layers if view.run is not None else ()
    shapes = [layer.shape for layer in layers if layer.kind == "conv"]
    count, page = max((shape[0] for shape in shapes), default=0), _rows(len(shapes)) - 1
    return tuple(
        (str(first), f"channels {first}–{min(first + page, count) - 1}")
        for first in range(0, count, page)
    )


def _rows(layers: int) -> int:
    """Of tiles, so that a picture is about as high as wide."""
    return min(max(layers + 1, _LEAST), _MOST)


def _kinds(view: View) -> Values:
    """What is shown of a network that has layers of maps and dense ones."""
    reading = view.readings.get("hidden_outputs")
    found = reading.arrays if reading is not None else {}
    both = {found[f"as_is_{layer}"].ndim for layer in layers_in(found, "as_is")}
    return (("maps", "maps"), ("units", "dense layers")) if len(both) > 1 else ()


KIND = Option("kind", "Layers", _kinds)
EXAMPLE = Option("example", "Example", example_values, True, ("example", 0))
CHANNEL = Option("channel", "Channels", _channels, engine=True)
SCALE = Option("scale", "Colours", always(("tile", "scaled alone"), ("layer", "scaled together")))


@draw_reading("hidden_outputs", "What each layer makes of one example, with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """One chart a pass: maps as tiles, a column a layer; units of dense layers, a row a layer."""
    arrays = reading.arrays
    layers = layers_in(arrays, "as_is")
    maps = [layer for layer in layers if arrays[f"as_is_{layer}"].ndim == 3]
    dense = [layer for layer in layers if layer not in maps]
    tiled = bool(maps) and choice(view, KIND) != "units"
    shown = maps if tiled else dense
    passes = [(name, title) for name, title in _PASSES if f"{name}_{layers[0]}" in arrays]
    largest = _largest(reading, shown, [name for name, _ in passes])
    together = choice(view, SCALE) == "layer"
    charts = []
    for place, (name, title) in enumerate(passes):
        if tiled:
            chart = _tiles(reading, name, shown, largest if together else None)
        else:
            alone = largest if together else _largest(reading, shown, [name])
            chart = _units(reading, name, shown, alone)
        words = f"{title}: {_answer(view, reading, place)}"
        charts.append(_placed(chart, name, words, place, len(passes)))
    return Scene(tuple(charts), _facts(reading), reading.step, _note(view, reading))


def _placed(chart: Chart, name: str, title: str, column: int, of: int) -> Chart:
    """The colour bar stands at the last of the row, the names of the layers at the first."""
    if column < of - 1:
        chart = with_matrix(chart, bar="")
    y = chart.y if column == 0 else replace(chart.y, label="", ticks=())
    return replace(chart, key=f"{chart.key}_{name}", title=title, y=y, column=column)


def _largest(reading: Reading, layers: list[int], names: list[str]) -> dict[int, float]:
    """The largest finite size of each layer in these passes, 1 where all is zero."""
    found = {}
    for layer in layers:
        values = [reading.arrays[f"{name}_{layer}"].ravel() for name in names]
        found[layer] = reach_of(np.concatenate(values))
    return found


def _tiles(
    reading: Reading, name: str, layers: list[int], largest: dict[int, float] | None
) -> Chart:
    """Rows: the mean and channels; columns: what the network is fed, where that is a map, and the
    layers. `largest`: of each layer, where its tiles have one scale."""
    arrays = reading.arrays
    found = [arrays[f"{name}_{layer}"] for layer in layers]
    rows = min(_rows(len(layers)), max(len(maps) for maps in found))
    fed = arrays.get(f"input_{name}")
    columns: list[tuple[str, str, Array]] = []
    if fed is not None:
        columns.append(("x", "value input", fed[None] / reach_of(fed)))
    before = len(columns)
    for layer, maps in zip(layers, found, strict=True):
        sizes = np.array([[[largest[layer] if largest else reach_of(one)]] for one in maps])
        columns.append((str(layer + 1), f"layer {layer + 1}", maps / sizes))
    high = max(maps.shape[1] for _, _, maps in columns)
    wide = max(maps.shape[2] for _, _, maps in columns)
    canvas = np.full((rows * (high + 1) - 1, len(columns) * (wide + 1) - 1), np.nan)
    first = int(reading.facts.get("channel", "0"))
    labels = []
    for row in range(rows):
        said = "mean of all channels" if row == 0 else f"channel {first + row - 1}"
        for column, (_, words, maps) in enumerate(columns):
            labels.append(words if words == "value input" else f"{words}, {said}")
            if row < len(maps):
                top, left = row * (high + 1), column * (wide + 1)
                tile = _enlarged(maps[row], high, wide)
                canvas[top : top + high, left : left + wide] = tile
    tags = [tag for tag, _, _ in columns]
    named = ["mean", *(str(first + row) for row in range(rows - 1))]
    return Chart(
        key="maps",
        title="",
        x=_tile_axis("layer", tags, wide, "layer", layers, before),
        y=_tile_axis("channel", named, high, "unit", range(first, first + rows - 1), 1),
        matrix=Matrix(
            name=f"hidden maps, {name}",
            values=canvas,
            ramp="diverging",
            low=-1.0,
            high=1.0,
            bar="of the largest",
            scale="of the largest in the layer" if largest else "of the largest in the tile",
            row_name="row",
            column_name="column",
            row_labels=tuple(labels),
            tile=(high, wide),
        ),
        square=True,
    )


def _enlarged(tile: Array, high: int, wide: int) -> Array:
    """A map in a larger tile: each of its pixels several times."""
    rows = np.arange(high) * tile.shape[0] // high
    columns = np.arange(wide) * tile.shape[1] // wide
    found: Array = tile[rows][:, columns]
    return found


def _tile_axis(
    label: str, names: list[str], side: int, kind: str, ids: Sequence[int], before: int
) -> Axis:
    """Each row or column of tiles named at its middle, at most about eight of them; `ids`: what
    they are, the first of them after so many others."""
    pitch, middle = side + 1, (side - 1) / 2
    every = max(1, -(-len(names) // 9))
    ticks = tuple((place * pitch + middle, name) for place, name in enumerate(names))[::every]
    subjects = Subjects(kind, tuple(ids), middle + before * pitch, float(pitch), float(side))
    return Axis(label, limits=(-0.5, len(names) * pitch - 1.5), ticks=ticks, subjects=subjects)


def _units(reading: Reading, name: str, layers: list[int], scales: dict[int, float]) -> Chart:
    """Rows: layers; columns: units; NaN beyond a layer's width."""
    found = [reading.arrays[f"{name}_{layer}"] / scales[layer] for layer in layers]
    widest = max(len(one) for one in found)
    values = np.full((len(found), widest), np.nan)
    for row, one in enumerate(found):
        values[row, : len(one)] = one
    matrix = Matrix(
        name=f"hidden outputs, {name}",
        values=values,
        ramp="diverging",
        low=-1.0,
        high=1.0,
        bar="of the largest",
        scale="of the largest in the layer",
    )
    return layers_by_units("", tuple(layers), matrix)


def _answer(view: View, reading: Reading, place: int) -> str:
    says = reading.arrays["says"]
    return f"says {class_names(view, says)[int(says[place])]}"


def _facts(reading: Reading) -> tuple[Fact, ...]:
    count = len(reading.arrays["labels"])
    facts: list[Fact] = []
    for name, title in _SHORT.items():
        share = reading.scalars.get(f"right_{name}")
        if share is not None:
            about = f"Right answers among {count} probe examples in this pass."
            facts.append(Fact(title, percent(share, 0) + ("" if facts else " right"), about))
    return tuple(facts)


def _note(view: View, reading: Reading) -> str:
    facts, example = reading.facts, int(reading.facts.get("example", "0"))
    shown = f"Example {example}"
    if view.run is not None and example < len(view.run.probe_set.labels):
        labels = np.array(view.run.probe_set.labels)
        shown += f", class {class_names(view, labels)[int(labels[example])]}"
    fed = _FED.get(facts.get("fed", "image"), "the image")
    order = facts.get("order", "")
    reversal = f"Reversed: gate layers {order}." if order else "No two gate layers have one shape."
    return f"{shown}. As it is the value network sees {fed}. {reversal}"


PANEL = PanelSpec(
    title="Hidden outputs",
    probes=("hidden_outputs",),
    draw=draw,
    about=About(
        text=(
            "What every gate layer hands on for one example, in three passes through the same "
            "value weights: as they are; with the gate layers in reverse order; and with ones in "
            "the place of the image, under the gates of the example. Of a convolution the tiles "
            "are maps: above the mean over all channels, below single ones, a column a layer, as "
            "in the papers' figures. Of dense layers a row is a layer, a column a unit. The papers "
            "show such pictures of a ReLU network beside a network that was trained under reversed "
            "gates on a random input: both answer about as well, so what they know lies in the "
            "gates, and not in what the layers seem to extract. Above the charts stands how many "
            "probe examples each pass answers rightly. Weights that never saw reversed gates fail "
            "at first; train on with them and watch that number rise."
        ),
        formulas=(
            r"$z_l = G_{\pi(l)} \odot (\Theta_l z_{l-1}), \quad z_0 = x^v$",
            r"$\pi(l) = l$ or $d - l$, $\quad x^v = x$ or $\mathbf{1}$",
        ),
        symbols=(
            "$z_l$: what layer $l$ hands on; $Θ_l$: its weights; $G$: gates; $π$: which gate "
            "layer it uses, of $d-1$; $x^v$: what the value network sees."
        ),
        source=(
            "Lakshminarayanan & Singh, Deep Learning Is Composite Kernel Learning, Figure 5; "
            "reversed gates and ones as input: arXiv:2110.03403"
        ),
        computed=(
            "Exactly, by one pass each through the value network with the gates held as they are "
            "for the example; the shares of right answers are of the probe examples, of fewer "
            "where a pass is dear. Maps with more than 48 rows or columns are averaged down."
        ),
        trials=(
            reverse_layers(
                "'As it is' is then what 'reversed' was; its share of right answers falls and "
                "comes back as the weights learn."
            ),
            blind_value_network(
                "The first tile has no picture any more, and the answers come back all the same: "
                "the gates know the image."
            ),
        ),
    ),
    options=(KIND, EXAMPLE, CHANNEL, SCALE),
    area="left",
    order=14,
    opened=False,
)
