"""Sensitive sub-networks: the overlap S of this program beside δ of [DGN] Lemma 3.1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import facts_of_view, reason_not_compared
from dgn_engine.scene.elements import Chart, Fact, Matrix, Scene, Shown
from dgn_engine.scene.layer_curves import chart_over_steps, recorded_curve
from dgn_engine.scene.matrix_colours import SPANS, with_pair_colours
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, PanelSpec, View
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number

_NAMES = (("sensitive", "Sensitive $S$"), ("delta", "Lemma 3.1 $δ$"))


@draw_reading("sensitive", "S and δ appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw S and δ at unit diagonal, with the examples in the same order, and their means."""
    charts = (*_draw_matrices(view, reading), _over_steps(view))
    facts = facts_of_view(view, "sensitive", _list_facts)
    return Scene(charts, facts, reading.step, _write_note(view))


def _draw_matrices(view: View, reading: Reading) -> Iterator[Chart]:
    every = [reading.arrays[name] for name, _ in _NAMES]
    for index, (name, title) in enumerate(_NAMES):
        matrix = Matrix(
            name=name,
            values=reading.arrays[name],
            ramp="sequential",
            low=0.0,
            high=1.0,
            bar="overlap, normalised" if index else "",
            scale="unit diagonal",
        )
        matrix = with_pair_colours(matrix, every)
        chart = example_pairs(view, reading.arrays["labels"], name, title, matrix, index, not index)
        yield replace(chart, narrow=(0, index, 1, 1))


def _over_steps(view: View) -> Chart:
    curves = recorded_curve(view, ("sensitive", "mean_sensitive"), "$S$", "value")
    curves += recorded_curve(view, ("sensitive", "mean_delta"), "$δ$", "feature", "dash")
    return chart_over_steps(view, "Mean over pairs", curves, (1, 0, 1, 2), 2)


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    rows = (
        ("mean $S$", "mean_sensitive", "Mean of S over pairs of different examples."),
        ("mean $δ$", "mean_delta", "Mean of δ over pairs of different examples."),
        ("correlation", "agreement", "Of S and δ over pairs of different examples; 1: the same."),
    )
    return tuple(
        Fact(name, format_number(reading.scalars[key], 3), about)
        for name, key, about in rows
        if key in reading.scalars
    )


def _write_note(view: View) -> str:
    return join_sentences(
        f"Unit diagonal; empty where an example has no sensitive path. Colours: {SPANS['pairs']}.",
        "" if view.compared is None else "Matrices: A.",
        reason_not_compared(view, "sensitive"),
    )


PANEL = PanelSpec(
    title="Sensitive sub-networks",
    probes=("sensitive",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "How alike are two examples in what training can still switch? Lemma 3.1 of Deep "
            "Gated Networks measures it by δ: over all paths, the inner product of the gradients "
            "of the paths' activities by the weights that make the gates. Times the inner "
            "products of the inputs, δ is the expected tangent kernel of the gates. S of the "
            "panel Overlap is this program's own, cheaper measure: it takes derivatives by the "
            "pre-activations, each layer on its own. Both are scaled to unit diagonal; where the "
            "pictures differ, δ is what theory asks for. Only for dense networks with soft gates "
            "of a trained feature network."
        ),
        formulas=(
            r"$\mathbb{E}[K^F_0] = \sigma^{2d}\, \Sigma \odot \delta$",
            r"$\delta(s, s') = \sum_\theta \sum_p \partial_\theta A(x_s, p)\, "
            r"\partial_\theta A(x_{s'}, p)$",
            r"$S = \sum_l (D_l D_l^\top) \odot \prod_{l' \neq l} \tau_{l'}, \quad "
            r"D_l = \partial\gamma(q_l)$",
        ),
        symbols=(
            "$A(x, p)$: activity of path $p$, the product of its gates; $θ$: weights of the "
            "feature network; $K^F_0$: feature part of the tangent kernel at the start; $σ$: "
            "standard deviation of the value weights; $Σ$: inner products of the value inputs; "
            "$d$: weight layers; $τ_l$: overlap of layer $l$; ⊙: entrywise product."
        ),
        source=(
            "Lakshminarayanan & Singh, Deep Gated Networks, arXiv:2002.03996, Definition 3.1 and "
            "Lemma 3.1: δ. S is defined in this program only"
        ),
        computed=(
            "Exact, from the gates and weights of the feature network, without a list of paths: "
            "δ is a sum over layers and pairs of layers."
        ),
        trials=(freeze_random_gates("Frozen hard gates have no gradient: δ does not exist."),),
    ),
    area="left",
    order=15,
    opened=False,
)
