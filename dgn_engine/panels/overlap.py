"""Overlap: how much of their active and sensitive sub-networks two examples share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import (
    b_name,
    compared_reading,
    facts_of_both,
    notes_of_both,
    pair_labels,
    reason_not_compared,
    with_difference,
)
from dgn_engine.scene.elements import Array, Chart, Empty, Fact, Matrix, Scene, Shown, with_matrix
from dgn_engine.scene.estimates import estimate_note, format_mean, mark_estimate, standard_errors
from dgn_engine.scene.matrix_colours import SPANS, with_pair_colours
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, chosen_value
from dgn_engine.scene.run_text import layer_values
from dgn_engine.scene.trials import freeze_random_gates, reverse_layers


def _part_values(view: View) -> Values:
    return (("all", "whole network"), *layer_values(view, "overlap", "active"))


def _kind_values(view: View) -> Values:
    """Offer Λ or S in a comparison, where there is room for only one."""
    if compared_reading(view, "overlap") is None:
        return ()
    return (("active", "active"), ("sensitive", "sensitive"))


KIND = Option("kind", "Sub-networks", _kind_values)
PART = Option("part", "Show", _part_values)
# Off the diagonal by default: Λ is close to 1 everywhere in a convolutional network and close to
# 0 in a deep dense one; on a scale from 0 to 1 either is a sheet of one colour.
SCALE = Option("scale", "Colours", always(("pairs", "off the diagonal"), ("unit", "0 to 1")))


@draw_reading("overlap", "Active and sensitive overlap appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw Λ and S at unit diagonal, with the examples in the same order."""
    part = chosen_value(view, PART)
    suffix = "" if part == "all" else f"_{part}"
    if chosen_value(view, KIND):
        return _draw_comparison(view, reading, chosen_value(view, KIND), part)
    n = "" if part == "all" else int(part) + 1
    names = ("$Λ$", "$S$") if part == "all" else (f"$τ_{{{n}}}$", f"$DD^T_{{{n}}}$")
    kinds = (("active", "Active", names[0]), ("sensitive", "Sensitive", names[1]))
    drawn = [row for row in kinds if f"{row[0]}{suffix}" in reading.arrays]
    charts: list[Chart] = []
    facts: list[Fact] = []
    for index, (kind, word, name) in enumerate(drawn):
        values, last = reading.arrays[f"{kind}{suffix}"], index == len(drawn) - 1
        chart = _draw_chart(
            view, reading, kind, part, index, last or not _has_unit_scale(view), [values]
        )
        charts.append(replace(chart, title=f"{word} {name}"))
        facts.append(_mean_fact(kind, name, values, standard_errors(reading, f"{kind}{suffix}")))
    if not charts:
        return Empty("This layer has no overlap in the last frame; choose another.", "no-layer")
    if view.compared is not None:
        facts = [*facts_of_both(facts, (), view.compared)]
    why = reason_not_compared(view, "overlap")
    note = join_sentences(
        _write_note(view, dict(reading.facts)), why, _note_estimates(charts, reading)
    )
    return Scene(tuple(charts), tuple(facts), reading.step, note)


def _note_estimates(charts: Sequence[Chart], *readings: Reading) -> str:
    estimated = any(chart.matrix and chart.matrix.estimated for chart in charts)
    return estimate_note(*readings) if estimated else ""


def _draw_comparison(view: View, reading: Reading, kind: str, part: str) -> Shown:
    """Draw Λ or S of the run (A) and of the compared network (B) in the same colours."""
    suffix = "" if part == "all" else f"_{part}"
    reading_of_b = compared_reading(view, "overlap")
    assert view.compared is not None
    assert reading_of_b is not None  # a kind is offered only then
    a, b = pair_labels(view.compared)
    pairs = [(a, reading), (b_name(view.compared), reading_of_b)]
    available = [
        (name, source.arrays[f"{kind}{suffix}"], source)
        for name, source in pairs
        if f"{kind}{suffix}" in source.arrays
    ]
    if not available:
        return Empty("This layer has no overlap in the last frame; choose another.", "no-layer")
    matrices = [values for _, values, _ in available]
    charts = []
    for index, (name, _, source) in enumerate(available):
        chart = _draw_chart(view, source, kind, part, index, index == len(available) - 1, matrices)
        chart = with_matrix(chart, name=f"{kind}_{index}", of_compared=source is reading_of_b)
        charts.append(replace(chart, key=f"{kind}_{index}", title=name))
    drawn, reason = with_difference(charts, f"{kind}_difference", view.compared)
    facts = tuple(
        _mean_fact(
            kind,
            b if source is reading_of_b else a,
            values,
            standard_errors(source, f"{kind}{suffix}"),
        )
        for _, values, source in available
    )
    lacking = (name for name, source in pairs if f"{kind}{suffix}" not in source.arrays)
    missing = (f"{name} has no such layer." for name in lacking)
    notes = [_write_note(view, dict(source.facts)) for source in (reading, reading_of_b)]
    about = notes_of_both(notes[0], notes[1], view.compared)
    note = join_sentences(about, *missing, reason, _note_estimates(charts, reading, reading_of_b))
    return Scene(drawn, facts, reading.step, note)


