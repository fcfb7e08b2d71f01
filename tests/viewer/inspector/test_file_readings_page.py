"""The part of a file's page on which it is said what the file does not say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.importing.reading_text import about_readings, fitting_in_words, reading_in_words
from dgn_engine.protocol.file_reading import (
    ACTIVATIONS,
    FileReading,
    FittingReading,
    OpenQuestion,
    Unsaid,
)
from dgn_engine.protocol.files import (
    FileListed,
    FileUseCheck,
    ReadingRefused,
    ReadingsFound,
    SayReading,
)
from dgn_engine.protocol.messages import Command, EngineReady
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.viewer.inspector.inspected import CATALOGUE, LISTED, press, tell

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


def page_of(inspector: Inspector, event: FileListed) -> FilePage:
    tell(inspector, EngineReady(CATALOGUE, "2"))
    tell(inspector, event)
    assert isinstance(inspector.page, FilePage)
    return inspector.page


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
    tell(inspector, replace(listed("activation"), ticket=8))
    assert isinstance(inspector.page, FilePage)
    assert shown(inspector.page) == {"activation"}
    assert set(ACTIVATIONS) < {
        str(inspector.page.reading.activation.itemData(n)) for n in range(len(ACTIVATIONS) + 1)
    }


def test_a_file_that_says_everything_has_no_such_part(inspector: Inspector) -> None:
    page = page_of(inspector, listed())
    assert page.reading.isHidden()
    assert page.go.isEnabled()


def test_what_is_filled_in_is_said_one_answer_after_the_other(
    inspector: Inspector, sent: list[Command]
) -> None:
    page = page_of(inspector, listed("activation", "geometry", "batchnorm", "norm_eps"))
    reading = page.reading
    QTest.keyClick(reading.activation, Qt.Key.Key_Down)
    assert sent == [SayReading(7, FileReading(activation="relu"))]
    tell(inspector, listed("geometry", "norm_eps", reading=FileReading(activation="relu")))
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
    reading.activation.pick("leaky_relu")
    reading.activation.activated.emit(reading.activation.currentIndex())
    said = FileReading(activation="leaky_relu:0.01")
    assert sent == [SayReading(7, said)]
    tell(inspector, listed(reading=said))
    assert reading.number.isVisible()
    reading.number.setValue(0.2)
    assert sent[1:] == [SayReading(7, FileReading(activation="leaky_relu:0.2"))]
    tell(inspector, listed(reading=FileReading(activation="leaky_relu:0.2")))
    assert (reading.activation.value(), reading.number.value()) == ("leaky_relu", 0.2)


@pytest.mark.parametrize("way", ["button", "Enter"])
def test_a_reading_that_fits_is_taken_from_the_list(
    inspector: Inspector, sent: list[Command], way: str
) -> None:
    page = page_of(inspector, listed("activation", "geometry"))
    assert not page.reading.readings.isVisible()
    tell(inspector, ReadingsFound(7, FileReading(), FOUND))
    reading = page.reading
    assert [reading.readings.item(n).text() for n in range(2)] == [
        "97.0 %: ReLU, stride 2, padding 1",
        "91.0 %: ReLU, padding 1, 2×2 max pooling behind each convolution",
    ]
    assert reading.readings.currentRow() == -1  # none is preselected
    assert not reading.take.isEnabled()
    reading.readings.setFocus()
    reading.readings.setCurrentRow(0)
    if way == "button":
        press(reading.take)
    else:
        QTest.keyClick(reading.readings, Qt.Key.Key_Return)
    assert sent == [SayReading(7, K4)]
    assert not page.go.isEnabled()
    tell(inspector, listed(reading=K4))
    assert (reading.activation.value(), reading.convolutions.text()) == ("relu", "s2p1,s2p1")
    assert reading.readings.count() == 2  # another can still be taken
    assert page.go.isEnabled()
    press(reading.clear)
    assert sent[1:] == [SayReading(7, FileReading())]
    tell(inspector, listed("activation", "geometry"))
    assert (reading.activation.value(), reading.convolutions.text()) == ("", "")


def test_readings_of_what_was_said_before_or_on_other_data_are_not_offered(
    inspector: Inspector,
) -> None:
    page = page_of(inspector, listed("geometry", reading=FileReading(activation="relu")))
    tell(inspector, ReadingsFound(7, FileReading(), FOUND))
    tell(inspector, ReadingsFound(8, FileReading(activation="relu"), FOUND))
    tell(inspector, ReadingsFound(7, FileReading(activation="relu"), FOUND, DataConfig("mnist")))
    assert page.reading.readings.count() == 0
    tell(inspector, ReadingsFound(7, FileReading(activation="relu"), FOUND))
    assert page.reading.readings.count() == 2


def test_bad_words_are_refused_below_their_field_and_nothing_else_changes(
    inspector: Inspector, sent: list[Command], qtbot: QtBot
) -> None:
    page = page_of(inspector, listed("norm_eps", reading=K4))
    reading = page.reading
    tell(inspector, ReadingRefused(7, "geometry", "There is no word 'foo'."))
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
    tell(inspector, ReadingsFound(7, FileReading(), FOUND))
    page.choose("gates")
    assert shown(page) == {"batchnorm", "norm_eps"}
    assert not page.reading.readings.isVisible()
    page.choose("compare")
    assert shown(page) == {"activation", "geometry", "batchnorm", "norm_eps"}
    assert page.reading.readings.isVisible()


def test_the_network_of_the_run_is_said_and_taken_back(
    inspector: Inspector, sent: list[Command]
) -> None:
    named = FileReading(net=NetConfig("cnn4", (("channels", 2),)))
    page = page_of(inspector, listed(reading=named))
    assert shown(page) == set()
    assert "cnn4 channels 2" in page.reading.about.text()
    press(page.reading.clear)
    assert sent == [SayReading(7, FileReading())]


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (FileReading("leaky_relu:0.2"), "LeakyReLU 0.2"),
        (FileReading(geometry="s1"), "no padding"),
        (FileReading(geometry="p1,max2,p1"), "padding 1, 2×2 max pooling behind convolution 1"),
        (FileReading(geometry="s2p1,p1"), "s2p1 p1"),
        (
            FileReading(geometry="p1,p1,avg3s2p1"),
            "padding 1, 3×3 average pooling of stride 2 with padding 1 behind the last",
        ),
        (FileReading(geometry="p1,adaptiveavg1"), "padding 1, average pooling to 1×1"),
        (FileReading(geometry="resnet,s1p1"), "ResNet with padding 1 first"),
        (
            FileReading("relu", batchnorm="after", norm_eps=1e-5),
            "ReLU, BatchNorm after the activation, ε 1e-5",
        ),
        (
            FileReading(order=("b", "a"), ignored=("mean", "std")),
            "layers in the order b, a, without mean and std",
        ),
    ],
)
def test_a_reading_in_words(reading: FileReading, words: str) -> None:
    assert reading_in_words(reading) == words
    assert fitting_in_words(FittingReading(reading)) == words


def test_data_that_do_not_decide_say_so() -> None:
    same = replace(FOUND[1], accuracy=0.97)
    assert "do not decide" in about_readings((FOUND[0], same))
    assert "do not decide" not in about_readings(FOUND)
    assert "no accuracy" in about_readings((FittingReading(K4),))
    assert about_readings(())
