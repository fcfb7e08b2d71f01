"""What single panels that are closed at first say, from small readings that are known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import OVERLAYS
from dgn_engine.scene.layer_curves import chosen_layers, layers_note, over_steps
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.scene.readout import describe_point
from dgn_engine.scene.scatter import scatter_curve
from tests.engine.panels.known_readings import A
from tests.engine.panels.pictures import (
    draw_scene,
    find_chart,
    make_series,
    started_run,
    with_choices,
)

PANELS = all_panels()
PATHS = A.readings["paths"]


def test_the_largest_paths_run_through_their_units() -> None:
    graph = find_chart(draw_scene("paths", with_choices(A, graph="largest")), "largest")
    names = [curve.name for curve in graph.curves]
    assert names == ["−1", "0.25", "0.25 (2)", "open", "closed"]
    assert graph.curves[0].y.tolist() == [0.0, 0.0]
    assert graph.curves[0].dash == "dash"
    assert graph.curves[3].x[::2].tolist() == [1.0, 1.0, 2.0]
    assert draw_scene("paths", A).note.startswith("Example 2, logit 1")


def test_the_graph_has_weights_between_units_and_colours_those_that_paths_run_along() -> None:
    view = View(run=started_run((2,), (2,)), readings={"paths": PATHS})
    graph = find_chart(draw_scene("paths", view), "graph")
    assert [name for _, name in graph.x.ticks or ()] == ["x", "1", "2"]  # logits were left out
    curves = {curve.name: curve for curve in graph.curves}
    assert list(curves) == [
        "no path",
        "weight > 0 (weak)",
        "weight < 0 (medium)",
        "weight > 0",
        "weight < 0",
        "closed",
        "open",
        "sensitive",
        "x and ŷ",
    ]
    strong = curves["weight > 0"]
    assert (strong.thick, strong.faint, strong.segments) == (True, False, True)
    assert strong.x[:2].tolist() == [0.0, 1.0]
    assert strong.y[:2].tolist() == [-0.5, 0.0]  # three inputs stand around the middle of two units
    assert len(strong.x) == 3 * 2  # 3 of the first layer, and 1 into the open unit above it
    assert curves["weight < 0"].y[:2].tolist() == [0.0, 0.0]
    # An input that is zero and a unit that is closed end every path.
    assert len(curves["no path"].x) == 3 * (2 + 2)
    assert curves["sensitive"].y[::2].tolist() == [1.0]
    assert describe_point(graph, 1.0, 0.0)[0] == "1"
    pair = replace(
        PATHS,
        arrays=PATHS.arrays
        | {
            "gates_second": np.array([[0.0, 1.0], [0.0, 0.0]]),
            "through_shared": np.array([[0.0, 1.0], [0.5, 0.5]]),
        },
        scalars=PATHS.scalars | {"active_second": 7.0, "shared": 3.0, "output_shared": 0.25},
        facts=PATHS.facts | {"second": "4"},
    )
    both = draw_scene("paths", replace(view, readings={"paths": pair}))
    assert {fact.name: fact.value for fact in both.facts}["shared"] == "3"
    assert both.note.startswith("Example 2 with example 4, logit 1")
    kinds = {c.name: c.y[::2].tolist() for c in find_chart(both, "graph").curves if c.marker}
    assert kinds == {
        "closed": [1.0],
        "first only": [0.0, 0.0],
        "both open": [1.0],
        "x and ŷ": [-0.5, 0.5, 1.5],
    }
    units = find_chart(both, "units")
    assert units.title.startswith("Shared ")


def test_every_path_is_a_point_at_its_feature_and_value() -> None:
    each = {"feature": np.array([0.0, 0.5, 2.0]), "value": np.array([3.0, -1.0, 2.0])}
    found = replace(PATHS, arrays=PATHS.arrays | each)
    view = with_choices(View(run=started_run((2,), (2,)), readings={"paths": found}), graph="each")
    points = find_chart(draw_scene("paths", view), "each")
    assert points.title == "All 3 paths"
    at = {curve.name: (curve.x[0], curve.y[0]) for curve in points.curves}
    assert at == {"φ v > 0": (2.0, 2.0), "φ v < 0": (0.5, -1.0), "not active": (0.0, 3.0)}


def test_a_recording_without_gates_has_no_graph() -> None:
    arrays = {n: PATHS.arrays[n] for n in ("through", "near", "contributed", "units", "parts")}
    view = View(run=started_run((2,), (2,)), readings={"paths": replace(PATHS, arrays=arrays)})
    assert [one.key for one in draw_scene("paths", view).charts] == ["units"]


def test_shares_of_sub_networks_are_named_by_their_blocks() -> None:
    arrays = {
        "shares": np.array([0.1, 0.2, 0.3, 0.4]),
        "paths": np.array([0.0, 0.25, 0.25, 0.5]),
        "outputs": np.array([1.0, -0.5, 0.25, 0.25]),
    }
    facts = {"blocks": ",1,2,1 2", "example": "3", "logit": "1"}
    found = replace(PATHS, arrays=arrays, scalars={"output": 1.0}, facts=facts)
    scene = draw_scene("paths", View(run=started_run((2,)), readings={"paths": found}))
    shares, outputs = scene.charts
    assert [name for _, name in shares.x.ticks or ()] == ["none", "1", "2", "1 2"]
    points = [curve.y[::2].tolist() for curve in shares.curves if curve.marker]
    assert points == [[0.0, 25.0, 25.0, 50.0], [10.0, 20.0, 30.0, 40.0]]
    assert (shares.y.log, shares.y.limits) == (True, (10.0, 200.0))  # they differ by decades
    assert outputs.curves[-1].y[::2].tolist() == [1.0, -0.5, 0.25, 0.25]
    assert describe_point(outputs, 1.9, 0.0) == ("1", "adds  −0.5")
    assert [(fact.name, fact.value) for fact in scene.facts] == [("output", "1")]
    alone = replace(found, arrays={"shares": arrays["shares"]}, facts={"blocks": ",1,2,1 2"})
    only = draw_scene("paths", View(readings={"paths": alone}))
    assert [one.key for one in only.charts] == ["shares"]
    assert len(only.note) > len(scene.note) or only.note != scene.note  # why there are no outputs


def test_regions_have_one_colour_for_a_class_and_rings_around_what_is_wrong() -> None:
    points = find_chart(draw_scene("regions", A), "points")
    _, first, second, wrong = points.curves
    assert (first.role, second.role) == ("value", "feature")
    assert (wrong.name, wrong.ring, wrong.y[::2].tolist()) == ("wrong", True, [1.0])
    assert [name for _, name in points.x.ticks or ()] == ["0.2", "0.4", "0.6", "0.8"]


def test_of_many_layers_six_have_a_line_and_the_note_says_which() -> None:
    assert chosen_layers(4) == (0, 1, 2, 3)
    assert chosen_layers(17) == (0, 3, 6, 10, 13, 16)
    assert layers_note(4) == ""
    assert layers_note(17).endswith(" 1, 4, 7, 11, 14, 17 of 17.")
    view = View(
        series={("p", f"a_{layer}"): make_series([1, 2], [0.0, 2.0]) for layer in range(17)}
    )
    curves = over_steps(view, "p", "a", 17, log=True)
    assert [curve.role for curve in curves] == list(OVERLAYS)
    assert np.isnan(curves[0].y[0])
    assert curves[0].y[1] == 2.0


def test_scattered_points_have_no_line_between_them_and_ascend() -> None:
    curve = scatter_curve("p", np.array([2.0, 1.0]), np.array([5.0, 6.0]), "accent")
    assert curve.x.tolist() == [1.0, 1.0, 2.0, 2.0]
    assert curve.y[::2].tolist() == [6.0, 5.0]
    assert np.isnan(curve.y[1::2]).all()
    assert curve.marker


def test_every_channel_is_on_a_page_of_the_rows_that_a_picture_has() -> None:
    option = next(one for one in PANELS["hidden_outputs"].options if one.id == "channel")
    maps = [(6, 4, 4)]
    for layers, pages in ((2, ["0–2", "3–5"]), (4, ["0–3", "4–5"]), (9, ["0–5"])):
        offered = option.values(View(run=started_run(*maps * layers)))
        assert [words for _, words in offered] == [f"channels {page}" for page in pages]
    assert option.values(View(run=started_run((6,)))) == ()


def test_hidden_maps_stand_in_columns_of_layers_each_to_its_largest() -> None:
    maps = np.zeros((2, 2, 2))
    maps[0], maps[1, 0, 1] = 1.0, -4.0
    arrays = {"labels": np.array([1, 0]), "says": np.array([1, 0, 1])}
    for name, factor in (("as_is", 1.0), ("reversed", 2.0), ("ones", 0.5)):
        arrays[f"{name}_0"] = factor * maps
        arrays[f"{name}_1"] = np.array([[[8.0]], [[np.nan]]])
        arrays[f"{name}_2"] = factor * np.array([1.0, -2.0, 0.0])
        arrays[f"input_{name}"] = np.full((2, 2), 3.0)
    facts = {"example": "1", "channel": "5", "fed": "image", "order": "2 1 3"}
    scalars = {"right_as_is": 0.5, "right_reversed": 0.0, "right_ones": 1.0}
    reading = Reading("hidden_outputs", 3, arrays=arrays, scalars=scalars, facts=facts)
    view = View(run=started_run((1, 2, 2), (1, 1, 1), (3,)), readings={"hidden_outputs": reading})
    scene = draw_scene("hidden_outputs", view)
    passes = ("as_is", "reversed", "ones")
    assert [one.key for one in scene.charts] == [f"maps_{name}" for name in passes]
    assert [fact.value for fact in scene.facts] == ["50 % correct", "0 %", "100 %"]
    assert scene.note.startswith("Example 1, class cat.")
    assert scene.note.endswith(" 2 1 3.")
    first = find_chart(scene, "maps_as_is")
    assert first.title == "As is: predicts dog"
    assert [name for _, name in first.x.ticks or ()] == ["x", "1", "2"]
    assert [name for _, name in first.y.ticks or ()] == ["mean", "5"]
    assert first.matrix is not None
    values = first.matrix.values
    assert values.shape == (5, 8)
    assert (values[:2, :2] == 1.0).all()  # the value input
    assert (values[:2, 3:5] == 1.0).all()  # the mean
    assert values[3, 4] == -1.0
    assert (values[:2, 6:] == 1.0).all()  # one pixel, enlarged
    assert np.isnan(values[3:, 6:]).all()
    assert np.isnan(values[3:, :2]).all()
    together = find_chart(
        draw_scene("hidden_outputs", with_choices(view, scale="layer")), "maps_as_is"
    ).matrix
    assert together is not None
    assert (together.values[:2, 3:5] == 1.0 / 8.0).all()  # the largest of all passes is 8
    dense = draw_scene("hidden_outputs", with_choices(view, kind="units"))
    assert len(dense.charts) == 3
    units = find_chart(dense, "units_reversed").matrix
    assert units is not None
    assert units.values.tolist() == [[0.5, -1.0, 0.0]]


def test_gates_that_are_not_finite_leave_the_others_their_colours() -> None:
    by_class = np.array([[0.25, np.nan], [0.75, np.inf]])
    shares = {name: np.array([0.0, 0.5]) for name in ("density", "dead", "always")}
    for values, expected in ((by_class, (25.0, 75.0)), (np.full((2, 2), np.nan), (-0.5, 0.5))):
        arrays = {"classes": np.array([0, 1]), "by_class": values, **shares}
        view = View(
            run=started_run((2,), (2,)),
            readings={"gate_statistics": Reading("gate_statistics", 3, arrays=arrays)},
        )
        matrix = find_chart(draw_scene("gate_statistics", view), "by_class").matrix
        assert matrix is not None
        assert (matrix.low, matrix.high) == expected
