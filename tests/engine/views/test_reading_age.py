"""From when on a reading is too far behind the run that is trained beside it."""

from __future__ import annotations

import pytest

from dgn_engine.views import reading_age
from dgn_engine.views.reading_age import FRESH, Age, ReadingAges, is_stale


@pytest.mark.parametrize(
    ("step", "newest", "interval", "recent", "stale"),
    [
        (0, 3782, None, 3500, True),  # read once, and never again
        (0, 50, None, None, False),  # the run has just begun
        (40, 50, 10, 35, False),  # 20 % of a run that is as short as that is a moment
        (900, 1000, 60, 990, False),
        (880, 1000, 60, 990, False),  # two intervals are not more than two
        (879, 1000, 60, 990, True),
        (800, 1000, 150, 990, False),  # a fifth is not more than a fifth
        (799, 1000, 150, 990, True),  # as often as ever, but of another network
        (900, 1000, 1, 900, False),  # all these steps are of a moment
    ],
)
def test_a_reading_is_stale_two_intervals_or_a_fifth_of_the_run_behind(
    step: int, newest: int, interval: int | None, recent: int | None, stale: bool
) -> None:
    assert is_stale(step, newest, interval, recent) is stale
    assert not is_stale(step, newest, interval, recent, overdue=False)


def test_the_only_reading_of_a_run_stays_fresh_through_its_first_minute() -> None:
    ages = ReadingAges()
    ages.record_readings({"npk": 0})
    for second in range(1, 70):
        ages.record_step(2 * second, float(second))
        assert (ages.stale_age([0], float(second)) is None) == (second < 62), second


def test_the_interval_is_that_of_the_last_two_readings_and_a_rewound_run_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_age, "PATIENCE", 15.0)
    ages = ReadingAges()

    def at(step: int, now: float, npk: int, **others: int) -> Age | None:
        ages.record_step(step, now)
        read = {"npk": npk, **others}
        ages.record_readings(read)
        return ages.stale_age(read.values(), now)

    assert at(0, 0.0, 0) is None
    assert at(450, 7.0, 0) is None  # the run is not known to have been further before
    assert at(900, 14.0, 0) is None  # a second reading may still come
    assert at(1000, 16.0, 0) == Age(0, 1000)
    assert at(1000, 16.0, 1000) is None
    for reading in range(1100, 1500, 100):  # every two seconds
        assert at(reading, 16.0 + (reading - 1000) / 50, reading) is None
    assert at(1600, 26.0, 1400) is None
    assert at(1601, 27.1, 1400) is None  # it came this second
    assert at(1610, 29.2, 1400) == Age(1400, 210)
    assert at(1610, 29.2, 1400, ntk=7) is None  # the other one was read once: it has time …
    assert at(1620, 37.2, 1400, ntk=7) is None
    # … and then the oldest of two is what is said of a panel.
    assert at(1630, 45.2, 1400, ntk=7) == Age(7, 1623)
    assert at(1640, 53.2, 1400, ntk=7) == Age(7, 1633)
    assert at(12, 53.3, 0) is None


def test_a_panel_does_not_blink_between_readings_that_are_always_slow() -> None:
    """A run of 6 steps a second that is read every 11 s or so, as on a busy machine."""
    ages = ReadingAges()
    due, reading = 11.0, 0
    for tick in range(600):  # a minute
        now = tick / 10
        ages.record_step(round(6 * now), now)
        if now >= due:
            reading, due = round(6 * (now - 4)), now + (13.0 if tick % 2 else 9.0)
        ages.record_readings({"overlap": reading})
        assert ages.stale_age([reading], now) is None, now
    for tick in range(600, 900):  # and then no more
        ages.record_step(round(6 * tick / 10), tick / 10)
    assert ages.stale_age([reading], 90.0) == Age(reading, round(6 * 89.9) - reading)


def test_the_time_in_which_the_process_was_stopped_makes_no_reading_stale() -> None:
    ages = ReadingAges()
    for tick in range(100):
        ages.record_step(5000 + tick, 100.0 + tick * FRESH / 50)
        ages.record_readings({"npk": 5000})
    ages.record_step(5101, 9000.0)
    assert ages.stale_age([5000], 9000.0) is None


def test_panels_whose_readings_are_of_the_same_step_are_stale_together() -> None:
    """Gates are read every 2 s, the kernel every 8 s, of the same steps, and then neither."""
    ages, gates, kernel = ReadingAges(), 0, 0
    said: list[Age | None] = []
    for tick in range(600):  # a minute at 400 steps a second
        now = tick / 10
        ages.record_step(40 * tick, now)
        if tick % 20 == 0 and tick <= 320:
            gates = 40 * tick
            ages.record_readings({"gates": gates})
        if tick % 80 == 0 and tick <= 320:
            kernel = 40 * tick
            ages.record_readings({"kernel": kernel})
        assert tick > 320 or ages.stale_age([kernel], now) is None, tick  # none blinks
        if gates == kernel:
            said.append(ages.stale_age([gates], now))
            assert ages.stale_age([kernel], now) == said[-1]
    assert said[-1] == Age(12_800, 600 * 40 - 40 - 12_800)


def test_a_probe_that_nobody_watches_any_more_keeps_no_reading_fresh() -> None:
    ages = ReadingAges()
    for tick in range(0, 700):
        ages.record_step(tick, tick / 10)
        if tick % 20 == 0 and tick <= 400:
            ages.record_readings({"gates": tick})
        if tick % 200 == 0 and tick <= 400:
            ages.record_readings({"kernel": tick})
    assert ages.stale_age([400], 69.9) is None  # the kernel may take half as long again
    ages.keep_probes(["gates"])
    assert ages.stale_age([400], 69.9) == Age(400, 299)
