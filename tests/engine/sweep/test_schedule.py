"""What is begun when, what is tried again, and what is given up: without any worker."""

from __future__ import annotations

from dgn_engine.sweep.schedule import TRIES, Schedule
from dgn_engine.sweep.unit import Calculation, ProcessId, UnitUpdate
from tests.engine.sweep.small import learnt, small


def ids(schedule: Schedule) -> list[str]:
    return [unit.id for unit in schedule.ready()]


def test_a_unit_is_ready_when_what_it_needs_is_done() -> None:
    schedule = Schedule([*learnt(0), small(1)])
    assert ids(schedule) == ["ReLU-s0", "FR-II-s1"]
    schedule.begin("ReLU-s0")
    schedule.apply(UnitUpdate("ReLU-s0", "done"), stopping=False)
    assert ids(schedule) == ["FL-s0", "FR-II-s1"]


def test_what_failed_is_tried_again_before_what_comes_later() -> None:
    schedule = Schedule([small(0), small(1)])
    schedule.begin("FR-II-s0")
    (after,) = schedule.apply(UnitUpdate("FR-II-s0", "failed", trouble="disk full"), stopping=False)
    assert (after.state, after.trouble) == ("queued", "disk full")
    assert ids(schedule) == ["FR-II-s0", "FR-II-s1"]


def test_a_third_failure_is_the_last_and_takes_dependants_along_with_its_reason() -> None:
    needs = Calculation("table", "dgn_engine.x:f", needs=("FL-s0",))
    schedule = Schedule([*learnt(0), needs])
    after = []
    for _ in range(TRIES):
        schedule.begin("ReLU-s0")
        after = schedule.apply(
            UnitUpdate("ReLU-s0", "failed", trouble="no such net"), stopping=False
        )
    assert [progress.unit for progress in after] == ["ReLU-s0", "FL-s0", "table"]
    assert all(progress.state == "failed" for progress in after)
    assert all("no such net" in progress.trouble for progress in after)
    assert schedule.over


def test_what_is_refused_is_given_up_at_once_with_what_needs_it() -> None:
    schedule = Schedule(learnt(0))
    schedule.begin("ReLU-s0")
    after = schedule.apply(UnitUpdate("ReLU-s0", "refused", trouble="no such net"), stopping=False)
    assert [(one.unit, one.state) for one in after] == [("ReLU-s0", "failed"), ("FL-s0", "failed")]
    assert schedule.over


def test_a_lost_worker_is_forgiven_as_long_as_the_run_gets_further() -> None:
    schedule = Schedule([small(0)])
    for fraction in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        schedule.begin("FR-II-s0")
        schedule.apply(UnitUpdate("FR-II-s0", "running", fraction), stopping=False)
        (after,) = schedule.apply(UnitUpdate("FR-II-s0", "lost"), stopping=False)
        assert after.state == "queued"
    for left in range(TRIES):
        schedule.begin("FR-II-s0")
        (after,) = schedule.apply(UnitUpdate("FR-II-s0", "lost"), stopping=False)
        assert after.state == ("failed" if left == TRIES - 1 else "queued")


def test_what_was_interrupted_goes_on_unless_the_sweep_stops() -> None:
    schedule = Schedule([small(0)])
    schedule.begin("FR-II-s0")
    schedule.apply(UnitUpdate("FR-II-s0", "interrupted"), stopping=False)
    assert ids(schedule) == ["FR-II-s0"]
    schedule.begin("FR-II-s0")
    schedule.apply(UnitUpdate("FR-II-s0", "interrupted"), stopping=True)
    assert schedule.states == {"FR-II-s0": "interrupted"}


def test_updates_of_a_unit_that_was_given_up_are_ignored() -> None:
    schedule = Schedule([small(0)])
    assert schedule.apply(UnitUpdate("FR-II-s0", "done"), stopping=False) == []
    assert schedule.states == {"FR-II-s0": "queued"}


def test_updates_cross_as_text() -> None:
    update = UnitUpdate("a", "held", 0.5, 0.75, "held by …", ProcessId(12, "node7"))
    assert UnitUpdate.from_text(update.to_text()) == update
