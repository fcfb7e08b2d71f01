"""What the folder of a unit says, and units as text: states, scores, times, what cannot begin."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Diverged, Finished, Measured, RegimeSwapped
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.calculation import is_calculated, read_result, run_calculation, seconds_taken
from dgn_engine.sweep.unit import (
    Calculation,
    ProcessId,
    Training,
    Unit,
    UnitFile,
    UnitTask,
    UnitUpdate,
    check_units,
    same_unit,
    unit_folder,
    unit_to_plain,
)
from dgn_engine.sweep.unit_results import (
    UnitResults,
    UnstartableUnit,
    find_unstartable,
    read_unstartable,
    record_unstartable,
    state_of,
)
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.sweep.small import (
    SMALL,
    relu_and_fl_units,
    run_units,
    small_training,
    write_run_log,
)
from tests.refusals import refused

UNIT = small_training(0)
STEPS = 10  # in an epoch
NAN = math.nan


def score(step: int, train: float, test: float | None) -> Measured:
    return Measured(step, step / STEPS, 1 - train, train, None, test)


SWAP = RegimeSwapped(12, "DL", "FR-II", (), (), (), ())


# what came out


def test_the_scores_of_a_run_are_those_of_its_last_regime(tmp_path: Path) -> None:
    write_run_log(
        tmp_path,
        (1.0, score(10, 0.9, 0.95)),
        (2.0, SWAP),
        (3.0, score(13, 0.1, 0.2)),
        (4.0, score(20, 0.3, 0.8)),
        (5.0, score(25, 0.35, None)),
        (6.0, score(30, 0.5, 0.7)),
        (7.0, score(40, 0.6, None)),
        (7.5, Finished(40)),
    )
    found = UnitResults(tmp_path).trained_run(UNIT.id)
    # the run was never built, so that an epoch is taken for a step
    assert (found.best, found.last) == (0.8, 0.7)
    assert found.path == unit_folder(tmp_path, UNIT.id)
    assert found.train_accuracy == 0.6
    assert found.epochs == (13, 20, 25, 30, 40)
    assert found.test == pytest.approx((0.2, 0.8, NAN, 0.7, NAN), nan_ok=True)
    assert found.seconds == 6.5
    assert found.diverged_at is None


def test_scores_at_the_end_of_each_epoch_are_kept(tmp_path: Path) -> None:
    run_units(SerialExecutor(), [UNIT], tmp_path)
    reader = RunReader(unit_folder(tmp_path, UNIT.id))
    ends = [one for one in reader.measured_events if one.step in (10, 20, 30)]
    found = UnitResults(tmp_path).trained_run(UNIT.id)
    assert found.epochs == (1.0, 2.0, 3.0)
    assert found.train == tuple(one.train_accuracy for one in ends)
    assert found.train_loss == tuple(one.train_loss for one in ends)
    assert found.test == tuple(one.test_accuracy for one in ends)
    assert found.train_accuracy == ends[-1].train_accuracy
    assert found.seconds > 0


def test_the_pause_before_a_run_goes_on_and_a_clock_that_is_set_back_do_not_count(
    tmp_path: Path,
) -> None:
    write_run_log(
        tmp_path,
        (100.0, score(1, 0.5, None)),
        (102.0, score(2, 0.5, None)),
        (1000.0, RunContinued(2, "")),
        (1003.0, score(3, 0.5, None)),
        (900.0, score(4, 0.5, None)),
        (904.0, "Closed"),
    )
    assert UnitResults(tmp_path).trained_run(UNIT.id).seconds == 2 + 3 + 4


def test_the_time_before_the_first_line_counts(tmp_path: Path) -> None:
    """Of a run of one epoch in a pack that is all of it."""
    first = time.time() + 100.0
    write_run_log(tmp_path, (first, score(1, 0.5, None)), (first + 2, Finished(1)))
    begun = datetime.fromisoformat(RunReader(unit_folder(tmp_path, UNIT.id)).info["created"])
    found = UnitResults(tmp_path).trained_run(UNIT.id).seconds
    assert found == pytest.approx(first + 2 - begun.timestamp())


def test_a_run_without_scores_has_none(tmp_path: Path) -> None:
    write_run_log(tmp_path, (1.0, score(10, 0.9, 0.95)), (2.0, SWAP), (3.0, Diverged(17)))
    found = UnitResults(tmp_path).trained_run(UNIT.id)
    numbers = (found.best, found.last, found.train_accuracy)
    assert numbers == pytest.approx((NAN,) * 3, nan_ok=True)
    assert (found.epochs, found.train, found.train_loss, found.test) == ((), (), (), ())
    assert found.diverged_at == 17


def test_a_run_that_is_known_to_have_failed_has_no_score_and_took_no_time(tmp_path: Path) -> None:
    found = UnitResults(tmp_path, failed=("x",)).trained_run("x")
    assert math.isnan(found.best)
    assert (found.seconds, found.diverged_at, found.path) == (0.0, None, unit_folder(tmp_path, "x"))
    with pytest.raises(UserError, match="is not a run"):
        UnitResults(tmp_path, failed=("y",)).trained_run("x")


def test_the_time_of_units_is_that_of_those_that_were_read(tmp_path: Path) -> None:
    write_run_log(tmp_path, (1.0, score(1, 0.5, None)), (3.5, Finished(1)))
    made = Calculation(
        "limit",
        "dgn_engine.experiments.theory_infinite_width:distances",
        {"widths": [4], "seed": 0, "draws": 1},
    )
    run_calculation(made, tmp_path)
    results = UnitResults(tmp_path)
    assert results.seconds == 0.0
    assert math.isnan(results.seconds_of(UNIT.id, "limit"))
    assert results.seconds_of(UNIT.id, default=7.0) == 7.0
    results.trained_run(UNIT.id)
    assert results.seconds_of(UNIT.id, "limit") == 2.5
    took = seconds_taken(unit_folder(tmp_path, "limit"))
    results.calculation_result("limit")
    assert results.seconds_of("limit") == took
    assert results.seconds == results.seconds_of(UNIT.id, "limit") == 2.5 + took
    note = unit_folder(tmp_path, "limit") / "unit.json"
    tree = json.loads(note.read_text())
    note.write_text(json.dumps({**tree, "seconds": "long"}))
    assert math.isnan(seconds_taken(unit_folder(tmp_path, "limit")))


# what state a folder is in


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (Finished(40), "done"),
        (Diverged(40), "diverged"),
        ("Closed", "begun"),
        (score(40, 0.5, None), "begun"),
        (Failed("x", "y"), "begun"),
    ],
)
def test_the_state_of_a_run_is_how_it_ended(tmp_path: Path, last: Event | str, state: str) -> None:
    assert state_of(UNIT, tmp_path) == "new"
    write_run_log(tmp_path, (1.0, score(10, 0.9, 0.95)), (2.0, last))
    assert state_of(UNIT, tmp_path) == state
    assert state_of(replace(UNIT, config=replace(UNIT.config, device="auto")), tmp_path) == state
    with refused("other-run"):
        state_of(replace(UNIT, config=replace(UNIT.config, seed=9)), tmp_path)


def test_a_unit_that_needs_the_weights_of_a_diverged_run_cannot_begin_nor_what_needs_it(
    tmp_path: Path,
) -> None:
    relu, fixed = relu_and_fl_units(0)
    assert isinstance(relu, Training)
    assert isinstance(fixed, Training)
    third = replace(small_training(1), weights_from=UnitFile(fixed.id, "weights.safetensors"))
    table = Calculation("table", "dgn_engine.x:f", needs=(relu.id,))
    assert find_unstartable(fixed, tmp_path) is None  # nobody knows yet
    write_run_log(tmp_path, (1.0, Diverged(17)), unit=relu)
    found = find_unstartable(fixed, tmp_path)
    assert found == UnstartableUnit(relu.id, 17)
    assert find_unstartable(table, tmp_path) is None
    assert find_unstartable(third, tmp_path) is None
    assert state_of(fixed, tmp_path) == "new"  # its folder does not say so yet
    record_unstartable(fixed.id, found, tmp_path)
    assert state_of(fixed, tmp_path) == "diverged"
    assert read_unstartable(unit_folder(tmp_path, fixed.id)) == found
    assert find_unstartable(third, tmp_path) == UnstartableUnit(fixed.id, 17)
    result = UnitResults(tmp_path).trained_run(fixed.id)
    assert (result.diverged_at, result.epochs) == (17, ())
    assert fixed.gates_from is not None
    fixed.gates_from.path(tmp_path).parent.mkdir()
    fixed.gates_from.path(tmp_path).touch()
    assert find_unstartable(fixed, tmp_path) is None  # it left them before it diverged
    assert state_of(fixed, tmp_path) == "new"


def test_a_run_that_has_begun_is_not_one_that_cannot(tmp_path: Path) -> None:
    relu, fixed = relu_and_fl_units(0)
    assert isinstance(relu, Training)
    assert isinstance(fixed, Training)
    write_run_log(tmp_path, (1.0, Diverged(17)), unit=relu)
    held = replace(fixed, config=fixed.resolve_paths(tmp_path), gates_from=None)
    folder = write_run_log(tmp_path, (1.0, score(1, 0.5, None)), unit=held)
    record_unstartable(fixed.id, UnstartableUnit(relu.id, 17), tmp_path)
    assert read_unstartable(folder) is None
    assert find_unstartable(fixed, tmp_path) is None
    assert state_of(fixed, tmp_path) == "begun"


@pytest.mark.parametrize("content", ["", "[]", '{"source": 3, "step": 1}', "[" * 100_000])
def test_a_damaged_note_of_what_cannot_begin_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "orphan.json").write_text(content)
    assert read_unstartable(tmp_path) is None


def test_a_run_whose_needs_diverged_is_skipped_and_told_as_diverged(tmp_path: Path) -> None:
    relu, fixed = relu_and_fl_units(0)
    assert isinstance(relu, Training)
    steep = replace(SMALL.training, learning_rate=1e20, optimiser="sgd")
    gating = replace(SMALL.gating, regime="ReLU")
    wild = replace(relu, config=replace(SMALL, training=steep, gating=gating))
    for _ in range(2):
        states = run_units(SerialExecutor(), [wild, fixed], tmp_path)
        assert states == {relu.id: "diverged", fixed.id: "diverged"}


@pytest.mark.parametrize("place", ["/elsewhere", "relative", "C:\\\\of another system"])
def test_a_run_in_a_moved_folder_is_that_of_its_unit(tmp_path: Path, place: str) -> None:
    """The configuration of a run has the path of its gates as it was when the run began."""
    _, fixed = relu_and_fl_units(0)
    assert isinstance(fixed, Training)
    source = fixed.gates_from
    assert source is not None
    path = f"{place}/units/{source.unit}/{source.file}"
    moved = path.replace("/", "\\") if ":" in place else path

    def with_gates(path: str) -> RunConfig:
        return replace(fixed.config, gating=replace(fixed.config.gating, gates_from=path))

    assert fixed.is_run(with_gates(moved), tmp_path)
    for other in ("", "/gates.pt", f"{path}2", path.replace(source.unit, "ReLU-s1"), source.file):
        assert not fixed.is_run(with_gates(other), tmp_path), other
    assert not fixed.is_run(replace(with_gates(moved), seed=1), tmp_path)
    own = replace(fixed, config=with_gates("/elsewhere/gates.pt"), gates_from=None)
    assert not own.is_run(with_gates("/other/gates.pt"), tmp_path), "no unit's file"


# calculations


@pytest.mark.parametrize("function", ["os:getcwd", "dgn_engines.x:f", "x.dgn_engine.y:f"])
def test_nothing_is_called_that_is_not_ours(tmp_path: Path, function: str) -> None:
    with refused("not-ours"):
        run_calculation(Calculation("x", function), tmp_path)
    assert not unit_folder(tmp_path, "x").exists()


def test_a_calculation_is_given_its_arguments_its_folder_and_those_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dgn_engine.sweep import unit as module

    given: list[Any] = []

    def function(inputs: Any) -> dict[str, object]:
        given.append(inputs)
        return {"β": [1, None]}

    monkeypatch.setattr(module, "made_up", function, raising=False)
    unit = Calculation("x", "dgn_engine.sweep.unit:made_up", {"n": 3}, ("a", "b"))
    assert not is_calculated(unit, unit_folder(tmp_path, "x"))
    run_calculation(unit, tmp_path)
    (inputs,) = given
    assert (inputs.arguments, inputs.folder) == ({"n": 3}, unit_folder(tmp_path, "x"))
    assert inputs.needs == {name: unit_folder(tmp_path, name) for name in "ab"}
    assert read_result(inputs.folder) == {"β": [1, None]}
    assert is_calculated(unit, inputs.folder)
    assert (inputs.folder / "lock").read_bytes() == b""
    note = json.loads((inputs.folder / "unit.json").read_text())
    assert {key: note[key] for key in unit_to_plain(unit)} == unit_to_plain(unit)
    assert note["seconds"] >= 0


def test_a_calculation_that_another_process_has_just_finished_is_not_repeated(
    tmp_path: Path,
) -> None:
    unit = Calculation(
        "limit",
        "dgn_engine.experiments.theory_infinite_width:distances",
        {"widths": [4], "seed": 0, "draws": 1},
    )
    run_calculation(unit, tmp_path)
    folder = unit_folder(tmp_path, "limit")
    before = (folder / "unit.json").read_bytes(), (folder / "result.json").stat().st_mtime_ns
    run_calculation(unit, tmp_path)
    after = (folder / "unit.json").read_bytes(), (folder / "result.json").stat().st_mtime_ns
    assert after == before
    (folder / "result.json").write_text("{}")
    run_calculation(unit, tmp_path)
    assert (folder / "result.json").read_text() != "{}", "a damaged one is none"


# as text


def test_units_tasks_and_updates_cross_as_text() -> None:
    relu, fixed = relu_and_fl_units(0)
    units: list[Unit] = [
        relu,
        fixed,
        replace(small_training(1), weights_from=UnitFile("a", "b")),
        Calculation("c", "dgn_engine.x:f", {"n": [1, 2.5, "x"]}, ("a", "b")),
        Calculation("d", "y"),
    ]
    for unit in units:
        task = UnitTask(unit, Path("/a sweep"), (ProcessId(3, "node"),))
        assert UnitTask.from_text(task.to_text()) == task
        bare = UnitTask(unit, Path("/a sweep"))
        assert UnitTask.from_text(bare.to_text()) == bare
    assert "weights_from" not in unit_to_plain(relu)
    bare_update = UnitUpdate("a", "failed", trouble="β")
    assert UnitUpdate.from_text(bare_update.to_text()) == bare_update


def test_a_worker_is_free_again_after_every_update_but_one() -> None:
    states = ("running", "done", "diverged", "interrupted", "failed", "refused", "held", "lost")
    assert [state for state in states if not UnitUpdate("a", state).is_over] == ["running"]


def test_a_training_needs_each_unit_once_and_its_files_are_in_their_folders() -> None:
    unit = replace(
        small_training(0), gates_from=UnitFile("a", "g.pt"), weights_from=UnitFile("b", "w.pt")
    )
    assert unit.needs == ("a", "b")
    config = unit.resolve_paths(Path("/s"))
    assert config.gating.gates_from == str(Path("/s/units/a/g.pt"))
    assert config.training.weights_from == str(Path("/s/units/b/w.pt"))
    assert replace(unit, weights_from=UnitFile("a", "w.pt")).needs == ("a",)
    assert small_training(0).needs == ()
    assert small_training(0).resolve_paths(Path("/s")) == small_training(0).config


def test_units_are_the_same_on_whatever_device() -> None:
    unit = small_training(0)
    fetched = replace(unit.config.data, download=True)
    elsewhere = replace(unit, config=replace(unit.config, device="auto", data=fetched))
    assert same_unit(unit, elsewhere), "nor does leave to fetch the data make another"
    assert not same_unit(unit, replace(unit, config=replace(unit.config, seed=1)))
    assert not same_unit(unit, replace(elsewhere, gates_from=UnitFile("a", "b")))
    assert not same_unit(unit, replace(unit, id="other"))
    table = Calculation("table", "dgn_engine.x:f")
    assert same_unit(table, Calculation("table", "dgn_engine.x:f"))
    assert not same_unit(table, Calculation("table", "dgn_engine.x:g"))
    assert not same_unit(table, unit)
    assert not same_unit(unit, table)


def test_a_name_is_one_of_a_folder_and_needs_come_before() -> None:
    check_units([Calculation("a.b_c=d+e-9", "x"), *relu_and_fl_units(0)])
    for name in ("", ".x", "a/b", "a b", "ä", "-x", "..", "a\n"):
        with refused("no-name"):
            check_units([Calculation(name, "x")])
