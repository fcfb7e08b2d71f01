"""Region dynamics: boundaries near the examples, and what moves the kernel: weights or gates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import (
    Axis,
    Chart,
    Curve,
    Dash,
    Empty,
    Fact,
    Role,
    Scene,
    Shown,
    finite_range,
)
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    is_from_file,
    layer_axis,
    layer_positions,
    recorded_curve,
)
from dgn_engine.scene.panel_readings import join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, chosen_value
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number, format_percent

_MOTIONS = (("moved", "since first reading"), ("share", "gates' share"))
RADIUS = Option("radius", "Radius", always(("1", "10 %"), ("0", "1 %")))


def _motion_values(view: View) -> Values:
    return () if is_from_file(view) else _MOTIONS


MOTION = Option("motion", "Motion of K", _motion_values)
# (points, name, role, dash)
_POINTS: tuple[tuple[str, str, Role, Dash], ...] = (
    ("examples", "at examples", "accent", "solid"),
    ("between", "between classes", "muted", "dash"),
)
# (scalar, name, role, dash)
_PARTS: tuple[tuple[str, str, Role, Dash], ...] = (
    ("moved", "$K$", "text", "dot"),
    ("weights", "by weights", "value", "solid"),
    ("gates", "by gates", "feature", "dash"),
)


def draw(view: View) -> Shown:
    """Draw local complexity over steps and by layer, and the motion of the kernel over steps."""
    complexity, motion = (view.readings.get(p) for p in ("local_complexity", "kernel_motion"))
    if is_from_file(view):  # K does not move
        motion = None
    readings = [reading for reading in (complexity, motion) if reading is not None]
    if not readings:
        return Empty("Local complexity and motion of the kernel appear soon.", "no-reading")
    available = [reading for reading in readings if not reading.absent]
    if not available:
        return Empty(readings[0].absent, "absent")
    charts: list[Chart] = []
    if complexity is not None and not complexity.absent:
        index = int(chosen_value(view, RADIUS))
        charts += [_complexity_over_steps(view, complexity, index), _by_layer(complexity, index)]
    if motion is not None and not motion.absent:
        charts.append(_motion_over_steps(view, chosen_value(view, MOTION)))
    facts = (*_complexity_facts(complexity, view), *_motion_facts(motion))
    step = max(reading.step for reading in available)
    return Scene(tuple(charts), facts, step, _write_note(complexity, motion))


def _complexity_over_steps(view: View, reading: Reading, index: int) -> Chart:
    curves: list[Curve] = []
    for points, name, role, dash in _POINTS:
        curves += recorded_curve(view, ("local_complexity", f"{points}_{index}"), name, role, dash)
    radius = format_number(float(reading.arrays["radii"][index]), 2)
    return chart_over_steps(view, f"Boundaries, $r$ = {radius}", curves, (0, 0, 1, 2))


def _by_layer(reading: Reading, index: int) -> Chart:
    count = len(reading.arrays["units"])
    shares = {
        points: 100 * reading.arrays[f"{points}_layers"][index] / reading.arrays["units"]
        for points, _, _, _ in _POINTS
        if f"{points}_layers" in reading.arrays
    }
    top = max(*(finite_range(share)[1] for share in shares.values()), 1e-3)
    return Chart(
        key="by_layer",
        title="Crossed units, %",
        x=layer_axis(count),
        y=Axis(limits=(-0.02 * top, 1.05 * top)),
        curves=tuple(
            Curve(name, layer_positions(count), shares[points], role, dash, marker=True)
            for points, name, role, dash in _POINTS
            if points in shares
        ),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _motion_over_steps(view: View, quantity: str) -> Chart:
    if quantity == "share":
        source = ("kernel_motion", "share")
        curves = recorded_curve(view, source, "gates", "feature", scale=100.0)
        chart = chart_over_steps(view, "Gates' share of the motion, %", curves, (1, 1, 1, 1))
    else:
        parts = (
            recorded_curve(view, ("kernel_motion", scalar), name, role, dash)
            for scalar, name, role, dash in _PARTS
        )
        curves = tuple(curve for part in parts for curve in part)
        chart = chart_over_steps(view, "Motion of $K$ / $‖K_0‖$", curves, (1, 1, 1, 1))
    return replace(chart, key="motion", column=2)


def _complexity_facts(reading: Reading | None, view: View) -> Iterator[Fact]:
    if reading is None or reading.absent:
        return
    index = chosen_value(view, RADIUS)
    for points, name, _, _ in _POINTS:
        value = reading.scalars.get(f"{points}_{index}", math.nan)
        if math.isfinite(value):
            about = "Mean number of units whose gate boundary crosses the neighbourhood."
            yield Fact(name, format_number(value, 3), about)


def _motion_facts(reading: Reading | None) -> Iterator[Fact]:
    if reading is None or reading.absent or reading.facts.get("readings") == "0":
        return
    moved = reading.scalars.get("moved", math.nan)
    if math.isfinite(moved):
        about = "‖K_t - K_0‖/‖K_0‖ since the first reading."
        yield Fact("$K$ moved", format_number(moved, 3), about)
    for scalar, name, about in (
        (
            "share",
            "gates' share",
            "Of the motion of K since the previous reading: below 0 % or above 100 % where weights "
            "and gates move it in opposite directions.",
        ),
        ("switched", "switched", "Gates that crossed ½ since the previous reading."),
    ):
        value = reading.scalars.get(scalar, math.nan)
        if math.isfinite(value):
            yield Fact(name, format_percent(value), about)


def _write_note(complexity: Reading | None, motion: Reading | None) -> str:
    parts = [reading.absent for reading in (complexity, motion) if reading is not None]
    if complexity is not None and not complexity.absent:
        count = complexity.facts.get("directions", "")
        parts.append(f"Neighbourhoods: {count} directions; r relative to the spread of the data.")
        parts.append(complexity.facts.get("between", ""))
    if motion is not None and not motion.absent:
        parts.append(motion.facts.get("examples", ""))
        if motion.facts.get("readings") == "0":
            parts.append("Only one reading of K so far.")
    return join_sentences(*parts)


PANEL = PanelSpec(
    title="Region dynamics",
    probes=("local_complexity", "kernel_motion"),
    draw=draw,
    about=About(
        text=(
            "Gate boundaries divide the input space into linear regions. Left: how many of them "
            "cross a small neighbourhood of a probe example (local complexity), and of a point "
            "halfway between examples of different classes, where a decision boundary passes. "
            "Reported for ReLU networks that train long: a fall, a rise, and a last fall in which "
            "boundaries leave the examples. Middle: the same by layer. Right: how far the tangent "
            "kernel has moved, and which part of it came from the weights at constant gates and "
            "which from gates that switched. In a wide network both stay small. In a pair of "
            "networks, the weights are those of the value network, and the gates those of the "
            "feature network. Try ReLU at widths 16 and 256, and a small learning rate."
        ),
        formulas=(
            r"$LC_l(x) = \#\{u : q_{l,u}(x \pm r v_i) > 0 \text{ for some } i, \pm "
            r"\text{, not for all}\}$",
            r"$K_t - K_s = \Delta K_\Theta + \Delta K_G$",
            r"$\Delta K_\Theta = \frac{1}{2} [K(\Theta_t, G_s) - K(\Theta_s, G_s) + "
            r"K(\Theta_t, G_t) - K(\Theta_s, G_t)]$",
        ),
        symbols=(
            "$q_{l,u}$: pre-activation of unit $u$ of layer $l$; $v_i$: orthonormal directions; "
            "$r$: radius, 1 or 10 % of the root mean square distance of the examples from their "
            "mean; $K(Θ, G)$: tangent kernel of weights $Θ$ and gates $G$; $s$: previous reading."
        ),
        source=(
            "Humayun, Balestriero & Baraniuk, Training dynamics of deep network linear regions, "
            "2023, arXiv:2310.12977: local complexity, three phases; motion at constant gates: "
            "Huang & Yau, Dynamics of deep neural networks and neural tangent hierarchy, 2020, "
            "arXiv:1909.08156; the division into two parts is ours"
        ),
        computed=(
            "Boundaries: signs at the vertices of each neighbourhood, exact in the first layer; a "
            "boundary that bends between the vertices is missed. Motion: exact between two "
            "readings, in float64, and summed over the readings."
        ),
        trials=(freeze_random_gates("The boundaries stop, and only the weights move K."),),
    ),
    options=(RADIUS, MOTION),
    area="right",
    order=18,
    opened=False,
)
