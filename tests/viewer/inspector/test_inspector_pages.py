"""The inspector: one page at a time, driven by real clicks; what it sends and what it says."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.figures.paper import print_style
from dgn_engine.panels.overlap import PANEL as OVERLAP
from dgn_engine.panels.spectrum import PANEL as SPECTRUM
from dgn_engine.protocol.catalogue import Catalogue, DataEntry, NetEntry, RegimeEntry, Setting
from dgn_engine.protocol.messages import Command, Refused, Working
from dgn_engine.protocol.training import (
    RegimeSwapped,
    Rewire,
    Rewired,
    SettingChanged,
    SetValueInput,
    StartRun,
    SwapRegime,
)
from dgn_engine.scene.panel_spec import PanelSpec, View, all_panels
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.inspector.formula import render_coverage
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.about_page import AboutPage
from dgn_viewer.inspector.pages.run_page import RunPage
from dgn_viewer.inspector.run_form import RunForm
from dgn_viewer.widgets.grouped_box import GroupedBox
from tests.refusals import refused
from tests.viewer.inspector.inspected import CONFIG, SPEC, STARTED, click, close_button, send_event
from tests.viewer.seen_charts import colours_in

# one page at a time


def test_a_page_opens_in_place_of_the_other(inspector: Inspector, qtbot: QtBot) -> None:
    with qtbot.waitSignal(inspector.page_opened):
        inspector.show_run_settings()
    with qtbot.waitSignal(inspector.page_opened):
        inspector.show_about(SPEC)
    assert isinstance(inspector.page, AboutPage)
    assert not inspector.run_page.isVisible()
    with qtbot.waitSignal(inspector.closed):
        click(close_button(inspector))
    assert inspector.page is None


# the form of a run


def test_what_is_filled_in_comes_back_unchanged_and_a_net_asks_its_own_questions(
    form: RunPage,
) -> None:
    form.form.show_config(CONFIG)
    assert form.form.read_run_config() == CONFIG
    form.form.net.name.pick_value("cnn4")
    asked = {"channels": 128, "scale": 0.5, "pool": "average", "wrap": True, "note": ""}
    assert dict(form.form.read_run_config().net.options) == asked


def test_rows_that_do_not_matter_are_hidden(form: RunPage) -> None:
    fields = form.form.fields
    fields["gating.regime"].pick_value("ReLU")
    assert not fields["gating.beta"].isVisibleTo(form)
    assert not fields["gating.value_input"].isVisibleTo(form)
    fields["gating.regime"].pick_value("FL")
    assert fields["gating.gates_from"].isVisibleTo(form)
    assert fields["gating.pretrain_epochs"].isVisibleTo(form)
    fields["gating.gates_from"].show_value("a.pt")
    assert not fields["gating.pretrain_epochs"].isVisibleTo(form)
    assert not fields["training.momentum"].isVisibleTo(form)
    fields["training.optimiser"].pick_value("sgd")
    assert fields["training.momentum"].isVisibleTo(form)


def test_a_download_is_offered_only_where_the_data_are_missing(form: RunPage) -> None:
    name, download = form.form.fields["data.name"], form.form.fields["data.download"]
    assert not download.isVisibleTo(form)
    name.pick_value("mnist")
    assert download.isVisibleTo(form)
    assert form.form.data.hint.text() == "Not here; tick download."
    download.setChecked(True)
    assert form.form.read_run_config().data.download
    name.pick_value("digits")
    assert not form.form.read_run_config().data.download


def test_a_folder_of_images_is_named_by_its_path(form: RunPage, sent: list[Command]) -> None:
    form.form.data.name.pick_value("folder")
    click(form.start)
    assert sent == []
    assert "No folder chosen" in form.message.text()
    form.form.data.folder.line.setFocus()
    QTest.keyClicks(form.form.data.folder.line, "/data/flowers")
    click(form.start)
    command = sent[0]
    assert isinstance(command, StartRun)
    assert command.config.data.name == "folder:/data/flowers"


def test_bad_input_is_one_sentence_beside_the_form(form: RunPage, sent: list[Command]) -> None:
    form.form.fields["data.binary"].show_value((4, 4))
    click(form.start)
    assert sent == []
    assert form.message.isVisible()
    assert "two different classes" in form.message.text()


def test_the_engines_refusal_stands_beside_the_form(form: RunPage, inspector: Inspector) -> None:
    click(form.start)
    assert not form.start.isEnabled()
    send_event(inspector, Working("Reading mnist", 0.4))
    assert form.message.text() == "Reading mnist, 40 %"
    send_event(inspector, Refused("start this run", "MNIST is not in /data."))
    assert form.message.text() == "MNIST is not in /data."
    assert form.start.isEnabled()


def test_the_form_goes_when_its_run_begins(
    form: RunPage, inspector: Inspector, qtbot: QtBot
) -> None:
    send_event(inspector, STARTED)  # not asked for here: a reset, say
    assert inspector.page is form
    click(form.start)
    with qtbot.waitSignal(inspector.closed):
        send_event(inspector, STARTED)


def test_as_now_fills_in_the_dials_as_they_stand(form: RunPage, inspector: Inspector) -> None:
    send_event(inspector, STARTED)
    send_event(inspector, SettingChanged(5, 0.01, 9.0, "random", 0.0))
    send_event(inspector, Rewired(6, (2, 1, 0)))
    form.form.show_config(RunConfig())
    click(form.as_now)
    config = form.form.read_run_config()
    assert config.training.learning_rate == 0.01
    assert config.gating.beta == 9.0
    assert config.gating.value_input == "random"
    assert config.gating.wiring == (2, 1, 0)
    form.form.keep_wiring.setChecked(False)
    assert form.form.read_run_config().gating.wiring == ()
    send_event(inspector, RegimeSwapped(7, "DL", "ReLU", (), (), (), ()))
    click(form.as_now)
    assert form.form.read_run_config().gating.regime == "ReLU"


# what am I seeing


def test_formulas_are_drawn_in_the_colour_of_the_theme(inspector: Inspector) -> None:
    inspector.show_about(SPEC)
    inspector.set_theme(DARK)
    assert isinstance(inspector.page, AboutPage)
    formula = inspector.page.formulas[0]
    assert formula.accessibleName() == "Λ"  # read out as a letter, not as TeX
    assert max(QColor(one).lightness() for one in colours_in(formula)) > 200


@pytest.mark.discovery
def test_every_formula_of_every_panel_can_be_set() -> None:
    for spec in all_panels().values():
        for tex in spec.about.formulas:
            assert render_coverage(tex, 1.0).max() > 0


def test_a_formula_waits_while_another_thread_draws_a_figure() -> None:
    """matplotlib's parser of formulas is one for the whole process."""
    done = threading.Event()

    def render() -> None:
        render_coverage(r"$\rho_i$", 1.0)
        done.set()

    thread = threading.Thread(target=render)
    with print_style():
        thread.start()
        assert not done.wait(0.2)
    thread.join()
    assert done.is_set()


