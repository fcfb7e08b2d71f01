"""What a window and its figures say of a run that has diverged, and of its way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtCore import QObject

from dgn_engine.figures.provenance import context_of
from dgn_engine.panels.training import PANEL
from dgn_engine.protocol.events import Diverged, Event, RegimeSwapped
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.axes import step_axis
from dgn_engine.scene.elements import Curve, Scene
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.event_marks import marks_of
from dgn_viewer.notices import Notices
from tests.viewer.layer_strip.strips import started

RUN = started()
BACK = RegimeSwapped(7, "DL", "DL", (), (), (), (), undone="Back from divergence", of_step=5)


def after(*events: Event) -> RunState:
    state = RunState()
    for event in events:
        state = state.after(event)
    return state


def test_a_diverged_run_offers_its_way_back_until_it_is_taken(qapp: object) -> None:
    owner, states, taken = QObject(), [after(RUN)], []
    notices = Notices(owner, lambda: states[-1], go_back=lambda: taken.append(1))

    def tell(event: Event) -> None:
        states.append(states[-1].after(event))
        notices.on_event(event)

    tell(Diverged(7, "loss", 6, back_to=5))
    entry = notices.shown()
    assert entry is not None
    assert entry.stays
    (button,) = notices.buttons(entry)
    assert button.text == "Go back to step 5"
    for number in ("step 7", "step 6", "step 5"):
        assert number in entry.notice.text
    button.do()
    assert taken == [1]
    tell(BACK)
    assert notices.buttons(entry) == ()
    tell(Diverged(9, "weights", 9))
    entry = notices.shown()
    assert entry is not None
    assert notices.buttons(entry) == ()  # no state is kept


def test_only_a_state_of_before_takes_the_divergence_back() -> None:
    state = after(RUN, Diverged(7, back_to=5))
    assert (state.diverged, state.back_to) == (7, 5)
    swapped = state.after(replace(BACK, undone=""))
    assert (swapped.diverged, swapped.back_to) == (7, 5)
    back = state.after(BACK)
    assert (back.diverged, back.back_to) == (None, None)
    assert [(mark.label, mark.kind, mark.x) for mark in marks_of(BACK, state)] == [
        ("going back", "undo", 7.0)
    ]


def test_figures_and_time_axes_name_the_step_of_the_divergence() -> None:
    sound, lost = View(run=RUN, step=5), View(run=RUN, step=5, diverged=7)
    scene = Scene((), (), 5)
    assert "diverged" not in context_of(sound, PANEL, scene).caption
    assert "step 5, diverged at step 7" in context_of(lost, PANEL, scene).caption
    curve = Curve("train", np.array([1, 5]), np.array([1.0, 0.5]))
    assert [step_axis([curve], view).limits for view in (sound, lost)] == [(0.0, 5.0), (0.0, 7.0)]
