"""Gradients and updates: the gradient norm of each layer, and how far its weights move."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Curve,
    Dash,
    Empty,
    Fact,
    Role,
    Scene,
    Shown,
)
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    drop_nonpositive,
    layer_axis,
    layer_positions,
    layers_note,
    over_steps,
)
from dgn_engine.scene.panel_readings import join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, chosen_value
from dgn_engine.scene.trials import train_gates_alone
from dgn_engine.text.written_numbers import format_number, format_percent

# (network, role, dash)
_NETWORKS: tuple[tuple[str, Role, Dash], ...] = (
    ("value", "value", "solid"),
    ("feature", "feature", "dash"),
)
_TITLES = {
    "gradient": "Gradient norm",
    "update": "Relative update per step",
    "moved": "Moved since first reading",
}


def _network_values(view: View) -> Values:
    """List the networks that train."""
    readings = [view.readings.get(probe) for probe in ("updates", "gradients")]
    array_names = {name for reading in readings if reading is not None for name in reading.arrays}
    trained = [name for name, _, _ in _NETWORKS if {name, f"{name}_norm"} & array_names]
    return tuple((name, f"{name} network") for name in trained)


OVER_STEPS = Option(
    "steps",
    "Over steps",
    always(("gradient", "gradient"), ("update", "update"), ("moved", "moved")),
)
NETWORK = Option("network", "Network", _network_values)


def draw(view: View) -> Shown:
    """Draw gradients and updates by layer for both networks, and one of them over steps."""
    gradients, updates = view.readings.get("gradients"), view.readings.get("updates")
    if gradients is None and updates is None:
        return Empty("Gradients and updates appear with the first frame.", "no-reading")
    available = [
        reading for reading in (gradients, updates) if reading is not None and not reading.absent
    ]
    if not available:
        absent = gradients or updates
        return Empty(absent.absent if absent is not None else "", "absent")
    count = max(
        len(array)
        for reading in available
        for name, array in reading.arrays.items()
        if name != "labels"
    )
    network, quantity = chosen_value(view, NETWORK), chosen_value(view, OVER_STEPS)
    charts = (
        _by_layer("gradient", _select_arrays(gradients, ""), count, 0),
        _by_layer("update", _select_arrays(updates, "_update"), count, 1),
        _over_steps(view, network, quantity, count),
    )
    step = max(reading.step for reading in available)
    return Scene(
        charts, _list_facts(gradients, updates), step, _write_note(gradients, updates, count)
    )


def _select_arrays(reading: Reading | None, suffix: str) -> dict[str, Array]:
    if reading is None:
        return {}
    names = (name for name, _, _ in _NETWORKS if f"{name}{suffix}" in reading.arrays)
    return {name: reading.arrays[f"{name}{suffix}"] for name in names}


def _by_layer(what: str, found: dict[str, Array], count: int, column: int) -> Chart:
    """Plot values by layer on a logarithmic axis, which leaves out zeros."""
    curves = drop_nonpositive(
        Curve(name, layer_positions(len(found[name])), found[name], role, dash, marker=True)
        for name, role, dash in _NETWORKS
        if name in found
    )
    return Chart(
        key=what,
        title=f"{_TITLES[what]} by layer",
        x=layer_axis(count, [*map(str, range(1, count)), "out"]),
        y=Axis(log=True),
        curves=curves,
        column=column,
        narrow=(0, column, 1, 1),
    )


def _over_steps(view: View, network: str, what: str, count: int) -> Chart:
    probe, prefix = "updates", f"{network}_{what}"
    if what == "gradient":
        probe, prefix = "gradients", network
    curves = over_steps(view, probe, prefix, count, log=True)
    title = f"{_TITLES[what]}, {network} network"
    return chart_over_steps(view, title, curves, (1, 0, 1, 2), 2, log=True)


def _list_facts(gradients: Reading | None, updates: Reading | None) -> tuple[Fact, ...]:
    facts = []
    if gradients is not None and "loss" in gradients.scalars:
        value = format_number(gradients.scalars["loss"], 4)
        facts.append(Fact("probe loss", value, "Mean loss on the probe examples."))
    for name, gradient in _select_arrays(gradients, "").items():
        norm = format_number(float(np.linalg.norm(gradient)), 3)
        about = f"Gradient norm over all weights of the {name} network."
        facts.append(Fact(f"‖∂L‖ {name}", norm, about))
    about = "‖Θ - Θ_0‖/‖Θ_0‖ since the first reading, averaged over layers."
    for name, moved in _select_arrays(updates, "_moved").items():
        if np.isfinite(moved).any():
            facts.append(Fact(f"moved {name}", format_percent(float(np.nanmean(moved)), 2), about))
    return tuple(facts)


def _write_note(gradients: Reading | None, updates: Reading | None, count: int) -> str:
    parts = [reading.absent for reading in (gradients, updates) if reading is not None]
    if gradients is not None and not gradients.absent:
        parts.append("Gradients: recomputed on the probe examples.")
    if updates is not None and not updates.absent:
        k = int(updates.facts.get("steps", "0"))
        span = {0: "", 1: ", of the last step"}.get(k, f", mean over {k:,} steps")
        since = int(updates.facts.get("since", "0"))
        parts.append(f"Updates: from the weights{span}; first reading: step {since:,}.")
    return join_sentences(*parts, layers_note(count))


PANEL = PanelSpec(
    title="Gradients and updates",
    probes=("gradients", "updates"),
    draw=draw,
    about=About(
        text=(
            "Where the gradient pulls, and where the weights go. Left: the norm of the loss "
            "gradient for the weights of each layer, recomputed on the probe examples because "
            "every training step uses a different batch. Middle: how far the weights of each "
            "layer moved since the previous reading, relative to their norm and per step, "
            "computed from the weights alone. Momentum and Adam can turn a small gradient into a "
            "large update, so both are worth watching. In wide networks weights hardly leave "
            "their starting point ('moved'): that is the regime in which the tangent kernel stays "
            "constant. Try a larger learning rate, or DL against gates-only: a frozen network has "
            "no curve."
        ),
        formulas=(
            r"$\| \partial L / \partial \Theta_l \|_F$",
            r"$\| \Theta_{l,t} - \Theta_{l,t-k} \|_F \,/\, (k \, \| \Theta_{l,t-k} \|_F)$",
            r"$\| \Theta_{l,t} - \Theta_{l,0} \|_F \,/\, \| \Theta_{l,0} \|_F$",
        ),
        symbols=(
            "$L$: loss on the probe examples; $Θ_{l,t}$: weights of layer $l$ at step $t$; $k$: "
            "steps since the previous reading; ‖·‖ with F: Frobenius norm."
        ),
        source=(
            "Our definition; weights of wide networks staying near their start: Jacot et al. "
            "2018, arXiv:1806.07572"
        ),
        computed=(
            "Gradients are recomputed on the probe examples, separately from training, and no "
            "optimiser sees them; updates are differences of the weights at two readings."
        ),
        trials=(
            train_gates_alone("The curves of the value network end: nothing moves it any more."),
        ),
    ),
    options=(OVER_STEPS, NETWORK),
    area="right",
    order=10,
    opened=False,
)
