"""Gate statistics: open gates by layer, class and step, and the units that never change."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, named_axis
from dgn_engine.scene.compared import compared_note, facts_of_view
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Matrix, Scene, Shown, finite_range
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    compared_layers,
    layer_axis,
    layer_positions,
    layer_rows,
    layers_note,
    over_steps,
)
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, chosen_value
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_percent

_TITLES = {
    "density": "Open gates, %",
    "churn": "Switched since the last reading, %",
    "dead": "Dead units, %",
    "always": "Always-open units, %",
}
OVER_STEPS = Option(
    "steps",
    "Over steps",
    always(("density", "open"), ("churn", "churn"), ("dead", "dead"), ("always", "always open")),
)


@draw_reading("gate_statistics", "Open gates by layer and class appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw shares by layer, shares by class, and one of them over steps."""
    count = len(reading.arrays["density"])
    quantity = chosen_value(view, OVER_STEPS)
    curves = over_steps(view, "gate_statistics", quantity, count, 100.0)
    charts = (
        _by_layer(view, reading, count),
        _by_class(view, reading, count),
        chart_over_steps(view, _TITLES[quantity], curves, (1, 0, 1, 2), 2),
    )
    theirs = compared_note(view, "gate_statistics", "Dashed: ")
    note = join_sentences("Open: a gate of ½ or more.", layers_note(count), theirs)
    return Scene(charts, facts_of_view(view, "gate_statistics", _list_facts), reading.step, note)


def _by_layer(view: View, reading: Reading, count: int) -> Chart:
    shares = {name: 100 * reading.arrays[name] for name in ("density", "dead", "always")}
    layers = layer_positions(count)
    curves = (
        Curve("open", layers, shares["density"], "accent", marker=True),
        Curve("dead", layers, shares["dead"], "muted", "dash", marker=True),
        Curve("always open", layers, shares["always"], "cross", "dot", marker=True),
        *compared_layers(view, "gate_statistics", "density", "open", 100.0),
    )
    return Chart(
        key="by_layer",
        title="Gates and units by layer, %",
        x=layer_axis(max(len(curve.x) for curve in curves)),
        y=Axis(limits=(-3.0, 113.0 if reading.arrays["density"].max() > 1.0 else 103.0)),
        curves=curves,
        narrow=(0, 0, 1, 1),
    )


def _by_class(view: View, reading: Reading, count: int) -> Chart:
    classes = reading.arrays["classes"]
    names = class_names(view, classes)
    class_labels = tuple(names[int(label)] for label in classes)
    values = 100 * reading.arrays["by_class"]
    low, high = finite_range(values)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    return Chart(
        key="by_class",
        title="Open gates by class, %",
        x=named_axis("class", class_labels),
        y=layer_rows(range(count)),
        matrix=Matrix(
            name="open gates by class",
            values=values,
            ramp="sequential",
            low=low,
            high=high,
            bar="open, %",
            row_name="layer",
            column_name="class",
            row_labels=tuple(f"layer {index + 1}" for index in range(count)),
            column_labels=tuple(f"class {name}" for name in class_labels),
        ),
        column=1,
        narrow=(0, 1, 1, 1),
    )


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    dead, stuck = (float(np.mean(reading.arrays[name])) for name in ("dead", "always"))
    mean = float(np.mean(reading.arrays["density"]))
    facts = [
        Fact("open", format_percent(mean), "Mean gate, averaged over layers."),
        Fact(
            "dead",
            format_percent(dead),
            "Units closed for every probe example, averaged over layers.",
        ),
        Fact("always open", format_percent(stuck), "Units open for every probe example."),
    ]
    if (churn := reading.scalars.get("churn")) is not None:
        about = "Share of gates that switched since the last reading."
        facts.append(Fact("churn", format_percent(churn, 2), about))
    return tuple(facts)


PANEL = PanelSpec(
    title="Gate statistics",
    probes=("gate_statistics",),
    draw=draw,
    draws_both=True,
    about=About(
        text=(
            "How open each layer's gates are on the probe examples, and how that changes during "
            "training. A dead unit is closed for every probe example: no path through it is "
            "active. A unit open for all of them is linear there. The units in between are the "
            "ones that tell examples apart. Churn is the share of (example, unit) gates that "
            "switched since the previous reading: once it reaches zero the path features are "
            "fixed and only the values learn. Soft gates can exceed 1 where ε is set. To "
            "compare, swap to FR-II, whose gates are fixed, and watch the churn."
        ),
        formulas=(
            r"open $\frac{1}{nw}\sum_{s,u} G_l(s,u)$",
            r"churn $\frac{1}{nw}\sum_{s,u} 1\{\mathrm{sgn}(G_l^t(s,u)-\frac{1}{2}) \neq "
            r"\mathrm{sgn}(G_l^{t'}(s,u)-\frac{1}{2})\}$",
        ),
        symbols=(
            "$G_l(s,u)$: gate of unit $u$ for example $s$; $n$: examples; $w$: units in the "
            "layer; $t$, $t'$: this reading and the previous one; sgn: sign."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: active paths and the instants at which gates switch"
        ),
        computed=(
            "Exact: counts over the gates of the probe examples; churn compares two readings and "
            "misses what happened in between."
        ),
        trials=(freeze_random_gates("Churn drops to zero at once."),),
    ),
    options=(OVER_STEPS,),
    area="left",
    order=10,
    opened=False,
)
