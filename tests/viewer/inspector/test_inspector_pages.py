"""The inspector: one page at a time, driven by real clicks; what it sends and what it says."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import (
    DataConfig,
    GatingConfig,
    NetConfig,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.protocol.catalogue import (
    Catalogue,
    DataEntry,
    NetEntry,
    RegimeEntry,
    Setting,
)
from dgn_engine.protocol.commands import (
    BeginWithBiases,
    CheckNetwork,
    CloseFile,
    Command,
    CompareFile,
    InspectFile,
    PickTensors,
    StartRun,
    TakeGates,
)
from dgn_engine.protocol.events import (
    EngineReady,
    Event,
    FileClosed,
    FileListed,
    FileUseCheck,
    LayerInfo,
    LayerMatch,
    ProbeSet,
    Refused,
    RegimeSwapped,
    Rewired,
    RunStarted,
    SettingChanged,
    TensorInfo,
    Working,
)
from dgn_engine.protocol.file_events import CheckProgress, NetworkChecked
from dgn_viewer.inspector.formula import typeset
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.about_page import AboutPage
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.inspector.pages.run_page import RunPage
from dgn_viewer.scene.elements import Empty
from dgn_viewer.scene.panel_spec import About, PanelSpec, all_panels
from dgn_viewer.style.theme import DARK

LEFT = Qt.MouseButton.LeftButton
CATALOGUE = Catalogue(
    regimes=(
        RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True),
        RegimeEntry(
            "FL",
            "FL",
            "",
            own_gates=False,
            soft=False,
            trains_feature=False,
            group="Fixed gates",
            takes_gates=True,
        ),
        RegimeEntry("ReLU", "ReLU", "", own_gates=True, soft=False, trains_feature=False),
    ),
    nets=(
        NetEntry(
            "cnn4",
            "four convolutions",
            (
                Setting("channels", "channels", 128, 1, 4096),
                Setting("scale", "scale", 0.5, 0.1, 2.0),
                Setting("pool", "pool", "average", choices=("average", "flatten")),
                Setting("wrap", "wrap around", True),
                Setting("note", "note", ""),
            ),
        ),
        NetEntry("fc", "fc", (Setting("width", "width", 128, 1, 65536),)),
    ),
    data=(
        DataEntry("digits", "digits", True, ""),
        DataEntry("mnist", "MNIST", False, "Not here; tick download."),
        DataEntry("folder", "folder of images", True, "", takes_path=True),
    ),
    probes=("gates",),
    devices=("auto", "cpu"),
)
CONFIG = RunConfig(
    data=DataConfig("digits", binary=(4, 7), train_limit=500),
    net=NetConfig("fc", (("width", 64),), bias=True, init="bernoulli", sigma=0.25),
    gating=GatingConfig("DL", beta=6.0, epsilon=0.1, value_input="ones"),
    training=TrainingConfig("squared", "sgd", 0.05, momentum=0.9, batch=16, epochs=0, pace=200),
    seed=3,
    device="cpu",
    probe_examples=32,
)
STARTED = RunStarted(
    run=1,
    config=CONFIG,
    regime="DL",
    device="cpu",
    layers=tuple(LayerInfo(i, f"dense {i + 1}", "dense", (64,)) for i in range(3)),
    wiring=(0, 1, 2),
    parameters_value=1,
    parameters_feature=1,
    train_examples=10,
    test_examples=10,
    classes=2,
    steps_per_epoch=5,
    total_steps=0,
    probe_set=ProbeSet((), (), (), ""),
    paused=False,
)
LISTED = FileListed(
    ticket=7,
    path="/somewhere/<b>bold</b>.pt",
    file_name="<b>bold</b>.pt",
    tensors=(TensorInfo("<i>net.0</i>.weight", (64, 64), "float32"), TensorInfo("n", (), "int64")),
    matches=(
        LayerMatch("layer 1", (64, 64), "<i>net.0</i>.weight", (64, 64), True),
        LayerMatch("layer 2", (64, 64), "", None, True),
    ),
    fits=True,
    verdict="Its <u>gates</u> fit.",
)
SPEC = PanelSpec(
    "Overlap", (), lambda view: Empty("nothing"), About("Words with $K^V$.", (r"$\Lambda$",), "§3")
)


@pytest.fixture
def inspector(qtbot: QtBot, sent: list[Command]) -> Inspector:
    column = Inspector(sent.append)
    qtbot.addWidget(column)
    column.resize(column.sizeHint())
    column.show()
    return column


def tell(inspector: Inspector, event: Event) -> None:
    """What the window does with an event."""
    inspector.on_event(event, inspector.state.after(event))


@pytest.fixture
def form(inspector: Inspector) -> RunPage:
    tell(inspector, EngineReady(CATALOGUE, "2.13"))
    inspector.show_run_settings()
    return inspector.run_page


def press(button: QWidget) -> None:
    QTest.mouseClick(button, LEFT)


def close_button(inspector: Inspector) -> QToolButton:
    return inspector.findChild(QToolButton, options=Qt.FindChildOption.FindDirectChildrenOnly)


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


# a listed file


def test_a_listed_file_opens_its_page(inspector: Inspector) -> None:
    tell(inspector, LISTED)
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.tensors.toPlainText() == (
        "<i>net.0</i>.weight  64×64  float32\nn  scalar  int64"
    )


def test_nothing_that_a_file_says_is_read_as_markup(inspector: Inspector) -> None:
    tell(inspector, LISTED)
    assert inspector.page is not None
    labels = inspector.page.findChildren(QLabel)
    own = [label for label in labels if "<" in label.text()]
    assert len(own) == 3  # name, path, verdict
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in own)
    tips = [w.toolTip() for w in inspector.page.findChildren(QWidget) if w.toolTip()]
    assert not any("<b>" in text or "<i>" in text for text in tips)


def test_copy_gates_asks_for_them_and_the_page_goes_when_it_is_done(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    tell(inspector, LISTED)
    page = inspector.page
    assert isinstance(page, FilePage)
    press(page.go)
    assert sent == [TakeGates(7, restart_value=True)]
    assert inspector.page is page
    with qtbot.waitSignal(inspector.closed):
        tell(inspector, FileClosed(7))


def test_the_value_network_may_be_kept(inspector: Inspector, sent: list[Command]) -> None:
    tell(inspector, LISTED)
    assert isinstance(inspector.page, FilePage)
    QTest.keyClick(inspector.page.restart_value, Qt.Key.Key_Space)
    press(inspector.page.go)
    assert sent == [TakeGates(7, restart_value=False)]


def test_a_file_that_does_not_fit_can_only_be_closed(
    inspector: Inspector, sent: list[Command]
) -> None:
    tell(inspector, replace(LISTED, fits=False))
    assert isinstance(inspector.page, FilePage)
    press(inspector.page.go)
    assert sent == []
    press(inspector.page.close_file)
    assert sent == [CloseFile(7)]


def test_each_use_of_a_file_has_its_verdict_and_its_command(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    tell(inspector, EngineReady(CATALOGUE, "2"))
    weights = FileUseCheck(False, "Its weights do not fit.", LISTED.matches)
    tell(inspector, replace(LISTED, weights=weights, network=FileUseCheck(True, "A network.")))
    page = inspector.page
    assert isinstance(page, FilePage)
    assert page.purpose == "gates"
    QTest.keyClick(page.uses["weights"], Qt.Key.Key_Space)
    assert page.purpose == "weights"
    assert page.verdict.text() == "Its weights do not fit."
    assert not page.go.isEnabled()
    page.choose("compare")
    press(page.go)
    page.choose("network")
    press(page.go)
    assert sent == [CompareFile(7), InspectFile(7, RunConfig().data)]


def test_what_a_file_would_run_is_seen_before_anything_is_chosen(inspector: Inspector) -> None:
    names = ("os.system", "<b>eval</b>", *(f"x.f{i}" for i in range(9)))
    tell(inspector, replace(LISTED, would_call=names, would_import=("antigravity",)))
    page = inspector.page
    assert isinstance(page, FilePage)
    assert page.warning.isVisible()
    assert page.warning.property("role") == "refused"
    assert page.warning.text() == (
        "Warning: to load this file, Python would\ncall os.system\ncall <b>eval</b>\ncall x.f0\n"
        "call x.f1\ncall x.f2\ncall x.f3\n… and 6 more, at the end of the list\n"
        "Nothing of it was run here."
    )
    assert page.warning.textFormat() == Qt.TextFormat.PlainText
    first = min(button.y() for button in page.uses.values())
    assert page.warning.geometry().bottom() < first
    assert page.tensors.toPlainText().endswith("would call: x.f8\nwould import: antigravity")


def test_a_file_that_runs_nothing_has_no_warning(inspector: Inspector) -> None:
    tell(inspector, LISTED)
    assert isinstance(inspector.page, FilePage)
    assert not inspector.page.warning.isVisible()


def network_page(inspector: Inspector) -> FilePage:
    tell(inspector, EngineReady(CATALOGUE, "2"))
    refused = FileUseCheck(False, "It takes images with 3 channels.")
    tell(inspector, replace(LISTED, fits=False, network=refused))
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.purpose == "network"  # nothing else fits, but other data may
    assert inspector.page.verdict.text() == "It takes images with 3 channels."
    assert not inspector.page.go.isEnabled()
    return inspector.page


def test_the_verdict_on_a_network_follows_the_data_that_are_filled_in(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    page = network_page(inspector)
    section = page.data.section
    assert [section.name.itemText(i) for i in range(section.name.count())] == [
        "digits",
        "MNIST",
        "folder of images",
    ]
    section.name.pick("folder")
    qtbot.waitUntil(lambda: page.verdict.text().startswith("No folder is named"))
    assert sent == []
    qtbot.keyClicks(section.folder.line, "/a/cats")
    qtbot.waitUntil(lambda: bool(sent))
    cats = DataConfig("folder:/a/cats")
    assert sent == [CheckNetwork(7, cats)]
    assert page.verdict.text() == "Looking whether the network takes these data …"
    tell(inspector, CheckProgress(7, "decoding cats", 0.4))
    assert page.verdict.text() == "Decoding cats, 40 % …"
    tell(inspector, NetworkChecked(7, DataConfig(), FileUseCheck(True, "Of digits."), cats))
    assert not page.go.isEnabled()  # it was of other data
    tell(inspector, NetworkChecked(7, cats, FileUseCheck(True, "It fits."), cats))
    assert page.verdict.text() == "It fits."
    press(page.go)
    assert sent[1:] == [InspectFile(7, cats)]
    page.data.normalise.setCurrentIndex(page.data.normalise.findText("normalised as cifar10"))
    qtbot.waitUntil(lambda: len(sent) == 3)
    assert sent[2] == CheckNetwork(7, replace(cats, normalise="cifar10"))
    assert not page.go.isEnabled()
    tell(inspector, NetworkChecked(7, cats, FileUseCheck(True, "It fits."), cats))
    assert not page.go.isEnabled()


def test_a_pair_of_classes_and_a_limit_go_with_the_data_set_of_the_run(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    tell(inspector, EngineReady(CATALOGUE, "2"))
    tell(inspector, STARTED)
    page = network_page(inspector)
    page.data.section.name.pick("mnist")
    qtbot.waitUntil(lambda: len(sent) == 1)
    page.data.section.name.pick("digits")
    qtbot.waitUntil(lambda: len(sent) == 2)
    assert sent == [CheckNetwork(7, DataConfig("mnist")), CheckNetwork(7, CONFIG.data)]


def test_one_button_begins_a_run_with_biases_and_takes_them(
    inspector: Inspector, sent: list[Command]
) -> None:
    weights = FileUseCheck(False, "It has biases.", LISTED.matches, with_biases=True)
    tell(inspector, replace(LISTED, weights=weights, with_biases=True))
    page = inspector.page
    assert isinstance(page, FilePage)
    assert not page.with_biases.isHidden()
    assert not page.go.isHidden()  # gates may have biases in a run without any
    press(page.with_biases)
    page.choose("weights")
    assert page.go.isHidden()
    press(page.with_biases)
    assert sent == [
        BeginWithBiases(7, "gates", restart_value=True),
        BeginWithBiases(7, "weights"),
    ]
    page.choose("network")
    assert page.with_biases.isHidden()
    tell(inspector, FileClosed(7))
    tell(inspector, replace(LISTED, ticket=8))
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.with_biases.isHidden()


def test_a_file_is_opened_for_what_it_was_dropped_for(
    inspector: Inspector, sent: list[Command]
) -> None:
    tell(inspector, replace(LISTED, purpose="network"))
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.purpose == "network"


def test_a_comparison_is_begun_at_once_and_asks_only_where_it_cannot(
    inspector: Inspector, sent: list[Command]
) -> None:
    dropped = replace(LISTED, purpose="compare")
    tell(inspector, replace(dropped, network=FileUseCheck(True, "A network.")))
    assert sent == [CompareFile(7)]
    assert inspector.page is None
    tell(inspector, replace(dropped, network=FileUseCheck(False, "No network.")))
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.verdict.text() == "No network."


def test_tensors_are_picked_among_those_that_have_the_shape(
    inspector: Inspector, sent: list[Command]
) -> None:
    tensors = tuple(TensorInfo(f"t{i}", (64, 64), "float32") for i in range(3))
    rows = tuple(LayerMatch(f"layer {i + 1}", (64, 64), f"t{i}", (64, 64), True) for i in range(2))
    listed = replace(LISTED, tensors=(*tensors, TensorInfo("b", (64,), "float32")), matches=rows)
    tell(inspector, listed)
    page = inspector.page
    assert isinstance(page, FilePage)
    page.pick.setChecked(True)
    box = page.table.boxes[0]
    assert [box.itemText(i) for i in range(box.count())] == ["–", "t0", "t1", "t2"]
    QTest.keyClick(box, Qt.Key.Key_Down)
    QTest.keyClick(box, Qt.Key.Key_Down)
    assert sent[-1] == PickTensors(7, ("t2", "t1"))
    tell(inspector, replace(listed, verdict="As picked.", picked=True))
    assert inspector.page is page
    assert page.verdict.text() == "As picked."
    assert page.table.names() == ("t2", "t1")
    sent.clear()
    QTest.keyClick(box, Qt.Key.Key_Up)
    assert page.verdict.text() == "t1 is picked for two layers."
    assert not page.go.isEnabled()
    QTest.keyClick(box, Qt.Key.Key_Home)
    assert page.verdict.text() == "Pick a tensor for layer 1."
    assert sent == []


def test_leaving_the_page_forgets_the_file(inspector: Inspector, sent: list[Command]) -> None:
    tell(inspector, LISTED)
    tell(inspector, replace(LISTED, ticket=8))
    assert sent == [CloseFile(7)]
    press(close_button(inspector))
    assert sent == [CloseFile(7), CloseFile(8)]
    tell(inspector, FileClosed(8))
    assert inspector.page is None


def test_a_file_with_very_many_tensors_is_cut_short(inspector: Inspector) -> None:
    many = tuple(TensorInfo(f"w{i}", (1,), "float32") for i in range(5000))
    tell(inspector, replace(LISTED, tensors=many, ignored=("optimizer",)))
    assert isinstance(inspector.page, FilePage)
    lines = inspector.page.tensors.toPlainText().splitlines()
    assert lines[-2:] == ["… and 3,000 more", "not read: optimizer"]


# what am I seeing


def test_formulas_are_drawn_in_the_colour_of_the_theme(inspector: Inspector) -> None:
    inspector.show_about(SPEC)
    inspector.set_theme(DARK)
    assert isinstance(inspector.page, AboutPage)
    formula = inspector.page.formulas[0]
    assert formula.accessibleName() == r"$\Lambda$"
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
