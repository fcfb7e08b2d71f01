"""The pictures of the probe examples cross the border with the run, and come back from disk."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.protocol.watching import ProbeExamples, ProbeSetChanged, SetProbeExamples
from dgn_engine.session import run_library as from_disk
from dgn_engine.storage.session_file.loaded_run import read_run
from tests.engine.session.conftest import Desk, small


def pictures(desk: Desk) -> ProbeExamples:
    return desk.last(ProbeExamples)


def test_a_run_shows_its_probe_examples_and_those_that_are_chosen_later(desk: Desk) -> None:
    desk.do(StartRun(small(), paused=True))
    started = desk.last(RunStarted)
    assert pictures(desk).probe_set == started.probe_set
    data = load_examples(small().data)
    stored = data.train_x[list(started.probe_set.indices), 0]
    np.testing.assert_array_equal(pictures(desk).images, np.rint(255 * stored.astype(float)))
    desk.do(SetProbeExamples(12))
    changed = desk.last(ProbeSetChanged)
    assert pictures(desk).probe_set.digest == changed.digest
    assert len(pictures(desk).probe_set.indices) == 12


def test_a_recorded_run_shows_them_where_the_data_are_the_same(tmp_path: Path) -> None:
    desk = Desk(str(tmp_path))
    try:
        desk.do(StartRun(small(), paused=True), SetProbeExamples(12))
        desk.train(2)
        whole = pictures(desk)
        first = next(tmp_path.iterdir())
        desk.do(StartRun(small("FR-II"), paused=True), ShowRun(str(first)))
        until = time.monotonic() + 150
        told = len(desk.events)
        while not any(isinstance(e, ProbeExamples) for e in desk.events[told:]):
            assert time.monotonic() < until
            desk.turn(1)
            time.sleep(0.01)
        assert pictures(desk) == whole
    finally:
        desk.engine.close()
    loaded = read_run(first)
    other = replace(loaded.started, config=replace(small(), seed=1))
    found = from_disk.recorded_examples(replace(loaded, started=other))
    assert found.images is None
    assert "digits" in found.missing


@pytest.mark.parametrize(
    ("data", "foreign", "why"),
    [
        (DataConfig("nowhere"), False, "'nowhere'"),
        (DataConfig("folder:/x"), True, " "),
        (DataConfig("mnist", root="/nowhere"), False, "mnist"),
        (DataConfig("digits", root="/x"), True, " "),
        (DataConfig("digits"), True, ""),
    ],
)
def test_nothing_is_read_that_is_not_here_or_that_a_stranger_names(
    data: DataConfig, foreign: bool, why: str
) -> None:
    found = from_disk._why_not_read(replace(small(), data=data), foreign)
    assert why in found
    assert bool(why) == bool(found)
