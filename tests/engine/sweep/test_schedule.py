"""What is begun when, what is tried again, and what is given up: without any worker."""

from __future__ import annotations

from itertools import product
from typing import get_args

from dgn_engine.sweep.schedule import TRIES, Schedule, UnitProgress
from dgn_engine.sweep.unit import Calculation, Unit, UnitUpdate, UpdateState
from tests.engine.sweep.small import relu_and_fl_units, small_training
from tests.snapshots import Recorded


def ids(schedule: Schedule) -> list[str]:
    return [unit.id for unit in schedule.ready_units()]


def test_a_unit_is_ready_when_what_it_needs_is_done() -> None:
    schedule = Schedule([*relu_and_fl_units(0), small_training(1)])
    assert ids(schedule) == ["ReLU-s0", "FR-II-s1"]
    schedule.begin("ReLU-s0")
    schedule.apply_update(UnitUpdate("ReLU-s0", "done"), stopping=False)
    assert ids(schedule) == ["FL-s0", "FR-II-s1"]


def test_a_third_failure_is_the_last_and_takes_dependants_along_with_its_reason() -> None:
    needs = Calculation("table", "dgn_engine.x:f", needs=("FL-s0",))
    schedule = Schedule([*relu_and_fl_units(0), needs])
    after = []
    for _ in range(TRIES):
        schedule.begin("ReLU-s0")
        after = schedule.apply_update(
            UnitUpdate("ReLU-s0", "failed", trouble="no such net"), stopping=False
        )
    assert [progress.unit for progress in after] == ["ReLU-s0", "FL-s0", "table"]
    assert all(progress.state == "failed" for progress in after)
    assert all("no such net" in progress.trouble for progress in after)
    assert schedule.is_over


def test_a_lost_worker_is_forgiven_as_long_as_the_run_gets_further() -> None:
    schedule = Schedule([small_training(0)])
    for fraction in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6):
        schedule.begin("FR-II-s0")
        schedule.apply_update(UnitUpdate("FR-II-s0", "running", fraction), stopping=False)
        (after,) = schedule.apply_update(UnitUpdate("FR-II-s0", "lost"), stopping=False)
        assert after.state == "queued"
    for left in range(TRIES):
        schedule.begin("FR-II-s0")
        (after,) = schedule.apply_update(UnitUpdate("FR-II-s0", "lost"), stopping=False)
        assert after.state == ("failed" if left == TRIES - 1 else "queued")


def test_updates_of_a_unit_that_was_given_up_are_ignored() -> None:
    schedule = Schedule([small_training(0)])
    assert schedule.apply_update(UnitUpdate("FR-II-s0", "done"), stopping=False) == []
    assert schedule.states == {"FR-II-s0": "queued"}


def begun(*units: Unit) -> Schedule:
    """A schedule of units that are all running."""
    schedule = Schedule(units)
    for unit in units:
        schedule.begin(unit.id)
    return schedule


UNIT = "FR-II-s0"


def test_what_follows_from_an_update_is_recorded(recorded: Recorded) -> None:
    """Whether the sweep goes on or stops; what is left of a schedule agrees with it."""
    found = {}
    for state, stopping in product(get_args(UpdateState), (False, True)):
        schedule = begun(small_training(0))
        update = UnitUpdate(UNIT, state, 0.5, 0.3, trouble="why")
        (after,) = schedule.apply_update(update, stopping)
        found[f"{state}{', stopping' * stopping}"] = [
            after.state, after.fraction, after.score, after.trouble, after.trained,
        ]  # fmt: skip
        assert schedule.states == {UNIT: after.state}
        assert schedule.is_over is (after.state in ("done", "diverged", "failed"))
        assert schedule.running == ([UNIT] if after.state == "running" else [])
        assert ids(schedule) == ([UNIT] if after.state == "queued" else [])
    recorded(found)


