"""`dgn figure` and `dgn.figure` draw panels of a recorded run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgn_engine.cli import main
from dgn_engine.cli.figure import FORMATS
from dgn_engine.errors import UserError
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.recorded_panels import panels_of_run
from dgn_engine.notebook.notebook_figure import figure as draw
from dgn_engine.scene.elements import Scene, deep_equal
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_writer import export_run
from tests.engine.cli.typed import read_arrays


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of digits with frames of steps 0 and 45."""
    folder = tmp_path_factory.mktemp("figures") / "first"
    options = ["--width", "8", "--depth", "3", "--epochs", "1", "--record", "gates,overlap,npk,ntk"]
    options += ["--record-every", "45"]
    assert main(["train", "--data", "digits", "--quiet", *options, "--out", str(folder)]) == 0
    return folder


def figure(*arguments: str | Path) -> int:
    return main(["figure", *map(str, arguments)])


@pytest.mark.parametrize("ending", FORMATS)
def test_one_step_and_two_are_written_in_every_format(
    ending: str, run: Path, tmp_path: Path
) -> None:
    assert (
        figure(run, "--panel", "spectrum", "--width", "3.25", "-o", tmp_path / f"a.{ending}") == 0
    )
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("a.")]
    out = tmp_path / f"both.{ending}"
    two = ("--panel", "spectrum", "--choose", "show=kernel", "--step", "0,45", "--out", out)
    assert figure(run, *two) == 0
    names = {path.name for path in tmp_path.iterdir() if path.name.startswith("both")}
    if ending == "csv":
        assert names == {f"both.kernel_{which}.csv" for which in ("step0", "step45", "difference")}
    else:
        assert out.stat().st_size > 500


