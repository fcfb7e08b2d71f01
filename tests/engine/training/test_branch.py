"""Branches: bit-equal to a run that went on from the same checkpoint and was changed by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import BranchBegan, BranchChanges
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Measured, RegimeSwapped, SettingChanged
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.branch_origin import origin_of
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.branch import begin_branch
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.recording import begin_recording, continue_run
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import restore_run
from tests.engine.training.run_watchers import NoWatcher
from tests.refusals import refused
from tests.snapshots import Recorded

CONFIG = RunConfig(
    data=DataConfig("digits", train_limit=120),
    net=NetConfig("fc", (("depth", 3), ("width", 8))),
    gating=GatingConfig("DL"),
    training=TrainingConfig(learning_rate=1e-3, epochs=0),
    device="cpu",
    probe_examples=10,
)
AT = 6  # of 4 steps an epoch: in the middle of one
EACH = (
    BranchChanges(),
    BranchChanges(regime="FR-II"),
    BranchChanges(regime="FL", seed=3),
    BranchChanges(regime="FRG", seed=3),
    BranchChanges(wiring=(1, 0), value_input="ones", learning_rate=0.01),
    BranchChanges(rotation=(1, 0), seed=5),
)


def silent(*_: Any) -> None:
    """Reports and events go nowhere."""


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint of step AT, which went on to step 10 with another rate."""
    path = tmp_path_factory.mktemp("runs") / "parent"
    folder = RunFolder.create(path, CONFIG)
    run = Run(1, CONFIG, lambda event: recording.on_event(event), silent, live=False)
    recording = begin_recording(folder, run, silent, every=1e9)
    for step in range(10):
        if step == AT:
            recording.write_checkpoint("before a branch")
            run.control.set_learning_rate(0.002)
        run.step()
    assert recording.close()
    return path


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in run.trainer.tensors().items()}


def by_hand(parent: Path, changes: BranchChanges) -> Run:
    """The run as it went on from its checkpoint, with the same changes asked of it one by one."""
    run = Run(1, CONFIG, silent, silent, live=False, recorded=True)
    restore_run(run, run_checkpoints.load_checkpoint(RunReader(parent).find_checkpoint(AT)))
    if changes.seed is not None:
        run.trainer.set_seed(changes.seed)
    if changes.regime:
        run.control.swap_regime(changes.regime, restart_value=True)
    if changes.wiring:
        run.control.rewire_gates(changes.wiring)
    if changes.rotation:
        run.control.rotate_gates(changes.rotation)
    if changes.value_input:
        run.control.set_value_input(changes.value_input)
    if changes.learning_rate:
        run.control.set_learning_rate(changes.learning_rate)
    return run


@pytest.mark.parametrize("changes", EACH, ids=lambda one: "+".join(one.in_words()) or "same")
def test_a_branch_equals_a_run_that_was_changed_at_that_step(
    parent: Path, tmp_path: Path, changes: BranchChanges
) -> None:
    other = by_hand(parent, changes)
    for _ in range(10):
        other.step()
    out = tmp_path / "branch"
    headless = HeadlessRun(NoWatcher(), lambda: False, checkpoint_every=1e9)
    outcome = headless.run_branch(parent, AT, changes, out, steps=10)
    assert outcome.step == AT + 10
    last = run_checkpoints.load_checkpoint(RunReader(out).find_checkpoint())
    expected = weights(other)
    assert last.tensors.keys() == expected.keys()
    assert all(torch.equal(last.tensors[name], expected[name]) for name in expected)


def test_a_branch_goes_on_from_its_folder_with_its_own_seed(parent: Path, tmp_path: Path) -> None:
    changes = BranchChanges(seed=9)
    folder, run = begin_branch(parent, AT, changes, tmp_path / "b", silent, silent, steps=20)
    folder.close()
    again = RunFolder(tmp_path / "b")
    resumed, _ = continue_run(again, 1, silent, silent, live=False)
    again.close()
    assert resumed.trainer.seed == 9
    assert resumed.config.seed == CONFIG.seed
    assert resumed.probed.probe_set.digest == run.probed.probe_set.digest
    for one in (run, resumed):
        for _ in range(5):
            one.step()
    ours, theirs = weights(run), weights(resumed)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    plain = by_hand(parent, BranchChanges())
    for _ in range(5):
        plain.step()
    assert any(not torch.equal(ours[name], weights(plain)[name]) for name in ours)


def test_until_its_first_step_a_branch_has_the_log_of_its_parent(
    parent: Path, tmp_path: Path
) -> None:
    changes = BranchChanges(regime="FR-II", seed=2)
    folder, _ = begin_branch(parent, AT, changes, tmp_path / "b", silent, silent, steps=4)
    folder.close()
    before = [e for e in RunReader(parent).log.each_event() if isinstance(e, Measured)]
    reader = RunReader(tmp_path / "b")
    events = list(reader.log.each_event())
    began = next(e for e in events if isinstance(e, BranchBegan))
    assert began == BranchBegan(AT, "parent", changes)
    assert "regime FR-II, seed 2" in began.sentence
    place = events.index(began)
    assert all(isinstance(e, Measured) and e in before for e in events[:place] if e)
    assert any(isinstance(e, RegimeSwapped) and e.after == "FR-II" for e in events[place:])
    assert not any(isinstance(e, SettingChanged) for e in events)  # the parent's later rate
    origin = origin_of(reader.info)
    assert origin is not None
    assert (origin.step, origin.changes) == (AT, changes)
    assert origin.parent_id == RunReader(parent).info["id"]
    assert find_damage(tmp_path / "b") == []
    state = RunState()
    for event in (reader.start_event, *events):
        assert event is not None
        state = state.after(event)
    config = state.current_config()
    assert config is not None
    assert (config.seed, config.gating.regime) == (2, "FR-II")


def test_the_parent_is_left_as_it_was(parent: Path, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in parent.rglob("*") if p.is_file()}
    folder, _ = begin_branch(parent, AT, EACH[1], tmp_path / "b", silent, silent, steps=1)
    folder.close()
    assert before == {p: p.read_bytes() for p in parent.rglob("*") if p.is_file()}


def test_what_cannot_be_branched_is_refused_and_nothing_is_left(
    parent: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b"

    for step, changes, steps, kind in (
        (11, BranchChanges(), 1, "no-such-step"),
        (AT, BranchChanges(), None, "no-end"),
        (AT, BranchChanges(regime="ReLUU"), 1, None),
        (AT, BranchChanges(wiring=(0, 1, 2, 3)), 1, None),
        (AT, BranchChanges(learning_rate=-1.0), 1, None),
    ):
        with pytest.raises(UserError) as caught:
            begin_branch(parent, step, changes, out, silent, silent, steps)
        assert not out.exists()
        assert kind is None or caught.value.kind == kind


def test_a_branch_whose_first_checkpoint_is_gone_is_not_begun_from_the_seed(
    parent: Path, tmp_path: Path
) -> None:
    folder, _ = begin_branch(parent, AT, EACH[1], tmp_path / "b", silent, silent, steps=1)
    folder.close()
    shutil.rmtree(tmp_path / "b" / "checkpoints")
    again = RunFolder(tmp_path / "b")
    with refused("no-checkpoint", value=AT):
        continue_run(again, 1, silent, silent, live=False)
    again.close()


def test_changes_are_the_options_that_make_them(recorded: Recorded) -> None:
    changes = BranchChanges("FL", False, (1, 0), (-1, 2), (), "ones", 0.01, 4.0, 0)
    recorded([changes.command_options(), changes.in_words()])
