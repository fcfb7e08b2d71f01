"""The tables' places and the figures of accuracies, out of made-up runs."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from dgn_engine.experiments import Request, Row
from dgn_engine.experiments._accuracy_figures import (
    model_boxes,
    plot_groups,
    plot_measured_and_printed,
)
from dgn_engine.protocol.experiments import Figure, PlottedLine, Printed
from tests.engine.experiments.forty_eight import ALL, EIGHT
from tests.engine.experiments.made_up import (
    QUICK,
    approximately,
    make_runs_of,
    percents,
    read_findings,
)
from tests.snapshots import Recorded

QUICK_MODELS = [
    f"fc-{regime}-{seen}-{order}"
    for regime, seen, order in product(("FR-II", "FR-DI", "FL", "DL"), ("image", "ones"), EIGHT)
]
NAN = math.nan


def lines(figure: Figure) -> dict[tuple[str, str], PlottedLine]:
    return {(line.label, line.style): line for line in figure.lines}


NINE = ("ReLU", "DL", "FR-II", "FR-DI", "FL", "labels", "pixels", "labels-gates", "pixels-gates")
GRIDS = {
    "npf-table2": (
        Request(scale="full", only="FC", protocol="as-in-code"),
        [f"fc-{o}-{n}" for o in ("sgd-0.01", "adam-0.0001") for n in NINE[:5]],
    ),
    "workshop-table4": (
        Request(scale="full", only="Arch-5", steps=(0.5,)),
        [f"Arch-5-sgd-0.5-{n}" for n in NINE],
    ),
    "duality-noise": (
        QUICK,
        [f"m{m}-{g}" for g in (0, 25, 50, 75) for m in range(1, 6) if g or m < 4],
    ),
}


@pytest.mark.parametrize("name", GRIDS)
def test_each_row_of_a_table_has_its_place_in_the_papers_grid(
    name: str, recorded: Recorded
) -> None:
    request, cells = GRIDS[name]
    found = read_findings(name, request, make_runs_of(cells, 5))
    recorded(
        {
            "columns": found.columns,
            "places": [(*row.place, row.of) for row in found.rows if row.place],
            "figures": [
                (one.name, one.title, one.categories, [(x.label, x.style) for x in one.lines])
                for one in found.figures
            ],
        }
    )
    assert all(row.place for row in found.rows)


def test_measured_numbers_stand_beside_the_printed_ones_of_table_2() -> None:
    request, cells = GRIDS["npf-table2"]
    runs = make_runs_of(cells, 5)
    dots, _ = read_findings("npf-table2", request, runs).figures[:2]
    drawn = lines(dots)
    assert drawn["printed", "printed"].y == (95.85, 95.85, 97.86, 97.1, 97.85)
    assert drawn["printed", "printed"].spread == (0.1, 0.17, 0.11, 0.09, 0.09)
    relu = percents(runs, "fc-sgd-0.01-ReLU", 5)
    assert drawn["measured", "points"].y[4] == approximately(relu.mean())
    assert "n = 5 seeds" in dots.note
    assert "ddof 0" in dots.note


@pytest.fixture(scope="module")
def models() -> dict:
    ids = product(("FR-II", "FR-DI", "FL", "DL"), ("image", "ones"), ALL)
    return {
        **make_runs_of(["fc-" + "-".join(one) for one in ids], 2),
        **make_runs_of(["fc-ReLU"], 2),
    }


def test_the_48_models_of_a_regime_are_one_box_and_48_points(models: dict) -> None:
    found = read_findings("duality-48", Request(scale="full", only="FC", seeds=2), models)
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
            assert sorted(of[regime]) == approximately(sorted(expected))
    networks = drawn["one network", "cloud"]
    assert set(networks.x) == {4.0}
    assert sorted(networks.y) == approximately(sorted(percents(models, "fc-ReLU", 2)))
    assert drawn["printed", "printed"].y == (94.1, 94.1, 98.1, 98.6, 98.5)


def test_at_quick_a_regime_has_16_models_and_nothing_printed_beside_them() -> None:
    found = read_findings("duality-48", QUICK, make_runs_of([*QUICK_MODELS, "fc-ReLU"]))
    drawn = lines(found.figures[0])
    assert [drawn["", "boxes"].x.count(float(place)) for place in range(5)] == [16, 16, 16, 16, 0]
    assert not any(style == "printed" for _, style in drawn)


def test_the_learning_curves_of_models_have_the_interval_over_seeds(models: dict) -> None:
    found = read_findings("duality-48", Request(scale="full", only="FC", seeds=2), models)
    curve = lines(found.figures[1])["FL", "line"]
    cells = [f"fc-FL-{seen}-{o}" for seen in ("image", "ones") for o in ALL]
    for place in range(3):
        by_seed = [
            np.mean([100 * models[f"{cell}-s{seed}"].test[place] for cell in cells])
            for seed in range(2)
        ]
        assert curve.y[place] == approximately(np.mean(by_seed))
        # Student's t of one degree of freedom at 97.5 %
        assert curve.spread[place] == approximately(
            12.706204736432095 * abs(by_seed[0] - by_seed[1]) / 2
        )


def test_a_column_without_a_value_has_no_point_and_one_value_no_bar() -> None:
    rows = {"a": Row("", (NAN, 3.0)), "b": Row("", (NAN,), Printed(2.0)), "c": Row("", (1.0, 3.0))}
    dots, printed = plot_measured_and_printed("n", "label", rows).lines
    assert (dots.x, dots.y) == ((0.0, 2.0), (3.0, 2.0))
    assert math.isnan(dots.spread[0])
    assert (printed.x, printed.y, printed.spread) == ((1.0,), (2.0,), ())
    alone = plot_measured_and_printed("n", "label", {"a": Row("", (1.0, 3.0))})
    assert [line.label for line in alone.lines] == ["measured"]
    assert alone.title == "label: measured"


def test_groups_stand_side_by_side_and_relu_is_a_level_line() -> None:
    groups = {"FL": {"a": Row("", (1.0, 3.0)), "b": Row("", (4.0,))}, "DL": {"b": Row("", (5.0,))}}
    figure = plot_groups("n", "title", groups, Row("", (6.0, 8.0)))
    first, second, level = figure.lines
    assert figure.categories == ("a", "b")
    assert (first.label, first.x, first.y) == ("FL", (0.0, 1.0), (2.0, 4.0))
    assert first.spread[0] == approximately(12.706204736432095)
    assert (second.x, second.y) == ((1.0,), (5.0,))
    assert (level.x, level.y) == ((), (7.0,))
    assert "n = 1 or 2 seeds" in figure.note


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
