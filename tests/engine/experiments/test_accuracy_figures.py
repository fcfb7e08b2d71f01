"""The tables' places and the figures of accuracies, out of made-up runs."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from dgn_engine.experiments import Request, Row
from dgn_engine.experiments._accuracy_figures import beside_printed, model_boxes
from dgn_engine.protocol.experiments import Figure, PlottedLine, Printed
from tests.engine.experiments.forty_eight import ALL, EIGHT
from tests.engine.experiments.made_up import QUICK, made_runs, near, percents, read

QUICK_MODELS = [
    f"fc-{regime}-{seen}-{order}"
    for regime, seen, order in product(("FR-II", "FR-DI", "FL", "DL"), ("image", "ones"), EIGHT)
]
NAN = math.nan


def lines(figure: Figure) -> dict[tuple[str, str], PlottedLine]:
    return {(line.label, line.style): line for line in figure.lines}


def test_each_row_of_table_2_has_its_place_in_the_papers_grid() -> None:
    regimes = ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    request = Request(scale="full", only="FC", protocol="as-in-code")
    runs = made_runs((f"fc-{o}-{n}" for o in ("sgd-0.01", "adam-0.0001") for n in regimes), 5)
    found = read("npf-table2", request, runs)
    columns = ("FRNPF(II)", "FRNPF(DI)", "DNPFL", "FLNPF", "ReLU")
    names = ("FC(w=128,d=6)/SGD/MNIST", "FC(w=128,d=6)/Adam/MNIST")
    assert [row.place for row in found.rows] == list(product(names, columns))
    assert found.columns == columns
    assert {row.of for row in found.rows} == {"seeds"}
    assert [figure.name for figure in found.figures] == [
        "accuracy-fc-sgd",
        "learning-fc-sgd",
        "accuracy-fc-adam",
        "learning-fc-adam",
    ]
    dots, curves = found.figures[:2]
    assert dots.categories == columns
    drawn = lines(dots)
    assert drawn["printed", "printed"].y == (95.85, 95.85, 97.86, 97.1, 97.85)
    assert drawn["printed", "printed"].spread == (0.1, 0.17, 0.11, 0.09, 0.09)
    relu = percents(runs, "fc-sgd-0.01-ReLU", 5)
    assert drawn["measured", "points"].y[4] == near(relu.mean())
    assert "n = 5 seeds" in dots.note
    assert "ddof 0" in dots.note
    assert [line.label for line in curves.lines] == list(columns)
    assert curves.title == f"{names[0]}: learning"


def test_table_4_and_the_noise_table_have_their_grids() -> None:
    names = (
        "ReLU",
        "DL",
        "FR-II",
        "FR-DI",
        "FL",
        "labels",
        "pixels",
        "labels-gates",
        "pixels-gates",
    )
    request = Request(scale="full", only="Arch-5", steps=(0.5,))
    four = read("workshop-table4", request, made_runs((f"Arch-5-sgd-0.5-{n}" for n in names), 5))
    assert [row.place for row in four.rows] == [
        ("Arch-5 VCONV SGD CIFAR-10", column) for column in four.columns
    ]
    cells = [f"m{m}-{g}" for g in (0, 25, 50, 75) for m in range(1, 6) if g or m < 4]
    noise = read("duality-noise", QUICK, made_runs(cells))
    assert len(noise.columns) == 6
    assert [row.place for row in noise.rows] == [
        (f"γ = {level} %", column)
        for level in (0, 25, 50, 75)
        for column in noise.columns[: None if level else 4]
    ]


@pytest.fixture(scope="module")
def models() -> dict:
    ids = product(("FR-II", "FR-DI", "FL", "DL"), ("image", "ones"), ALL)
    return {
        **made_runs(["fc-" + "-".join(one) for one in ids], 2),
        **made_runs(["fc-ReLU"], 2),
    }


def test_the_48_models_of_a_regime_are_one_box_and_48_points(models: dict) -> None:
    found = read("duality-48", Request(scale="full", only="FC", seeds=2), models)
    boxes, _ = found.figures
    drawn = lines(boxes)
    assert found.columns == boxes.categories == ("FR-II", "FR-DI", "DL", "FL", "ReLU")
    box = drawn["", "boxes"]
    assert [box.x.count(float(place)) for place in range(5)] == [48, 48, 48, 48, 0]
    for word, seen in (("x", "image"), ("1", "ones")):
        cloud = drawn[f"x^v = {word}", "cloud"]
        of = {
            r: [v for x, v in zip(cloud.x, cloud.y, strict=True) if x == place]
            for place, r in enumerate(boxes.categories)
        }
        for regime in ("FR-II", "FR-DI", "DL", "FL"):
            expected = [percents(models, f"fc-{regime}-{seen}-{o}", 2).mean() for o in ALL]
            assert sorted(of[regime]) == near(sorted(expected))
    networks = drawn["one network", "cloud"]
    assert set(networks.x) == {4.0}
    assert sorted(networks.y) == near(sorted(percents(models, "fc-ReLU", 2)))
    assert drawn["printed", "printed"].y == (94.1, 94.1, 98.1, 98.6, 98.5)


def test_at_quick_a_regime_has_16_models_and_nothing_printed_beside_them() -> None:
    found = read("duality-48", QUICK, made_runs([*QUICK_MODELS, "fc-ReLU"]))
    drawn = lines(found.figures[0])
    assert [drawn["", "boxes"].x.count(float(place)) for place in range(5)] == [16, 16, 16, 16, 0]
    assert not any(style == "printed" for _, style in drawn)


def test_the_learning_curves_of_models_have_the_interval_over_seeds(models: dict) -> None:
    found = read("duality-48", Request(scale="full", only="FC", seeds=2), models)
    curve = lines(found.figures[1])["FL", "line"]
    cells = [f"fc-FL-{seen}-{o}" for seen in ("image", "ones") for o in ALL]
    for place in range(3):
        by_seed = [
            np.mean([100 * models[f"{cell}-s{seed}"].test[place] for cell in cells])
            for seed in range(2)
        ]
        assert curve.y[place] == near(np.mean(by_seed))
        # Student's t of one degree of freedom at 97.5 %
        assert curve.spread[place] == near(12.706204736432095 * abs(by_seed[0] - by_seed[1]) / 2)


def test_a_column_without_a_value_has_no_point_and_one_value_no_bar() -> None:
    rows = {"a": Row("", (NAN, 3.0)), "b": Row("", (NAN,), Printed(2.0)), "c": Row("", (1.0, 3.0))}
    dots, printed = beside_printed("n", "label", rows).lines
    assert (dots.x, dots.y) == ((0.0, 2.0), (3.0, 2.0))
    assert math.isnan(dots.spread[0])
    assert (printed.x, printed.y, printed.spread) == ((1.0,), (2.0,), ())
    alone = beside_printed("n", "label", {"a": Row("", (1.0, 3.0))})
    assert [line.label for line in alone.lines] == ["measured"]
    assert alone.title == "label: measured"


def test_printed_numbers_stand_beside_the_boxes() -> None:
    figure = model_boxes(
        "n",
        "l",
        ("A", "B"),
        {"k": {"A": (1.0, 2.0)}},
        {"B": (3.0,)},
        {"A": Printed(1.5), "B": None},
    )
    assert lines(figure)["printed", "printed"] == PlottedLine(
        "printed", (0.0,), (1.5,), (), "printed"
    )
