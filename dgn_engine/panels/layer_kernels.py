"""Layer kernels: the overlap of each gate layer, their product, and what a permutation leaves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import b_in_words, compared_reading, pair_labels, why_not_compared
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Fact, Matrix, Scene, Shown
from dgn_engine.scene.layer_curves import layer_axis, places
from dgn_engine.scene.matrix_colours import SPANS, ranged, span_range
from dgn_engine.scene.panel_readings import draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, choice
from dgn_engine.scene.run_text import layer_name, layer_tag, layer_values, layers_in
from dgn_engine.scene.trials import reverse_layers
from dgn_engine.text.written_numbers import number, percent

_IN_A_ROW = 8  # overviews side by side before a second row begins
_SAME = 1e-9  # a relative change below this is rounding

LAYER = Option(
    "layer", "Layer", lambda view: layer_values(view, "layer_kernels", "tau"), follows=("layer", 0)
)


@draw_reading(
    "layer_kernels", "The overlap of each gate layer and their product, with the first frame."
)
def draw(view: View, reading: Reading) -> Shown:
    """All τ small, the chosen one beside the product, and the means along the depth."""
    layers = layers_in(list(reading.arrays), "tau")
    chosen = int(choice(view, LAYER))
    rows = math.ceil(len(layers) / _IN_A_ROW) if len(layers) > 1 else 0
    per_row = math.ceil(len(layers) / rows) if rows else 1
    columns = max(3, per_row)
    spans = [columns // 3, columns // 3, columns - 2 * (columns // 3)]
    charts = [
        _small(view, reading, layer, place // per_row, place % per_row, layer == chosen)
        for place, layer in enumerate(layers)
        if rows
    ]
    large = (
        _large(
            view,
            reading,
            f"tau_{chosen}",
            f"$τ_{{{chosen + 1}}}$ of {layer_name(view, chosen)}",
            chosen,
        ),
        _large(view, reading, "product", _product_name(len(layers))),
        _along(view, reading),
    )
    for place, (chart, span) in enumerate(zip(large, spans, strict=True)):
        charts.append(replace(chart, row=rows, column=sum(spans[:place]), column_span=span))
    return Scene(tuple(charts), _facts(reading), reading.step, _note(view, reading))


def _product_name(layers: int) -> str:
    return "Product $τ_1$" if layers == 1 else f"Product $τ_1 ⊙ … ⊙ τ_{{{layers}}}$"


def _small(view: View, reading: Reading, layer: int, row: int, column: int, chosen: bool) -> Chart:
    chart = _large(view, reading, f"tau_{layer}", f"{layer_tag(view, layer)}", layer)
    return replace(
        chart,
        key=f"overview_{layer}",
        title=f"$τ_{{{layer + 1}}}$ · {layer_tag(view, layer)}",
        x=Axis(label="example"),
        y=Axis(label="example"),
        row=row,
        column=column,
        small=True,
        chosen=chosen,
        click=(LAYER.id, str(layer)),
        square=False,
    )


def _large(view: View, reading: Reading, name: str, title: str, layer: int | None = None) -> Chart:
    """The overlap of one layer, or (None) their product."""
    values, labels = reading.arrays[name], reading.arrays["labels"]
    matrix = Matrix(
        name=name,
        values=values,
        ramp="sequential",
        low=0.0,
        high=1.0,
        bar="overlap, normalised",
        scale="unit diagonal",
        layer=layer,
    )
    chart = example_pairs(view, labels, name, title, matrix, 0, name != "product")
    reach = span_range([values], "pairs")
    return replace(chart, matrix=ranged(matrix_of(chart), *reach, [values])) if reach else chart


def matrix_of(chart: Chart) -> Matrix:
    """The matrix of a chart that has one."""
    assert chart.matrix is not None
    return chart.matrix


def _along(view: View, reading: Reading) -> Chart:
    """Means over pairs: each layer alone, and all layers up to it, in this order and straight."""
    along: Array = reading.arrays["along"]
    at = places(len(along))
    curves = [
        Curve("each layer", at, reading.arrays["each"], "muted", marker=True),
        Curve("up to it", at, along, "value", marker=True, thick=True),
    ]
    straight = reading.arrays.get("along_straight")
    if straight is not None:
        curves.append(Curve("not permuted", at, straight, "feature", "dash", marker=True))
    other = compared_reading(view, "layer_kernels")
    if other is not None and view.compared is not None:
        theirs, name = other.arrays["along"], f"{pair_labels(view.compared)[1]} up to it"
        curves.append(Curve(name, places(len(theirs)), theirs, "compared", "dash"))
    longest = max(len(curve.x) for curve in curves)
    return Chart(
        key="along",
        title="Mean overlap of two examples",
        x=layer_axis(longest),
        y=Axis(limits=(-0.02, 1.02)),
        curves=tuple(curve for curve in curves if np.isfinite(curve.y).any()) or tuple(curves),
    )


def _facts(reading: Reading) -> tuple[Fact, ...]:
    mean = reading.scalars.get("product", float("nan"))
    said = number(mean, 3) if math.isfinite(mean) else "–"
    facts = [Fact("mean product", said, "Mean of the product over two different examples.")]
    if (change := reading.scalars.get("change")) is not None:
        about = "‖Λ_π − Λ‖/‖Λ‖ of the whole network: in this order, and not permuted."
        facts.append(Fact("$Λ$ changed by π", "0" if change < _SAME else percent(change, 2), about))
    return tuple(facts)


def _note(view: View, reading: Reading) -> str:
    parts = [
        f"Unit diagonal. Colours: {SPANS['pairs']}.",
        reading.facts.get("lambda", ""),
        reading.facts.get("order", ""),
    ]
    if compared_reading(view, "layer_kernels") is not None and view.compared is not None:
        parts.append(b_in_words(view.compared, "Dashed: "))
    parts.append(why_not_compared(view, "layer_kernels"))
    return " ".join(part for part in parts if part)


PANEL = PanelSpec(
    title="Layer kernels",
    probes=("layer_kernels",),
    draw=draw,
    about=About(
        text=(
            "Each gate layer has an overlap of its own: of two examples, how many units of the "
            "layer are open for both. The product over the layers is the share of paths that are "
            "active for both. Layer by layer the overlap of two different examples gets smaller, "
            "whatever the order: that is what depth does. Permute the gate layers in the strip "
            "above: the τ change places and the curve 'up to it' takes another way, but in a dense "
            "network it ends where it ended before, because a product does not depend on the order "
            "of its factors; the neural path kernel is the same, and so the papers find the same "
            "accuracy. Of convolutions τ is averaged over positions and Λ is no such product: how "
            "much the permutation changed Λ stands above the charts."
        ),
        formulas=(
            r"$\tau_l = G_l G_l^\top, \quad \Lambda = \tau_1 \odot \cdots \odot \tau_{d-1}$",
            r"$\tau_{\pi(1)} \odot \cdots \odot \tau_{\pi(d-1)} = \Lambda$",
        ),
        symbols=(
            "$G_l$: gates of layer $l$, one row for each example; ⊙: entry by entry; $d$: layers "
            "of weights; $π$: the order in which the value layers use the gate layers."
        ),
        source=(
            "Lakshminarayanan & Singh, arXiv:2110.03403: base kernels, and permutations of the "
            "gate layers; arXiv:2006.10529: the path kernel of dense networks as a product"
        ),
        computed=(
            "Exactly, from the gates of each layer on the probe examples; of convolutions "
            "averaged over positions."
        ),
        trials=(
            reverse_layers(
                "The curves of single layers change places; the product of all of a dense network"
                " stays the same.",
            ),
        ),
    ),
    options=(LAYER,),
    area="left",
    order=11,
    opened=False,
)
