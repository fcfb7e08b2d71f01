"""A branch under another regime and a comparison of two steps, by mouse and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.protocol.messages import Event
from dgn_engine.scene.differences import differences
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.headless_run import HeadlessRun
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.compare_page import ComparePage
from tests.viewer.conftest import small_run
from tests.viewer.display.conftest import put_in_place
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display
EPOCH, EPOCHS = 45, 6
LAST = EPOCH * EPOCHS
FROM = 31  # of which there is no checkpoint


class Quiet:
    """Who looks at a run without a window: nobody."""

    def stepped(self, step: int) -> None:
        """Nobody looks."""

    def on_event(self, event: Event) -> None:
        """Nobody listens."""


def assert_bit_equal(one: Path, other: Path) -> None:
    """The last weights of two runs."""
    ours, theirs = (run_checkpoints.load(RunReader(path).checkpoint()) for path in (one, other))
    assert ours.tensors.keys() == theirs.tensors.keys()
    assert all(torch.equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors)


def test_a_branch_under_another_regime_and_its_run_equal_headless_runs_and_are_compared(
    make_viewer: Callable[..., Viewer], user: XUser, qtbot: QtBot, tmp_path: Path
) -> None:
    config = small_run(pace=0.0, epochs=EPOCHS)
    viewer = make_viewer(config, paused=True, home="home")
    window = viewer.window
    put_in_place(window, user, qtbot)
    user.key("shift+period")  # one epoch
    qtbot.waitUntil(lambda: window.run_state.step == EPOCH and not window.run_state.running)
    user.key("ctrl+b")
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, ComparePage))
    page = window.inspector.page
    assert isinstance(page, ComparePage)
    qtbot.waitUntil(lambda: page.regime.findData("FR-II") > 0)
    user.press(page.regime)
    qtbot.waitUntil(page.regime.view().isVisible)
    user.type("FR-II")
    user.key("Return")
    qtbot.waitUntil(lambda: page.regime.value() == "FR-II")
    user.press(page.origin.line)
    user.key("ctrl+a")
    user.type(str(FROM))
    qtbot.waitUntil(lambda: f"Step {FROM}: " in page.origin_words.text())
    user.press(page.start)
    qtbot.waitUntil(lambda: window.run_state.branch is not None)
    window.setFocus()
    user.key("space")  # both train side by side
    qtbot.waitUntil(lambda: window.run_state.step == LAST and not window.run_state.running)

    def over() -> bool:
        branch = window.run_state.branch
        assert branch is not None
        assert branch.phase != "failed", branch.remark
        return branch.phase == "finished"

    qtbot.waitUntil(over)
    branch = window.run_state.branch
    assert branch is not None
    assert (branch.from_step, branch.step) == (FROM, LAST)
    parent = Path(branch.folder).parent / branch.parent

    def told() -> str:
        page.renew()
        return str(page.table.texts())

    qtbot.waitUntil(lambda: page.table.isVisible() and "FR-II" in told())

    def compared() -> tuple[str, int | None]:
        opened = window.run_state.comparison
        return ("", None) if opened is None else (opened.folder, opened.at_step)

    assert compared() == (branch.folder, None)
    # A recorded step of the run as B, and the branch again, whatever the page has chosen.
    window.time.bar.slider.setFocus()
    user.key("Home")
    cursor = window.time.cursor
    qtbot.waitUntil(lambda: cursor.step is not None and not cursor.waiting)
    first = cursor.step
    assert first is not None
    user.key("ctrl+alt+b")
    qtbot.waitUntil(lambda: compared() == (str(parent), first))
    qtbot.waitUntil(lambda: window.history.view({}).compared.own)  # type: ignore[union-attr]
    page.renew()
    [loss] = [
        one for one in differences(window.history.view({}), None).scores if one.name == "train loss"
    ]
    ours, theirs = loss.numbers
    assert ours is not None
    assert ours.step == LAST
    assert theirs is None or theirs.step <= first  # not A's own score
    user.press(page.compare)
    qtbot.waitUntil(lambda: compared() == (branch.folder, None))
    qtbot.waitUntil(lambda: "FR-II" in told())
    assert viewer.close()
    alone, changed = tmp_path / "alone", tmp_path / "changed"
    HeadlessRun(Quiet(), lambda: False).train(config, RunFolder.create(alone, config))
    assert_bit_equal(parent, alone)
    changes = BranchChanges(regime="FR-II")
    HeadlessRun(Quiet(), lambda: False).branch_off(parent, FROM, changes, changed, None)
    assert_bit_equal(Path(branch.folder), changed)
