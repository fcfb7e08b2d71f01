"""Half-spaces as lines over the plane, as images and as numbers."""

from __future__ import annotations

import numpy as np

from dgn_engine.panels.half_spaces import clip_lines
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.panel_spec import View
from tests.engine.panels.pictures import draw_scene, find_chart, started_run


def view_of(**arrays: Array) -> View:
    labels, units = np.array([0, 1, 1]), np.arange(len(arrays["planes_0"]))
    reading = Reading("half_spaces", 4, arrays={"labels": labels, "units_0": units, **arrays})
    return View(run=started_run((2,)), readings={"half_spaces": reading})


def test_lines_end_at_the_square_and_those_outside_are_left_out() -> None:
    rows = np.array(
        [
            [1.0, 0.0, -0.5],  # x = 0.5
            [1.0, 1.0, 0.0],  # y = −x
            [0.0, 1.0, 3.0],  # y = −3, outside
            [0.0, 0.0, 1.0],  # no line
            [np.nan, 1.0, 0.0],
        ]
    )
    starts, ends = clip_lines(rows, 2.0)
    assert len(starts) == 2
    assert sorted([starts[0].tolist(), ends[0].tolist()]) == [[0.5, -2.0], [0.5, 2.0]]
    assert sorted([starts[1].tolist(), ends[1].tolist()]) == [[-2.0, 2.0], [2.0, -2.0]]
    for row, one, other in zip(rows, starts, ends, strict=False):
        for point in (one, other):
            assert abs(row[:2] @ point + row[2]) < 1e-12
    # the offset is the last number also behind the constant of (x, y, 1)
    wide = np.insert(rows[:1], 2, 0.0, axis=1)
    np.testing.assert_array_equal(clip_lines(wide, 2.0)[0], starts[:1])


def test_in_the_plane_there_are_lines_of_the_layer_of_the_cuts_and_points_by_class() -> None:
    points = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.5]])
    planes = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=np.float32)
    view = view_of(planes_0=planes, points=points, cuts=np.array([[0.6, 0.8, 0.1]]))
    plane = find_chart(draw_scene("half_spaces", view), "plane")
    names = {curve.name: curve for curve in plane.curves}
    assert list(names) == ["cat", "dog", "layer 1", "cuts of the labels"]
    assert names["dog"].x[::2].tolist() == [-1.0, 1.0]
    assert len(names["layer 1"].x) == 3 * 2
    assert len(names["cuts of the labels"].x) == 3


def test_normals_of_images_are_images_each_at_its_own_scale() -> None:
    planes = np.arange(14, dtype=np.float32).reshape(2, 7)
    view = view_of(planes_0=planes, image=np.array([1, 2, 3]))
    matrix = find_chart(draw_scene("half_spaces", view), "images").matrix
    assert matrix is not None
    assert matrix.tile == (2, 3)
    drawn = matrix.values[np.isfinite(matrix.values)]
    expected = np.concatenate([planes[0, :6] / 5, planes[1, :6] / 12])
    assert sorted(drawn.tolist()) == sorted(expected.astype(np.float32).tolist())
    without = view_of(planes_0=planes)
    numbers = find_chart(draw_scene("half_spaces", without), "normals").matrix
    assert numbers is not None
    np.testing.assert_array_equal(numbers.values, planes[:, :6])
