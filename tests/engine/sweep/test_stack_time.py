"""The time of runs that were trained together is counted once, and shared among them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.folder_layout import LOG
from dgn_engine.storage.runs.log import LogLine, encode_line, log_word
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.stack_time import RunTrace, StackTimes, shared_seconds, trace_of
from dgn_engine.sweep.unit import Training, unit_folder
from dgn_engine.sweep.unit_results import UnitResults
from dgn_engine.sweep.workers.serial import SerialExecutor
from dgn_engine.training.batched import Job, train_pack
from tests.engine.sweep.small import run_units, small_training


def trace(stack: str, *spans: tuple[float, float], ends: tuple[float, ...] = ()) -> RunTrace:
    return RunTrace(stack, spans, {10 * (epoch + 1): at for epoch, at in enumerate(ends)})


def shares(*traces: RunTrace) -> list[float | None]:
    found = shared_seconds({Path(str(place)): one for place, one in enumerate(traces)})
    return [found.get(Path(str(place))) for place in range(len(traces))]


def test_five_runs_of_a_stack_of_50_minutes_took_10_each() -> None:
    assert shares(*[trace("a", (0.0, 3000.0))] * 5) == [600.0] * 5


def test_a_run_that_ended_early_left_its_share_to_the_others() -> None:
    assert shares(trace("a", (0, 60)), trace("a", (0, 20)), trace("a", (10, 20))) == pytest.approx(
        [5 + 10 / 3 + 40, 5 + 10 / 3, 10 / 3]
    )


def test_a_run_that_went_on_by_itself_has_that_time_alone() -> None:
    assert shares(trace("a", (0, 20), (100, 130)), trace("a", (0, 20))) == [40.0, 10.0]


def test_two_stacks_at_a_time_do_not_share() -> None:
    assert shares(*[trace("a", (0, 12))] * 2, *[trace("b", (0, 12))] * 3) == [6, 6, 4, 4, 4]


def test_a_run_by_itself_shares_nothing() -> None:
    assert shares(trace("", (0, 12)), trace("a", (0, 12))) == [None, 12.0]


def test_runs_without_a_name_whose_epochs_end_together_were_one_stack() -> None:
    """So are older results read; epochs of parallel stacks end at other times."""
    one, other = (10.0, 20.0, 30.0), (12.5, 25.0, 37.5)
    a, b = [
        [trace("", (0, ends[-1]), ends=tuple(at + late for at in ends)) for late in (0, 0.1, 0.3)]
        for ends in (one, other)
    ]
    assert shares(*a, *b) == pytest.approx([10] * 3 + [12.5] * 3)
    early = trace("", (0, 20.0), ends=(10.2, 20.2))
    assert shares(*a, early) == pytest.approx([20 / 4 + 10 / 3] * 3 + [5])
    assert shares(trace("", (0, 30), ends=one), trace("", (40, 70), ends=(50, 60, 70))) == [30, 30]
    assert shares(trace("", (0, 30), ends=one), trace("", (0, 7), ends=(7.0,))) == [30, 7]


def written(root: Path, unit: Training, stack: str, *ends: float, steps: tuple[int, ...]) -> None:
    """A run that was begun at 0, with a score at each of these steps and times."""
    folder = unit_folder(root, unit.id)
    RunFolder.create(folder, unit.config).close()
    info = {**run_info.read_run_info(folder), "created": "1970-01-01T00:00:00+00:00"}
    run_info.write_run_info(folder, run_info.add_stack(info, stack) if stack else info)
    lines = [
        LogLine(seq, at, log_word(made), to_plain(made))
        for seq, (at, step) in enumerate(zip(ends, steps, strict=True))
        for made in [Measured(step, step / 10, 0.5, 0.5, None, 0.5)]
    ]
    (folder / LOG).write_bytes(b"".join(map(encode_line, lines)))


def test_results_count_a_stack_once_also_where_only_one_of_its_runs_is_asked_for(
    tmp_path: Path,
) -> None:
    units = [small_training(seed) for seed in range(4)]
    for unit in units[:3]:
        written(tmp_path, unit, "a", 10.0, 30.0, steps=(10, 20))
    written(tmp_path, units[3], "", 10.0, 30.0, steps=(10, 20))
    (tmp_path / "units" / "calculated").mkdir()
    assert UnitResults(tmp_path).trained_run(units[0].id).seconds == 10.0
    results = UnitResults(tmp_path)
    assert sum(results.trained_run(unit.id).seconds for unit in units) == 60.0
    assert results.seconds == results.seconds_of(*(unit.id for unit in units)) == 60.0


@pytest.mark.parametrize("odd", [3, None, ["a"], ""])
def test_a_stack_that_is_no_name_is_none(tmp_path: Path, odd: object) -> None:
    unit = small_training(0)
    written(tmp_path, unit, "", 10.0, steps=(10,))
    folder = unit_folder(tmp_path, unit.id)
    run_info.write_run_info(folder, {**run_info.read_run_info(folder), "stack": odd})
    assert UnitResults(tmp_path).trained_run(unit.id).seconds == 10.0


def test_a_damaged_run_beside_it_is_left_out(tmp_path: Path) -> None:
    units = [small_training(seed) for seed in range(3)]
    for unit in units:
        written(tmp_path, unit, "a", 30.0, steps=(10,))
    (unit_folder(tmp_path, units[2].id) / "run.json").write_text(json.dumps({"stack": "a"}))
    assert UnitResults(tmp_path).trained_run(units[0].id).seconds == 15.0


def test_a_packed_run_names_its_stack_and_one_by_itself_does_not(tmp_path: Path) -> None:
    """Without the name, its log tells the same; that of a run by itself does not."""
    units = [small_training(seed, epochs=2) for seed in range(3)]
    packed = [replace(unit, id=f"packed-{unit.id}") for unit in units]
    jobs = [Job(unit.config, unit_folder(tmp_path, unit.id)) for unit in packed]
    train_pack(jobs, most=2)
    run_units(SerialExecutor(), units, tmp_path)
    names = [trace_of(RunReader(job.folder)).stack for job in jobs]
    assert names[0] == names[1] != names[2]
    assert all(names)
    times = StackTimes(tmp_path)
    spans = [trace_of(RunReader(job.folder)).spans for job in jobs[:2]]
    whole = max(one[-1][1] for one in spans) - min(one[0][0] for one in spans)
    assert sum(times.run_seconds(RunReader(job.folder)) for job in jobs[:2]) == pytest.approx(whole)
    for job in jobs:
        info = run_info.read_run_info(job.folder)
        del info["stack"]
        run_info.write_run_info(job.folder, info)
    without = [trace_of(RunReader(job.folder)) for job in jobs]
    assert [tuple(one.ends) for one in without] == [(10, 20)] * 3
    alone = [trace_of(RunReader(unit_folder(tmp_path, unit.id))) for unit in units]
    assert [(one.stack, one.ends) for one in alone] == [("", {})] * 3
