"""Runs are searched by words and by terms of settings; a score fits into 24 characters."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from dgn_engine.protocol.runs import RecordedRun
from dgn_engine.protocol.trend import POINTS, decode_trend, encode_trend, is_trend
from dgn_engine.storage.runs import run_search
from dgn_engine.storage.runs.run_search import FIELDS, search_runs

NOW = datetime.now(UTC)
BASE = RecordedRun(
    folder="", name="", status="stopped", step=1200, total_steps=4500, regime="DL", net="fc 32×5",
    data="digits", seed=0, best=0.9611, touched=1000.0, resumable=True,
    settings={"lr": 0.001, "depth": 5, "width": 32, "optimiser": "adam"},
)  # fmt: skip


def run(name: str, **changes: object) -> RecordedRun:
    return dataclasses.replace(BASE, folder=name, name=name, **changes)  # type: ignore[arg-type]


RUNS = (
    run("a", notes="wide #paper #fig3-b, later", created=NOW.isoformat()),
    run("b", regime="DLN", seed=3, best=0.5, created=(NOW - timedelta(days=400)).isoformat()),
    run("c", net="cnn4 32", data="folder:/x/flowers", settings={"lr": 0.0012}, best=float("nan")),
    run("d", status="damaged", regime="", net="", data="", best=float("nan"), settings={}, step=0),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "abcd"),
        ("regime:DL", "ac"),
        ("regime:dln", "b"),
        ("regime:D", "abc"),  # equal to none: every beginning counts
        ("net:fc", "ab"),
        ('net:"fc 32×5"', "ab"),
        ("net:32", "c"),
        ("data:flowers", "c"),
        ("seed:3", "b"),
        ("seed:0", "ac"),  # what is damaged has no seed
        ("best>90", "a"),
        ("best<90", "b"),
        ("best:96.1", "a"),
        ("best:96", "a"),
        ("best:96.1%", "a"),
        ("depth:5 width=32", "ab"),
        ("lr>0.001", "c"),
        ("lr:0.001", "ab"),
        ("optimiser:adam", "ab"),
        ("status:damaged", "d"),
        ("tag:paper", "a"),
        ("tag:fig3-b", "a"),
        ("day:today", "a"),
        ("steps>1,000 wide", "a"),
        ("best>x", ""),
        ("other:x", ""),  # no setting: a word that no run has
    ],
)
def test_terms_find_what_they_say(text: str, names: str) -> None:
    assert "".join(run.name for run in search_runs(text, RUNS)) == names


def test_many_terms_are_not_each_looked_for_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def texts(run: RecordedRun) -> str:
        read.append(run.name)
        return run.name

    monkeypatch.setattr(run_search, "_searched_text", texts)
    assert search_runs("a " * 5000, RUNS)
    assert len(read) == len(RUNS)  # a window of 10,000 runs hung for a minute
    read.clear()
    assert not search_runs(" ".join(f"none-{index}" for index in range(800)), RUNS)
    assert len(read) == len(RUNS)


@pytest.mark.parametrize("percent", range(101))
def test_a_score_is_neither_above_nor_below_itself(percent: int) -> None:
    runs = (run("a", best=percent / 100),)
    assert search_runs(f"best:{percent}", runs)
    assert search_runs(f"best<={percent}", runs)
    assert search_runs(f"best>={percent}", runs)
    assert not search_runs(f"best<{percent}", runs)
    assert not search_runs(f"best>{percent}", runs)


def test_every_example_of_a_field_is_a_term_of_it() -> None:
    for field in FIELDS:
        assert field.example.startswith(field.name)
        assert len(search_runs(field.example, RUNS)) < len(RUNS)


def test_tags_are_words_of_the_notes() -> None:
    assert run("a", notes="#one two#not #three, #one (#four)").tags == ("one", "three")


def test_a_trend_keeps_the_last_score_of_each_part() -> None:
    trend = encode_trend([1, 2, 1200, 2400], [0.1, 0.2, 0.5, 1.0])
    assert is_trend(trend)
    assert len(trend) == POINTS
    points = decode_trend(trend)
    assert [x for x, _ in points] == [1 / 24, 0.5, 1.0]
    assert [y for _, y in points] == pytest.approx([0.2, 0.5, 1.0], abs=0.01)
    odd = encode_trend([1, 2, 3, 24], [float("nan"), -1.0, float("inf"), 0.5])
    assert decode_trend(odd) == ((1.0, pytest.approx(0.5, abs=0.01)),)
    assert encode_trend([5], [0.5]) == encode_trend([0, 0], [0.1, 0.2]) == ""
    assert not any(map(is_trend, ("x", None, "é" * POINTS)))
