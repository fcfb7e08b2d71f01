"""A step between two checkpoints is had again, bit for bit, as a twin that was stepped there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn_engine.cli import main
from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.protocol.branches import BranchBegan, BranchChanges
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs.log import decode_line, encode_line
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_checkpoints import Snapshot, load_checkpoint
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import run as run_module
from dgn_engine.training.branch import begin_branch
from dgn_engine.training.recording import Recording, begin_recording, continue_run
from dgn_engine.training.replay import recorded_run_at
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run
from tests.refusals import refused, refused_command

DENSE = RunConfig(
    data=DataConfig("digits", train_limit=160),
    net=NetConfig("fc", (("depth", 3), ("width", 8))),
    gating=GatingConfig("DL"),
    training=TrainingConfig(learning_rate=1e-3, epochs=0, optimiser="adam"),
    device="cpu",
    probe_examples=10,
)
MAPS = replace(DENSE, net=NetConfig("davidnet", (("width", 2),)))  # with BatchNorms
END = 24
RESUMED = 14  # 5 steps are an epoch, and after each fifth step there is a train score


def silent(*_: Any) -> None:
    """Reports and events go nowhere."""


def change(run: Run) -> None:
    """What a user did before the step that follows."""
    match run.step_count:
        case 6:
            run.control.set_learning_rate(0.003)
        case 8:
            run.control.swap_regime("FR-II", restart_value=True)
        case 9:
            shapes, order = run.architecture.gated_shapes, list(run.trainer.network.wiring)
            at = next(n for n, shape in enumerate(shapes[1:]) if shape == shapes[n])
            order[at], order[at + 1] = order[at + 1], order[at]
            run.control.rewire_gates(tuple(order))
        case 17:
            run.control.set_value_input("ones")


def record(path: Path, config: RunConfig) -> Path:
    """A run with checkpoints of steps 4, 20 and 24, which was left and resumed at step 14."""
    folder = RunFolder.create(path, config)
    run = Run(
        1, config, lambda event: recording.on_event(event), silent, live=False, examples=examples()
    )
    recording = begin_recording(folder, run, silent, every=1e9)
    run.control.before_change = silent
    while run.step_count < RESUMED:
        if run.step_count == 4:
            recording.write_checkpoint("before a change")
        change(run)
        run.step()
    assert recording.close()
    with closing(RunFolder(path)) as again:
        run, continued = continue_run(
            again, 1, lambda event: recording.on_event(event), silent, live=False
        )
        recording = Recording(again, run, silent, every=1e9)
        run.control.before_change = silent
        assert isinstance(continued, RunContinued)
        while run.step_count < END:
            if run.step_count == 20:
                recording.write_checkpoint("before another")
            change(run)
            run.step()
        assert recording.close()
    assert [one.step for one in RunReader(path).checkpoints] == [4, 20, END]
    return path


@cache
def examples() -> Examples:
    return load_examples(DENSE.data, silent)


def state_at(path: Path, step: int) -> Run:
    return recorded_run_at(RunReader(path), step, silent, silent, examples()).run


def twin_at(step: int, config: RunConfig) -> Run:
    run = Run(1, config, silent, silent, live=False, examples=examples())
    while run.step_count < step:
        change(run)
        run.step()
    return run


def same(one: Run, other: Run) -> bool:
    """Weights, optimiser, counters, dials, order: all that a checkpoint holds."""
    ours, theirs = capture_run(one), capture_run(other)
    assert isinstance(ours, Snapshot)
    assert isinstance(theirs, Snapshot)
    assert ours.state == theirs.state
    assert ours.tensors.keys() == theirs.tensors.keys()
    return all(torch.equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("runs") / "parent", DENSE)


def check_step(path: Path, step: int, config: RunConfig) -> None:
    """The state of a recorded step and the steps from there on are those of a twin."""
    told: list[Event] = []
    run = recorded_run_at(RunReader(path), step, told.append, silent, examples()).run
    twin = twin_at(step, config)
    assert told == []
    assert run.step_count == step
    assert same(run, twin)
    for _ in range(4):
        for one in (run, twin):
            change(one)
            one.step()
    assert same(run, twin)


def test_any_step_is_what_the_run_was_there_and_goes_on_as_it_did(parent: Path) -> None:
    for step in (0, 3, 8, 13, 19, END):
        check_step(parent, step, DENSE)


def test_examples_that_are_given_are_not_loaded_again(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = examples()

    def load_again(*_: object) -> Examples:
        pytest.fail("the examples are here")

    monkeypatch.setattr(run_module, "load_examples", load_again)
    assert recorded_run_at(RunReader(parent), 4, silent, silent, given).run.step_count == 4


def test_a_step_of_a_network_of_maps_is_too(tmp_path: Path) -> None:
    path = record(tmp_path / "maps", MAPS)
    check_step(path, 19, MAPS)


def test_a_branch_between_two_checkpoints_has_the_log_of_its_parent_until_there(
    parent: Path, tmp_path: Path
) -> None:
    folder, run = begin_branch(parent, 12, BranchChanges(), tmp_path / "b", silent, silent, 0)
    folder.close()
    assert same(run, twin_at(12, DENSE))
    events = list(RunReader(tmp_path / "b").log.each_event())
    place = next(at for at, one in enumerate(events) if isinstance(one, BranchBegan))
    before = [one for one in RunReader(parent).log.each_event() if getattr(one, "step", 0) <= 12]
    assert events[:place] == before
    assert [one.step for one in before if isinstance(one, Measured)] == [5, 10]
    assert find_damage(tmp_path / "b") == []


def test_a_typed_command_branches_off_at_any_step(parent: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    asked = ["train", "--branch-from", str(parent), "--out", str(out), "--steps", "3", "--quiet"]
    assert refused_command(*asked, "--at-step", "25").value == 25
    assert main([*asked, "--at-step", "10"]) == 0
    twin = twin_at(10, DENSE)
    for _ in range(3):
        twin.step()
    last = load_checkpoint(RunReader(out).find_checkpoint())
    expected = twin.trainer.tensors()
    assert all(torch.equal(last.tensors[name], tensor) for name, tensor in expected.items())


def changed_copy(path: Path, out: Path, make: Callable[[str, dict[str, Any]], Any]) -> Path:
    """A copy of a run in which `make` has changed the fields of the lines of its log."""
    shutil.copytree(path, out)
    lines = []
    for raw in (out / "log.jsonl").read_bytes().splitlines():
        line = decode_line(raw)
        assert line is not None
        fields = dict(line.fields)
        make(line.name, fields)
        lines.append(encode_line(line._replace(fields=fields)))
    (out / "log.jsonl").write_bytes(b"".join(lines))
    return out


def test_a_score_that_comes_out_another_is_refused_with_the_nearest_steps(
    parent: Path, tmp_path: Path
) -> None:
    def other(name: str, fields: dict[str, Any]) -> None:
        if name == "Measured" and fields["step"] == 10:
            fields["train_loss"] += 1e-7

    copy = changed_copy(parent, tmp_path / "c", other)
    state_at(copy, 9)
    with refused("not-repeatable", value=(4, 20)):
        state_at(copy, 12)


def test_gates_of_a_file_are_not_repeated_and_the_steps_around_them_are_named(
    parent: Path, tmp_path: Path
) -> None:
    def from_file(name: str, fields: dict[str, Any]) -> None:
        if name == "RegimeSwapped":
            fields["source"] = "gates.pt"

    copy = changed_copy(parent, tmp_path / "c", from_file)
    assert same(state_at(copy, 8), twin_at(8, DENSE))
    with refused("not-repeatable", value=(8, 20)):
        state_at(copy, 9)


def test_an_undo_of_an_earlier_version_is_not_repeated(parent: Path, tmp_path: Path) -> None:
    """It put the networks back and kept the order of the data."""

    def undone(name: str, fields: dict[str, Any]) -> None:
        if name == "RegimeSwapped":
            fields |= {"after": "DL", "undone": "Undo regime DL", "of_step": 4}
            del fields["undone_steps"]

    copy = changed_copy(parent, tmp_path / "c", undone)
    assert same(state_at(copy, 8), twin_at(8, DENSE))
    with refused("not-repeatable", value=(8, 20)):
        state_at(copy, 9)
