"""Banners say what A and B are, which of their steps is shown, and which recorded run it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QAction, QPalette
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import RunConfig
from dgn_engine.protocol.branches import BranchChanges, BranchStatus, ComparisonOpened
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.settings import Settings
from dgn_viewer.shell.banner import Banner, ShownSteps, inspection_message, recording_message
from dgn_viewer.shell.window_theme import WindowTheme

OPENED = ComparisonOpened("second at step 40", "DL · 3 gate layers · step 40", "DL", ())
STARTED = RunStarted(
    1, RunConfig(), "DL", "cpu", (), (), 0, 0, 0, 0, 2, 0, 0, ProbeSet((), (), (), ""), True
)
COMPARED = RunState(run=STARTED, regime="FR-II", comparison=OPENED)
SHOWN = replace(COMPARED, recorded=RunShown("first", "finished", 90))


def test_only_the_branch_that_is_compared_with_can_be_stopped_there() -> None:
    changes = BranchChanges(regime="FR-II")
    status = BranchStatus("training", "b", "/runs/b", "p", 40, changes)
    same_name = replace(OPENED, name=changes.name_from(40))
    for folder, at_step, stops in (("/runs/b", None, 1), ("/runs/c", None, 0), ("/runs/b", 3, 0)):
        compared = replace(same_name, folder=folder, at_step=at_step)
        message = inspection_message(
            replace(COMPARED, comparison=compared, branch=status), ShownSteps()
        )
        assert message is not None
        assert message.buttons.count("run.stop_branch") == stops


@pytest.mark.parametrize(
    ("now", "shown", "said"),
    [
        (
            COMPARED,
            ShownSteps(),
            ("this run, FR-II", "second at step 40 · DL · 3 gate layers · step 40"),
        ),
        (
            COMPARED,
            ShownSteps(1200, 30, "second"),
            ("this run, FR-II · step 1,200", "second · step 30"),
        ),
        (
            COMPARED,
            ShownSteps(None, 0, "this run"),
            ("this run, FR-II", "this run · step 0"),
        ),
        (
            SHOWN,
            ShownSteps(45, 60, "second"),
            ("first, FR-II, not training · step 45", "second · step 60"),
        ),
    ],
)
def test_both_sides_are_named_with_the_step_that_is_shown(
    now: RunState, shown: ShownSteps, said: tuple[str, str]
) -> None:
    message = inspection_message(now, shown)
    assert message is not None
    assert tuple(text[0] for text in message.texts) == said


def state(shown: RunShown, watched: str = "") -> RunState:
    return RunState().after(replace(STARTED, watched=watched)).after(shown)


def test_a_live_run_says_so_and_cannot_go_on_here() -> None:
    message = recording_message(
        state(RunShown("mine", "running", 5, replaced="before")).moved_to_step(9)
    )
    assert message is not None
    assert message.texts[0][0].startswith("mine · ")
    assert message.buttons == ("file.go_back",)


@pytest.mark.parametrize(("watched", "buttons"), [("", ("run.toggle",)), ("Net of a.py", ())])
def test_a_run_that_ended_goes_on_only_where_it_is_ours(
    watched: str, buttons: tuple[str, ...]
) -> None:
    message = recording_message(state(RunShown("mine", "finished", 5), watched))
    assert message is not None
    assert message.texts[0][0] == "Recorded run mine · step 5 · finished – not training"
    assert message.buttons == buttons


def test_a_run_of_another_program_is_not_controlled_here_and_has_no_epochs() -> None:
    shown = RunShown("mine", "finished", 5)
    assert state(shown).has_run
    assert not state(shown, "Net of a.py").has_run
    assert not state(shown, "Net of a.py").has_epochs


def test_a_session_is_never_live() -> None:
    assert not RunShown("mine", "running", 5, file_name="mine.dgn").is_live


def test_the_banner_of_a_second_run_speaks_of_that_one(qtbot: QtBot) -> None:
    window, back = QWidget(), QAction("Back")
    qtbot.addWidget(window)
    shown = Banner(
        "bar.recorded", "Recorded run", recording_message, {"file.go_back": back}, window
    )
    for name, replaced in (("first", ""), ("second", "/runs/first"), ("third", "")):
        shown.show_state(state(RunShown(name, "finished", 5, replaced=replaced)))
        (words,) = shown.shown_texts()
        assert f"run {name} · step 5" in words
        assert shown.buttons["file.go_back"].isVisibleTo(shown) == bool(replaced)
        shown.show_state(COMPARED)
        assert shown.isHidden()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "settings.ini")


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication) -> Iterator[QWidget]:
    before = QPalette(qapp.palette())
    window = QWidget()
    qtbot.addWidget(window)
    yield window
    qapp.setPalette(before)
    qapp.setStyleSheet("")


def test_a_choice_is_told_and_kept_unless_it_is_that_of_a_session(
    window: QWidget, settings: Settings
) -> None:
    theme, told = WindowTheme(settings, "", window), list[Theme]()
    theme.changed.connect(told.append)
    settings.theme = "light"
    theme.select_theme("dark")
    assert (theme.choice, theme.now, settings.theme, told) == ("dark", DARK, "dark", [DARK])
    theme.select_theme("light", keep=False)
    assert (theme.choice, theme.now, settings.theme, told[1:]) == ("light", LIGHT, "dark", [LIGHT])


def test_a_choice_at_start_stands_before_that_of_the_settings(
    window: QWidget, settings: Settings
) -> None:
    settings.theme = "dark"
    assert WindowTheme(settings, "", window).now == DARK
    assert WindowTheme(settings, "light", window).now == LIGHT


def test_numbers_are_written_as_the_settings_have_them_once_it_is_applied(
    window: QWidget, settings: Settings
) -> None:
    theme = WindowTheme(settings, "light", window)
    settings.numbers = "1 234,5"
    theme.apply_theme()
    assert theme.now.numbers == settings.numbers
    settings.numbers = LIGHT.numbers
    theme.apply_theme()
    assert theme.now == LIGHT
