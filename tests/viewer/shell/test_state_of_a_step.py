"""What strip and toolbar show of a step that is looked back at is what they showed live then."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.config import GatingConfig
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.messages import Command, EngineReady, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import HistoryReplayed
from dgn_engine.protocol.training import (
    Change,
    RegimeSwapped,
    Rewired,
    SettingChanged,
)
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from dgn_viewer.shell.toolbar import RunToolbar
from tests.engine.views.begun_run import make_run_started
from tests.engine.views.past_frames import make_frame

REGIMES = ("DL", "FL", "FR-II", "ReLU")
CATALOGUE = Catalogue(
    tuple(
        RegimeEntry(name, name, name, name == "ReLU", name == "DL", name in ("DL", "ReLU"))
        for name in REGIMES
    ),
    (),
    (),
    (),
    ("cpu",),
)
BEGAN = make_run_started(gating=GatingConfig(gates_from=""))
LAST = 60


@dataclass
class Bars:
    strip: LayersStrip
    toolbar: RunToolbar

    def shown(self, state: RunState, past: int | None = None) -> tuple[object, ...]:
        """Show this state; what is then on the screen."""
        self.strip.show_state(state, past)
        self.toolbar.show_state(state, past)
        strip, bar = self.strip, self.toolbar
        chips = [
            (chip._content.note, chip._content.turn, chip._content.wired)
            for chip in strip.canvas.chips
        ]
        return (
            strip.headline,
            strip.canvas.shown_order,
            tuple(chips),
            strip._state.has_frozen_gates,
            bar.regime.value,
            bar.value_input.value,
            bar.beta.value(),
            bar.learning_rate.value(),
            bar.pace.value(),
        )


@pytest.fixture
def bars(qtbot: QtBot, sent: list[Command]) -> Bars:
    found = Bars(LayersStrip(sent.append), RunToolbar(sent.append))
    for part in (found.strip, found.toolbar):
        qtbot.addWidget(part)
        part.resize(1100, part.height())
    return found


def drawn_changes(draws: np.random.Generator) -> list[Change]:
    """Some changes of a run in order, often several at one step; some are an undo."""
    state = RunState(catalogue=CATALOGUE).after(BEGAN)
    changes: list[Change] = []
    steps = sorted(draws.integers(1, LAST, size=12).tolist())
    for step in steps:
        made: list[Change] = []
        order = tuple(draws.permutation(4).tolist())
        turns = tuple(draws.integers(-3, 4, size=4).tolist())
        dials = SettingChanged(
            step,
            float(draws.choice([1e-3, 0.5])),
            float(draws.choice([2.0, 4.0])),
            ("image", "ones")[int(draws.integers(2))],
            float(draws.choice([0.0, 50.0])),
        )
        regime = str(draws.choice(REGIMES))
        source = "resnet18.pth" if regime == "FL" else ""
        swap = RegimeSwapped(step, state.regime, regime, (), (), (), (), source, 7)
        match int(draws.integers(5)):
            case 0:
                made = [swap]
            case 1:
                made = [Rewired(step, order, turns)]
            case 2:
                made = [dials]
            case 3:
                made = [ProbeSetChanged(step, 20, f"set {step}")]
            case 4:  # an undo puts back all of it
                made = [replace(swap, undone="Undo it"), Rewired(step, order, turns), dials]
        for change in made:
            state = state.after(change)
        changes += made
    return changes


def at_end_of(step: int, changes: list[Change]) -> RunState:
    state = RunState(catalogue=CATALOGUE).after(BEGAN)
    for change in changes:
        if change.step <= step:
            state = state.after(change)
    return state


@pytest.mark.wide
@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_every_step_shows_what_was_shown_live_then(bars: Bars, seed: int, resumed: bool) -> None:
    changes = drawn_changes(np.random.default_rng(seed))
    now, history = at_end_of(LAST, changes), History()
    on: list[Event] = [EngineReady(CATALOGUE, "2.13"), BEGAN, *changes]
    if resumed:  # the run that goes on says how it is now, its log how it began
        on[1] = replace(
            BEGAN,
            regime=now.regime,
            wiring=now.wiring,
            rotation=now.rotation,
            parameters_feature=now.parameters_feature,
        )
    for event in on:
        history.on_event(event)
    if resumed:
        history.record_left_out(HistoryReplayed((), began=BEGAN))
    today = bars.shown(history.state)
    made = {change.step for change in changes}
    for step in sorted({0, *made, *(step - 1 for step in made)}):
        live = bars.shown(at_end_of(step, changes))
        then = at_end_of(step, changes)
        recorded = replace(
            make_frame(step, regime=then.regime), wiring=then.wiring, probe_digest=then.probe_digest
        )
        history.look_back(Past(step, recorded))
        assert bars.shown(history.shown_state, step) == live
        assert (history.view({}).regime, history.view({}).wiring) == (then.regime, then.wiring)
    history.look_back(None)
    assert bars.shown(history.shown_state) == today


def test_the_past_cannot_be_changed_and_a_click_on_it_offers_live(
    bars: Bars, sent: list[Command]
) -> None:
    state = RunState(catalogue=CATALOGUE).after(BEGAN)
    strip, toolbar = bars.strip, bars.toolbar
    clicked: list[str] = []
    strip.live_wanted.connect(lambda: clicked.append("strip"))
    toolbar.live_wanted.connect(lambda: clicked.append("toolbar"))
    for past, enabled in ((None, True), (7, False), (None, True)):
        bars.shown(state, past)
        fields = (toolbar.regime, toolbar.value_input, toolbar.learning_rate, toolbar.pace)
        assert [field.isEnabled() for field in fields] == [enabled] * 4
        chip = strip.canvas.chips[1]
        QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
        QTest.keyClick(chip, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
        assert clicked == ([] if enabled else ["strip"])
        assert bool(sent) == enabled
        clicked.clear()
        sent.clear()
        strip.canvas.clear_pending()
