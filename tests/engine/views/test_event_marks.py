"""What happened to a run is said whole where it stands on a time axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.figures.provenance import make_provenance
from dgn_engine.panels.training import PANEL
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Diverged, Paused, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.scene.axes import step_axis
from dgn_engine.scene.elements import Curve, Mark, Scene
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.event_marks import changes_network, make_marks
from dgn_engine.views.history import History
from tests.engine.panels.pictures import started_run

BEFORE = RunState().after(started_run((2,), (3,), (2,)))
SWAP = RegimeSwapped(5, "DL", "FL", ("value weights",), (), (), ())
DIALS = SettingChanged(7, 1e-3, 4.0, "image", 0.0)


@pytest.mark.parametrize(
    ("event", "kind", "label", "words"),
    [
        (SWAP, "swap", "FL", "DL → FL at step 5. Kept: value weights."),
        (RegimeSwapped(5, "DL", "FL", (), (), (), (), "x.pt"), "drop", "FL", "gates of x.pt"),
        (
            RegimeSwapped(5, "FL", "DL", (), (), (), (), undone="Undo regime FL", of_step=5),
            "undo",
            "undo",
            "step 5",
        ),
        (
            RegimeSwapped(9, "DL", "FL", (), (), (), (), undone="Redo regime FL", of_step=5),
            "redo",
            "redo",
            "continues from step 9",
        ),
        (WeightsTaken(4, "x.pt", 2), "drop", "weights", "weights of x.pt in 2 layers"),
        (Rewired(3, (1, 0, 2)), "permutation", "π", "in this order: G2 G1 G3."),
        (Rewired(3, (0, 1, 2), (0, 5, 0)), "rotation", "↻", "rotated by 0, 5, 0 units."),
        (
            Rewired(3, (0, 1, 2), (0, 5, 0), (1, 2)),
            "rotation",
            "↻",
            "rotated by 0, 5, 0 units and shifted by 1, 2 positions.",
        ),
        (Diverged(8), "diverged", "diverged", "step 8: the loss is no longer finite"),
        (RunContinued(1200), "run", "resumed", "continues from step 1,200"),
    ],
)
def test_an_event_has_a_mark_of_its_kind_with_its_whole_sentence(
    event: Event, kind: str, label: str, words: str
) -> None:
    (mark,) = make_marks(event, BEFORE)
    assert (mark.kind, mark.label) == (kind, label)
    assert words in mark.sentence
    assert mark.x == event.step  # type: ignore[attr-defined]  # all of these have a step


def test_a_dial_says_from_what_to_what() -> None:
    begun = BEFORE.after(DIALS)
    now = SettingChanged(9, 0.000123456, 10.0, "ones", 0.0)
    assert make_marks(now, begun) == (
        Mark(9.0, "β 10", "dial", "β 4 → 10."),
        Mark(9.0, "lr 1.23×10⁻⁴", "dial", "Learning rate 0.001 → 1.23×10⁻⁴."),
        Mark(9.0, "input ones", "dial", "Value input image → ones."),
    )
    assert [mark.sentence for mark in make_marks(DIALS, RunState())] == [
        "β 4.",
        "Learning rate 0.001.",
        "Value input image.",
    ]


def test_a_pause_and_the_same_dials_again_leave_no_mark() -> None:
    assert make_marks(Paused(4), BEFORE) == ()
    assert make_marks(DIALS, BEFORE.after(DIALS)) == ()


def test_a_learning_rate_does_not_change_what_the_network_computes() -> None:
    begun = BEFORE.after(DIALS)
    beta, rate, fed = make_marks(SettingChanged(9, 1e-4, 10.0, "ones", 0.0), begun)
    assert [changes_network(mark) for mark in (beta, rate, fed)] == [True, False, True]
    assert changes_network(make_marks(SWAP, BEFORE)[0])
    assert not changes_network(make_marks(Diverged(8), BEFORE)[0])


def test_what_is_seen_happening_has_a_time_and_what_was_recorded_has_none() -> None:
    history = History(lambda: "14:03:20")
    history.on_event(started_run((2,), (3,), (2,)))
    history.on_event(SWAP, replayed=True)
    history.on_event(WeightsTaken(9, "x.pt", 2))
    assert [mark.time for mark in history.view({}).marks] == ["", "14:03:20"]


# divergence


WENT_BACK = RegimeSwapped(7, "DL", "DL", (), (), (), (), undone="Back from divergence", of_step=5)


def test_only_a_state_of_before_takes_the_divergence_back() -> None:
    state = BEFORE.after(Diverged(7, back_to=5))
    assert (state.diverged, state.back_to) == (7, 5)
    swapped = state.after(replace(WENT_BACK, undone=""))
    assert (swapped.diverged, swapped.back_to) == (7, 5)
    back = state.after(WENT_BACK)
    assert (back.diverged, back.back_to) == (None, None)
    assert [(mark.label, mark.kind, mark.x) for mark in make_marks(WENT_BACK, state)] == [
        ("going back", "undo", 7.0)
    ]


def test_figures_and_time_axes_name_the_step_of_the_divergence() -> None:
    sound, lost = View(run=BEFORE.run, step=5), View(run=BEFORE.run, step=5, diverged=7)
    scene = Scene((), (), 5)
    assert "diverged" not in make_provenance(sound, PANEL, scene).caption
    assert "step 5, diverged at step 7" in make_provenance(lost, PANEL, scene).caption
    curve = Curve("train", np.array([1, 5]), np.array([1.0, 0.5]))
    assert [step_axis([curve], view).limits for view in (sound, lost)] == [(0.0, 5.0), (0.0, 7.0)]
