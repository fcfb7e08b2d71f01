"""Answers belong to their probe set: none is shown for examples that it was not read on."""

from __future__ import annotations

from dgn_engine.protocol.branches import ComparisonOpened
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.scene.panel_spec import PREDICTIONS
from dgn_engine.views.history import History
from tests.engine.views.begun_run import make_run_started


def frame(digest: str, step: int = 3) -> Frame:
    readings = {name: Reading(name, step) for name in ("gates", PREDICTIONS)}
    return Frame(
        *(1, step, 0.0, 0.0, None, readings, dict(readings)), probe_digest=digest, comparison=1
    )


def shown(history: History) -> tuple[set[str], set[str]]:
    """The readings of A and of B."""
    view = history.view({})
    assert view.compared is not None
    return set(view.readings), set(view.compared.readings)


def test_answers_for_other_examples_are_hidden_until_the_next_frame() -> None:
    history = History()
    history.on_event(make_run_started(layers=()))
    history.on_event(ComparisonOpened("b", "", "ReLU", (), number=1))
    history.on_event(ProbeSetChanged(0, 5, "first"))
    assert history.on_frame(frame("first"))
    both = {"gates", PREDICTIONS}
    assert shown(history) == (both, both)
    history.on_event(ProbeSetChanged(3, 5, "second"))
    assert shown(history) == ({"gates"}, {"gates"})
    history.on_frame(frame("first"))  # a late one
    assert shown(history) == ({"gates"}, {"gates"})
    history.on_frame(frame("second"))
    assert shown(history) == (both, both)
    history.on_frame(frame(""))  # of a loop that does not state its examples
    assert shown(history) == (both, both)
