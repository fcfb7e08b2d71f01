"""The page of a listed file: what it says of it, what it offers, what it sends."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.errors import Where
from dgn_engine.importing.reading_text import about_readings, fitting_in_words, reading_in_words
from dgn_engine.protocol.branches import CompareFile
from dgn_engine.protocol.file_reading import (
    ACTIVATIONS,
    FileReading,
    FittingReading,
    OpenQuestion,
    Unsaid,
)
from dgn_engine.protocol.files import (
    BeginWithBiases,
    CheckNetwork,
    CheckProgress,
    CloseFile,
    FileClosed,
    FileListed,
    FileUseCheck,
    InspectFile,
    LayerMatch,
    NetworkChecked,
    PickTensors,
    ReadingRefused,
    ReadingsFound,
    SayReading,
    TakeGates,
    TensorInfo,
)
from dgn_engine.protocol.messages import Command, EngineReady
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.snapshots import Recorded
from tests.viewer.inspector.inspected import (
    CATALOGUE,
    CONFIG,
    LISTED,
    STARTED,
    click,
    close_button,
    send_event,
)


def page_of(inspector: Inspector, event: FileListed) -> FilePage:
    for before in (EngineReady(CATALOGUE, "2"), STARTED):
        send_event(inspector, before)
    send_event(inspector, event)
    assert isinstance(inspector.page, FilePage)
    return inspector.page


def test_nothing_that_a_file_says_is_read_as_markup(inspector: Inspector) -> None:
    send_event(inspector, LISTED)
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
    page = page_of(inspector, LISTED)
    click(page.go)
    assert sent == [TakeGates(7, restart_value=True)]
    assert inspector.page is page
    with qtbot.waitSignal(inspector.closed):
        send_event(inspector, FileClosed(7))


def test_a_file_that_does_not_fit_can_only_be_closed(
    inspector: Inspector, sent: list[Command]
) -> None:
    page = page_of(inspector, replace(LISTED, fits=False))
    click(page.go)
    assert sent == []
    click(page.close_file)
    assert sent == [CloseFile(7)]


def test_each_use_of_a_file_has_its_verdict_and_its_command(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    weights = FileUseCheck(False, "Its weights do not fit.", LISTED.matches)
    page = page_of(
        inspector, replace(LISTED, weights=weights, network=FileUseCheck(True, "A network."))
    )
    assert page.purpose == "gates"
    QTest.keyClick(page.uses["weights"], Qt.Key.Key_Space)
    assert page.purpose == "weights"
    assert page.verdict.text() == "Its weights do not fit."
    assert not page.go.isEnabled()
    page.choose_purpose("compare")
    click(page.go)
    page.choose_purpose("network")
    click(page.go)
    assert sent == [CompareFile(7), InspectFile(7, CONFIG.data)]


def test_what_a_file_would_run_is_seen_before_anything_is_chosen(inspector: Inspector) -> None:
    names = ("os.system", "<b>eval</b>", *(f"x.f{i}" for i in range(9)))
    page = page_of(inspector, replace(LISTED, would_call=names, would_import=("antigravity",)))
    assert page.warning.isVisible()
    assert page.warning.property("role") == "refused"
    lines = page.warning.text().splitlines()
    assert lines[1:7] == [f"call {name}" for name in names[:6]]
    assert "6 more" in lines[7]
    assert page.warning.textFormat() == Qt.TextFormat.PlainText
    first = min(button.y() for button in page.uses.values())
    assert page.warning.geometry().bottom() < first
    assert page.tensors.toPlainText().endswith("would call x.f8\nwould import antigravity")


def network_page(inspector: Inspector) -> FilePage:
    refused = FileUseCheck(False, "It takes images with 3 channels.")
    page = page_of(inspector, replace(LISTED, fits=False, network=refused))
    assert page.purpose == "network"  # nothing else fits, but other data may
    assert page.verdict.text() == "It takes images with 3 channels."
    assert not page.go.isEnabled()
    return page


def test_the_verdict_on_a_network_follows_the_data_that_are_filled_in(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    page = network_page(inspector)
    section = page.data.section
    offered = [section.name.itemText(i) for i in range(section.name.count())]
    assert offered == ["digits", "MNIST", "folder of images"]
    section.name.pick_value("folder")
    qtbot.waitUntil(lambda: page.verdict.text() != "It takes images with 3 channels.")
    assert sent == []
    qtbot.keyClicks(section.folder.line, "/a/cats")
    qtbot.waitUntil(lambda: bool(sent))
    cats = DataConfig("folder:/a/cats")
    assert sent == [CheckNetwork(7, cats)]
    assert not page.go.isEnabled()
    send_event(inspector, CheckProgress(7, "decoding cats", 0.4))
    assert page.verdict.text() == "Decoding cats, 40 % …"
    send_event(inspector, NetworkChecked(7, DataConfig(), FileUseCheck(True, "Of digits."), cats))
    assert not page.go.isEnabled()  # it was of other data
    send_event(inspector, NetworkChecked(7, cats, FileUseCheck(True, "It fits."), cats))
    assert page.verdict.text() == "It fits."
    missing = FileUseCheck(False, "Use " + Where("data.root") + ".")
    send_event(inspector, NetworkChecked(7, cats, missing, cats))
    assert page.verdict.text() == "Use 'data folder'."  # as its field is named, not its option
    send_event(inspector, NetworkChecked(7, cats, FileUseCheck(True, "It fits."), cats))
    click(page.go)
    assert sent[1:] == [InspectFile(7, cats)]
    page.data.normalise.setCurrentIndex(page.data.normalise.findText("normalised as cifar10"))
    qtbot.waitUntil(lambda: len(sent) == 3)
    assert sent[2] == CheckNetwork(7, replace(cats, normalise="cifar10"))
    assert not page.go.isEnabled()
    send_event(inspector, NetworkChecked(7, cats, FileUseCheck(True, "It fits."), cats))
    assert not page.go.isEnabled()


def test_a_pair_of_classes_and_a_limit_go_with_the_data_set_of_the_run(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    send_event(inspector, EngineReady(CATALOGUE, "2"))
    send_event(inspector, STARTED)
    page = network_page(inspector)
    page.data.section.name.pick_value("mnist")
    qtbot.waitUntil(lambda: len(sent) == 1)
    page.data.section.name.pick_value("digits")
    qtbot.waitUntil(lambda: len(sent) == 2)
    assert sent == [CheckNetwork(7, DataConfig("mnist")), CheckNetwork(7, CONFIG.data)]


def test_one_button_begins_a_run_with_biases_and_takes_them(
    inspector: Inspector, sent: list[Command]
) -> None:
    weights = FileUseCheck(False, "It has biases.", LISTED.matches, with_biases=True)
    page = page_of(inspector, replace(LISTED, weights=weights, with_biases=True))
    assert not page.with_biases.isHidden()
    assert not page.go.isHidden()  # gates may have biases in a run without any
    click(page.with_biases)
    page.choose_purpose("weights")
    assert page.go.isHidden()
    click(page.with_biases)
    assert sent == [BeginWithBiases(7, "gates", restart_value=True), BeginWithBiases(7, "weights")]
    page.choose_purpose("network")
    assert page.with_biases.isHidden()
    send_event(inspector, FileClosed(7))
    send_event(inspector, replace(LISTED, ticket=8))
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.with_biases.isHidden()


def test_a_comparison_is_begun_at_once_and_asks_only_where_it_cannot(
    inspector: Inspector, sent: list[Command]
) -> None:
    dropped = replace(LISTED, purpose="compare")
    send_event(inspector, replace(dropped, network=FileUseCheck(True, "A network.")))
    assert sent == [CompareFile(7)]
    assert inspector.page is None
    send_event(inspector, replace(dropped, network=FileUseCheck(False, "No network.")))
    assert isinstance(inspector.page, FilePage)
    assert inspector.page.verdict.text() == "No network."


def test_tensors_are_picked_among_those_that_have_the_shape(
    inspector: Inspector, sent: list[Command]
) -> None:
    tensors = tuple(TensorInfo(f"t{i}", (64, 64), "float32") for i in range(3))
    rows = tuple(LayerMatch(f"layer {i + 1}", (64, 64), f"t{i}", (64, 64), True) for i in range(2))
    listed = replace(LISTED, tensors=(*tensors, TensorInfo("b", (64,), "float32")), matches=rows)
    page = page_of(inspector, listed)
    page.pick.setChecked(True)
    box = page.table.boxes[0]
    assert [box.itemText(i) for i in range(box.count())] == ["–", "t0", "t1", "t2"]
    QTest.keyClick(box, Qt.Key.Key_Down)
    QTest.keyClick(box, Qt.Key.Key_Down)
    assert sent[-1] == PickTensors(7, ("t2", "t1"))
    send_event(inspector, replace(listed, verdict="As picked.", picked=True))
    assert inspector.page is page
    assert page.verdict.text() == "As picked."
    assert page.table.picked_names() == ("t2", "t1")
    sent.clear()
    QTest.keyClick(box, Qt.Key.Key_Up)
    assert page.verdict.text().startswith("t1 ")
    assert not page.go.isEnabled()
    QTest.keyClick(box, Qt.Key.Key_Home)
    assert "layer 1" in page.verdict.text()
    assert sent == []


def test_leaving_the_page_forgets_the_file(inspector: Inspector, sent: list[Command]) -> None:
    send_event(inspector, LISTED)
    other = replace(LISTED, ticket=8, path=f"/elsewhere/{LISTED.file_name}")  # of the same name
    send_event(inspector, other)
    assert sent == [CloseFile(7)]
    assert inspector.page is not None
    said = [label.text().replace("\u200b", "") for label in inspector.page.findChildren(QLabel)]
    assert (other.path in said, LISTED.path in said) == (True, False)
    click(close_button(inspector))
    assert sent == [CloseFile(7), CloseFile(8)]
    send_event(inspector, FileClosed(8))
    assert inspector.page is None


def test_a_file_with_very_many_tensors_is_cut_short(inspector: Inspector) -> None:
    many = tuple(TensorInfo(f"w{i}", (1,), "float32") for i in range(5000))
    page = page_of(inspector, replace(LISTED, tensors=many, ignored=("optimizer",)))
    lines = page.tensors.toPlainText().splitlines()
    assert "3,000 more" in lines[-2]
    assert lines[-1].endswith(": optimizer")


def test_names_that_are_only_looked_up_are_in_the_warning(inspector: Inspector) -> None:
    names = ("torch.serialization.os.system", "mine.layers.helper")
    page = page_of(inspector, replace(LISTED, would_look_up=names, would_import=("mine.layers",)))
    assert page.warning.isVisible()
    assert page.warning.text().splitlines()[1:3] == [
        "look up torch.serialization.os.system",
        "import mine.layers and look up mine.layers.helper",
    ]


K4 = FileReading(activation="relu", geometry="s2p1,s2p1")
USUAL = FileReading(activation="relu", geometry="p1,max2,p1,max2")
FOUND = (FittingReading(K4, 0.97, 360), FittingReading(USUAL, 0.91, 360))
NOTHING = FileReading()


def listed(*about: Unsaid, reading: FileReading = NOTHING) -> FileListed:
    questions = tuple(OpenQuestion(one, f"the {one}", f"--{one}") for one in about)
    fits = FileUseCheck(not questions, "A network.")
    return replace(
        LISTED, fits=False, purpose="network", network=fits, questions=questions, reading=reading
    )


def shown(page: FilePage) -> set[str]:
    return {name for name, field in page.reading.fields.items() if field.isVisible()}


def test_a_field_is_there_for_each_question_and_no_answer_is_filled_in(
    inspector: Inspector, sent: list[Command]
) -> None:
    every: tuple[Unsaid, ...] = (
        "activation",
        "geometry",
        "batchnorm",
        "norm_eps",
        "order",
        "ignored",
    )
    page = page_of(inspector, listed(*every))
    assert shown(page) == set(every)
    assert all(field.value() == "" for field in page.reading.fields.values())
    assert all(field.accessibleName() for field in page.reading.fields.values())
    assert not page.go.isEnabled()
    assert sent == []
    send_event(inspector, replace(listed("activation"), ticket=8))
    assert isinstance(inspector.page, FilePage)
    assert shown(inspector.page) == {"activation"}
    page = page_of(inspector, replace(listed(), ticket=9))  # which says everything
    assert (page.reading.isHidden(), page.go.isEnabled()) == (True, True)
    assert set(ACTIVATIONS) < {
        str(inspector.page.reading.activation.itemData(n)) for n in range(len(ACTIVATIONS) + 1)
    }


def test_what_is_filled_in_is_said_one_answer_after_the_other(
    inspector: Inspector, sent: list[Command]
) -> None:
    page = page_of(inspector, listed("activation", "geometry", "batchnorm", "norm_eps"))
    reading = page.reading
    QTest.keyClick(reading.activation, Qt.Key.Key_Down)
    assert sent == [SayReading(7, FileReading(activation="relu"))]
    send_event(inspector, listed("geometry", "norm_eps", reading=FileReading(activation="relu")))
    assert shown(page) == {"activation", "geometry", "norm_eps"}
    QTest.keyClicks(reading.convolutions, "s2p1,s2p1")
    assert len(sent) == 1  # not while it is typed
    QTest.keyClick(reading.convolutions, Qt.Key.Key_Return)
    QTest.keyClicks(reading.norm_eps, "0,001")
    QTest.keyClick(reading.norm_eps, Qt.Key.Key_Return)
    assert sent[1:] == [SayReading(7, K4), SayReading(7, replace(K4, norm_eps=0.001))]


def test_an_activation_with_a_number_has_a_field_for_it(
    inspector: Inspector, sent: list[Command]
) -> None:
    page = page_of(inspector, listed("activation"))
    reading = page.reading
    assert not reading.number.isVisible()
    reading.activation.pick_value("leaky_relu")
    reading.activation.activated.emit(reading.activation.currentIndex())
    said = FileReading(activation="leaky_relu:0.01")
    assert sent == [SayReading(7, said)]
    send_event(inspector, listed(reading=said))
    assert reading.number.isVisible()
    reading.number.setValue(0.2)
    assert sent[1:] == [SayReading(7, FileReading(activation="leaky_relu:0.2"))]
    send_event(inspector, listed(reading=FileReading(activation="leaky_relu:0.2")))
    assert (reading.activation.value(), reading.number.value()) == ("leaky_relu", 0.2)


@pytest.mark.parametrize("way", ["button", "Enter"])
def test_a_reading_that_fits_is_taken_from_the_list(
    inspector: Inspector, sent: list[Command], way: str
) -> None:
    page = page_of(inspector, listed("activation", "geometry"))
    assert not page.reading.readings.isVisible()
    send_event(inspector, ReadingsFound(7, FileReading(), FOUND))
    reading = page.reading
    assert [reading.readings.item(n).text() for n in range(2)] == [
        "97.0 %: ReLU, stride 2, padding 1",
        "91.0 %: ReLU, padding 1, 2×2 max pooling after each convolution",
    ]
    assert reading.readings.currentRow() == -1  # none is preselected
    assert not reading.take.isEnabled()
    reading.readings.setFocus()
    reading.readings.setCurrentRow(0)
    if way == "button":
        click(reading.take)
    else:
        QTest.keyClick(reading.readings, Qt.Key.Key_Return)
    assert sent == [SayReading(7, K4)]
    assert not page.go.isEnabled()
    send_event(inspector, listed(reading=K4))
    assert (reading.activation.value(), reading.convolutions.text()) == ("relu", "s2p1,s2p1")
    assert reading.readings.count() == 2  # another can still be taken
    assert page.go.isEnabled()
    click(reading.clear)
    assert sent[1:] == [SayReading(7, FileReading())]
    send_event(inspector, listed("activation", "geometry"))
    assert (reading.activation.value(), reading.convolutions.text()) == ("", "")


def test_readings_of_what_was_said_before_or_on_other_data_are_not_offered(
    inspector: Inspector,
) -> None:
    page = page_of(inspector, listed("geometry", reading=FileReading(activation="relu")))
    send_event(inspector, ReadingsFound(7, FileReading(), FOUND))
    send_event(inspector, ReadingsFound(8, FileReading(activation="relu"), FOUND))
    send_event(
        inspector, ReadingsFound(7, FileReading(activation="relu"), FOUND, DataConfig("mnist"))
    )
    assert page.reading.readings.count() == 0
    send_event(inspector, ReadingsFound(7, FileReading(activation="relu"), FOUND))
    assert page.reading.readings.count() == 2


def test_bad_words_are_refused_below_their_field_and_nothing_else_changes(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    page = page_of(inspector, listed("norm_eps", reading=K4))
    reading = page.reading
    send_event(inspector, ReadingRefused(7, "geometry", "There is no word 'foo'."))
    below = [label for label in reading.findChildren(QLabel) if "foo" in label.text()]
    assert len(below) == 1
    assert below[0].property("role") == "refused"
    qtbot.waitUntil(lambda: below[0].y() > reading.convolutions.y())
    assert reading.convolutions.accessibleDescription() == "There is no word 'foo'."
    assert (reading.activation.value(), page.verdict.text()) == ("relu", "A network.")
    QTest.keyClicks(reading.convolutions, ",")
    assert not below[0].isVisible()  # it is being mended
    for text in ("abc", "-1", "0"):
        reading.norm_eps.setText(text)
        QTest.keyClick(reading.norm_eps, Qt.Key.Key_Return)
        assert reading.norm_eps.problem
    assert not any(isinstance(one, SayReading) and one.reading.norm_eps for one in sent)


def test_weights_that_are_copied_depend_on_batchnorm_alone(inspector: Inspector) -> None:
    page = page_of(inspector, listed("activation", "geometry", "batchnorm", "norm_eps"))
    send_event(inspector, ReadingsFound(7, FileReading(), FOUND))
    page.choose_purpose("gates")
    assert shown(page) == {"batchnorm", "norm_eps"}
    assert not page.reading.readings.isVisible()
    page.choose_purpose("compare")
    assert shown(page) == {"activation", "geometry", "batchnorm", "norm_eps"}
    assert page.reading.readings.isVisible()


def test_the_network_of_the_run_is_said_and_taken_back(
    inspector: Inspector, sent: list[Command]
) -> None:
    named = FileReading(net=NetConfig("cnn4", (("channels", 2),)))
    page = page_of(inspector, listed(reading=named))
    assert shown(page) == set()
    assert "cnn4 channels 2" in page.reading.about.text()
    click(page.reading.clear)
    assert sent == [SayReading(7, FileReading())]


READINGS = (
    FileReading("leaky_relu:0.2"),
    FileReading(geometry="s1"),
    FileReading(geometry="p1,max2,p1"),
    FileReading(geometry="s2p1,p1"),
    FileReading(geometry="p1,p1,avg3s2p1"),
    FileReading(geometry="p1,adaptiveavg1"),
    FileReading(geometry="resnet,s1p1"),
    FileReading("relu", batchnorm="after", norm_eps=1e-5),
    FileReading(order=("b", "a"), ignored=("mean", "std")),
)


def test_readings_in_words(recorded: Recorded) -> None:
    words = [reading_in_words(reading) for reading in READINGS]
    recorded(words)
    assert [fitting_in_words(FittingReading(reading)) for reading in READINGS] == words


def test_data_that_do_not_decide_say_so() -> None:
    same = replace(FOUND[1], accuracy=0.97)
    words = [
        about_readings(found) for found in ((FOUND[0], same), FOUND, (FittingReading(K4),), ())
    ]
    assert len(set(words)) == 4
