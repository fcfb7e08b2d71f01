"""The view of a step that is looked back at: its readings, its regime, its scores; curves whole."""

from __future__ import annotations

from dataclasses import replace

from dgn_engine.panels.training import PANEL as TRAINING
from dgn_engine.protocol.training import Measured, RegimeSwapped, Rewired
from dgn_engine.protocol.watching import ProbeExamples, ProbeSetChanged
from dgn_engine.scene.axes import with_step_cursor
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_readings import describe_outdated
from dgn_engine.views.compared_step import Pairing
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from tests.engine.panels import known_readings as known
from tests.engine.panels.pictures import draw_scene
from tests.engine.views.begun_run import make_run_started
from tests.engine.views.past_frames import make_frame


def _swap(step: int, old: str, new: str) -> RegimeSwapped:
    return RegimeSwapped(step, old, new, (), (), (), ())


def _history() -> History:
    """DL, from step 100 on DLN with gates in another order."""
    history = History()
    history.on_event(make_run_started())
    for step in range(10, 201, 10):
        history.on_event(Measured(step, 0.1, 1.0 / step, 0.5, 1.0 / step, step / 1000))
        if step == 100:
            history.on_event(_swap(100, "DL", "DLN"))
            history.on_event(Rewired(100, (1, 0, 2, 3), ()))
    history.on_frame(make_frame(200))
    return history


def test_regime_and_order_are_those_of_the_step() -> None:
    history = _history()
    old = replace(make_frame(50), regime="")  # as versions before recorded it
    history.look_back(Past(55, old))
    view = history.view({})
    assert (view.cursor, view.step, view.regime, view.wiring) == (50, 50, "DL", (0, 1, 2, 3))
    history.look_back(Past(100, replace(old, step=100)))
    assert history.view({}).regime == "DLN"
    assert history.view({}).wiring == (1, 0, 2, 3)
    at_the_change = replace(make_frame(100), wiring=(0, 1, 2, 3))  # read before it, at its step
    history.look_back(Past(100, at_the_change))
    assert (history.view({}).regime, history.view({}).wiring) == ("DL", (0, 1, 2, 3))
    history.look_back(None)
    assert (history.view({}).regime, history.view({}).cursor) == ("DLN", None)


def test_a_reading_from_before_a_change_says_so() -> None:
    history = _history()
    history.look_back(Past(105, replace(make_frame(105), readings=make_frame(95).readings)))
    assert history.view({}).outdated["gates"].label == "π"
    history.look_back(Past(95, make_frame(95)))
    assert history.view({}).outdated == {}


def test_scores_are_those_of_the_step_and_curves_are_whole() -> None:
    history = _history()
    history.look_back(Past(55, make_frame(50)))
    scene = TRAINING.draw(history.view({}))
    assert isinstance(scene, Scene)
    assert scene.step == 50
    facts = {fact.name: fact.value for fact in scene.facts}
    assert (facts["test"], facts["best"]) == ("5.00 %", "5.00 %")
    assert "at step 50" in scene.facts[0].about
    lined = with_step_cursor(scene, 50)
    assert [chart.cursor for chart in lined.charts] == [50.0, 50.0]
    assert all(int(curve.x[-1]) == 200 for chart in lined.charts for curve in chart.curves)
    assert with_step_cursor(scene, None) is scene


def test_a_score_of_the_step_of_a_change_was_measured_before_it() -> None:
    history = _history()
    history.look_back(Past(105, make_frame(105)))
    assert describe_outdated(TRAINING, history.view({})) == "before π"
    history.look_back(Past(115, make_frame(115)))
    assert describe_outdated(TRAINING, history.view({})) == ""


def test_examples_that_were_chosen_later_are_not_shown_as_those_of_the_step() -> None:
    history, shown = _history(), ProbeExamples(make_run_started().probe_set)
    history.on_event(ProbeSetChanged(60, 20, shown.probe_set.digest))
    history.on_event(shown)
    assert history.view({}).pictures is shown
    for step, pictures in ((50, None), (60, None), (70, shown)):
        history.look_back(Past(step, make_frame(step)))
        assert history.view({}).pictures is pictures


def test_the_distance_of_path_values_is_not_that_of_another_comparison() -> None:
    """Frames keep it with the network that was compared then; of recorded steps there is none."""
    view = replace(known.BOTH, cursor=known.STEP)
    assert not view.readings["path_distance"].absent
    paired = Pairing().add_comparison(view, None, ("a", "a"))
    assert paired.readings["path_distance"].absent
    assert not any(fact.name == "v apart" for fact in draw_scene("agreement", paired).facts)
