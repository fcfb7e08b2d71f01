"""A and B: the share of the run's gates that equal those of the compared network, by layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, example_axis, example_labels, example_rows
from dgn_engine.scene.compared import b_name, describe_b, pair_labels
from dgn_engine.scene.elements import (
    Axis,
    Chart,
    Curve,
    Empty,
    Fact,
    Matrix,
    Scene,
    Shown,
    Subjects,
)
from dgn_engine.scene.gate_agreement import MEANS
from dgn_engine.scene.layer_curves import chart_over_steps, layer_axis, recorded_curve
from dgn_engine.scene.panel_spec import (
    About,
    ComparedRun,
    Option,
    PanelSpec,
    Values,
    View,
    chosen_value,
)
from dgn_engine.scene.run_text import is_conv, layer_name, layer_values
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number, format_percent

LAYER = Option(
    "layer",
    "Layer",
    lambda view: layer_values(view, "agreement", "difference"),
    follows=("layer", 0),
)
_BY_LAYER = ("layers", "by layer")


def _left_values(view: View) -> Values:
    """Offer 'over steps' only where the share was recorded while A trained."""
    recorded = ("agreement", "equal") in view.series and view.cursor is None
    return (_BY_LAYER, ("steps", "over steps")) if recorded else (_BY_LAYER,)


LEFT = Option("left", "Equal gates", _left_values)


def draw(view: View) -> Shown:
    """Draw the share of equal gates, and the map of differing gates in the chosen layer."""
    if view.compared is None:
        return Empty(
            "Drop a checkpoint or a recorded run on 'Compare', or look back at a step and choose "
            "View ▸ Look back ▸ Compare with this step.",
            "not-compared",
        )
    if not view.compared.layers:
        why = f"{b_name(view.compared)} has no network loaded: only its scores are compared."
        return Empty(why, "no-network")
    reading = view.readings.get("agreement")
    if reading is None:
        return Empty("The share of equal gates appears with the next reading.", "no-reading")
    if reading.absent:
        return Empty(reading.absent, "absent")
    if "equal" not in reading.arrays:
        return Empty("The share of equal gates appears with the next frame.", "no-reading")
    difference = _draw_difference(view, view.compared, reading, int(chosen_value(view, LAYER)))
    charts: tuple[Chart, ...] = (replace(difference, column=0, narrow=None),)
    if np.isfinite(reading.arrays["equal"]).any():
        by_layer = chosen_value(view, LEFT) == "layers"
        charts = (_by_layer(reading) if by_layer else _over_steps(view), difference)
    note = "Equal: both gates on the same side of ½."
    if reading.facts.get("differences") == MEANS:
        note = "Recorded steps store convolution gates as means over positions; "
        a, b = pair_labels(view.compared)
        note += f"{a} − {b} compares these means, and equal gates count dense layers only."
    elif np.isnan(reading.arrays["equal"]).any() or len(view.compared.layers) != len(
        reading.arrays["equal"]
    ):
        note += " Layers whose shapes differ are skipped."
    paths = view.readings.get("path_distance")
    if paths is not None and paths.absent:
        note += f" No distance of path values: {paths.absent}"
    note = f"{describe_b(view.compared)} {note}".lstrip()
    return Scene(charts, _list_facts(view, reading), reading.step, note)


# Label of the colour bar by (means over positions, convolution).
_BARS = {
    (True, True): "difference of means",
    (False, True): "share of positions",
    (False, False): "1: open only {}",
}


def _by_layer(reading: Reading) -> Chart:
    equal, chance = 100 * reading.arrays["equal"], 100 * reading.arrays["chance"]
    layers = np.arange(1, equal.size + 1)
    low = float(np.nanmin([equal, chance]))
    return Chart(
        key="by_layer",
        title="Equal gates, %",
        x=layer_axis(equal.size),
        y=Axis(limits=(min(45.0, low - 3), 102.0)),
        curves=(
            Curve("equal", layers, equal, role="compared", thick=True, marker=True),
            Curve("by chance", layers, chance, role="muted", dash="dash"),
        ),
        narrow=(0, 0, 1, 1),
    )


def _over_steps(view: View) -> Chart:
    source = ("agreement", "equal")
    curves = recorded_curve(view, source, "all layers", "compared", scale=100, thick=True)
    return chart_over_steps(view, "Equal gates, %", curves, (0, 0, 1, 1))


def _draw_difference(view: View, compared: ComparedRun, reading: Reading, layer: int) -> Chart:
    values, labels = reading.arrays[f"difference_{layer}"], reading.arrays["labels"]
    names = class_names(view, labels)
    conv = is_conv(view, reading, layer)
    name = layer_name(view, layer)
    means = conv and reading.facts.get("differences") == MEANS
    sizes = conv and not means
    a, b = pair_labels(compared)
    return Chart(
        key="difference",
        title=f"{name[:1].upper()}{name[1:]}, {'differing' if sizes else f'{a} − {b}'}",
        x=Axis("channel" if conv else "unit", subjects=Subjects("unit", range(values.shape[1]))),
        y=example_axis(labels, names, "class"),
        matrix=Matrix(
            name=f"difference in {name}",
            values=values,
            ramp="sequential" if sizes else "diverging",
            low=0.0 if sizes else -1.0,
            high=1.0,
            bar=_BARS[means, conv].format(f"at {a}" if compared.labels[0] else f"in {a}"),
            row_name="example",
            column_name="channel" if conv else "unit",
            row_labels=example_labels(labels, names),
            row_examples=example_rows(view, labels),
            layer=layer,
        ),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _list_facts(view: View, reading: Reading) -> tuple[Fact, ...]:
    layer = chosen_value(view, LAYER)
    facts = []
    if (share := reading.scalars.get("equal")) is not None:
        facts.append(Fact("equal", format_percent(share), "Share of equal gates over all layers."))
    if (share := reading.scalars.get(f"equal_{layer}")) is not None:
        facts.append(
            Fact(layer_name(view, int(layer)), format_percent(share), "Share of equal gates.")
        )
    return (*facts, *_list_path_facts(view))


def _list_path_facts(view: View) -> tuple[Fact, ...]:
    """List how far apart the networks are in path space; nothing if one is a recorded frame."""
    reading = view.readings.get("path_distance")
    if reading is None or reading.absent:
        return ()
    low, high, cosine = (reading.scalars.get(name) for name in ("low", "high", "cosine"))
    facts = []
    if low is not None and high is not None:
        about = (
            "‖v − v'‖₁/(‖v‖₁ + ‖v'‖₁) over all paths of both value networks, between two bounds. "
            "0 %: the same up to the scale of hidden units; 100 %: no path has the same "
            "sign in both."
        )
        facts.append(Fact("v apart", f"{format_percent(low)} to {format_percent(high)}", about))
    if cosine is not None:
        about = "Cosine of all path values of the two value networks."
        facts.append(Fact("cos v", format_number(cosine, 3), about))
    return tuple(facts)


PANEL = PanelSpec(
    title="A and B",
    probes=("agreement", "gates", "path_distance"),
    draw=draw,
    shows_examples=True,
    about=About(
        text=(
            "A is the current run, B the checkpoint or recorded run it is compared with. For each "
            "layer: the share of (example, unit) gates that are both open or both closed on the "
            "probe examples. The dashed line is the share expected by chance, if each unit opened "
            "as often as it does, but independently in A and B. Units are matched by index, so "
            "two networks that differ only in the order of their units agree no better than "
            "chance. The map shows where the gates differ. Above the charts: how far apart the "
            "path values are, which do not depend on the scale of hidden units."
        ),
        formulas=(
            r"$\frac{1}{nw}\sum_{s,u} 1\{G^{\mathrm{A}}_l(s,u) = G^{\mathrm{B}}_l(s,u)\}$",
            r"by chance $\frac{1}{w}\sum_u p_u q_u + (1-p_u)(1-q_u)$",
        ),
        symbols=(
            "$G_l(s,u)$: gate of unit $u$ for example $s$; $n$: examples; $w$: units in the "
            "layer; $p_u$, $q_u$: how often unit $u$ is open in A and B."
        ),
        source=(
            "Our definition: the churn of Lakshminarayanan & Singh, arXiv:2006.10529, between two "
            "networks instead of two steps"
        ),
        computed=(
            "Exact: the gates of both networks are compared entry by entry on the same probe "
            "examples. For a recorded step the recorded gates are used: exact for dense layers; "
            "for convolutions only means over positions are recorded."
        ),
        trials=(freeze_random_gates("Agreement falls to chance in every layer."),),
    ),
    options=(LEFT, LAYER),
    area="left",
    order=2,
    compares=True,
    draws_both=True,
)
