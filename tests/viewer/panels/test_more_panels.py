"""What single panels that are closed at first say, from small readings that are known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_viewer.scene.elements import OVERLAYS
from dgn_viewer.scene.layer_curves import chosen_layers, layers_note, over_steps
from dgn_viewer.scene.panel_spec import View
from dgn_viewer.scene.scatter import scattered
from tests.viewer.panels.pictures import chart, chosen, drawn, run, series

PATHS = Reading(
    "paths",
    3,
    arrays={
        "through": np.array([[0.25, 0.75], [1.0, 0.0]]),
        "near": np.array([[0.5, 0.5], [0.0, 1.0]]),
        "contributed": np.array([[-1.0, 0.5], [-0.5, 0.0]]),
        "units": np.array([[0, 0], [1, 0], [1, 0]]),
        "parts": np.array([-1.0, 0.25, 0.25]),
    },
    scalars={"total": 12_288.0, "active": 2250.0, "sensitive": 0.123456, "output": -0.5},
    facts={"example": "2", "logit": "1"},
)


def test_paths_are_counted_in_full_and_drawn_through_their_units() -> None:
    scene = drawn("paths", View(run=run((2,), (2,)), readings={"paths": PATHS}))
    said = {fact.name: fact.value for fact in scene.facts}
    assert said == {
        "paths": "12,288", "active": "2,250", "sensitive": "0.1235", "their sum": "−0.5",
    }  # fmt: skip
    graph = chart(scene, "graph")
    names = [curve.name for curve in graph.curves]
    assert names == ["−1", "0.25", "0.25 (2)", "open", "closed"]
    assert graph.curves[0].y.tolist() == [0.0, 0.0]
    assert graph.curves[0].dash == "dash"
    assert graph.curves[3].x[::2].tolist() == [1.0, 1.0, 2.0]
    assert scene.note.startswith("Example 2, logit 1")
    signed = chart(
        drawn("paths", chosen(View(run=None, readings={"paths": PATHS}), show="contributed")),
        "units",
    )
    assert signed.matrix is not None
    assert (signed.matrix.low, signed.matrix.high) == (-1.0, 1.0)


def test_shares_of_sub_networks_are_named_by_their_blocks() -> None:
    found = replace(
        PATHS, arrays={"shares": np.array([0.1, 0.2, 0.3, 0.4])}, facts={"blocks": ",1,2,1 2"}
    )
    only = chart(drawn("paths", View(readings={"paths": found})), "shares")
    assert [name for _, name in only.x.ticks or ()] == ["none", "1", "2", "1 2"]
    assert only.curves[0].y.tolist() == [10.0, 20.0, 30.0, 40.0]


def test_of_many_layers_six_have_a_line_and_the_note_says_which() -> None:
    assert chosen_layers(4) == (0, 1, 2, 3)
    assert chosen_layers(17) == (0, 3, 6, 10, 13, 16)
    assert layers_note(4) == ""
    assert layers_note(17) == "Over steps: layers 1, 4, 7, 11, 14, 17 of 17."
    view = View(series={("p", f"a_{layer}"): series([1, 2], [0.0, 2.0]) for layer in range(17)})
    curves = over_steps(view, "p", "a", 17, log=True)
    assert [curve.role for curve in curves] == list(OVERLAYS)
    assert np.isnan(curves[0].y[0])
    assert curves[0].y[1] == 2.0


def test_scattered_points_have_no_line_between_them_and_ascend() -> None:
    curve = scattered("p", np.array([2.0, 1.0]), np.array([5.0, 6.0]), "accent")
    assert curve.x.tolist() == [1.0, 1.0, 2.0, 2.0]
    assert curve.y[::2].tolist() == [6.0, 5.0]
    assert np.isnan(curve.y[1::2]).all()
    assert curve.marker
