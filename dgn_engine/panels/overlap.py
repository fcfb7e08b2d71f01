"""Overlap: how much of the active and of the sensitive sub-network two examples share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import (
    b_name,
    compared_reading,
    pair_labels,
    why_not_compared,
    with_difference,
)
from dgn_engine.scene.elements import Array, Chart, Empty, Fact, Matrix, Scene, Shown, with_matrix
from dgn_engine.scene.estimates import errors_of, estimate_note, marked, mean_in_words
from dgn_engine.scene.matrix_colours import SPANS, ranged, span_range
from dgn_engine.scene.panel_readings import as_note, draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, choice
from dgn_engine.scene.run_text import layer_values
from dgn_engine.scene.trials import freeze_random_gates, reverse_layers


def _parts(view: View) -> Values:
    return (("all", "whole network"), *layer_values(view, "overlap", "active"))


def _kinds(view: View) -> Values:
    """Offer Λ or S: in a comparison there is room for one of the two."""
    if compared_reading(view, "overlap") is None:
        return ()
    return (("active", "active"), ("sensitive", "sensitive"))


KIND = Option("kind", "Sub-networks", _kinds)
PART = Option("part", "Show", _parts)
# Off the diagonal first: Λ of a convolutional network lies close to 1 everywhere, that of a deep
# dense one close to 0, and from 0 to 1 both are sheets of one colour.
SCALE = Option("scale", "Colours", always(("pairs", "off the diagonal"), ("unit", "0 to 1")))


@draw_reading(
    "overlap", "The overlap of active and of sensitive sub-networks, with the first frame."
)
def draw(view: View, reading: Reading) -> Shown:
    """Λ and S, examples in the same order, both with unit diagonal."""
    part = choice(view, PART)
    suffix = "" if part == "all" else f"_{part}"
    if choice(view, KIND):
        return _compared(view, reading, choice(view, KIND), part)
    n = "" if part == "all" else int(part) + 1
    names = ("$Λ$", "$S$") if part == "all" else (f"$τ_{{{n}}}$", f"$DD^T_{{{n}}}$")
    kinds = (("active", "Active", names[0]), ("sensitive", "Sensitive", names[1]))
    shown = [one for one in kinds if f"{one[0]}{suffix}" in reading.arrays]
    charts: list[Chart] = []
    facts: list[Fact] = []
    for place, (kind, word, name) in enumerate(shown):
        values, last = reading.arrays[f"{kind}{suffix}"], place == len(shown) - 1
        chart = _chart(view, reading, kind, part, place, last or not _unit(view), [values])
        charts.append(replace(chart, title=f"{word} {name}"))
        facts.append(_mean(kind, name, values, errors_of(reading, f"{kind}{suffix}")))
    if not charts:
        return Empty("This layer has no overlap in the last frame; choose another.", "no-layer")
    why = why_not_compared(view, "overlap")
    note = as_note(_note(view, dict(reading.facts)), why, _estimated(charts, reading))
    return Scene(tuple(charts), tuple(facts), reading.step, note)


def _estimated(charts: Sequence[Chart], *readings: Reading) -> str:
    drawn = any(chart.matrix and chart.matrix.estimated for chart in charts)
    return estimate_note(*readings) if drawn else ""


def _compared(view: View, reading: Reading, kind: str, part: str) -> Shown:
    """Λ or S for the run (A) and for the compared network (B), in the same colours."""
    suffix = "" if part == "all" else f"_{part}"
    other = compared_reading(view, "overlap")
    assert view.compared is not None
    assert other is not None  # else there is no choice of a kind
    a, b = pair_labels(view.compared)
    pairs = [(a, reading), (b_name(view.compared), other)]
    found = [
        (name, one.arrays[f"{kind}{suffix}"], one)
        for name, one in pairs
        if f"{kind}{suffix}" in one.arrays
    ]
    if not found:
        return Empty("This layer has no overlap in the last frame; choose another.", "no-layer")
    every = [values for _, values, _ in found]
    charts = []
    for place, (name, _, one) in enumerate(found):
        chart = _chart(view, one, kind, part, place, place == len(found) - 1, every)
        chart = with_matrix(chart, name=f"{kind}_{place}", of_compared=one is other)
        charts.append(replace(chart, key=f"{kind}_{place}", title=name))
    shown, undone = with_difference(charts, f"{kind}_difference", view.compared)
    facts = tuple(
        _mean(kind, b if one is other else a, values, errors_of(one, f"{kind}{suffix}"))
        for _, values, one in found
    )
    lacking = (name for name, one in pairs if f"{kind}{suffix}" not in one.arrays)
    missing = (f"{name} has no such layer." for name in lacking)
    said = _note(view, dict(reading.facts))
    note = as_note(said, *missing, undone, _estimated(charts, reading, other))
    return Scene(shown, facts, reading.step, note)


def _chart(
    view: View, reading: Reading, kind: str, part: str, column: int, bar: bool, every: list[Array]
) -> Chart:
    """The overlap of a layer or (part 'all') of the whole network, without a title, in the range
    of pairs of all these matrices, or from 0 to 1."""
    name = kind if part == "all" else f"{kind}_{part}"
    matrix = Matrix(
        name=kind,
        values=reading.arrays[name],
        ramp="sequential",
        low=0.0,
        high=1.0,
        bar="overlap, normalised" if bar else "",
        scale="unit diagonal",
        layer=None if part == "all" else int(part),
    )
    if not _unit(view) and (reach := span_range(every, "pairs")):
        matrix = ranged(matrix, *reach, every)
    labels = reading.arrays["labels"]  # B may be read on fewer examples than A
    chart = example_pairs(view, labels, kind, "", matrix, column, column == 0)
    return marked(chart, reading, name)


def _unit(view: View) -> bool:
    return choice(view, SCALE) == "unit"


def _pairs(values: Array) -> Array:
    """The finite overlaps of two different examples."""
    others = values[~np.eye(values.shape[0], dtype=bool)]
    return others[np.isfinite(others)]


def _mean(kind: str, name: str, values: Array, errors: Array | None) -> Fact:
    value = mean_in_words(_pairs(values), None if errors is None else _pairs(errors))
    about = f"Mean {kind} overlap of two different examples."
    if errors is not None:
        about += " An estimate: ± is at most one standard error."
    return Fact(f"mean {name}", value, about)


def _note(view: View, facts: dict[str, str]) -> str:
    sensitive = facts.get("gate") or facts.get("kappa") or ""
    empty = "Unit diagonal; empty where an example has no active or sensitive path"
    colours = "" if _unit(view) else f" Colours: {SPANS['pairs']}."
    return "; ".join(filter(None, (empty, sensitive))) + "." + colours


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
        symbols=(
            "$G_l$: gates of layer $l$, one row for each example; ⊙ and ∏: entry by entry; $d$: "
            "layers of weights, of which $d-1$ have gates; $D_l$: how sensitive each gate is; "
            "rms: root of the mean square; $κ$ = 0.1."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: active sub-networks and their overlap; the sensitive overlap here "
            "counts pairs of a path and a sensitive layer, without cross terms between layers"
        ),
        computed=(
            "Exactly where that fits: Λ of dense layers is a product of the layers' overlaps, of "
            "convolutions it is counted from position to position. In large networks it is "
            "estimated by random paths first; a hatched corner and ± say so until it is exact."
        ),
        trials=(
            freeze_random_gates(
                "The blocks along the diagonal fade: of random gates examples of a class share "
                "hardly more paths than any others."
            ),
            reverse_layers(
                "Λ of a dense network stays as it is: a product does not depend on the order of "
                "its factors."
            ),
        ),
    ),
    options=(KIND, PART, SCALE),
    area="left",
    order=1,
)
