"""`dgn figure` and `dgn.figure` draw panels of a recorded run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgn_engine import cli
from dgn_engine.cli import figure as figure_command
from dgn_engine.errors import UserError
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.recorded_panels import panels_of_run
from dgn_engine.notebook.notebook_figure import figure as draw
from dgn_engine.scene.elements import Scene, same
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_writer import export_run

EXACT = "64 probe examples, exact · matrices stored to 0.05 %"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of digits with frames of steps 0 and 45."""
    folder = tmp_path_factory.mktemp("figures") / "first"
    options = ["--width", "8", "--depth", "3", "--epochs", "1", "--record", "gates,overlap,npk,ntk"]
    options += ["--record-every", "45"]
    assert cli.main(["train", "--data", "digits", "--quiet", *options, "--out", str(folder)]) == 0
    return folder


def figure(*arguments: str | Path) -> int:
    """The command as `dgn` calls it."""
    parser = ArgumentParser()
    figure_command.add_arguments(parser)
    return figure_command.COMMAND.carry_out(parser.parse_args([str(one) for one in arguments]))


def test_a_command_of_another_package_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offer = EntryPoint("paint", "dgn_engine.cli.figure:COMMAND", cli.OFFERED)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [offer])
    assert cli._asked_for(["paint"]) == {"paint": figure_command.COMMAND}
    assert cli._asked_for([])["paint"] is figure_command.COMMAND


def test_the_figures_of_dgn_are_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    offer = EntryPoint("figure", "no_such_package:COMMAND", cli.OFFERED)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [offer])
    assert cli._asked_for(["figure"]) == {"figure": figure_command.COMMAND}
    assert cli._asked_for([])["figure"] is figure_command.COMMAND


def test_a_command_that_cannot_be_imported_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = EntryPoint("paint", "no_such_package:COMMAND", cli.OFFERED)
    wrong = EntryPoint("wrong", "dgn_engine.cli.figure:FORMATS", cli.OFFERED)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [gone, wrong])
    assert [cli.main(["paint"]), cli.main(["wrong"])] == [cli.REFUSED, cli.REFUSED]
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("dgn paint: it needs what is not installed (No module named")
    assert said[1] == "dgn wrong: dgn_engine.cli.figure:FORMATS is no command."


def test_without_matplotlib_it_is_refused_in_a_sentence(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "dgn_engine.cli.run.draw_figure", raising=False)
    monkeypatch.setitem(sys.modules, "dgn_engine.figures.save_figure", None)
    with pytest.raises(UserError, match=r"^Figures need .*, which is not installed: pip install"):
        figure(run, "--panel", "training")


@pytest.mark.parametrize("ending", figure_command.FORMATS)
def test_every_format_is_written(ending: str, run: Path, tmp_path: Path) -> None:
    path = tmp_path / f"figure.{ending}"
    assert figure(run, "--panel", "spectrum", "--width", "3.25", "-o", path) == 0
    written = list(tmp_path.iterdir())
    assert written
    assert all(file.name.startswith("figure.") or file.suffix == ".png" for file in written)


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
    reading = RunReader(run).frame(steps[0]).readings["npk"]
    with np.load(first) as found:
        np.testing.assert_array_equal(found["eigenvalues.curve 0.y"], reading.arrays["eigenvalues"])
    measured = RunReader(run).measured[1].step
    figure(run, "--panel", "training", "--step", str(measured), "-o", tmp_path / "early.npz")
    with np.load(tmp_path / "early.npz") as found:
        assert found["loss.train.x"].max() <= measured


def test_a_figure_of_a_run_without_a_window_says_its_step_its_examples_and_that_it_is_exact(
    run: Path, tmp_path: Path
) -> None:
    figure(run, "--panel", "spectrum", "-o", tmp_path / "a.npz")
    figure(run, "--panel", "spectrum", "-o", tmp_path / "b.py")
    with np.load(tmp_path / "a.npz") as found:
        about = json.loads(str(found["about"]))
    assert (about["step"], about["examples"]) == (45, EXACT)
    caption = f"NPK spectrum · step 45 · {EXACT} · "
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


