"""'Save animation…' in the real window: a GIF of a run that trains on and is not recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from pytestqt.qtbot import QtBot

from dgn_engine import cli
from dgn_engine.figures.recorded_panels import panels_of_run
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.scene.elements import Scene, Shown, deep_equal
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.folder_layout import FRAMES, frame_key
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from dgn_viewer.shell.animation_dialog import AnimationDialog
from dgn_viewer.timeline import frame_keeper


def opened(viewer: Viewer, qtbot: QtBot) -> AnimationDialog:
    viewer.window.registry["file.save_animation"].trigger()
    dialog = viewer.window.exports.animations.dialog
    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.steps is not None)
    return dialog


def test_a_range_of_steps_is_saved_cancelled_or_refused_while_training_goes_on(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frame_keeper, "EVERY", 0.01)
    viewer = make_viewer()
    window, cursor = viewer.window, viewer.window.time.cursor
    qtbot.waitUntil(lambda: len(cursor.steps) >= 4)
    steps = cursor.steps
    window.registry["view.maximise"].trigger()  # the others are not drawn meanwhile
    cursor.choose_reach(steps[2], steps[0])
    dialog = opened(viewer, qtbot)
    assert dialog.chosen_reach() == (steps[0], steps[2])
    assert dialog.forecast.text().startswith("3 recorded steps from ")
    front = window.docks.front_panel()
    assert [name for name, box in dialog.panels.items() if box.isChecked()] == [front]

    def ended() -> str:
        qtbot.waitUntil(lambda: not dialog.writing)
        return dialog.said.text()

    file, before = tmp_path / "film.gif", window.history.step
    dialog.save_as(str(file))
    assert not dialog._form.isEnabled()
    assert ended().startswith(f"film.gif saved in {tmp_path}: 3 frames, steps {steps[0]:,} to ")
    with Image.open(file) as film:
        about = json.loads(film.info["comment"])
        assert len(about["steps"]) == 3
        assert film.n_frames == len(set(about["steps"]))  # a page twice is one that stays longer
    assert about["panels"][0]["regime"] == "DL"
    qtbot.waitUntil(lambda: window.history.step > before)
    dialog.last.setValue(steps[1])
    dialog.save_as(str(tmp_path / "other.gif"))
    dialog.cancel_button.click()
    assert "other.gif was not saved" in ended()
    assert not (tmp_path / "other.gif").exists()
    dialog.save_as(str(tmp_path / "film.pdf"))
    assert ended().startswith("film.pdf ")
    assert not (tmp_path / "film.pdf").exists()

    nowhere = tmp_path / "missing" / "other.gif"
    dialog.save_as(str(nowhere))
    assert "other.gif" in ended()
    assert not nowhere.parent.exists()
    dialog.last.setValue(steps[0])
    assert not dialog.save_button.isEnabled()
    dialog.close()
    assert window.exports.animations.dialog is None
    assert cursor.reach is None

    window.exports.animations.open()
    assert window.exports.animations.dialog is not None
    window.exports.animations.dialog.close()


def test_the_window_and_the_command_make_the_same_film(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    options = ["--width", "8", "--depth", "3", "--epochs", "1", "--record", "gates"]
    every = ["--record-every", "20", "--quiet", "--out", str(run)]
    assert cli.main(["train", "--data", "digits", *options, *every]) == 0
    ours, theirs = tmp_path / "window.gif", tmp_path / "command.gif"
    arguments = ["figure", str(run), "--panel", "gate_maps", "--animate", "0:40", "-o", str(theirs)]
    assert cli.main(arguments) == 0
    viewer = make_viewer(paused=True)
    viewer.window.context.send(ShowRun(str(run)))
    qtbot.waitUntil(lambda: viewer.window.time.cursor.folder == str(run))
    viewer.window.exports.animations.open("gate_maps")
    dialog = viewer.window.exports.animations.dialog
    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.steps is not None)
    dialog.show_reach((0, 40))
    assert dialog.forecast.text().startswith("3 recorded steps")
    other = tmp_path / "other"  # a run with fewer recorded steps, shown while the film is written
    shutil.copytree(run, other)
    for frame in (other / FRAMES).iterdir():
        if (key := frame_key(frame.name)) and key[0] > 40:
            frame.unlink()
    assert max(dialog.steps or ()) > 40
    dialog.save_as(str(ours))
    viewer.window.context.send(ShowRun(str(other)))
    qtbot.waitUntil(lambda: not dialog.writing)
    assert ours.read_bytes() == theirs.read_bytes()
    qtbot.waitUntil(lambda: max(dialog.steps or (99,)) <= 40)
    dialog.close()


PANELS = ("gate_maps", "overlap", "spectrum", "ntk", "training")


def on_paper(shown: Shown) -> Shown:
    """In a figure there are no pictures of examples, and none is lit."""
    if not isinstance(shown, Scene):
        return shown
    charts = []
    for chart in shown.charts:
        matrix = chart.matrix and replace(chart.matrix, row_examples=(), column_examples=())
        charts.append(replace(chart, matrix=matrix, pictures=None))
    return replace(shown, charts=tuple(charts))


@pytest.mark.discovery
@pytest.mark.slow
def test_it_draws_what_the_window_shows(
    tmp_path: Path, make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    run = tmp_path / "run"
    options = ["--width", "8", "--depth", "3", "--epochs", "1", "--record", "gates,overlap,npk,ntk"]
    options += ["--record-every", "45", "--quiet", "--out", str(run)]
    assert cli.main(["train", "--data", "digits", *options]) == 0
    window = make_viewer(paused=True).window
    window.context.send(ShowRun(str(run)))
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    specs = {name: spec for name, spec in all_panels().items() if name in PANELS}
    panels = panels_of_run(str(run), (), specs, (), ())
    last = RunReader(run).step
    for name, ours in zip(specs, panels, strict=True):
        host = window.docks.hosts[name]
        window.docks.show_panel(name)  # with many panels it may be behind a tab
        qtbot.waitUntil(lambda host=host: isinstance(host.shown_content(), Scene))
        qtbot.waitUntil(lambda host=host: host.drawn.view.step == last)
        assert deep_equal(ours.scene, on_paper(host.shown_content())), name
        assert ours.context.step == last
