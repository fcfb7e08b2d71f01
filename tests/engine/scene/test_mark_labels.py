"""Every event keeps its place in the lane below a time axis, however close the next follows."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from dgn_engine.scene.elements import Mark
from dgn_engine.scene.mark_labels import (
    GAP,
    LINE,
    Chip,
    EpochTick,
    MarkName,
    chip_lines,
    epoch_ticks,
    lane_chips,
    mark_names,
    steps_around,
)


def width(text: str) -> float:
    return 6.0 * len(text)


def test_marks_apart_have_a_name_each_and_close_ones_share_one_over_the_newest() -> None:
    placed = mark_names([(20.0, "DL"), (80.0, "FL")], width, 100.0)
    assert [(name.text, name.left) for name in placed] == [("FL", 74.0), ("DL", 14.0)]
    (name,) = mark_names([(50.0, "FR-II"), (53.0, "π")], width, 200.0)
    assert name.text == "FR-II, π"
    (name,) = mark_names([(50.0, "FL"), (51.0, "DL"), (52.0, "DL")], width, 200.0)
    assert name == MarkName(34.0, "FL, DL")  # 36 wide around 52
    assert mark_names([], width, 100.0) == []


def test_no_name_leaves_the_frame_or_covers_another() -> None:
    marks = [(float(place), f"β {place}") for place in range(0, 300, 40)]
    placed = mark_names(marks, width, 300.0)
    spans = sorted((name.left, name.left + width(name.text)) for name in placed)
    assert spans[0][0] >= 0.0
    assert spans[-1][1] <= 300.0
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_a_crowd_is_cut_to_its_newest_only_where_all_have_no_room() -> None:
    crowd = [(50.0 + n / 10, f"π{n}") for n in range(9)]
    (name,) = mark_names(crowd, width, 400.0)
    assert name.text == ", ".join(f"π{n}" for n in range(9))
    (name,) = mark_names(crowd, width, 120.0)  # 20 letters
    assert name == MarkName(0.0, "…, π5, π6, π7, π8")
    (newest, before) = mark_names([*crowd, (110.0, "FL")], width, 120.0)
    assert before.left + width(before.text) <= newest.left


def test_a_name_stays_within_the_frame_and_clear_of_the_name_on_its_right() -> None:
    assert mark_names([(2.0, "FL")], width, 100.0) == [MarkName(0.0, "FL")]
    assert mark_names([(99.0, "FL")], width, 100.0) == [MarkName(88.0, "FL")]
    # 'FL' begins at 74, so 'DL' ends at 70: four of room between both.
    apart = mark_names([(63.0, "DL"), (80.0, "FL")], width, 100.0)
    assert apart == [MarkName(74.0, "FL"), MarkName(57.0, "DL")]
    assert mark_names([(64.0, "DL"), (80.0, "FL")], width, 100.0)[1] == MarkName(58.0, "DL")


def chips(*places: float, room: float = 200.0, label: str = "FL") -> list[Chip]:
    return lane_chips([(place, Mark(place, label)) for place in places], width, room)


def test_an_event_is_a_chip_centred_on_its_step_and_kept_in_the_lane() -> None:
    first, middle, last = chips(0.0, 100.0, 200.0)
    assert (middle.left, middle.width, middle.text) == (90.0, 20.0, "FL")  # 12 and 4 on each side
    assert first.left == 0.0
    assert last.right == 200.0


def test_chips_that_would_touch_become_one_that_counts_them() -> None:
    (joined,) = chips(100.0, 110.0, 120.0)
    assert joined.text == "3"
    assert joined.step_range == (100.0, 120.0)
    assert joined.left + joined.width / 2 == 110.0
    assert len(chips(100.0, 123.9)) == 1  # three and nine tenths between two is less than GAP
    assert len(chips(100.0, 124.0)) == 2


@pytest.mark.parametrize("seed", range(20))
def test_no_two_chips_touch_and_no_event_is_lost(seed: int) -> None:
    random = Random(seed)
    room = random.uniform(40, 600)
    names = ("FR-II", "π", "gates-only", "lr 0.000123", "undo")
    marks = [
        (place, Mark(place, random.choice(names)))
        for place in (random.uniform(0, room) for _ in range(random.randrange(60)))
    ]
    found = lane_chips(marks, width, room)
    assert sorted(mark.x for chip in found for mark in chip.marks) == sorted(x for x, _ in marks)
    assert all(one.right + GAP <= other.left for one, other in pairwise(found))
    assert all(chip.left >= 0 and chip.right <= max(room, chip.width) + 1e-9 for chip in found)


def ticks(epoch: int, high: float, *taken: Chip, low: float = 0.0) -> list[EpochTick]:
    room = 300.0
    return epoch_ticks(
        epoch, (low, high), lambda step: (step - low) / (high - low) * room, taken, width, room
    )


def test_few_epochs_are_named_where_no_chip_is_in_the_way() -> None:
    assert ticks(100, 350.0) == [
        EpochTick(100 / 350 * 300, "epoch 1"),
        EpochTick(200 / 350 * 300, "epoch 2"),
        EpochTick(300 / 350 * 300, ""),  # it would not end in the lane
    ]
    (chip,) = chips(90.0)
    assert [tick.text for tick in ticks(100, 350.0, chip)] == ["", "epoch 2", ""]


def test_an_axis_of_more_than_twelve_epochs_has_no_ticks_of_them() -> None:
    assert len(ticks(10, 120.0)) == 12
    assert ticks(10, 130.0) == []
    assert len(ticks(10, 400.0, low=300.0)) == 10  # zoomed in


def test_there_are_no_epoch_ticks_where_the_length_is_not_known_or_none_ends() -> None:
    assert ticks(0, 400.0) == []
    assert ticks(500, 400.0) == []
    assert [tick.place for tick in ticks(100, 250.0, low=150.0)] == [150.0]


def test_a_chip_says_step_time_and_sentence_of_each_event() -> None:
    long = "DL → FR-II at step 12,480. Kept: value weights, feature weights; frozen: all of it."
    both = (Mark(12480.0, "FR-II", "swap", long, "14:03:20"), Mark(12500.0, "π"))
    lines = chip_lines(Chip(0.0, 20.0, "2", both))
    assert lines[0] == "step 12,480 · 14:03:20 · FR-II"
    assert " ".join(line.strip() for line in lines[1:-1]) == long
    assert lines[-1] == "step 12,500 · π"
    assert max(map(len, lines)) <= LINE
    assert max(map(len, chip_lines(Chip(0.0, 20.0, "2", both), 40))) <= 40


@pytest.mark.parametrize(
    ("steps", "full", "shown"),
    [
        ((500.0, 500.0), (0.0, 1000.0), (460.0, 540.0)),
        ((0.0, 0.0), (0.0, 1000.0), (0.0, 80.0)),
        ((1000.0, 1000.0), (0.0, 1000.0), (920.0, 1000.0)),
        ((400.0, 600.0), (0.0, 1000.0), (350.0, 650.0)),
        ((5.0, 6.0), (0.0, 8.0), (0.0, 8.0)),
    ],
)
def test_a_click_shows_the_steps_around_an_event(
    steps: tuple[float, float], full: tuple[float, float], shown: tuple[float, float]
) -> None:
    assert steps_around(steps, full) == pytest.approx(shown)