def test_several_panels_stand_on_one_page(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.svg"
    figure(run, "--panel", "gate-maps,training", "--letters", "-o", path, "--height", "7")
    assert capsys.readouterr().out == f"{path}\n"
    text = path.read_text(encoding="utf-8")
    assert "(a) Gate maps" in text
    assert "(b) Training" in text
    assert 'height="504pt"' in text
    figure(run, "--panel", "gate_maps,training", "-o", tmp_path / "page.csv")
    names = {file.name for file in tmp_path.glob("*.csv")}
    assert {"page-gate_maps.large.csv", "page-training.loss.csv"} <= names


def test_an_earlier_step_is_shown_as_it_was_then(run: Path, tmp_path: Path) -> None:
    steps = [frame.step for frame in RunReader(run).frames]
    assert len(steps) > 1
    first = tmp_path / "first.npz"
    figure(run, "--panel", "spectrum", "--step", str(steps[0]), "-o", first)
    reading = RunReader(run).frame_of_step(steps[0]).readings["npk"]
    drawn = read_arrays(first)["eigenvalues.curve 0.y"]
    np.testing.assert_array_equal(drawn, reading.arrays["eigenvalues"])
    measured = RunReader(run).measured_events[1].step
    figure(run, "--panel", "training", "--step", str(measured), "-o", tmp_path / "early.npz")
    assert read_arrays(tmp_path / "early.npz")["loss.train.x"].max() <= measured


def test_a_figure_of_a_run_without_a_window_says_its_step_its_examples_and_that_it_is_exact(
    run: Path, tmp_path: Path
) -> None:
    figure(run, "--panel", "spectrum", "-o", tmp_path / "a.npz")
    figure(run, "--panel", "spectrum", "-o", tmp_path / "b.py")
    about = json.loads(str(read_arrays(tmp_path / "a.npz")["about"]))
    assert about["step"] == 45
    for fact in ("64 ", "exact", "0.05 %"):
        assert fact in about["examples"]
    caption = f"NPK spectrum · step 45 · {about['examples']} · "
    assert caption in (tmp_path / "b.py").read_text(encoding="utf-8")


def both(run: Path, panel: str, *charts: str, choose: tuple[str, ...] = ()) -> FigurePanel:
    """The panel at steps 0 and 45."""
    specs = {panel: all_panels()[panel]}
    [found] = panels_of_run(str(run), (0, 45), specs, choose, charts)
    return found


def alone(run: Path, panel: str, step: int, *choose: str) -> Scene:
    specs = {panel: all_panels()[panel]}
    return panels_of_run(str(run), (step,), specs, choose, ())[0].scene


def test_curves_of_two_steps_are_in_one_chart_and_named_by_their_step(run: Path) -> None:
    found = both(run, "spectrum")
    assert found.context.steps == (0, 45)
    for chart in found.scene.charts:
        for step in (0, 45):
            of_step = [c for c in chart.curves if c.name.startswith(f"step {step}")]
            single = next(c for c in alone(run, "spectrum", step).charts if c.key == chart.key)
            drawn = [curve.y for curve in of_step]
            assert len(drawn) == len(single.curves)
            for values, curve in zip(drawn, single.curves, strict=True):
                np.testing.assert_array_equal(values, curve.y)
        looks = [(curve.dash, curve.thick) for curve in chart.curves]
        assert len(set(looks)) == len(looks)  # they can be told apart in grey


@pytest.mark.parametrize(
    ("panel", "chart", "choose"),
    [
        ("overlap", "active", ()),
        ("spectrum", "kernel", ("show=kernel",)),
        ("gate_maps", "large", ()),
    ],
)
def test_matrices_of_two_steps_stand_side_by_side_in_the_same_colours(
    run: Path, panel: str, chart: str, choose: tuple[str, ...]
) -> None:
    pair = both(run, panel, chart, choose=choose).scene.charts
    assert [one.key for one in pair] == [f"{chart}_step0", f"{chart}_step45"]
    assert [(one.row, one.column) for one in pair] == [(0, 0), (0, 1)]
    for one, step in zip(pair, (0, 45), strict=True):
        assert f"step {step}" in one.title
        single = next(c for c in alone(run, panel, step, *choose).charts if c.key == chart)
        assert one.matrix is not None
        assert single.matrix is not None
        np.testing.assert_array_equal(one.matrix.values, single.matrix.values)
    scales = {(c.matrix.ramp, c.matrix.low, c.matrix.high) for c in pair if c.matrix is not None}
    assert len(scales) == 1


@pytest.mark.parametrize(
    ("panel", "choice"), [("spectrum", "show=kernel"), ("ntk", "ntk.scale=raw")]
)
def test_the_options_that_the_help_names_are_offered(run: Path, panel: str, choice: str) -> None:
    assert alone(run, panel, 45, choice).charts


def test_gates_of_two_steps_are_compared(run: Path) -> None:
    chart = both(run, "agreement", "difference").scene.charts[0]
    gates = [alone(run, "gate_maps", step, "layer=0") for step in (0, 45)]
    maps = [c.matrix.values for s in gates for c in s.charts if c.key == "large" and c.matrix]
    assert chart.matrix is not None
    opened = [values >= 0.5 for values in maps]
    np.testing.assert_array_equal(chart.matrix.values != 0, opened[0] != opened[1])


def test_charts_over_steps_have_a_line_at_each_step(run: Path) -> None:
    [chart] = both(run, "ntk", "over_steps").scene.charts
    assert chart.delta == (0, 45)
    assert max(curve.x[-1] for curve in chart.curves) == 45


def test_arrays_of_two_steps_are_named_by_their_step(run: Path, tmp_path: Path) -> None:
    for panel, name in (("spectrum", "curves"), ("overlap", "matrices")):
        out = tmp_path / f"{name}.npz"
        assert figure(run, "--panel", panel, "--step", "0,45", "--out", out) == 0
    curves, matrices = (read_arrays(tmp_path / f"{name}.npz") for name in ("curves", "matrices"))
    assert {"eigenvalues.step 0.y", "eigenvalues.step 45.y"} <= set(curves)
    assert {"active_step0.values", "active_step45.values"} <= set(matrices)
    assert json.loads(str(curves["about"]))["steps"] == [0, 45]


def test_a_session_file_is_read_as_its_run_is(run: Path, tmp_path: Path) -> None:
    session = tmp_path / "first.dgn"
    export_run(run, session)
    assert deep_equal(both(run, "overlap").scene, both(session, "overlap").scene)
    ours, theirs = tmp_path / "ours.npz", tmp_path / "theirs.npz"
    for source, out in ((run, ours), (session, theirs)):
        figure(source, "--panel", "ntk", "-o", out)
    assert charts_in(ours) == charts_in(theirs)
    for name, array in read_arrays(ours).items():
        assert name == "about" or np.array_equal(array, read_arrays(theirs)[name])


def test_the_caption_names_both_steps(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.svg"
    assert figure(run, "--panel", "ntk,overlap", "--step", "45,0", "--out", out) == 0
    assert out.read_text(encoding="utf-8").count("steps 45 and 0") >= 2


def charts_in(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in read_arrays(path)} - {"about"}


def test_one_chart_of_a_panel_is_drawn_by_its_name_and_the_others_of_the_page_whole(
    run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "one.npz"
    assert figure(run, "--panel", "spectrum", "--chart", "cumulative", "--out", out) == 0
    assert charts_in(out) == {"cumulative"}
    out = tmp_path / "page.npz"
    assert figure(run, "--panel", "spectrum,overlap", "--chart", "active", "--out", out) == 0
    assert charts_in(tmp_path / "page-spectrum.npz") == {"eigenvalues", "cumulative"}
    assert charts_in(tmp_path / "page-overlap.npz") == {"active"}


def test_a_chart_alone_has_the_colour_bar_and_the_names_of_its_neighbours(run: Path) -> None:
    specs = {"ntk": all_panels()["ntk"]}
    [whole] = panels_of_run(str(run), (), specs, (), ())
    first, *_, last = [chart for chart in whole.scene.charts if chart.matrix is not None]
    assert first.matrix is not None
    assert last.matrix is not None
    assert not first.matrix.bar
    assert not last.y.ticks
    for key in (first.key, last.key):
        [[chart]] = [p.scene.charts for p in panels_of_run(str(run), (), specs, (), [key])]
        assert chart.matrix is not None
        assert chart.matrix.bar == last.matrix.bar
        assert chart.y.ticks == first.y.ticks
        assert (chart.row, chart.column, chart.column_span) == (0, 0, 1)


def test_a_notebook_draws_two_steps_and_one_chart(run: Path) -> None:
    drawn = draw(str(run), "spectrum", (0, 45), chart="eigenvalues")
    axes = drawn.axes  # type: ignore[attr-defined]  # a figure of matplotlib
    assert [one.get_gid() for one in axes] == ["eigenvalues"]
    assert len(axes[0].lines) == 2
    with pytest.raises(UserError, match="45"):
        draw(str(run), "spectrum", [45, 45])


def test_a_file_without_a_name_is_called_after_panel_and_step(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    step = RunReader(run).step
    figure(run, "--panel", "spectrum")
    figure(run, "--panel", "spectrum", "--format", "png", "--dpi", "50")
    figure(run, "--panel", "spectrum", "--format", "svg", "-o", "name")
    found = {file.name for file in tmp_path.iterdir()}
    assert found == {f"spectrum-step{step}.pdf", f"spectrum-step{step}.png", "name.svg"}


def test_options_and_names_are_as_in_the_window(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    figure(
        *(run, "--panel", "spectrum", "--choose", "show=kernel", "-o", path, "--no-caption"),
    )
    assert "seed" not in path.read_text(encoding="utf-8").partition("</metadata>")[2]
    figure(run, "--panel", "training", "--legend", "train=$L$ of training", "-o", path)
    assert "of training" in path.read_text(encoding="utf-8").replace("\u00a0", " ")


def test_a_picture_has_the_size_that_is_asked_for(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.png"

    def size(*options: str) -> tuple[int, int]:
        figure(run, "--panel", "spectrum,training", "--dpi", "50", *options, "-o", path)
        with Image.open(path) as picture:
            return picture.size

    assert size("--width", "5", "--height", "4") == (250, 200)
    assert size("--width", "5", "--across", "1")[1] > 1.5 * size("--width", "5", "--across", "2")[1]


def test_letters_are_as_large_as_is_asked_for(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    texts = []
    for points in ("7", "14"):
        figure(run, "--panel", "spectrum", "--font-size", points, "--height", "9", "-o", path)
        texts.append(path.read_text(encoding="utf-8"))
    assert ["14px" in text for text in texts] == [False, True]


def test_recorded_steps_become_an_animation_with_fixed_axes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "film.gif"
    film = ("--panel", "spectrum,training", "--animate", "all", "--pages", "2", "-o", out)
    assert figure(run, *film) == 0
    assert "2 frames, steps 0 to 45" in capsys.readouterr().out
    with Image.open(out) as film:
        assert film.n_frames == 2
        assert (film.info["duration"], film.format) == (100, "GIF")


def test_an_animation_is_as_quick_as_is_asked_for(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "film.gif"
    figure(run, "--panel", "spectrum", "--animate", "all", "--per-second", "4", "-o", out)
    with Image.open(out) as film:
        assert film.info["duration"] == 250