FIXED = "Fixed gates"
OFFERED = Catalogue(
    regimes=(
        RegimeEntry("ReLU", "ReLU", "", True, False, False, "One network"),
        RegimeEntry("FL", "FL", "", False, False, False, FIXED, takes_gates=True),
        RegimeEntry("FRG", "FRG", "", False, False, False, FIXED, drawn_gates=True),
        RegimeEntry("DL", "DL", "", False, True, True, "Learnt gates"),
    ),
    nets=(NetEntry("fc", "fc", (Setting("width", "width", 128, 1, 65536),)),),
    data=(
        DataEntry("digits", "digits", True, ""),
        DataEntry("correlated", "correlated", True, "", (Setting("rho", "ρ", 0.9, 0, 1),)),
    ),
    probes=("gates",),
    devices=("auto", "cpu"),
)


@pytest.fixture
def fields(qtbot: QtBot) -> RunForm:
    widget = RunForm()
    qtbot.addWidget(widget)
    widget.offer_catalogue(OFFERED)
    widget.show()
    return widget


def test_what_a_data_set_asks_is_filled_in_below_it(fields: RunForm) -> None:
    fields.data.name.pick_value("correlated")
    assert fields.read_run_config().data.options == (("rho", 0.9),)
    fields.show_config(RunConfig(data=DataConfig("correlated", options=(("rho", 0.5),))))
    assert fields.read_run_config().data.options == (("rho", 0.5),)
    fields.data.name.pick_value("digits")
    assert fields.read_run_config().data.options == ()


ADVANCED = RunConfig(
    data=DataConfig(label_noise=0.25, pixels="random", variant_seed=3, test_limit=50),
    net=NetConfig("fc", (("width", 64),)),
    gating=GatingConfig("FRG", tiling=(2, 1), rotation=(0, -3), shift=(0, 0), gate_probability=0.3),
    training=TrainingConfig(weights_from="a.pt", until=0.99, augmentation="davidnet"),
)


