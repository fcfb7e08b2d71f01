"""Quiet stretches in a session: nothing is done but steps, and who begins and ends them."""

from __future__ import annotations

import pytest

from dgn_engine.config import RunConfig, TrainingConfig
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.training import SetBeta, SetPace, StartRun
from dgn_engine.protocol.watching import ProbeRequest, ReportWindow, Watch
from dgn_engine.session.engine import Engine
from dgn_engine.training.readings.overhead_meter import PACED, TOO_FEW, Overhead, OverheadMeter


@pytest.fixture
def frames() -> list[Frame]:
    return []


@pytest.fixture
def engine(frames: list[Frame]) -> Engine:
    made = Engine(lambda _event: None, frames.append, look_every=0.0)
    made.obey(StartRun(RunConfig(training=TrainingConfig(epochs=0)), paused=False))
    made.obey(Watch((ProbeRequest("gates"),)))
    made.advance()
    return made


def test_in_a_quiet_stretch_steps_are_taken_and_nothing_is_read_or_published(
    engine: Engine, frames: list[Frame], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.run is not None
    monkeypatch.setattr(OverheadMeter, "is_quiet", lambda _meter: True)
    frames.clear()
    engine.run.probe_schedule.invalidate()  # it is due
    before = engine.run.step_count
    while engine.run.step_count < before + 5:
        engine.advance()
    assert engine.run.budget.overhead.steps == engine.run.step_count
    assert not frames
    monkeypatch.undo()
    engine.obey(ReportWindow(0.0, 0.0, 0))  # looks at what is due
    engine.advance()
    assert frames


def test_what_was_measured_is_forgotten_when_the_user_changes_something(engine: Engine) -> None:
    assert engine.run is not None
    overhead = engine.run.budget.overhead
    for command, kept in ((ReportWindow(0.0, 0.0, 0), True), (SetBeta(3.0), False)):
        overhead.measured, overhead.reason = Overhead(0.04, 0.01), ""
        engine.obey(command)
        assert (overhead.measured is not None) == kept
    assert overhead.reason == TOO_FEW
    engine.obey(SetPace(1000.0))
    engine.advance()
    assert overhead.reason == PACED
