"""The page of a listed file: what it says of it, what it offers, what it sends."""

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import (
    DataConfig,
    RunConfig,
)
from dgn_engine.protocol.branches import CompareFile
from dgn_engine.protocol.files import (
    BeginWithBiases,
    CheckNetwork,
    CheckProgress,
    CloseFile,
    FileClosed,
    FileUseCheck,
    InspectFile,
    LayerMatch,
    NetworkChecked,
    PickTensors,
    TakeGates,
    TensorInfo,
)
from dgn_engine.protocol.messages import Command, EngineReady
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.viewer.inspector.inspected import (
    CATALOGUE,
    CONFIG,
    LISTED,
    STARTED,
    close_button,
    press,
    tell,
)


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
    assert page.tensors.toPlainText().endswith("would call x.f8\nwould import antigravity")


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


def test_names_that_are_only_looked_up_are_in_the_warning(inspector: Inspector) -> None:
    names = ("torch.serialization.os.system", "mine.layers.helper")
    tell(inspector, replace(LISTED, would_look_up=names, would_import=("mine.layers",)))
    page = inspector.page
    assert isinstance(page, FilePage)
    assert page.warning.isVisible()
    assert page.warning.text().splitlines()[1:3] == [
        "look up torch.serialization.os.system",
        "import mine.layers and look up mine.layers.helper",
    ]
