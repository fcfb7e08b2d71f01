"""The script beside a figure draws the same pixels, with numpy and matplotlib alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from dgn_engine.figures.figure_style import COLUMN, TEXT, FigureStyle
from dgn_engine.figures.save_figure import save_page
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Matrix
from dgn_engine.scene.panel_spec import View, all_panels
from tests.engine.figures.figure_panels import panel
from tests.plugins import each

PANELS = all_panels()
MakeView = Callable[..., View]
Redraw = Callable[[Path, Path], None]
# Runs scripts, two paths a line, where nothing of ours, nor Qt or torch, can be imported.
ALONE = """
import runpy, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")
BLOCKED = ("dgn_viewer", "dgn_engine", "dgn_resources", "PySide6", "torch", "pyqtgraph", "scipy")
sys.meta_path.insert(0, Blocked())
import matplotlib
for line in sys.stdin:
    sys.argv = line.rstrip("\\n").split("\\t")
    matplotlib.rcdefaults()
    runpy.run_path(sys.argv[0], run_name="__main__")
    print("drawn", flush=True)
"""


@contextmanager
def another_process() -> Iterator[Redraw]:
    """`draw(script, out)` there, for as long as the context lasts."""
    with subprocess.Popen(
        [sys.executable, "-c", ALONE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(matplotlib.__file__).parents[1])},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def draw(script: Path, out: Path) -> None:
            asked.write(f"{script}\t{out}\n")
            asked.flush()
            assert "drawn" in answers.readline()

        yield draw


def _in_a_process_of_its_own(script: Path, out: Path) -> None:
    with another_process() as draw:
        draw(script, out)


@pytest.fixture(
    scope="module", params=["together", pytest.param("apart", marks=pytest.mark.faults)]
)
def redraw(request: pytest.FixtureRequest) -> Iterator[Redraw]:
    """Draws a script in another process: the same for all scripts, since loading matplotlib takes
    longer than drawing, or by `make faults` one for each."""
    if request.param == "apart":
        yield _in_a_process_of_its_own
        return
    with another_process() as draw:
        yield draw


# At every push edges and clouds of points, and a montage; curves and matrices on the page below.
OFTEN = (("paths", "soft"), ("gate_maps", "conv"))
SELDOM = [(name, "soft") for name in PANELS if (name, "soft") not in OFTEN]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *each(OFTEN),
        *(pytest.param(*row, marks=(pytest.mark.discovery, pytest.mark.nightly)) for row in SELDOM),
    ],
)
def test_a_script_draws_the_same_pixels_alone(
    name: str, kind: str, make_view: MakeView, tmp_path: Path, redraw: Redraw
) -> None:
    style = FigureStyle(COLUMN if kind == "soft" else TEXT, dpi=100, letters=True)
    shown = [panel(name, make_view(kind, n=40))]
    (png,) = save_page(shown, tmp_path / "ours.png", style)
    script, numbers = save_page(shown, tmp_path / "figure.py", style)
    assert (script.name, numbers.name) == ("figure.py", "figure.npz")
    redraw(script, tmp_path / "theirs.png")
    np.testing.assert_array_equal(imread(tmp_path / "theirs.png"), imread(png))


@pytest.mark.discovery
def test_a_script_of_a_page_with_settings_draws_the_same_pixels(
    make_view: MakeView, tmp_path: Path, redraw: Redraw
) -> None:
    training = panel("training", make_view("hard"))
    smooth = {chart.key: ChartSettings(smoothing=0.9) for chart in training.scene.charts}
    overlap = panel("overlap", make_view("nan"))
    charts = tuple(
        replace(chart, matrix=replace(chart.matrix, beyond=(True, True)))
        if isinstance(chart.matrix, Matrix)
        else chart
        for chart in overlap.scene.charts
    )
    shown = [
        replace(training, scene=apply_chart_settings(training.scene, smooth)),
        replace(overlap, scene=replace(overlap.scene, charts=charts)),
    ]
    names = (("train", "a long name of the training loss, seed 0"), ("test", r"$L_{test}$ 'x\"y'"))
    style = FigureStyle(TEXT, dpi=100, legend=names)
    (png,) = save_page(shown, tmp_path / "ours.png", style)
    script, _ = save_page(shown, tmp_path / "figure.py", style)
    redraw(script, tmp_path / "theirs.png")
    np.testing.assert_array_equal(imread(tmp_path / "theirs.png"), imread(png))


def test_the_numbers_beside_a_script_are_those_of_the_scene(
    make_view: MakeView, tmp_path: Path
) -> None:
    shown = panel("spectrum", make_view("hard"))
    _, numbers = save_page([shown], tmp_path / "figure.py", FigureStyle())
    with np.load(numbers, allow_pickle=False) as found:
        (curve,) = shown.scene.charts[0].curves
        drawn = found["eigenvalues.curve 0.y"]
    seen = np.isfinite(drawn)
    np.testing.assert_array_equal(drawn[seen], curve.y[seen])
    assert (curve.y[~seen] <= 0.0).all()  # a logarithmic axis has no place for them
