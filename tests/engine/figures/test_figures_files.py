"""Figures and numbers on disk: text stays text, numbers stay bits, trouble is one sentence."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.mathtext import MathTextParser

from dgn_engine.figures.export_values import save_numbers, write_export
from dgn_engine.figures.provenance import Provenance, context_of
from dgn_engine.figures.save_figure import save_figure
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import View, all_panels
from dgn_engine.storage.inner_path import InnerPath
from tests.plugins import each
from tests.refusals import refused

PANELS = all_panels()
MakeView = Callable[..., View]
AXES = {
    "gate_maps": {"unit", "class", "Layer 1 ← G2"},
    "overlap": {"class", "overlap, normalised"},
    "spectrum": {"Cumulative energy", "energy", "labels"},
    "ntk": {"step", "class", "normalised"},
    "training": {"step", "Loss", "Accuracy, %", "train", "test", "FR-II → FL"},
}


def _scene(panel: str, view: View) -> tuple[Scene, Provenance]:
    scene = PANELS[panel].draw(view)
    assert isinstance(scene, Scene)
    return scene, context_of(view, PANELS[panel], scene)


def _svg_texts(path: Path) -> set[str]:
    tree = ElementTree.parse(path)
    return {
        re.sub(r"\s+", " ", "".join(element.itertext())).strip()
        for element in tree.iter("{http://www.w3.org/2000/svg}text")
    }


@pytest.mark.parametrize("panel", each(PANELS))
def test_an_svg_keeps_its_labels_as_text(panel: str, make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene(panel, make_view("soft"))
    texts = _svg_texts(save_figure(scene, tmp_path / "figure.svg", context))
    assert AXES.get(panel, set()) <= texts
    caption = f"{PANELS[panel].title} · step 1,200 · FL · digits · fc 12×4 · seed 0"
    assert caption in texts


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["hard", "conv", "nan", "constant"])
@pytest.mark.parametrize("panel", each(PANELS))
def test_every_kind_of_scene_becomes_a_figure(
    panel: str, kind: str, make_view: MakeView, tmp_path: Path
) -> None:
    scene, context = _scene(panel, make_view(kind))
    path = save_figure(scene, tmp_path / "figure.svg", context)
    assert path.stat().st_size > 1000


def test_png_and_pdf_are_what_they_say(make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene("ntk", make_view("soft"))
    png = save_figure(scene, tmp_path / "a.png", context).read_bytes()
    pdf = save_figure(scene, tmp_path / "a.PDF", context).read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 2025, "6.75 inches at 300 dpi"
    assert pdf.startswith(b"%PDF")
    assert b"/CIDFontType2" in pdf or b"/TrueType" in pdf
    assert b"/Type3" not in pdf, "fonts are embedded as TrueType"


def test_a_matrix_in_svg_is_not_blurred(make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene("overlap", make_view("hard"))
    text = save_figure(scene, tmp_path / "a.svg", context).read_text(encoding="utf-8")
    images = re.findall(r"<image[^>]*>", text)
    assert images
    assert all("pixelated" in image for image in images)


def test_the_same_scene_makes_the_same_file(make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene("training", make_view("hard"))
    scene = replace(scene, charts=scene.charts[:1])
    for suffix in ("svg", "pdf", "png"):
        first = save_figure(scene, tmp_path / f"a.{suffix}", context).read_bytes()
        assert first == save_figure(scene, tmp_path / f"b.{suffix}", context).read_bytes()


def test_drawing_leaves_the_settings_of_matplotlib_alone(
    make_view: MakeView, tmp_path: Path
) -> None:
    before = dict(matplotlib.rcParams)
    scene, context = _scene("training", make_view("hard"))
    save_figure(scene, tmp_path / "a.svg", context)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("panel", each(PANELS))
def test_an_npz_holds_the_arrays_of_the_scene_bit_for_bit(
    panel: str, make_view: MakeView, tmp_path: Path
) -> None:
    scene, context = _scene(panel, make_view("conv"))
    save_numbers(scene, tmp_path / "a.npz", context)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        assert about["step"] == scene.step
        for chart in scene.charts:
            assert file[f"{chart.key}.axes"].shape == (2,)
            if chart.matrix is not None:
                _same_bits(file[f"{chart.key}.values"], chart.matrix.values)
            for index, curve in enumerate(chart.curves):
                name = curve.name.replace("$", "") or f"curve {index}"
                _same_bits(file[f"{chart.key}.{name}.x"], curve.x)
                _same_bits(file[f"{chart.key}.{name}.y"], curve.y)


def _same_bits(found: np.ndarray, wanted: np.ndarray) -> None:  # type: ignore[type-arg]  # any dtype
    assert found.dtype == wanted.dtype
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


def test_csv_has_a_file_for_each_chart_and_every_digit(make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene("training", make_view("hard"))
    files = save_numbers(scene, tmp_path / "run.csv", context)
    assert [file.name for file in files] == ["run.loss.csv", "run.accuracy.csv"]
    with files[0].open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["curve", "step", "Loss"]
    train = np.array([float(row[2]) for row in rows[1:] if row[0] == "train"])
    np.testing.assert_array_equal(train, scene.charts[0].curves[0].y)


def test_csv_of_a_matrix_names_rows_and_columns(make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene("overlap", make_view("nan"))
    files = save_numbers(scene, tmp_path / "o.csv", context)
    with files[0].open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][:2] == ["example \\ example", "example 0, class 0"]
    assert rows[1][0] == "example 0, class 0"
    found = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    assert scene.charts[0].matrix is not None
    np.testing.assert_array_equal(found, scene.charts[0].matrix.values)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: InnerPath, target: InnerPath) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(InnerPath, "replace", full)
    with refused("disk-full"):
        write_export(tmp_path / "a.csv", b"x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("panel", each(PANELS))
def test_every_formula_of_a_panel_can_be_set(panel: str) -> None:
    for formula in PANELS[panel].about.formulas:
        parsed = MathTextParser("path").parse(formula)
        assert parsed.width > 0
