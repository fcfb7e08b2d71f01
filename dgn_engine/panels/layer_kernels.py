"""Layer kernels: the overlap of each gate layer, their product, and the effect of a permutation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import compared_note, facts_of_view
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Fact, Matrix, Scene, Shown
from dgn_engine.scene.layer_curves import (
    compared_layers,
    layer_axis,
    layer_positions,
    make_overviews,
)
from dgn_engine.scene.matrix_colours import SPANS, with_pair_colours
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, chosen_value
from dgn_engine.scene.run_text import layer_name, layer_tag, layer_values, layers_with_prefix
from dgn_engine.scene.trials import reverse_layers
from dgn_engine.text.written_numbers import format_number, format_percent

_SAME = 1e-9  # a relative change below this is rounding

LAYER = Option(
    "layer", "Layer", lambda view: layer_values(view, "layer_kernels", "tau"), follows=("layer", 0)
)


@draw_reading("layer_kernels", "Layer overlaps and their product appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw every τ as an overview, the chosen one beside the product, and the means over depth."""
    layers = layers_with_prefix(reading.arrays, "tau")
    chosen = int(chosen_value(view, LAYER))
    charts_by_layer = {layer: _draw_overview(view, reading, layer) for layer in layers}
    charts, rows, per_row = make_overviews(charts_by_layer, chosen, LAYER.id)
    columns = max(3, per_row)
    spans = [columns // 3, columns // 3, columns - 2 * (columns // 3)]
    title = f"$τ_{{{chosen + 1}}}$ of {layer_name(view, chosen)}"
    product = "Product $τ_1$"
    if len(layers) > 1:
        product = f"Product $τ_1 ⊙ … ⊙ τ_{{{len(layers)}}}$"
    large = (
        _draw_kernel(view, reading, f"tau_{chosen}", title, chosen),
        _draw_kernel(view, reading, "product", product),
        _draw_depth(view, reading),
    )
    for index, (chart, span) in enumerate(zip(large, spans, strict=True)):
        charts.append(replace(chart, row=rows, column=sum(spans[:index]), column_span=span))
    facts = facts_of_view(view, "layer_kernels", _list_facts)
    return Scene(tuple(charts), facts, reading.step, _write_note(view, reading))


def _draw_overview(view: View, reading: Reading, layer: int) -> Chart:
    title = f"$τ_{{{layer + 1}}}$ · {layer_tag(view, layer)}"
    chart = _draw_kernel(view, reading, f"tau_{layer}", title, layer)
    return replace(chart, x=Axis(label="example"), y=Axis(label="example"), square=False)


def _draw_kernel(
    view: View, reading: Reading, name: str, title: str, layer: int | None = None
) -> Chart:
    """Draw the overlap of one layer, or the product of all where `layer` is None."""
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
    matrix = with_pair_colours(matrix)
    return example_pairs(view, labels, name, title, matrix, 0, name != "product")


def _draw_depth(view: View, reading: Reading) -> Chart:
    """Plot the mean over pairs of each layer, and of the product up to it, permuted and not."""
    along: Array = reading.arrays["along"]
    layers = layer_positions(len(along))
    curves = [
        Curve("each layer", layers, reading.arrays["each"], "muted", marker=True),
        Curve("product", layers, along, "value", marker=True, thick=True),
    ]
    straight = reading.arrays.get("along_straight")
    if straight is not None:
        curves.append(Curve("not permuted", layers, straight, "feature", "dash", marker=True))
    curves.extend(compared_layers(view, "layer_kernels", "along", "product"))
    longest = max(len(curve.x) for curve in curves)
    return Chart(
        key="along",
        title="Mean overlap of two examples",
        x=layer_axis(longest),
        y=Axis(limits=(-0.02, 1.02)),
        curves=tuple(curve for curve in curves if np.isfinite(curve.y).any()) or tuple(curves),
    )


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    mean = reading.scalars.get("product", float("nan"))
    text = format_number(mean, 3) if math.isfinite(mean) else "–"
    facts = [Fact("mean product", text, "Mean of the product over pairs of examples.")]
    if (change := reading.scalars.get("change")) is not None:
        about = "‖Λ_π − Λ‖/‖Λ‖ of the whole network, permuted against unpermuted."
        facts.append(
            Fact("$Λ$ changed by π", "0" if change < _SAME else format_percent(change, 2), about)
        )
    return tuple(facts)


def _write_note(view: View, reading: Reading) -> str:
    return join_sentences(
        f"Unit diagonal. Colours: {SPANS['pairs']}.",
        reading.facts.get("lambda", ""),
        reading.facts.get("order", ""),
        compared_note(view, "layer_kernels", "Dashed: "),
    )


PANEL = PanelSpec(
    title="Layer kernels",
    probes=("layer_kernels",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "Each gate layer has its own overlap: how many of its units are open for both of two "
            "examples. The product over the layers is the share of paths active for both. Layer "
            "by layer the overlap of two different examples shrinks, in any order: that is what "
            "depth does. Permute the gate layers in the strip above: the overlaps τ trade places "
            "and the curve 'product' takes another route, but in a dense network it ends at the "
            "same value, since a product does not depend on the order of its factors, and so the "
            "neural path kernel is unchanged. In a convolutional network it is not, though it "
            "changes by a few per cent only: Λ is not this product, in which τ is averaged over "
            "positions, and the line above the charts shows how much the permutation changed Λ. "
            "The papers find the same accuracy in both."
        ),
        formulas=(
            r"$\tau_l = G_l G_l^\top, \quad \Lambda = \tau_1 \odot \cdots \odot \tau_{d-1}$",
            r"$\tau_{\pi(1)} \odot \cdots \odot \tau_{\pi(d-1)} = \Lambda$",
        ),
        symbols=(
            "$G_l$: gates of layer $l$, one row per example; ⊙: entrywise product; $d$: weight "
            "layers; $π$: order in which the value layers use the gate layers."
        ),
        source=(
            "Lakshminarayanan & Singh, arXiv:2110.03403: base kernels and permutations of the "
            "gate layers; arXiv:2006.10529: the path kernel of dense networks as a product"
        ),
        computed=(
            "Exact, from the gates of each layer on the probe examples; averaged over positions "
            "for convolutions."
        ),
        trials=(
            reverse_layers(
                "The layer curves trade places; in a dense network the full product stays the same."
            ),
        ),
    ),
    options=(LAYER,),
    area="left",
    order=11,
    opened=False,
)
