"""Settings of charts as JSON: written and read back, and what a stranger may have written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgn_engine.scene.chart_settings import PLAIN, ChartSettings
from dgn_engine.scene.kept_charts import charts_as_json, charts_of_json
from dgn_engine.scene.matrix_colours import SPANS, ColourChoice
from dgn_engine.scene.matrix_difference import Subtrahend

EVERY = (
    ChartSettings(last=200),
    ChartSettings(log_x=True),
    ChartSettings(log_y=True),
    ChartSettings(log_y=False),
    ChartSettings(y_range=(-1.0, 2.5)),
    ChartSettings(y_range=(0, 2)),
    ChartSettings(smoothing=0.97),
    ChartSettings(minus=Subtrahend("active", "part", "1")),
    ChartSettings(minus=Subtrahend("b")),
    *(ChartSettings(colours=ColourChoice(span)) for span in SPANS),
    ChartSettings(colours=ColourChoice("fixed", (0.25, 0.75), "grey")),
    ChartSettings(colours=ColourChoice(ramp="cet_l17")),
    ChartSettings(1000, True, False, (1.0, 2.0), 0.6, ColourChoice("pairs"), Subtrahend("x")),
)


@pytest.mark.parametrize("one", EVERY, ids=str)
def test_what_is_written_is_read_back(one: ChartSettings) -> None:
    text = json.dumps(charts_as_json({"a": one, "plain": PLAIN}))
    assert charts_of_json(json.loads(text)) == {"a": one}


def test_only_what_was_set_is_written() -> None:
    assert charts_as_json({"a": ChartSettings(last=200), "b": PLAIN}) == {"a": {"last": 200}}


@pytest.mark.parametrize(
    "bad",
    [
        {"last": -1}, {"last": 2.5}, {"last": True}, {"last": "200"}, {"last": 1 << 80},
        {"log_x": 1}, {"log_y": "yes"}, {"smoothing": 1.0}, {"smoothing": -0.5}, {"smoothing": "a"},
        {"smoothing": float("nan")}, {"y_range": [2.0, 1.0]}, {"y_range": [0.0]},
        {"y_range": [0.0, float("inf")]}, {"y_range": "ab"}, {"span": "all"}, {"span": ["whole"]},
        {"span": "fixed"}, {"span": "fixed", "fixed": [1.0, 0.0]}, {"ramp": "jet"}, {"ramp": 3},
        {"minus": ["a"]}, {"minus": [1, 2, 3]}, {"minus": ["a", "b", "c" * 201]}, {"other": 1},
        [], 5,
    ],
    ids=str,
)  # fmt: skip
def test_what_makes_no_sense_is_left_out(bad: Any) -> None:
    assert charts_of_json({"a": bad}) == {}
    good = {"last": 200}
    assert charts_of_json({"a": bad, "b": good}) == {"b": ChartSettings(last=200)}


def test_names_and_numbers_of_charts_are_bounded() -> None:
    assert charts_of_json({"a" * 201: {"last": 5}}) == {}
    assert len(charts_of_json({str(i): {"last": 5} for i in range(1000)})) == 200
    assert charts_of_json(None) == charts_of_json([1]) == {}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_NAMES = ("last", "log_x", "log_y", "y_range", "smoothing", "span", "fixed", "ramp", "minus")


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(_NAMES), _JSON))
def test_nothing_that_json_can_say_is_raised_at(tree: dict[str, Any]) -> None:
    charts_of_json({"a": tree})