def test_a_unit_that_is_queued_again_is_as_far_as_it_ever_was() -> None:
    schedule = begun(small_training(0))
    for fraction in (0.2, 0.7, 0.4):
        schedule.apply_update(UnitUpdate(UNIT, "running", fraction), stopping=False)
    (after,) = schedule.apply_update(UnitUpdate(UNIT, "lost", 0.1), stopping=False)
    assert after.fraction == 0.7
    schedule.begin(UNIT)
    schedule.apply_update(UnitUpdate(UNIT, "running", 0.8), stopping=False)
    assert schedule.stop() == [UnitProgress(UNIT, "interrupted", 0.8)]
    assert schedule.states == {UNIT: "interrupted"}
    assert schedule.stop() == []
    assert not schedule.is_over


def test_a_worker_that_is_lost_again_and_again_at_the_same_place_is_a_failure() -> None:
    schedule = begun(small_training(0))
    states = []
    for fraction in (0.3, 0.3, 0.2, 0.3):
        schedule.apply_update(UnitUpdate(UNIT, "running", fraction), stopping=False)
        (after,) = schedule.apply_update(UnitUpdate(UNIT, "lost"), stopping=False)
        states.append(after.state)
        if after.state == "queued":
            schedule.begin(UNIT)
    assert states == ["queued"] * 3 + ["failed"]


def test_a_run_that_somebody_writes_all_the_time_is_given_up_after_300_times() -> None:
    schedule = Schedule([small_training(0)])
    for _ in range(300):
        schedule.begin(UNIT)
        (after,) = schedule.apply_update(UnitUpdate(UNIT, "held", trouble="by x"), stopping=False)
        assert after.state == "queued"
    schedule.begin(UNIT)
    (after,) = schedule.apply_update(UnitUpdate(UNIT, "held", trouble="by x"), stopping=False)
    assert after == UnitProgress(UNIT, "failed", trouble="by x")


def test_what_is_queued_again_stands_before_what_comes_after_it_and_behind_what_came_before() -> (
    None
):
    schedule = Schedule([small_training(seed) for seed in range(4)])
    for seed in (1, 2):
        schedule.begin(f"FR-II-s{seed}")
    schedule.apply_update(UnitUpdate("FR-II-s2", "interrupted"), stopping=False)
    assert ids(schedule) == ["FR-II-s0", "FR-II-s2", "FR-II-s3"]
    assert schedule.running == ["FR-II-s1"]


def test_what_needs_two_units_waits_for_both_and_fails_once() -> None:
    both = Calculation("both", "dgn_engine.x:f", needs=("FR-II-s0", "FR-II-s1"))
    schedule = Schedule([small_training(0), small_training(1), both])
    schedule.begin("FR-II-s0")
    schedule.begin("FR-II-s1")
    schedule.apply_update(UnitUpdate("FR-II-s0", "diverged"), stopping=False)
    assert ids(schedule) == []
    failed = schedule.apply_update(UnitUpdate("FR-II-s1", "refused", trouble="no"), stopping=False)
    assert failed == [
        UnitProgress("FR-II-s1", "failed", trouble="no"),
        UnitProgress("both", "failed", trouble="it needs 'FR-II-s1', which failed: no"),
    ]
    again = Schedule([small_training(0), small_training(1), both])
    for seed in (0, 1):
        again.begin(f"FR-II-s{seed}")
    refused = [
        again.apply_update(UnitUpdate(f"FR-II-s{seed}", "refused", trouble="no"), stopping=False)
        for seed in (0, 1)
    ]
    assert [[one.unit for one in some] for some in refused] == [["FR-II-s0", "both"], ["FR-II-s1"]]


def test_what_is_skipped_is_off_the_queue_and_what_needs_it_is_ready() -> None:
    schedule = Schedule(relu_and_fl_units(0))
    assert schedule.skip("ReLU-s0", "skipped", 0.5) == UnitProgress("ReLU-s0", "skipped", 1.0, 0.5)
    assert ids(schedule) == ["FL-s0"]
    assert schedule.skip("FL-s0", "diverged", None) == UnitProgress("FL-s0", "diverged", 1.0)
    assert schedule.is_over
    assert schedule.states == {"ReLU-s0": "skipped", "FL-s0": "diverged"}
