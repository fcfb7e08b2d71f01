"""`dgn figure` draws of a recorded run what the window shows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine import cli
from dgn_engine.figures.recorded_panels import panels_of_run
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.scene.elements import Scene, Shown, same
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer

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
        window.docks.show(name)  # with many panels it may be behind a tab
        qtbot.waitUntil(lambda host=host: isinstance(host.shown(), Scene))
        qtbot.waitUntil(lambda host=host: host.drawn.view.step == last)
        assert same(ours.scene, on_paper(host.shown())), name
        assert ours.context.step == last
