"""B as a recorded step of another run, and as the run on show by another spelling of its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dgn_engine.protocol.branches import ComparedFrames, ComparisonOpened
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.runs import FramesRecorded
from dgn_engine.protocol.training import Measured
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.views.compared_step import ComparedStep
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from tests.engine.panels.pictures import run

BEGUN = run((2,), (3,))
SCORES = tuple(Measured(step, 0.0, 1.0 / step, 0.5, 0.5, 0.5) for step in (10, 20, 30))


def test_curves_of_b_end_at_its_step() -> None:
    history = History()
    history.on_event(replace(BEGUN, run=1))
    for score in SCORES:
        history.on_event(score)
    history.on_event(ComparisonOpened("other", "", "DL", (), scores=SCORES, folder="/runs/other"))
    training = all_panels()["training"]

    def ends() -> list[int]:
        scene = training.draw(history.view({}))
        curves = [one for chart in scene.charts for one in chart.curves if one.role == "compared"]  # type: ignore[union-attr]
        assert curves
        return sorted({int(curve.x[-1]) for curve in curves})

    assert ends() == [30]
    for step, last in ((20, 20), (25, 20), (30, 30)):
        past = Past(step, Frame(1, step, 0.0, 0.0, None, {}))
        history.show_as_b(ComparedStep(ComparedFrames("other", "/runs/other", BEGUN), past))
        assert ends() == [last]


def test_the_own_run_is_known_by_any_spelling_of_its_folder(tmp_path: Path) -> None:
    folder, link = tmp_path / "run", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (tmp_path / "other").mkdir()
    history = History()
    history.on_event(replace(BEGUN, run=1))
    history.on_event(FramesRecorded(str(folder)))
    for spelling, own in ((link, True), (f"{folder}/", True), (tmp_path / "other", False)):
        history.on_event(ComparisonOpened("b", "", "DL", (), folder=str(spelling), at_step=5))
        compared = history.view({}).compared
        assert compared is not None
        assert compared.own is own
    assert is_same_folder("", "")
    assert not is_same_folder("", Path.cwd())
