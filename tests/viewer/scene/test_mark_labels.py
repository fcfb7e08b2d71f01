"""Every swap keeps its name above a time axis, however close the next one follows."""

from __future__ import annotations

from itertools import pairwise

from dgn_viewer.scene.mark_labels import MOST, MarkName, mark_names


def width(text: str) -> float:
    return 6.0 * len(text)


def test_marks_that_stand_apart_are_named_where_they_stand() -> None:
    placed = mark_names([(20.0, "DL"), (80.0, "FL")], width, 100.0)
    assert [(name.text, name.left) for name in placed] == [("FL", 74.0), ("DL", 14.0)]


def test_marks_that_stand_close_share_a_name_oldest_first() -> None:
    (name,) = mark_names([(50.0, "FR-II"), (53.0, "π")], width, 200.0)
    assert name.text == "FR-II, π"


def test_no_name_leaves_the_frame_or_covers_another() -> None:
    marks = [(float(place), f"β {place}") for place in range(0, 300, 40)]
    placed = mark_names(marks, width, 300.0)
    spans = sorted((name.left, name.left + width(name.text)) for name in placed)
    assert spans[0][0] >= 0.0
    assert spans[-1][1] <= 300.0
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_a_crowd_is_cut_to_its_newest() -> None:
    (name,) = mark_names([(50.0 + n / 10, f"π{n}") for n in range(9)], width, 400.0)
    assert name.text == "…, " + ", ".join(f"π{n}" for n in range(9 - MOST, 9))


def test_a_name_stays_within_the_frame_and_clear_of_the_name_on_its_right() -> None:
    assert mark_names([(2.0, "FL")], width, 100.0) == [MarkName(0.0, "FL")]
    assert mark_names([(99.0, "FL")], width, 100.0) == [MarkName(88.0, "FL")]
    # 'FL' begins at 74, so 'DL' ends at 70: four of room between both.
    apart = mark_names([(63.0, "DL"), (80.0, "FL")], width, 100.0)
    assert apart == [MarkName(74.0, "FL"), MarkName(57.0, "DL")]
    assert mark_names([(64.0, "DL"), (80.0, "FL")], width, 100.0)[1] == MarkName(58.0, "DL")


def test_a_shared_name_stands_over_the_newest_mark_and_says_nothing_twice() -> None:
    (name,) = mark_names([(50.0, "FL"), (51.0, "DL"), (52.0, "DL")], width, 200.0)
    assert name == MarkName(34.0, "FL, DL")  # 36 wide around 52
    (exactly,) = mark_names([(50.0 + n, f"π{n}") for n in range(MOST)], width, 400.0)
    assert exactly.text == "π0, π1, π2, π3"


def test_without_marks_there_is_no_name() -> None:
    assert mark_names([], width, 100.0) == []
