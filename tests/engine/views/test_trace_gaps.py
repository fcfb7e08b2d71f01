"""A trace is broken where nobody watched its probe."""

from __future__ import annotations

import numpy as np
import pytest

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.watching import ProbeScalars, ProbesLeft
from dgn_engine.scene.panel_spec import View
from dgn_engine.views.history import History
from tests.engine.panels.pictures import run


def traced(*happened: Event) -> View:
    history = History()
    for event in (run((2,)), *happened):
        history.on_event(event)
    return history.view({})


def read(*steps: int, probe: str = "ntk", examples: int = 0) -> tuple[ProbeScalars, ...]:
    return tuple(ProbeScalars(step, probe, {"trace": 2.0 * step}, examples) for step in steps)


def points(view: View) -> list[tuple[int, float]]:
    series = view.series["ntk", "trace"]
    return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


def test_a_trace_is_broken_where_its_panel_was_closed() -> None:
    view = traced(*read(10, 20, 30), ProbesLeft(34, ("ntk",)), *read(130, 140))
    assert view.gaps == {"ntk": ((30, 130),)}
    steps, values = zip(*points(view), strict=True)
    assert steps == (10, 20, 30, 80, 130, 140)
    assert np.isnan(values[3])
    assert np.isfinite([*values[:3], *values[4:]]).all()


@pytest.mark.parametrize("next_step", [30, 31, 40, 50])
def test_a_panel_that_was_closed_for_a_moment_leaves_no_gap(next_step: int) -> None:
    view = traced(*read(10, 20, 30), ProbesLeft(30, ("ntk",)), *read(next_step))
    assert view.gaps == {}
    assert len(points(view)) == 4


def test_only_the_probe_that_was_left_has_a_gap() -> None:
    view = traced(
        *read(10, 20),
        *read(10, 20, probe="npk"),
        ProbesLeft(21, ("npk",)),
        *read(90),
        *read(90, probe="npk"),
    )
    assert view.gaps == {"npk": ((20, 90),)}
    assert len(points(view)) == 3


def test_a_probe_with_several_traces_has_one_gap_each_time() -> None:
    def both(step: int) -> ProbeScalars:
        return ProbeScalars(step, "ntk", {"trace": 1.0, "norm": 2.0})

    left = ProbesLeft(3, ("ntk",))
    view = traced(both(2), left, both(50), both(60), left, both(200))
    assert view.gaps == {"ntk": ((2, 50), (60, 200))}
    assert {len(series.steps) for series in view.series.values()} == {6}


def test_a_run_that_goes_on_is_broken_where_it_was_not_watched_at_first() -> None:
    on = RunContinued(30)
    assert traced(*read(10, 20, 30), on, *read(33)).gaps == {}
    assert traced(*read(10, 20, 30), on, *read(200)).gaps == {"ntk": ((30, 200),)}
