"""Overlap: how much of the active and of the sensitive sub-network two examples share."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_viewer.scene.axes import example_pairs
from dgn_viewer.scene.compared import b_name, compared_reading, why_not_compared
from dgn_viewer.scene.elements import Array, Chart, Empty, Fact, Matrix, Scene, Shown
from dgn_viewer.scene.panel_spec import About, Option, PanelSpec, Values, View, always, choice
from dgn_viewer.scene.run_text import layer_values
from dgn_viewer.scene.ticks import number


def _parts(view: View) -> Values:
    return (("all", "whole network"), *layer_values(view, "overlap", "active"))


def _kinds(view: View) -> Values:
    """Offer Λ or S: in a comparison there is room for one of the two."""
    if compared_reading(view, "overlap") is None:
        return ()
    return (("active", "active"), ("sensitive", "sensitive"))


KIND = Option("kind", "Sub-networks", _kinds)
PART = Option("part", "Show", _parts)
SCALE = Option("scale", "Colours", always(("unit", "0 to 1"), ("contrast", "off the diagonal")))


def draw(view: View) -> Shown:
    """Λ and S, examples in the same order, both with unit diagonal."""
    reading = view.readings.get("overlap")
    if reading is None:
        return Empty("The overlap of active and of sensitive sub-networks, with the first frame.")
    if reading.absent:
        return Empty(reading.absent)
    part = choice(view, PART)
    suffix = "" if part == "all" else f"_{part}"
    labels = reading.arrays["labels"]
    if choice(view, KIND):
        return _compared(view, reading, choice(view, KIND), suffix)
    names = ("$Λ$", "$S$") if part == "all" else (f"$τ_{int(part) + 1}$", f"$DD^T_{int(part) + 1}$")
    kinds = (("active", "Active", names[0]), ("sensitive", "Sensitive", names[1]))
    shown = [one for one in kinds if f"{one[0]}{suffix}" in reading.arrays]
    charts: list[Chart] = []
    facts: list[Fact] = []
    for place, (kind, word, name) in enumerate(shown):
        values, last = reading.arrays[f"{kind}{suffix}"], place == len(shown) - 1
        top = _largest_pair(values) if choice(view, SCALE) == "contrast" else 1.0
        charts.append(_chart(view, kind, f"{word} {name}", values, labels, place, top, last))
        facts.append(_mean(kind, name, values))
    if not charts:
        return Empty("This layer has no overlap in the last frame; choose another.")
    note = " ".join((_note(dict(reading.facts)), why_not_compared(view, "overlap"))).rstrip()
    return Scene(tuple(charts), tuple(facts), reading.step, note)


def _compared(view: View, reading: Reading, kind: str, suffix: str) -> Shown:
    """Λ or S for the run (A) and for the compared network (B), in the same colours."""
    other = compared_reading(view, "overlap")
    assert view.compared is not None
    assert other is not None  # else there is no choice of a kind
    pairs = [("A", reading), (b_name(view.compared), other)]
    found = [
        (name, one.arrays[f"{kind}{suffix}"])
        for name, one in pairs
        if f"{kind}{suffix}" in one.arrays
    ]
    if not found:
        return Empty("This layer has no overlap in the last frame; choose another.")
    contrast = choice(view, SCALE) == "contrast"
    top = max(_largest_pair(values) for _, values in found) if contrast else 1.0
    labels = reading.arrays["labels"]
    charts = [
        _chart(view, f"{kind}_{place}", name, values, labels, place, top, place == len(found) - 1)
        for place, (name, values) in enumerate(found)
    ]
    facts = tuple(_mean(kind, name.partition(" ")[0], values) for name, values in found)
    lacking = (name for name, one in pairs if f"{kind}{suffix}" not in one.arrays)
    missing = "".join(f" {name} has no such layer." for name in lacking)
    return Scene(tuple(charts), facts, reading.step, _note(dict(reading.facts)) + missing)


def _chart(
    view: View,
    kind: str,
    title: str,
    values: Array,
    labels: Array,
    column: int,
    top: float,
    last: bool,
) -> Chart:
    matrix = Matrix(
        name=kind,
        values=values,
        ramp="sequential",
        low=0.0,
        high=top,
        bar="normalised overlap" if last or top < 1.0 else "",
    )
    return example_pairs(view, labels, kind, title, matrix, column, column == 0)


def _pairs(values: Array) -> Array:
    """The finite overlaps of two different examples."""
    others = values[~np.eye(values.shape[0], dtype=bool)]
    return others[np.isfinite(others)]


def _largest_pair(values: Array) -> float:
    """The largest overlap of two different examples: in deep networks far below 1."""
    pairs = _pairs(values)
    return float(pairs.max()) if pairs.size and pairs.max() > 0 else 1.0


def _mean(kind: str, name: str, values: Array) -> Fact:
    pairs = _pairs(values)
    value = number(float(f"{pairs.mean():.3g}")) if pairs.size else "–"
    return Fact(f"mean {name}", value, f"Mean {kind} overlap of two different examples.")


def _note(facts: dict[str, str]) -> str:
    sensitive = facts.get("gate") or facts.get("kappa") or ""
    parts = ["Unit diagonal; empty where an example has no active or sensitive path"]
    return "; ".join([*parts, sensitive] if sensitive else parts) + "."


PANEL = PanelSpec(
    title="Overlap",
    probes=("overlap",),
    draw=draw,
    about=About(
        text=(
            "Two examples overlap where the same paths are active for both. The left matrix "
            "counts shared active paths, the right one shared pairs of a path and a sensitive "
            "gate on it, that is, a gate close to switching. Both are scaled to unit diagonal, "
            "so that 1 means the same sub-network. Bright blocks along the diagonal: examples "
            "of a class share their sub-network."
        ),
        formulas=(
            r"$\Lambda = \tau_1 \odot \cdots \odot \tau_{d-1}, \quad \tau_l = G_l G_l^\top$",
            r"$S = \sum_l (D_l D_l^\top) \odot \prod_{l' \neq l} \tau_{l'}$",
            r"$D_l = \partial\gamma(q_l)$ (soft), "
            r"$D_l = 1\{|q_l| < \kappa\,\mathrm{rms}(q_l)\}$ (hard)",
        ),
        source="Lakshminarayanan & Singh, arXiv:2006.10529; the sensitive overlap here "
        "counts pairs of a path and a sensitive layer, without cross terms between layers",
    ),
    options=(KIND, PART, SCALE),
    area="left",
    order=1,
)
