"""Figures and numbers on disk: text stays text, numbers stay bits, trouble is one sentence."""

from __future__ import annotations

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
from dgn_engine.figures.provenance import Provenance, make_provenance
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
    return scene, make_provenance(view, PANELS[panel], scene)


def _svg_texts(path: Path) -> set[str]:
    tree = ElementTree.parse(path)
    return {
        re.sub(r"\s+", " ", "".join(element.itertext())).strip()
        for element in tree.iter("{http://www.w3.org/2000/svg}text")
    }


@pytest.mark.parametrize("panel", each(PANELS))
def test_an_svg_keeps_its_labels_as_text(panel: str, make_view: MakeView, tmp_path: Path) -> None:
    scene, context = _scene(panel, make_view("soft"))
    file = save_figure(scene, tmp_path / "figure.svg", context)
    images = re.findall(r"<image[^>]*>", file.read_text(encoding="utf-8"))
    assert images or panel not in ("overlap", "gate_maps", "ntk")
    assert all("pixelated" in image for image in images), "a matrix is not blurred"
    texts = _svg_texts(file)
    assert AXES.get(panel, set()) <= texts
    caption = f"{PANELS[panel].title} · step 1,200 · FL · digits · fc 12×4 · seed 0"
    assert caption in texts


@pytest.mark.wide(6)  # of each panel in one kind: the test above
@pytest.mark.parametrize("kind", ["hard", "conv", "nan", "constant"])
@pytest.mark.parametrize("panel", each(PANELS))
def test_every_kind_of_scene_becomes_a_figure(
    panel: str, kind: str, make_view: MakeView, tmp_path: Path
) -> None:
    scene, context = _scene(panel, make_view(kind))
    path = save_figure(scene, tmp_path / "figure.svg", context)
    assert path.stat().st_size > 1000


def test_the_same_scene_makes_the_same_file_of_the_kind_that_it_says(
    make_view: MakeView, tmp_path: Path
) -> None:
    scene, context = _scene("training", make_view("hard"))
    scene = replace(scene, charts=scene.charts[:1])
    before = dict(matplotlib.rcParams)
    svg, pdf, png = (
        save_figure(scene, tmp_path / f"a.{suffix}", context).read_bytes()
        for suffix in ("svg", "PDF", "png")
    )
    for first, suffix in ((svg, "svg"), (pdf, "pdf"), (png, "png")):
        assert first == save_figure(scene, tmp_path / f"b.{suffix}", context).read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 2025, "6.75 inches at 300 dpi"
    assert pdf.startswith(b"%PDF")
    assert b"/CIDFontType2" in pdf or b"/TrueType" in pdf
    assert b"/Type3" not in pdf, "fonts are embedded as TrueType"
    assert dict(matplotlib.rcParams) == before, "the settings of matplotlib are left alone"


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
