"""A and B: how many gates of the run equal those of the compared network, layer by layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, example_axis, example_labels, example_rows
from dgn_engine.scene.compared import b_in_words, b_name, pair_labels
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
from dgn_engine.scene.panel_spec import About, ComparedRun, Option, PanelSpec, Values, View, choice
from dgn_engine.scene.run_text import is_conv, layer_name, layer_values
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import percent

LAYER = Option(
    "layer",
    "Layer",
    lambda view: layer_values(view, "agreement", "difference"),
    follows=("layer", 0),
)
_BY_LAYER = ("layers", "by layer")


def _lefts(view: View) -> Values:
    """Over steps only what was read of two networks while A trained."""
    known = ("agreement", "equal") in view.series and view.cursor is None
    return (_BY_LAYER, ("steps", "over steps")) if known else (_BY_LAYER,)


LEFT = Option("left", "Equal gates", _lefts)


def draw(view: View) -> Shown:
    """The share of equal gates, and the map of those that differ in the chosen layer."""
    if view.compared is None:
        return Empty(
            "Drop a checkpoint or a recorded run on 'Compare' to see it beside the run, or look "
            "back at a step and choose View, Look back, Compare with this step.",
            "not-compared",
        )
    if not view.compared.layers:
        why = f"{b_name(view.compared)} has no network here: only its scores are compared."
        return Empty(why, "no-network")
    reading = view.readings.get("agreement")
    if reading is None:
        return Empty("The share of equal gates of A and B, with the next reading.", "no-reading")
    if reading.absent:
        return Empty(reading.absent, "absent")
    if "equal" not in reading.arrays:
        return Empty("The share of equal gates of A and B, with the next frame.", "no-reading")
    map_ = _map(view, view.compared, reading, int(choice(view, LAYER)))
    charts: tuple[Chart, ...] = (replace(map_, column=0, narrow=None),)
    if np.isfinite(reading.arrays["equal"]).any():
        by_layer = choice(view, LEFT) == "layers"
        charts = (_by_layer(reading) if by_layer else _over_steps(view), map_)
    note = "Equal: on the same side of ½ for the same example."
    if reading.facts.get("differences") == MEANS:
        note = "Recorded steps hold the mean over positions of each gate "
        a, b = pair_labels(view.compared)
        note += (
            f"of a convolution: {a} − {b} of these means, and equal gates of dense layers alone."
        )
    elif np.isnan(reading.arrays["equal"]).any() or len(view.compared.layers) != len(
        reading.arrays["equal"]
    ):
        note += " Layers of other shapes are left out."
    note = f"{b_in_words(view.compared)} {note}".lstrip()
    return Scene(charts, _facts(view, reading), reading.step, note)


# Of a map: whether it is of means over positions, and whether its layer is a convolution.
_BARS = {
    (True, True): "difference of means",
    (False, True): "share of positions",
    (False, False): "1: open {} only",
}


def _by_layer(reading: Reading) -> Chart:
    equal, chance = 100 * reading.arrays["equal"], 100 * reading.arrays["chance"]
    place = np.arange(1, equal.size + 1)
    low = float(np.nanmin([equal, chance]))
    return Chart(
        key="by_layer",
        title="Equal gates, %",
        x=layer_axis(equal.size),
        y=Axis(limits=(min(45.0, low - 3), 102.0)),
        curves=(
            Curve("equal", place, equal, role="compared", thick=True, marker=True),
            Curve("by chance", place, chance, role="muted", dash="dash"),
        ),
        narrow=(0, 0, 1, 1),
    )


def _over_steps(view: View) -> Chart:
    source = ("agreement", "equal")
    curves = recorded_curve(view, source, "all layers", "compared", scale=100, thick=True)
    return chart_over_steps(view, "Equal gates, %", curves, (0, 0, 1, 1))


def _map(view: View, compared: ComparedRun, reading: Reading, layer: int) -> Chart:
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


def _facts(view: View, reading: Reading) -> tuple[Fact, ...]:
    layer = choice(view, LAYER)
    facts = []
    if (share := reading.scalars.get("equal")) is not None:
        facts.append(Fact("equal", percent(share), "Share of equal gates in all layers."))
    if (share := reading.scalars.get(f"equal_{layer}")) is not None:
        facts.append(Fact(layer_name(view, int(layer)), percent(share), "Share of equal gates."))
    return tuple(facts)


PANEL = PanelSpec(
    title="A and B",
    probes=("agreement", "gates"),
    draw=draw,
    about=About(
        text=(
            "A is the current run, B the checkpoint or the recorded run that stands beside it. "
            "For each layer the share of (example, unit) gates that are both open or both closed "
            "on the probe examples. The dashed line is the share to expect by chance, if each "
            "unit opened as often as it does, but in A and B independently: units are matched by "
            "their place, so two networks that differ by the order of their units agree no more "
            "than by chance. The map shows where they differ."
        ),
        formulas=(
            r"$\frac{1}{nw}\sum_{s,u} 1\{G^{\mathrm{A}}_l(s,u) = G^{\mathrm{B}}_l(s,u)\}$",
            r"by chance $\frac{1}{w}\sum_u p_u q_u + (1-p_u)(1-q_u)$",
        ),
        symbols=(
            "$G_l(s,u)$: gate of unit $u$ for example $s$; $n$: examples; $w$: units of the "
            "layer; $p_u$, $q_u$: how often unit $u$ is open in A and in B."
        ),
        source="Our definition; the churn of Lakshminarayanan & Singh, arXiv:2006.10529, between "
        "two networks in the place of two steps",
        computed=(
            "Exactly, by comparing the gates of both networks on the same probe examples, entry "
            "by entry. Of a recorded step the recorded gates are compared: those of dense layers "
            "exactly, too; of convolutions the means over positions, which is all that is recorded."
        ),
        trials=(freeze_random_gates("The agreement of every layer falls to chance."),),
    ),
    options=(LEFT, LAYER),
    area="left",
    order=2,
    compares=True,
)