@pytest.mark.parametrize("ending", figure_command.FORMATS)
def test_two_steps_are_written_in_every_format(ending: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / f"both.{ending}"
    arguments = ("--panel", "spectrum", "--choose", "show=kernel", "--step", "0,45", "--out", out)
    assert figure(run, *arguments) == 0
    names = {path.name for path in tmp_path.iterdir()}
    if ending == "csv":
        assert names == {f"both.kernel_{which}.csv" for which in ("step0", "step45", "difference")}
    else:
        assert out.stat().st_size > 500


def test_arrays_of_two_steps_are_named_by_their_step(run: Path, tmp_path: Path) -> None:
    for panel, name in (("spectrum", "curves"), ("overlap", "matrices")):
        out = tmp_path / f"{name}.npz"
        assert figure(run, "--panel", panel, "--step", "0,45", "--out", out) == 0
    curves, matrices = np.load(tmp_path / "curves.npz"), np.load(tmp_path / "matrices.npz")
    assert {"eigenvalues.step 0.y", "eigenvalues.step 45.y"} <= set(curves)
    assert {"active_step0.values", "active_step45.values"} <= set(matrices)
    assert json.loads(str(curves["about"]))["steps"] == [0, 45]


def test_two_steps_of_a_session_are_those_of_its_run(run: Path, tmp_path: Path) -> None:
    session = tmp_path / "first.dgn"
    export_run(run, session)
    ours, theirs = both(run, "overlap"), both(session, "overlap")
    assert same(ours.scene, theirs.scene)


def test_the_caption_names_both_steps(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.svg"
    assert figure(run, "--panel", "ntk,overlap", "--step", "45,0", "--out", out) == 0
    assert out.read_text(encoding="utf-8").count("steps 45 and 0") >= 2


def test_one_chart_of_a_panel_is_drawn_by_its_name(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.npz"
    assert figure(run, "--panel", "spectrum", "--chart", "cumulative", "--out", out) == 0
    assert {name.partition(".")[0] for name in np.load(out)} == {"about", "cumulative"}


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


def test_a_chart_of_one_panel_leaves_the_others_whole(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.npz"
    arguments = ("--panel", "spectrum,overlap", "--chart", "active", "--out", out)
    assert figure(run, *arguments) == 0
    charts = {
        panel: {name.partition(".")[0] for name in np.load(tmp_path / f"page-{panel}.npz")}
        for panel in ("spectrum", "overlap")
    }
    assert charts == {
        "spectrum": {"about", "eigenvalues", "cumulative"},
        "overlap": {"about", "active"},
    }


def test_a_notebook_draws_two_steps_and_one_chart(run: Path) -> None:
    drawn = draw(str(run), "spectrum", (0, 45), chart="eigenvalues")
    axes = drawn.axes  # type: ignore[attr-defined]  # a figure of matplotlib
    assert [one.get_gid() for one in axes] == ["eigenvalues"]
    assert len(axes[0].lines) == 2
    with pytest.raises(UserError, match="twice"):
        draw(str(run), "spectrum", [45, 45])


def test_a_session_file_is_read_as_its_run_is(run: Path, tmp_path: Path) -> None:
    session = tmp_path / "run.dgn"
    export_run(run, session)
    for source, name in ((run, "a"), (session, "b")):
        figure(source, "--panel", "ntk", "-o", tmp_path / f"{name}.npz")
    with np.load(tmp_path / "a.npz") as ours, np.load(tmp_path / "b.npz") as theirs:
        assert set(ours) == set(theirs)
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours if key != "about")


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--panel", "spectrun"), "There is no panel spectrun; --panel is one or more of"),
        (("--panel", ","), "There is no panel without a name; --panel is one or more of"),
        (("--panel", "spectrum", "--step", "7"), "first has no frame of step 7; the nearest are"),
        (("--panel", "training", "--step", "3"), "first has no scores of step 3; the nearest"),
        (("--panel", "spectrum", "--step", "0,7"), "first has no frame of step 7; the nearest are"),
        (("--panel", "spectrum", "--step", "0,0"), "Step 0 is named twice;"),
        (
            ("--panel", "spectrum", "--step", "0,7,45"),
            "A figure shows one step or two, not 3",
        ),
        (("--panel", "spectrum", "--step", "0,"), "--step '0,' is not a step"),
        (("--panel", "spectrum", "--step", "x"), "--step 'x' is not a step"),
        (("--panel", "spectrum", "--step=-1"), "--step '-1' is not a step"),
        (("--panel", "spectrum", "--step="), "--step '' is not a step"),
        (("--panel", "agreement"), "A and B compares two steps; name both, for example 0,45."),
        (
            ("--panel", "spectrum", "--chart", "x"),
            "There is no chart x here; there are eigen",
        ),
        (
            ("--panel", "ntk,spectrum", "--chart", "ntk.x"),
            "There is no chart ntk.x here; there",
        ),
        (
            ("--panel", "training,ntk", "--chart", "los"),
            "There is no chart los here; there",
        ),
        (("--panel", "spectrum", "--width", "90"), "A width of 90 in makes no figure; choose"),
        (("--panel", "spectrum", "--dpi", "0"), "--dpi 0 makes no figure."),
        (("--panel", "spectrum", "--font-size", "3"), "A font size of 3 pt makes no figure"),
        (("--panel", "spectrum", "--legend", "x=y"), "--legend x=y names no curve; there are"),
        (("--panel", "spectrum", "--legend", "energy"), "--legend energy names no curve;"),
        (("--panel", "training", "--legend", "train=$^{$"), "The name '$^{$' for the curve train"),
        (("--panel", "spectrum", "--choose", "show=x"), "show=x is not offered by NPK spectrum;"),
        (("--panel", "spectrum", "--choose", "way=x"), "--choose way=x is no option here; there"),
        (("--panel", "spectrum", "--choose", "ntk.show=x"), "--choose ntk.show=x is no option"),
        (("--panel", "spectrum", "-o", "a.bmp"), "Cannot tell the format of a.bmp; end its name"),
        (("--panel", "spectrum", "-o", "a.png", "--format", "svg"), "--out a.png and --format svg"),
        (("--panel", "spectrum", "--height", "0.8"), "6.75 × 0.8 in leaves no room for"),
    ],
)
def test_what_makes_no_figure_is_refused_in_a_sentence(
    arguments: tuple[str, ...],
    words: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refusal:
        figure(run, *arguments)
    assert str(refusal.value).startswith(words)
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gone"):
        figure(tmp_path / "gone", "--panel", "training")


def test_figures_are_drawn_without_qt_and_help_without_numpy(run: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from argparse import Namespace\n"
        "from dgn_engine.cli import figure as c\n"
        "import argparse; p = argparse.ArgumentParser(); c.add_arguments(p)\n"
        "print('numpy' in sys.modules)\n"
        "c.COMMAND.carry_out(p.parse_args(sys.argv[1:]))\n"
        "print(any(name.startswith('PySide6') for name in sys.modules))\n"
    )
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    arguments = [str(run), "--panel", "training", "-o", str(tmp_path / "a.pdf")]
    found = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    assert found.stdout.split() == ["False", str(tmp_path / "a.pdf"), "False"]


def test_recorded_steps_become_an_animation_with_fixed_axes(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "film.gif"
    assert figure(run, "--panel", "spectrum,training", "--animate", "all", "-o", out) == 0
    assert "2 pages of steps 0 to 45" in capsys.readouterr().out
    with Image.open(out) as film:
        assert film.n_frames == 2
        assert (film.info["duration"], film.format) == (100, "GIF")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--animate", "5"), "--animate 5 is no range of steps; write 100:2000, 100: or all."),
        (("--animate", "9:3"), "--animate 9:3 is no range of steps"),
        (("--animate", "1:30"), "recorded 0 steps between 1 and 30"),
        (("--animate", "all", "--pages", "1"), "--pages 1 moves nothing"),
        (("--animate", "all", "--step", "45"), "--step names one step and --animate many"),
        (("--animate", "all", "-o", "film.pdf"), "end its name in .gif or .mp4"),
    ],
)
def test_what_makes_no_animation_of_a_run_is_one_sentence(
    arguments: tuple[str, ...],
    said: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        figure(run, "--panel", "spectrum", *arguments)
    assert list(tmp_path.iterdir()) == []