def test_the_advanced_fields_stay_folded_until_one_of_them_is_unusual(fields: RunForm) -> None:
    advanced = fields.advanced
    fields.show_config(RunConfig(net=ADVANCED.net))
    assert not advanced.content.isVisible()
    fields.show_config(ADVANCED)
    assert advanced.content.isVisible()
    assert fields.read_run_config() == ADVANCED
    QTest.mouseClick(advanced.button, Qt.MouseButton.LeftButton)
    assert not advanced.content.isVisible()
    assert advanced.button.text() == "Advanced: label noise and 9 more"
    assert fields.read_run_config() == ADVANCED  # folded is not forgotten


def test_gates_are_neither_tiled_nor_turned_where_a_network_makes_its_own(fields: RunForm) -> None:
    fields.show_config(ADVANCED)
    assert fields.fields["gating.gate_probability"].isVisibleTo(fields)
    fields.fields["gating.regime"].pick_value("ReLU")
    assert not fields.fields["gating.gate_probability"].isVisibleTo(fields)
    assert not fields.fields["gating.tiling"].isVisibleTo(fields)
    gating = fields.read_run_config().gating
    assert (gating.tiling, gating.rotation, gating.gate_probability) == ((), (), 0.5)


def test_a_list_that_is_none_is_refused_in_a_sentence(fields: RunForm) -> None:
    fields.fields["gating.regime"].pick_value("DL")
    fields.fields["gating.tiling"].setText("2, x")
    with refused("not-a-number", value="2, x"):
        fields.read_run_config()


def test_regimes_out_of_sight_stand_under_the_headings_of_their_groups(fields: RunForm) -> None:
    box = fields.fields["gating.regime"]
    assert isinstance(box, GroupedBox)
    _, more = box.menus
    listed = [action.text() for action in more.actions() if not action.isSeparator()]
    heads = [a.text() for a in more.actions() if a.text() and not a.isEnabled()]
    assert heads == ["One network", FIXED, "Learnt gates"]
    assert listed.index(heads[1]) + 3 == listed.index(heads[2])


MakeView = Callable[..., View]


NOISE = RegimeEntry("FR-II", "", "", own_gates=False, soft=False, trains_feature=False)


def any_regime(view: View) -> View:
    """With a regime of fixed random gates to choose."""
    return replace(view, regimes=(NOISE,))


def page_of(
    spec: PanelSpec, view: View, sent: list[Command], qtbot: QtBot
) -> tuple[AboutPage, list[View]]:
    """The page, and the view that it sees: what stands in the list."""
    seen = [view]
    page = AboutPage(spec, LIGHT, lambda: seen[0], sent.append)
    qtbot.addWidget(page)
    return page, seen


def test_what_to_try_next_is_asked_of_the_engine_at_once(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    page, _ = page_of(OVERLAP, any_regime(make_view("soft")), sent, qtbot)
    for _, button in page.trials:
        assert button.isEnabled()
        button.click()
    assert sent == [SwapRegime("FR-II"), Rewire((2, 0, 1))]
    page, _ = page_of(SPECTRUM, any_regime(make_view("soft")), sent, qtbot)
    page.trials[1][1].click()
    assert sent[-1] == SetValueInput("ones")


def test_the_letters_of_the_formulas_are_explained(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    page, _ = page_of(SPECTRUM, make_view("soft"), sent, qtbot)
    words = [label.text() for label in page.findChildren(QLabel)]
    assert any(text.startswith("<i>Σ</i>: inner products of the inputs") for text in words)
    assert any(text.startswith("Source: Lakshminarayanan") for text in words)


def test_what_cannot_be_tried_now_is_disabled_and_says_so(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    page, seen = page_of(OVERLAP, View(), sent, qtbot)
    assert not any(button.isEnabled() for _, button in page.trials)
    assert "Not possible" in page.trials[0][1].toolTip()
    seen[0] = any_regime(make_view("soft"))
    page.refresh_trials()
    assert all(button.isEnabled() for _, button in page.trials)
    seen[0] = replace(any_regime(make_view("soft")), regime="FR-II")
    page.refresh_trials()
    assert [button.isEnabled() for _, button in page.trials] == [False, True]
    run = any_regime(make_view("soft")).run
    assert run is not None
    uneven = (replace(run.layers[0], shape=(3,)), *run.layers[1:])
    seen[0] = replace(any_regime(make_view("soft")), run=replace(run, layers=uneven))
    page.refresh_trials()
    assert [button.isEnabled() for _, button in page.trials] == [True, False]
    seen[0] = replace(any_regime(make_view("soft")), run=replace(run, inspected="resnet18.pth"))
    page.refresh_trials()
    assert not any(button.isEnabled() for _, button in page.trials)
    assert sent == []
