"""Layer kernels: the overlap of each gate layer, their product, and what a permutation leaves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import compared_note
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Fact, Matrix, Scene, Shown
from dgn_engine.scene.layer_curves import compared_layers, layer_axis, overviews, places
from dgn_engine.scene.matrix_colours import SPANS, ranged, span_range
from dgn_engine.scene.panel_readings import as_note, draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, choice
from dgn_engine.scene.run_text import layer_name, layer_tag, layer_values, layers_in
from dgn_engine.scene.trials import reverse_layers
from dgn_engine.text.written_numbers import number, percent

_SAME = 1e-9  # a relative change below this is rounding

LAYER = Option(
    "layer", "Layer", lambda view: layer_values(view, "layer_kernels", "tau"), follows=("layer", 0)
)


@draw_reading(
    "layer_kernels", "The overlap of each gate layer and their product, with the first frame."
)
def draw(view: View, reading: Reading) -> Shown:
    """All τ small, the chosen one beside the product, and the means along the depth."""
    layers = layers_in(reading.arrays, "tau")
    chosen = int(choice(view, LAYER))
    each = {layer: _small(view, reading, layer) for layer in layers}
    charts, rows, per_row = overviews(each, chosen, LAYER.id)
    columns = max(3, per_row)
    spans = [columns // 3, columns // 3, columns - 2 * (columns // 3)]
    title = f"$τ_{{{chosen + 1}}}$ of {layer_name(view, chosen)}"
    product = "Product $τ_1$"
    if len(layers) > 1:
        product = f"Product $τ_1 ⊙ … ⊙ τ_{{{len(layers)}}}$"
    large = (
        _large(view, reading, f"tau_{chosen}", title, chosen),
        _large(view, reading, "product", product),
        _along(view, reading),
    )
    for place, (chart, span) in enumerate(zip(large, spans, strict=True)):
        charts.append(replace(chart, row=rows, column=sum(spans[:place]), column_span=span))
    return Scene(tuple(charts), _facts(reading), reading.step, _note(view, reading))


def _small(view: View, reading: Reading, layer: int) -> Chart:
    title = f"$τ_{{{layer + 1}}}$ · {layer_tag(view, layer)}"
    chart = _large(view, reading, f"tau_{layer}", title, layer)
    return replace(chart, x=Axis(label="example"), y=Axis(label="example"), square=False)


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
    if reach := span_range([values], "pairs"):
        matrix = ranged(matrix, *reach, [values])
    return example_pairs(view, labels, name, title, matrix, 0, name != "product")


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
    curves.extend(compared_layers(view, "layer_kernels", "along", "up to it"))
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
    return as_note(
        f"Unit diagonal. Colours: {SPANS['pairs']}.",
        reading.facts.get("lambda", ""),
        reading.facts.get("order", ""),
        compared_note(view, "layer_kernels", "Dashed: "),
    )


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
                " stays the same."
            ),
        ),
    ),
    options=(LAYER,),
    area="left",
    order=11,
    opened=False,
)
