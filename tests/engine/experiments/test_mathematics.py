"""Mathematics in the plain words of experiments, and the shapes of figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser

from dgn_engine.experiments.report.figure_scenes import BOX, box_plots, drawn_positions, line_looks
from dgn_engine.experiments.report.mathematics import label_as_html, typeset
from dgn_engine.protocol.experiments import Figure, PlottedLine

LABELS = {
    "K^V": "$K^{V}$",
    "K^V_0 goes to βH": "$K^{V}_{0}$ goes to $βH$",
    "λ = 0.1 λ_max, ρ_min/ρ_max": "$λ$ = 0.1 $λ_{max}$, $ρ_{min}/ρ_{max}$",
    "K_0 goes to K^(d)": "$K_{0}$ goes to $K^{(d)}$",
    "x^v = 1": "$x^{v} = 1$",
    "FC/MNIST, x^v = x": "FC/MNIST, $x^{v} = x$",
    "log10 ‖e‖²/‖e_0‖²": "log$_{10}$ $‖e‖^{2}$/$‖e_{0}‖^{2}$",
    "½‖e‖²": "½$‖e‖^{2}$",
    "½e²": "½$e^{2}$",
    "λ_k": "$λ_{k}$",
    "ν_t of H": "$ν_{t}$ of H",
    "γ = 25 %": "$γ$ = 25 %",
    "(π − θ)/2π": "($π$ − $θ$)/2$π$",
    "τ/w": "$τ/w$",
    "α/α_0": "$α/α_{0}$",
    "K − K^X": "K − $K^{X}$",
    "depth d": "depth $d$",
    "ReLU, d = 4": "ReLU, $d$ = 4",
    "w = 25": "$w$ = 25",
    "the 2^b sub-networks": "the $2^{b}$ sub-networks",
    "‖v_t − v_0‖/‖v_0‖": "‖$v_{t}$ − $v_{0}$‖/‖$v_{0}$‖",
    "‖K^V_0 − Σβ_J H^J‖": "‖$K^{V}_{0}$ − $Σβ_{J}$ $H^{J}$‖",
    "K^V and K^F": "$K^{V}$ and $K^{F}$",
}


@pytest.mark.parametrize("label", LABELS)
def test_the_papers_notation_is_set_so_that_mathtext_takes_it(label: str) -> None:
    assert typeset(label) == LABELS[label]
    MathTextParser("path").parse(typeset(label))


@pytest.mark.parametrize(
    "name",
    [
        "my_net",
        "my^net",
        "runs/K_0",
        "a-K^V.pt",
        "weights_1.safetensors",
        "fc_w_2",
        "x_ray",
        "v_1",
        "FC(w=128,d=6)/SGD/MNIST",
        "{x}",
        "step",
        "eta",
        "100 %",
        "N_0b",
    ],
)
def test_a_name_that_a_user_gave_stays_as_it_is(name: str) -> None:
    assert typeset(name) == name


def test_dollars_of_users_are_letters() -> None:
    assert typeset(r"$\frac{1}{0}$ and K^V") == r"\$\frac{1}{0}\$ and $K^{V}$"


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("K^V_0 & <b>", "<i>K</i><sup><i>V</i></sup><sub>0</sub> &amp; &lt;b&gt;"),
        ("FC, x^v = x", "FC, <i>x</i><sup><i>v</i></sup> = <i>x</i>"),
        ("‖e_0‖²", "‖<i>e</i><sub>0</sub>‖<sup>2</sup>"),
        ("γ = 25 %", "<i>γ</i> = 25 %"),
        ("my_net $5 <i>", "my_net $5 &lt;i&gt;"),
    ],
)
def test_mathematics_in_a_page_leans_and_names_do_not(label: str, wanted: str) -> None:
    assert label_as_html(label) == wanted


def test_a_box_has_numpys_quartiles_and_tukeys_whiskers() -> None:
    values = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 30.0, math.nan)
    (box,) = box_plots(PlottedLine("", (2.0,) * 8, values, style="boxes"))
    first, median, third = np.quantile(values[:7], (0.25, 0.5, 0.75))
    assert (box.at, box.first, box.median, box.third) == (2.0, first, median, third)
    assert (box.low, box.high) == (1.0, 6.0), "30 lies beyond 1.5 interquartile ranges"
    (alone,) = box_plots(PlottedLine("", (0.0,), (7.0,), style="boxes"))
    assert {alone.low, alone.first, alone.median, alone.third, alone.high} == {7.0}
    assert box_plots(PlottedLine("", (0.0,), (math.nan,), style="boxes")) == []


def figure(*lines: PlottedLine, categories: tuple[str, ...] = ()) -> Figure:
    return Figure("f", "", "", "y", lines, categories=categories)


def test_marks_of_one_category_stand_beside_each_other_and_a_box_in_the_middle() -> None:
    cloud = PlottedLine("", (0.0, 0.0, 1.0), (1.0, 2.0, 3.0), style="cloud")
    other = PlottedLine("", (0.0,), (4.0,), style="cloud")
    box = PlottedLine("", (0.0, 1.0), (1.0, 2.0), style="boxes")
    dot = PlottedLine("", (1.0,), (1.0,), style="points")
    first, second, middle, alone = drawn_positions(
        figure(cloud, other, box, dot, categories=("a", "b"))
    )
    assert first[0] != first[1]
    assert max(first[:2]) < second[0]
    assert (first[2], middle) == (1.0, (0.0, 1.0))
    assert alone[0] > 1.0 + BOX, "beside the box, which it would be lost in"
    assert drawn_positions(figure(cloud))[0] == cloud.x, "only categories are spread"
    again = drawn_positions(figure(cloud, other, box, dot, categories=("a", "b")))
    assert again[0] == first, "the same values are drawn alike"


def test_printed_lines_take_no_colour() -> None:
    measured = PlottedLine("d = 2", (0.0,), (1.0,))
    printed = PlottedLine("p", (), (1.0,), style="printed")
    ideal = PlottedLine("ideal, d = 2", (0.0,), (1.0,), style="printed")
    assert line_looks(figure(measured, printed, ideal, measured)) == [
        line_looks(figure(measured))[0],
        ("muted", "dot"),
        (line_looks(figure(measured))[0][0], "dot"),
        line_looks(figure(measured, measured))[1],
    ]