def _draw_chart(
    view: View, reading: Reading, kind: str, part: str, column: int, bar: bool, every: list[Array]
) -> Chart:
    """Draw the overlap of a layer, or of the whole network (part 'all'), without a title.

    Colours span the off-diagonal range of all matrices in `every`, or 0 to 1.
    """
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
    if not _has_unit_scale(view):
        matrix = with_pair_colours(matrix, every)
    labels = reading.arrays["labels"]  # B may be read on fewer examples than A
    chart = example_pairs(view, labels, kind, "", matrix, column, column == 0)
    return mark_estimate(chart, reading, name)


def _has_unit_scale(view: View) -> bool:
    return chosen_value(view, SCALE) == "unit"


def _off_diagonal(values: Array) -> Array:
    """Return the finite overlaps of pairs of different examples."""
    entries = values[~np.eye(values.shape[0], dtype=bool)]
    return entries[np.isfinite(entries)]


def _mean_fact(kind: str, name: str, values: Array, errors: Array | None) -> Fact:
    value = format_mean(_off_diagonal(values), None if errors is None else _off_diagonal(errors))
    about = f"Mean {kind} overlap of pairs of different examples."
    if errors is not None:
        about += " Estimated: ± is at most one standard error."
    return Fact(f"mean {name}", value, about)


def _write_note(view: View, facts: dict[str, str]) -> str:
    sensitive = facts.get("gate") or facts.get("kappa") or ""
    empty = "Unit diagonal; empty where an example has no active or sensitive path"
    colours = "" if _has_unit_scale(view) else f" Colours: {SPANS['pairs']}."
    return "; ".join(filter(None, (empty, sensitive))) + "." + colours


PANEL = PanelSpec(
    title="Overlap",
    probes=("overlap",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "Two examples overlap where the same paths are active for both. The left matrix "
            "counts shared active paths, the right one shared pairs of a path and a sensitive "
            "gate on it, that is, a gate close to switching. Both are scaled to unit diagonal, so "
            "1 means the same sub-network. Bright blocks along the diagonal: examples of a class "
            "share their sub-network."
        ),
        formulas=(
            r"$\Lambda = \tau_1 \odot \cdots \odot \tau_{d-1}, \quad \tau_l = G_l G_l^\top$",
            r"$S = \sum_l (D_l D_l^\top) \odot \prod_{l' \neq l} \tau_{l'}$",
            r"$D_l = \partial\gamma(q_l)$ (soft), "
            r"$D_l = 1\{|q_l| < \kappa\,\mathrm{rms}(q_l)\}$ (hard)",
        ),
        symbols=(
            "$G_l$: gates of layer $l$, one row per example; ⊙ and ∏: entrywise products; $d$: "
            "weight layers, of which $d-1$ have gates; $D_l$: sensitivity of each gate; rms: root "
            "mean square; $κ$ = 0.1."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: active sub-networks and their overlap; the sensitive overlap here "
            "counts pairs of a path and a sensitive layer, without cross terms between layers"
        ),
        computed=(
            "Exact where feasible: for dense layers Λ is a product of the layers' overlaps, for "
            "convolutions it is counted position by position. In large networks it is first "
            "estimated from random paths; a hatched corner and ± mark it until it is exact."
        ),
        trials=(
            freeze_random_gates(
                "The blocks along the diagonal fade: under random gates, examples of a class "
                "share hardly more paths than any others."
            ),
            reverse_layers(
                "Λ of a dense network stays the same: a product does not depend on the order of "
                "its factors."
            ),
        ),
    ),
    options=(KIND, PART, SCALE),
    area="left",
    order=1,
)
