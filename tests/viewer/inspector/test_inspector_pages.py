"""The inspector: one page at a time, driven by real clicks; what it sends and what it says."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from dgn_engine.config import (
    NetConfig,
    RunConfig,
)
from dgn_engine.protocol.messages import Command, Refused, Working
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunsListed
from dgn_engine.protocol.training import RegimeSwapped, Rewired, SettingChanged, StartRun
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.scene.theme import DARK
from dgn_viewer.inspector.formula import typeset
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.about_page import AboutPage
from dgn_viewer.inspector.pages.run_page import RunPage
from tests.viewer.inspector.inspected import (
    CONFIG,
    SPEC,
    STARTED,
    close_button,
    press,
    tell,
)

# one page at a time


def test_a_page_opens_in_place_of_the_other(inspector: Inspector, qtbot: QtBot) -> None:
    with qtbot.waitSignal(inspector.page_opened):
        inspector.show_run_settings()
    with qtbot.waitSignal(inspector.page_opened):
        inspector.show_about(SPEC)
    assert isinstance(inspector.page, AboutPage)
    assert not inspector.run_page.isVisible()
    with qtbot.waitSignal(inspector.closed):
        press(close_button(inspector))
    assert inspector.page is None


def test_escape_closes_the_page(inspector: Inspector, qtbot: QtBot) -> None:
    inspector.show_about(SPEC)
    with qtbot.waitSignal(inspector.closed):
        QTest.keyClick(inspector, Qt.Key.Key_Escape)


def test_the_theme_reaches_the_open_page(inspector: Inspector) -> None:
    for show in (inspector.show_run_settings, lambda: inspector.show_about(SPEC)):
        show()
        inspector.set_theme(DARK)
        assert not inspector.grab().isNull()


# the form of a run


def test_before_the_engine_is_ready_nothing_can_be_started(inspector: Inspector) -> None:
    inspector.show_run_settings()
    assert not inspector.run_page.start.isEnabled()
    assert inspector.run_page.message.text() == "loading torch…"


def test_start_run_sends_the_default_configuration(form: RunPage, sent: list[Command]) -> None:
    press(form.start)
    assert len(sent) == 1
    command = sent[0]
    assert isinstance(command, StartRun)
    defaults = RunConfig()
    assert replace(command.config, net=defaults.net) == defaults
    assert command.config.net == NetConfig("fc", (("width", 128),))


def test_what_is_filled_in_comes_back_unchanged(form: RunPage) -> None:
    form.form.fill(CONFIG)
    assert form.form.config() == CONFIG


def test_a_net_asks_its_own_questions(form: RunPage) -> None:
    form.form.net.name.pick("cnn4")
    options = dict(form.form.config().net.options)
    assert options == {
        "channels": 128,
        "scale": 0.5,
        "pool": "average",
        "wrap": True,
        "note": "",
    }


def test_rows_that_do_not_matter_are_hidden(form: RunPage) -> None:
    fields = form.form.fields
    fields["gating.regime"].pick("ReLU")
    assert not fields["gating.beta"].isVisibleTo(form)
    assert not fields["gating.value_input"].isVisibleTo(form)
    fields["gating.regime"].pick("FL")
    assert fields["gating.gates_from"].isVisibleTo(form)
    assert fields["gating.pretrain_epochs"].isVisibleTo(form)
    fields["gating.gates_from"].show_value("a.pt")
    assert not fields["gating.pretrain_epochs"].isVisibleTo(form)
    assert not fields["training.momentum"].isVisibleTo(form)
    fields["training.optimiser"].pick("sgd")
    assert fields["training.momentum"].isVisibleTo(form)


def test_a_download_is_offered_only_where_the_data_are_missing(form: RunPage) -> None:
    name, download = form.form.fields["data.name"], form.form.fields["data.download"]
    assert not download.isVisibleTo(form)
    name.pick("mnist")
    assert download.isVisibleTo(form)
    assert form.form.data.hint.text() == "Not here; tick download."
    download.setChecked(True)
    assert form.form.config().data.download
    name.pick("digits")
    assert not form.form.config().data.download


def test_a_folder_of_images_is_named_by_its_path(form: RunPage, sent: list[Command]) -> None:
    form.form.data.name.pick("folder")
    press(form.start)
    assert sent == []
    assert "No folder is named" in form.message.text()
    form.form.data.folder.line.setFocus()
    QTest.keyClicks(form.form.data.folder.line, "/data/flowers")
    press(form.start)
    command = sent[0]
    assert isinstance(command, StartRun)
    assert command.config.data.name == "folder:/data/flowers"


def test_bad_input_is_one_sentence_beside_the_form(form: RunPage, sent: list[Command]) -> None:
    form.form.fields["data.binary"].show_value((4, 4))
    press(form.start)
    assert sent == []
    assert form.message.isVisible()
    assert "two different classes" in form.message.text()


def test_a_list_of_runs_that_waits_for_the_engine_says_for_what(inspector: Inspector) -> None:
    inspector.show_runs()
    message = inspector.runs_page.message
    assert message.isVisible()
    tell(inspector, Working("Reading mnist", 0.4))
    assert "Reading mnist, 40 %" in message.text()
    tell(inspector, RunsListed("runs", ()))
    assert "Reading mnist" not in message.text()
    tell(inspector, Working("Reading mnist", 0.6))  # the list is there
    assert "Reading mnist" not in message.text()
    inspector.show_about(SPEC)
    inspector.show_state(RunState(working="Reading mnist, 60 %"))
    inspector.show_runs()  # it is read anew, and the engine may say nothing more for long
    assert "Reading mnist, 60 %" in message.text()


def test_the_engines_refusal_stands_beside_the_form(form: RunPage, inspector: Inspector) -> None:
    press(form.start)
    assert not form.start.isEnabled()
    tell(inspector, Working("Reading mnist", 0.4))
    assert form.message.text() == "Reading mnist, 40 %"
    tell(inspector, Refused("start this run", "MNIST is not in /data."))
    assert form.message.text() == "MNIST is not in /data."
    assert form.start.isEnabled()


def test_a_refusal_of_something_else_is_not_the_forms_business(
    form: RunPage, inspector: Inspector
) -> None:
    tell(inspector, Refused("swap to FL", "No."))
    assert not form.message.isVisible()


def test_the_form_goes_when_its_run_begins(
    form: RunPage, inspector: Inspector, qtbot: QtBot
) -> None:
    tell(inspector, STARTED)  # not asked for here: a reset, say
    assert inspector.page is form
    press(form.start)
    with qtbot.waitSignal(inspector.closed):
        tell(inspector, STARTED)


def test_as_now_fills_in_the_dials_as_they_stand(form: RunPage, inspector: Inspector) -> None:
    tell(inspector, STARTED)
    tell(inspector, SettingChanged(5, 0.01, 9.0, "random", 0.0))
    tell(inspector, Rewired(6, (2, 1, 0)))
    form.form.fill(RunConfig())
    press(form.as_now)
    config = form.form.config()
    assert config.training.learning_rate == 0.01
    assert config.gating.beta == 9.0
    assert config.gating.value_input == "random"
    assert config.gating.wiring == (2, 1, 0)
    form.form.keep_wiring.setChecked(False)
    assert form.form.config().gating.wiring == ()
    tell(inspector, RegimeSwapped(7, "DL", "ReLU", (), (), (), ()))
    press(form.as_now)
    assert form.form.config().gating.regime == "ReLU"


# what am I seeing


def test_formulas_are_drawn_in_the_colour_of_the_theme(inspector: Inspector) -> None:
    inspector.show_about(SPEC)
    inspector.set_theme(DARK)
    assert isinstance(inspector.page, AboutPage)
    formula = inspector.page.formulas[0]
    assert formula.accessibleName() == "Λ"  # read out as a letter, not as TeX
    image = formula.grab().toImage()
    light = [
        image.pixelColor(x, y).lightness()
        for x in range(image.width())
        for y in range(image.height())
    ]
    assert max(light) > 200


def test_a_formula_is_set_finer_on_a_dense_screen() -> None:
    plain, dense = typeset(r"$\Lambda$", 1.0), typeset(r"$\Lambda$", 2.0)
    assert dense.shape[0] >= 1.7 * plain.shape[0]


@pytest.mark.discovery
def test_every_formula_of_every_panel_can_be_set() -> None:
    for spec in all_panels().values():
        for tex in spec.about.formulas:
            assert typeset(tex, 1.0).max() > 0


def test_buttons_have_names_for_screen_readers(form: RunPage, inspector: Inspector) -> None:
    buttons = [*inspector.findChildren(QPushButton), *inspector.findChildren(QToolButton)]
    assert buttons
    assert all(button.text() or button.accessibleName() for button in buttons)
