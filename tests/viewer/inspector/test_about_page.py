from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from dgn_engine.panels.overlap import PANEL as OVERLAP
from dgn_engine.panels.spectrum import PANEL as SPECTRUM
from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import Rewire, SetValueInput, SwapRegime
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.inspector.pages.about_page import AboutPage

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
    assert "cannot be tried" in page.trials[0][1].toolTip()
    seen[0] = any_regime(make_view("soft"))
    page.refresh()
    assert all(button.isEnabled() for _, button in page.trials)
    seen[0] = replace(any_regime(make_view("soft")), regime="FR-II")
    page.refresh()
    assert [button.isEnabled() for _, button in page.trials] == [False, True]
    run = any_regime(make_view("soft")).run
    assert run is not None
    uneven = (replace(run.layers[0], shape=(3,)), *run.layers[1:])
    seen[0] = replace(any_regime(make_view("soft")), run=replace(run, layers=uneven))
    page.refresh()
    assert [button.isEnabled() for _, button in page.trials] == [True, False]
    seen[0] = replace(any_regime(make_view("soft")), run=replace(run, inspected="resnet18.pth"))
    page.refresh()
    assert not any(button.isEnabled() for _, button in page.trials)
    assert sent == []


def test_the_page_says_how_its_numbers_are_computed(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    page, _ = page_of(SPECTRUM, any_regime(make_view("soft")), sent, qtbot)
    words = [label.text() for label in page.findChildren(QLabel)]
    assert "How it is computed here" in words
    assert any("float64" in text for text in words)
    assert "What to try next" in words
