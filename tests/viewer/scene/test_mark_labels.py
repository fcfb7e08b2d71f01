"""Every swap keeps its name above a time axis, however close the next one follows."""

from __future__ import annotations

from itertools import pairwise

from dgn_viewer.scene.mark_labels import MOST, mark_names


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
