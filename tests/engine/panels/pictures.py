"""Small readings whose picture is known by hand, and the comparison of whole scenes."""

from __future__ import annotations

import csv
import dataclasses
from typing import Any

import numpy as np

from dgn_engine.config import RunConfig
from dgn_engine.figures.export_values import csv_text, scene_arrays
from dgn_engine.figures.provenance import Provenance
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.training import LayerInfo, RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.scene.elements import Axis, Chart, Curve, Empty, Scene, deep_equal
from dgn_engine.scene.panel_spec import ComparedRun, Series, View, all_panels
from dgn_engine.scene.readout import describe_point

LABELS = np.array([0, 0, 1, 1, 1])
TAGS = (
    "example 0, class cat",
    "example 1, class cat",
    "example 2, class dog",
    "example 3, class dog",
    "example 4, class dog",
)
B = "B · other.pt"


def make_layers(*shapes: tuple[int, ...]) -> tuple[LayerInfo, ...]:
    """Dense layers of one number, convolutions of three."""
    return tuple(
        LayerInfo(place, f"layer {place + 1}", "dense" if len(shape) == 1 else "conv", shape)
        for place, shape in enumerate(shapes)
    )


EPOCH = 4  # steps


def started_run(*shapes: tuple[int, ...], config: RunConfig | None = None) -> RunStarted:
    """A run on cats and dogs with these gate layers."""
    return RunStarted(
        run=1,
        config=config or RunConfig(),
        regime="DL",
        device="cpu",
        layers=make_layers(*shapes),
        wiring=tuple(range(len(shapes))),
        parameters_value=10,
        parameters_feature=10,
        train_examples=100,
        test_examples=50,
        classes=2,
        steps_per_epoch=EPOCH,
        total_steps=0,
        probe_set=ProbeSet((5, 8, 0, 3, 9), (0, 0, 1, 1, 1), ("cat", "dog"), "digest"),
        paused=False,
    )


def make_series(steps: list[int], values: list[float]) -> Series:
    return Series(np.array(steps, dtype=np.int64), np.array(values))


def with_compared(view: View, compared: ComparedRun) -> View:
    return dataclasses.replace(view, compared=compared)


def with_choices(view: View, **choices: str) -> View:
    return dataclasses.replace(view, choices=choices)


def with_reading(view: View, reading: Reading) -> View:
    return dataclasses.replace(view, readings={**view.readings, reading.probe: reading})


def draw_scene(panel: str, view: View) -> Scene:
    """The scene of a panel; fails where there is none."""
    shown = all_panels()[panel].draw(view)
    assert isinstance(shown, Scene), shown
    return shown


def draw_empty(panel: str, view: View) -> Empty:
    """What a panel says where it shows nothing."""
    shown = all_panels()[panel].draw(view)
    assert isinstance(shown, Empty)
    assert shown.reason.endswith(".")
    return shown


def symmetric_matrix(size: int, diagonal: float, above: list[float]) -> Array:
    """Row by row what lies above the diagonal, mirrored."""
    found = np.full((size, size), diagonal)
    rows, columns = np.triu_indices(size, 1)
    found[rows, columns] = found[columns, rows] = above
    return found


def assert_same(found: Any, expected: Any, place: str = "scene") -> None:
    """Every field alike: arrays and floats up to rounding, NaN equal to NaN, all else exactly."""
    if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        assert type(found) is type(expected), place
        for field in dataclasses.fields(expected):
            name = field.name
            if name in ("layer", "of_compared", "subjects"):
                continue  # these draw nothing: tests of readouts and of links look at them
            assert_same(getattr(found, name), getattr(expected, name), f"{place}.{name}")
    elif isinstance(expected, (np.ndarray, list)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=place)
        assert np.shape(found) == np.shape(expected), place
    elif isinstance(expected, tuple):
        assert isinstance(found, tuple), place
        assert len(found) == len(expected), f"{place}: {found} instead of {expected}"
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            key = other.key if isinstance(other, Chart) else index
            assert_same(one, other, f"{place}[{key}]")
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=place)
    else:
        assert found == expected, f"{place}: {found!r} instead of {expected!r}"


def find_chart(scene: Scene, key: str) -> Chart:
    return next(one for one in scene.charts if one.key == key)


def read_points(one: Chart, *points: tuple[float, float]) -> list[tuple[str, ...]]:
    """What the cursor says at each (x, y)."""
    return [describe_point(one, x, y) for x, y in points]


UNSAID = {"about", "note", "subjects", "narrow", "x", "y", "values", "error", "pictures"}


def describe_scene(one: object) -> Any:
    """How a scene looks, as data: whatever is not usual, without its numbers and sentences."""
    if isinstance(one, tuple):
        return "tags" if one == TAGS else [describe_scene(each) for each in one]
    if not dataclasses.is_dataclass(one):
        return one
    found = {}
    for field in dataclasses.fields(one):
        value, axis = getattr(one, field.name), isinstance(getattr(one, field.name), Axis)
        if (field.name not in UNSAID or axis) and not deep_equal(value, field.default):
            found[field.name] = describe_scene(value)
    return found


def csv_rows(one: Chart) -> list[list[str]]:
    """The rows of the exported CSV."""
    return list(csv.reader(csv_text(one).splitlines()))


def exported_arrays(scene: Scene) -> dict[str, Any]:
    """The names of the exported arrays, each with its shape or its words."""
    found = scene_arrays(scene, Provenance("panel"))
    found.pop("about")
    return {
        name: values.tolist() if values.dtype.kind == "U" else values.shape
        for name, values in found.items()
    }


def find_curve(scene: Scene, key: str, name: str) -> Curve:
    return next(curve for curve in find_chart(scene, key).curves if curve.name == name)
