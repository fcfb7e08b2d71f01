"""Kernel against theory: the value kernel, its expectation βH, and the distance between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import facts_of_view, reason_not_compared
from dgn_engine.scene.elements import Chart, Fact, Matrix, Scene, Shown, largest_magnitude
from dgn_engine.scene.layer_curves import chart_over_steps, recorded_curve
from dgn_engine.scene.matrix_colours import SPANS, share_colours, with_pair_colours
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, chosen_value
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number

MEASURE = Option(
    "measure",
    "Over steps",
    always(("distance", "distance"), ("cosine", "cosine"), ("traces", "ratio of traces")),
)
_TITLES = {
    "distance": "Distance $‖K^V - βH‖/‖βH‖$",
    "cosine": "Cosine of $K^V$ and $βH$",
    "traces": "tr $K^V$ / tr $βH$",
}
_CURVES = {"distance": "distance", "cosine": "cosine", "traces": "ratio"}
_NAMES = (("value", "Measured $K^V$"), ("expected", "Expected $βH$"))


@draw_reading("kernel_theory", "Value kernel and expectation βH appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw both kernels, and how far apart they are over steps.

    They are on one scale unless the pairs of one of them would crowd in a small part of it.
    """
    charts = (*_draw_matrices(view, reading), _over_steps(view, chosen_value(view, MEASURE)))
    facts = facts_of_view(view, "kernel_theory", _list_facts)
    return Scene(charts, facts, reading.step, _write_note(view, reading))


def _draw_matrices(view: View, reading: Reading) -> Iterator[Chart]:
    labels = reading.arrays["labels"]
    kernels = [reading.arrays[name] for name, _ in _NAMES]
    shared = kernels if share_colours(kernels) else []
    for index, (name, title) in enumerate(_NAMES):
        reach = largest_magnitude(kernels[index])
        matrix = Matrix(
            name=name,
            values=kernels[index],
            ramp="diverging",
            low=-reach,
            high=reach,
            bar="kernel value" if index or not shared else "",
            scale="as computed, per logit",
        )
        # The diagonal of a convolutional network is so large that it would be all one sees.
        matrix = with_pair_colours(matrix, shared)
        chart = example_pairs(view, labels, name, title, matrix, index, index == 0)
        yield replace(chart, narrow=(0, index, 1, 1))


def _over_steps(view: View, measure: str) -> Chart:
    source = ("kernel_theory", measure)
    curves = recorded_curve(view, source, _CURVES[measure], "value", thick=True)
    return chart_over_steps(view, _TITLES[measure], curves, (1, 0, 1, 2), 2)


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    facts = [
        Fact(name, format_number(reading.scalars[name], 4), about)
        for name, about in (
            ("distance", "‖K^V - βH‖/‖βH‖, Frobenius norm."),
            ("cosine", "⟨K^V, βH⟩/(‖K^V‖‖βH‖): independent of scale."),
            ("traces", "tr K^V / tr βH."),
        )
        if name in reading.scalars
    ]
    if width := reading.facts.get("width"):
        facts.append(Fact("width", width, "Smallest width of a gate layer."))
    return tuple(facts)


def _write_note(view: View, reading: Reading) -> str:
    matrices = "" if view.compared is None else "Matrices: A."
    return join_sentences(
        "Expectation at initialisation; σ of each layer from its current weights.",
        reading.facts.get("depends", ""),
        matrices,
        f"Colours: {SPANS['pairs']}.",
        reason_not_compared(view, "kernel_theory"),
    )


PANEL = PanelSpec(
    title="Kernel against theory",
    probes=("kernel_theory",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "At initialisation, with gates independent of the value weights, the expected value "
            "part of the tangent kernel is the neural path kernel times a constant: exactly, at "
            "any width. Left: the kernel of these weights; middle: its expectation, on the same "
            "colour scale, both per logit. At step 0 the difference is random: it shrinks as the "
            "width grows, roughly as one over its square root. During training the kernel leaves "
            "its expectation, and how far it goes shows how far it is from the regime of a "
            "constant kernel. ReLU, soft-ReLU and FR-DI make their gates from the value weights, "
            "so the statement does not hold there. Try widths 16, 64 and 256 in FR-II, paused at "
            "step 0."
        ),
        formulas=(
            r"$\mathbb{E}[K^V_0] = \beta H, \quad \beta = d \, \sigma^{2(d-1)}$ (dense)",
            r"$\mathrm{Var}[K_0] \leq O(d_{in}^2 \sigma^{4(d-1)} "
            r"\max\{d^2 w^{2(d-2)+1}, d^3 w^{2(d-2)}\})$",
        ),
        symbols=(
            "$K^V_0$: value part of the tangent kernel at the start; $H$: path kernel; $σ$: "
            "standard deviation of the weights; $d$: weight layers; $w$: width; $d_{in}$: inputs."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: the tangent kernel at the start, with fixed features; variance: "
            "Neural Path Features in Deep Learning (workshop), Theorem 4.1. The exponent is 2(d - "
            "1), where arXiv:2110.03403, Theorem 2.1, prints d - 1"
        ),
        computed=(
            "Left: the value part of the tangent kernel of these weights; middle: β times the "
            "neural path kernel of these gates; both exact."
        ),
        trials=(
            freeze_random_gates(
                "The gates no longer depend on the values, as the theorem requires. Start a new "
                "run this way: at step 0 the kernels differ only by chance."
            ),
        ),
    ),
    options=(MEASURE,),
    area="right",
    order=12,
    opened=False,
)
