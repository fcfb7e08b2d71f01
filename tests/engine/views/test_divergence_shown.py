"""What figures and time axes say of a run that has diverged, and when it is over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.figures.provenance import context_of
from dgn_engine.panels.training import PANEL
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Diverged, RegimeSwapped
from dgn_engine.scene.axes import step_axis
from dgn_engine.scene.elements import Curve, Scene
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.event_marks import marks_of
from tests.engine.views.begun_run import started

RUN = started()
BACK = RegimeSwapped(7, "DL", "DL", (), (), (), (), undone="Back from divergence", of_step=5)


def after(*events: Event) -> RunState:
    state = RunState()
    for event in events:
        state = state.after(event)
    return state


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
