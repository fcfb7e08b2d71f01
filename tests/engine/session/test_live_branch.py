"""A branch beside the run: trained by the command in a process of its own, compared as it comes."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.cli._attached import WindowPace
from dgn_engine.config import DataConfig
from dgn_engine.protocol.branches import (
    BranchChanges,
    BranchStatus,
    CheckpointsListed,
    ComparedMoved,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
    HoldCheckpoint,
    ListCheckpoints,
    StartBranch,
    StopBranch,
)
from dgn_engine.protocol.messages import Command, Event, Refused
from dgn_engine.protocol.runs import ListRuns, RunShown, ShowRun
from dgn_engine.protocol.training import (
    Advance,
    EstimateRun,
    Finished,
    Measured,
    Pause,
    Redo,
    RegimeSwapped,
    SetBeta,
    SetLearningRate,
    SetPace,
    StartRun,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars, SetProbeExamples, Watch
from dgn_engine.session.live_branch import BranchChild, Branches, cores_of, describe_sharing
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import headless_run
from dgn_engine.training.headless_run import HeadlessRun
from dgn_engine.training.readings.overhead_meter import Overhead
from dgn_engine.training.recording import Recording, continue_run
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run, restore_run
from tests.engine.session.conftest import Desk, recompute_step, small_config, train_alone

LIMIT = 500.0  # seconds that a child may take on a machine with much else to do


def begun_at(runs: Path, child: Callable[[list[str]], Any] = BranchChild) -> Desk:
    """`child`: what is started for a branch."""
    return Desk(
        str(runs),
        branches=lambda state: Branches(state, child, 0.05, save_every="0.1", leave=LIMIT),
    )


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = begun_at(tmp_path / "runs")
    yield desk
    desk.engine.close()


@pytest.fixture
def children() -> list[Trainer]:
    """Those that `replaced` has started."""
    return []


@pytest.fixture
def words() -> list[str]:
    """What the children say last."""
    return [""]


@pytest.fixture
def replaced(tmp_path: Path, children: list[Trainer], words: list[str]) -> Iterator[Desk]:
    """Whose branches the test trains."""

    def start(arguments: list[str]) -> Trainer:
        children.append(Trainer(arguments, words[0]))
        return children[-1]

    desk = begun_at(tmp_path / "runs", start)
    yield desk
    desk.engine.close()


def is_followed() -> bool:
    """Whether the folder of a branch is looked at."""
    return any(thread.name == "dgn-branch" for thread in threading.enumerate())


def status(desk: Desk) -> BranchStatus:
    return desk.events_of(BranchStatus)[-1]


class Trainer:
    """In the place of the child: the test trains the branch. `exit_code`: as of a process."""

    processor_seconds = None

    def __init__(self, arguments: list[str], words: str = "") -> None:
        self.folder = Path(arguments[arguments.index("--out") + 1])
        self.parent = Path(arguments[arguments.index("--branch-from") + 1])
        self.exit_code: int | None = None
        self.paces: list[float] = []
        self.step = 0
        self._words = words

    def begin(self, changes: BranchChanges, steps: int, until: float = math.inf) -> None:
        headless = HeadlessRun(self, lambda: self.step >= until, checkpoint_every=1e9)
        headless.run_branch(self.parent, None, changes, self.folder, steps)

    def on_step(self, step: int) -> None:
        self.step = step

    def on_event(self, event: Event) -> None:
        """Nobody listens."""

    def set_pace(self, pace: float) -> None:
        self.paces.append(pace)

    def close_input(self) -> None:
        self.exit_code = 128 + 10

    def last_error_line(self) -> str:
        return self._words

    def close(self, patience: float) -> None:
        """There is no process."""


def test_a_branch_trains_beside_the_run_is_compared_and_changes_nothing_of_it(desk: Desk) -> None:
    desk.handle(StartRun(small_config(epochs=10)), Watch((ProbeRequest("gates"),)))
    desk.advance(7)
    run = desk.run
    at = run.step_count
    desk.handle(StartBranch(BranchChanges(regime="FR-II", learning_rate=0.002)))
    assert (status(desk).phase, status(desk).from_step) == ("starting", at)
    desk.advance(20)
    desk.handle(Pause())
    desk.advance_until(lambda: status(desk).phase == "finished", LIMIT)
    desk.advance_until(lambda: "gates" in desk.frames[-1].compared, LIMIT)
    opened = next(event for event in desk.events if isinstance(event, ComparisonOpened))
    assert opened.regime == "FR-II"
    assert opened.config is not None
    assert opened.config.training.learning_rate == 0.002
    folder = Path(status(desk).folder)
    reader = RunReader(folder)
    assert any(isinstance(e, RegimeSwapped) and e.step == at for e in reader.events)

    # The branch: as the run would have gone on from its checkpoint with the same changes.
    parent = folder.parent / status(desk).parent
    last = run_checkpoints.load_checkpoint(reader.find_checkpoint())
    again = Run(1, run.config, lambda _: None, lambda *_: None, live=False, recorded=True)
    restore_run(again, run_checkpoints.load_checkpoint(RunReader(parent).find_checkpoint(at)))
    again.control.swap_regime("FR-II", restart_value=True)
    again.control.set_learning_rate(0.002)
    while again.step_count < last.step:
        again.step()
    assert last.step == 70
    assert all(torch.equal(last.tensors[n], t) for n, t in again.trainer.tensors().items())

    # The run itself: as if there had never been a branch.
    ours, undisturbed = (
        run.trainer.tensors(),
        train_alone(run.config, run.step_count).trainer.tensors(),
    )
    assert run.step_count > at
    assert all(torch.equal(ours[n], tensor) for n, tensor in undisturbed.items())


def test_what_the_branch_writes_is_shown_as_it_comes(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk = replaced
    desk.handle(StartRun(small_config(), paused=True), Watch((ProbeRequest("gates"),)))
    desk.handle(Advance(3))
    desk.advance(4)
    changes = BranchChanges(regime="FR-II")
    desk.handle(StartBranch(changes))
    desk.advance_until(lambda: bool(children), LIMIT)
    children[0].begin(changes, 4)
    desk.advance_until(lambda: status(desk).phase == "training", LIMIT)
    desk.advance_until(lambda: "gates" in desk.frames[-1].compared, LIMIT)
    first = desk.frames[-1].compared["gates"]
    with closing(RunFolder(children[0].folder)) as folder:
        run, _ = continue_run(folder, 1, lambda _: None, lambda *_: None, live=False)
        recording = Recording(folder, run, lambda _: None, every=1e9)
        run._emit = run.evaluation._emit = recording.on_event
        for _ in range(14):
            run.step()
        recording.write_checkpoint()
        desk.advance_until(lambda: desk.frames[-1].compared["gates"].step == 21, LIMIT)
        assert recording.close()
    assert first.step == 7
    moved = desk.events_of(ComparedMoved)
    steps = [one.step for event in moved for one in event.samples if isinstance(one, Measured)]
    assert steps
    assert max(steps) <= 21
    assert any(isinstance(one, ProbeScalars) for event in moved for one in event.samples)
    desk.handle(StopBranch())
    desk.advance_until(lambda: not is_followed(), LIMIT)
    assert status(desk).phase == "stopped"
    assert status(desk).step == 21


def test_a_second_branch_is_compared_in_the_place_of_the_first(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk = replaced
    desk.handle(StartRun(small_config(), paused=True), Watch((ProbeRequest("gates"),)), Advance(3))
    desk.advance(4)
    for number, regime in enumerate(("FR-II", "FR-DI"), 1):
        changes = BranchChanges(regime=regime)
        desk.handle(StartBranch(changes))
        desk.advance_until(lambda count=number: len(children) == count, LIMIT)  # type: ignore[misc]
        children[-1].begin(changes, 2 * number)
        desk.advance_until(lambda: status(desk).phase == "training", LIMIT)
        opened = desk.events_of(ComparisonOpened)[-1]
        assert (opened.number, opened.regime) == (number, regime)
        assert opened.folder == status(desk).folder == str(children[-1].folder)
        desk.advance_until(lambda: "gates" in desk.frames[-1].compared, LIMIT)
        desk.advance_until(lambda n=number: desk.frames[-1].comparison == n, LIMIT)  # type: ignore[misc]
        children[-1].exit_code = 0
        desk.advance_until(lambda: status(desk).phase == "finished", LIMIT)
        assert status(desk).step == 3 + 2 * number
        assert not is_followed()
    assert children[0].folder != children[1].folder


def test_a_finished_run_is_branched_and_its_branch_goes_on(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk, changes = replaced, BranchChanges(learning_rate=0.002)
    desk.handle(StartRun(small_config(epochs=1)))
    desk.advance_until(lambda: not desk.engine.running)
    end = desk.last_event(Finished).step
    desk.handle(StartBranch(changes))
    assert status(desk).command.endswith(" --steps 0")  # without an end
    desk.advance_until(lambda: bool(children), LIMIT)
    children[0].begin(changes, 0, until=end + 3)
    desk.advance_until(lambda: status(desk).step == end + 3, LIMIT)
    assert status(desk).phase == "training"
    assert desk.last_event(ComparisonOpened).step >= end
    assert RunReader(children[0].folder).find_checkpoint().step == end + 3


def test_a_branch_that_cannot_be_compared_says_why_and_is_trained_all_the_same(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk, changes = replaced, BranchChanges(regime="FRG")
    desk.handle(StartRun(small_config(), paused=True), StartBranch(changes))
    desk.advance_until(lambda: bool(children), LIMIT)
    children[0].begin(changes, 2)
    desk.advance_until(lambda: status(desk).phase == "training", LIMIT)
    assert "FRG" in status(desk).remark


def test_where_branches_can_begin_is_listed_and_others_are_refused(desk: Desk) -> None:
    desk.handle(StartRun(small_config(), paused=True), ListCheckpoints())
    listed = next(event for event in desk.events if isinstance(event, CheckpointsListed))
    assert listed.checkpoints == ()
    desk.handle(Advance(3))
    desk.advance(4)
    desk.handle(SwapRegime("FR-II"))
    recording = desk.recording
    assert recording.mark_checkpoint().done.wait(LIMIT)
    desk.handle(ListCheckpoints())
    listed = desk.events_of(CheckpointsListed)[-1]
    assert (3, "before FR-II") in listed.checkpoints
    assert listed.folder == str(recording.path)
    assert [listed.nearest_step(step) for step in (2, 3, 9)] == [None, 3, 3]
    desk.handle(StartBranch(BranchChanges(), 4), StartBranch(BranchChanges(regime="FR-III")))
    desk.handle(StopBranch())
    reasons = [(one.kind, one.value) for one in desk.events if isinstance(one, Refused)]
    assert reasons == [("out-of-bounds", "4"), ("unknown-name", ""), ("no-branch", "")]
    assert not any(isinstance(event, BranchStatus) for event in desk.events)


def test_a_run_that_is_not_recorded_has_no_branches() -> None:
    desk = Desk()
    desk.handle(StartRun(small_config(), paused=True), StartBranch(BranchChanges()))
    refused = desk.events_of(Refused)
    assert refused[-1].kind == "not-recorded"
    desk.engine.close()


def test_the_map_of_two_steps_is_the_exclusive_or_of_their_gates(desk: Desk) -> None:
    desk.handle(StartRun(small_config("ReLU"), paused=True), Advance(3))
    desk.advance(5)
    desk.handle(SetLearningRate(0.1))
    recording = desk.recording
    assert recording.mark_checkpoint().done.wait(LIMIT)
    desk.handle(Advance(30))
    desk.advance(40)
    desk.handle(Watch((ProbeRequest("gates"), ProbeRequest("agreement"))))
    desk.handle(SetLearningRate(0.2), CompareRun(str(recording.path), 3))
    opened = desk.events_of(ComparisonOpened)[-1]
    assert (opened.folder, opened.at_step) == (str(recording.path), 3)
    measured = [event.step for event in desk.events if isinstance(event, Measured)]
    assert max(measured) > 3
    assert [score.step for score in opened.scores] == [step for step in measured if step <= 3]
    assert opened.config is not None
    assert opened.config.training.learning_rate == 0.1  # as it was then
    desk.advance_until(lambda: "gates" in desk.frames[-1].compared, LIMIT)
    desk.advance_until(lambda: "equal" in desk.frames[-1].readings["agreement"].arrays, LIMIT)
    frame = desk.frames[-1]
    now, then = frame.readings["gates"], frame.compared["gates"]
    assert frame.comparison == opened.number > 0
    assert (now.step, then.step) == (33, 3)
    for layer in range(3):
        ours, theirs = now.arrays[f"layer_{layer}"], then.arrays[f"layer_{layer}"]
        differing = np.logical_xor(ours, theirs)
        shown = frame.readings["agreement"].arrays[f"difference_{layer}"]
        assert np.array_equal(shown != 0, differing)
        assert np.array_equal(shown, ours.astype(int) - theirs.astype(int))
        share = frame.readings["agreement"].arrays["equal"][layer]
        assert share == pytest.approx(1 - differing.mean())
    assert np.logical_xor(now.arrays["layer_2"], then.arrays["layer_2"]).any()


def test_a_branch_whose_command_fails_says_why(
    replaced: Desk, children: list[Trainer], words: list[str]
) -> None:
    desk, words[0] = replaced, "no checkpoint 2"
    desk.handle(StartRun(small_config(), paused=True), Advance(2))
    desk.advance(3)
    desk.handle(StartBranch(BranchChanges(beta=2.0)), StartBranch(BranchChanges()))
    assert next(e for e in desk.events if isinstance(e, Refused)).kind == "in-use"
    assert status(desk).command.startswith("dgn train --branch-from ")
    assert status(desk).command.endswith("--at-step 2 --after-changes --beta=2.0 --steps 0")
    desk.advance_until(lambda: bool(children), LIMIT)
    children[0].exit_code = 2
    desk.advance_until(lambda: status(desk).phase == "failed", LIMIT)
    assert status(desk).remark == "no checkpoint 2"
    desk.handle(StartBranch(BranchChanges()))  # another one can begin
    assert status(desk).phase == "starting"


def test_any_step_is_had_after_changes_and_their_undo(paused_desk: Desk) -> None:
    run, recording = paused_desk.run, paused_desk.recording
    recording._every = 1e9  # none comes by itself, however slow the machine is
    states: dict[int, Any] = {}
    later: dict[int, Command] = {
        3: SetLearningRate(0.004),
        8: SwapRegime("FR-II"),
        10: Undo(),
        12: SwapRegime("FL"),
        13: SetBeta(2.0),
        15: Undo(),  # of β …
        16: Undo(),  # … and of FL
        18: Redo(),
    }
    for step in range(22):
        states[step] = capture_run(run)
        if step == 12:  # from here on no checkpoint is written where weights change
            recording.write_checkpoint("before more")
            run.control.before_change = lambda _: None
        if step in later:
            paused_desk.handle(later[step])
        paused_desk.train(1)
    assert recording.mark_checkpoint().done.wait(LIMIT)
    listed = {one.step for one in RunReader(recording.path).checkpoints}
    assert listed & set(range(18)) == {8, 10, 12}  # those right after an undo have gone
    for step in (5, 9, 11, 14, 17, 21):
        ours, theirs = capture_run(recompute_step(recording.path, step)), states[step]
        assert ours is not None
        assert ours.state == theirs.state
        assert all(torch.equal(ours.tensors[n], t) for n, t in theirs.tensors.items())


def test_a_branch_at_a_step_is_from_before_its_changes_unless_it_begins_now(replaced: Desk) -> None:
    desk = replaced
    desk.handle(StartRun(small_config(), paused=True))
    desk.train(2)
    recording = desk.recording
    recording.write_checkpoint()
    desk.handle(SetLearningRate(0.004))
    recording.write_checkpoint()
    desk.handle(StartBranch(BranchChanges()))
    desk.handle(SetLearningRate(0.006))  # before its process has read where it begins
    recording.write_checkpoint()
    assert recording.mark_checkpoint().done.wait(LIMIT)
    for after_changes, rate in ((False, 1e-3), (True, 0.004)):
        again = recompute_step(recording.path, 2, after_changes=after_changes)
        assert again.trainer.optimizer.learning_rate == rate


def test_the_checkpoint_that_a_form_or_a_branch_needs_stays_and_goes_afterwards(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk = replaced
    desk.handle(StartRun(small_config(), paused=True))
    recording = desk.recording
    recording._every = 1e9  # none comes by itself, however slow the machine is

    def kept_after(steps: int) -> set[int]:
        for _ in range(steps):
            desk.train(1)
            recording.write_checkpoint()
        assert recording.mark_checkpoint().done.wait(LIMIT)
        return {one.step for one in RunReader(recording.path).checkpoints}

    kept_after(3)
    desk.handle(HoldCheckpoint(2))
    assert (2, "") in desk.events_of(CheckpointsListed)[-1].checkpoints
    assert kept_after(3) == {2, 5, 6}
    desk.handle(StartBranch(BranchChanges(), 4))  # from 2, which the form lets go now
    desk.handle(HoldCheckpoint(5))
    assert kept_after(3) == {2, 5, 8, 9}
    desk.handle(HoldCheckpoint(None))
    desk.advance_until(lambda: bool(children), LIMIT)
    assert kept_after(1) == {2, 9, 10}
    children[0].exit_code = 2
    desk.advance_until(lambda: status(desk).phase == "failed", LIMIT)
    assert kept_after(1) == {10, 11}


def test_a_run_that_is_left_with_a_held_checkpoint_goes_out_of_memory(paused_desk: Desk) -> None:
    paused_desk.train(2)
    recording = paused_desk.recording
    assert recording.mark_checkpoint().done.wait(LIMIT)
    paused_desk.handle(HoldCheckpoint(2))
    left = weakref.ref(recording)
    del recording
    paused_desk.handle(StartRun(small_config(), paused=True))
    gc.collect()
    assert left() is None


def test_a_branch_goes_at_the_pace_of_its_run_unless_full_speed_is_asked_for(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk = replaced
    desk.handle(StartRun(small_config(), paused=True), SetPace(40.0))
    desk.handle(StartBranch(BranchChanges()))
    desk.advance_until(lambda: bool(children), LIMIT)
    assert "at most 40 steps/s" in status(desk).sharing
    desk.handle(SetPace(7.0))
    desk.advance(2)
    assert children[0].paces == [40.0, 7.0]
    desk.handle(StopBranch())
    desk.advance_until(lambda: not is_followed(), LIMIT)
    desk.handle(StartBranch(BranchChanges(), full_speed=True))
    desk.advance_until(lambda: len(children) == 2, LIMIT)
    desk.handle(SetPace(9.0))
    desk.advance(2)
    assert children[1].paces == []
    assert "steps/s" not in status(desk).sharing


def test_a_branch_keeps_the_pace_of_its_run_when_another_run_begins(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk = replaced
    desk.handle(StartRun(small_config(), paused=True), SetPace(40.0))
    desk.handle(StartBranch(BranchChanges()))
    desk.advance_until(lambda: bool(children), LIMIT)
    desk.handle(StartRun(small_config(seed=1), paused=True), SetPace(2.0))
    desk.advance(2)
    assert children[0].paces == [40.0]


def test_a_step_is_of_the_probe_set_from_before_it_was_changed_there(paused_desk: Desk) -> None:
    paused_desk.train(7)
    recording = paused_desk.recording
    paused_desk.handle(SetProbeExamples(8))
    recording.write_checkpoint()
    assert recording.mark_checkpoint().done.wait(LIMIT)
    assert recompute_step(recording.path, 7).config.probe_examples == 20


def test_what_a_page_asks_for_leaves_the_viewer_overhead_known(paused_desk: Desk) -> None:
    meter = paused_desk.run.budget.overhead
    meter.measured = known = Overhead(0.04, 0.01)
    paused_desk.handle(
        ListCheckpoints(), HoldCheckpoint(None), ListRuns(), EstimateRun(small_config())
    )
    assert meter.measured is known
    paused_desk.handle(Watch((ProbeRequest("gates"),)))
    assert meter.measured is None


def test_a_command_takes_steps_at_the_pace_that_its_window_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Clock:
        """In the place of the module `time`: to sleep is to set it."""

        now = 0.0
        monotonic = staticmethod(lambda: Clock.now)

        @staticmethod
        def sleep(seconds: float) -> None:
            Clock.now += seconds

    class Follower(Trainer):
        def __init__(self) -> None:
            self.at: list[float] = []

        def on_step(self, step: int) -> None:
            self.at.append(Clock.now)

    monkeypatch.setattr(headless_run, "time", Clock)
    parts = iter([b"1", b"0\n5.0\n", b""])
    pace = WindowPace(lambda: next(parts))
    pace.read_paces()
    follower = Follower()
    headless = HeadlessRun(follower, lambda: False, pace=lambda: pace.value)
    headless.train(small_config(epochs=1), None)
    assert sorted(set(follower.at)) == pytest.approx([0.2 * step for step in range(7)])


def test_the_share_of_the_processor_is_said_in_words() -> None:
    assert " 1 thread on " in describe_sharing(1, None)
    assert " 2 threads on " in describe_sharing(2, 0.94)
    assert " 0.9 cores" in describe_sharing(2, 0.94)
    assert " less than 0.1 " in describe_sharing(1, 0.0)


def test_the_share_of_the_processor_is_that_of_several_looks() -> None:
    looks = [(3.0, 10.0), (3.0, 11.0), (4.0, 12.0), (4.0, 13.0)]
    assert cores_of(looks[:1]) is None
    assert cores_of(looks) == pytest.approx(1 / 3)
    assert cores_of(looks[1:3]) == pytest.approx(1.0)


def test_a_recorded_run_that_is_shown_is_branched_and_stays_finished(
    replaced: Desk, children: list[Trainer]
) -> None:
    desk, changes = replaced, BranchChanges(regime="FR-II")
    desk.handle(StartRun(small_config(epochs=1)))
    desk.advance_until(lambda: not desk.engine.running)
    end, folder = desk.last_event(Finished).step, desk.recording.path
    desk.handle(StartRun(small_config(), paused=True), ShowRun(str(folder)))
    desk.advance_until(lambda: bool(desk.events_of(RunShown)), LIMIT)
    desk.handle(ListCheckpoints(), HoldCheckpoint(2))
    listed = desk.events_of(CheckpointsListed)
    assert [(one.folder, one.checkpoints[-1]) for one in listed] == [
        (str(folder), (end, "final"))
    ] * 2
    desk.handle(StartBranch(changes, 2))
    assert not desk.events_of(Refused)
    assert (status(desk).parent, status(desk).from_step) == (folder.name, 2)
    assert (desk.run.step_count, desk.engine.running) == (end, False)
    desk.handle(StopBranch(), StartRun(small_config(), paused=True))
    assert RunReader(folder).log.summary.outcome == "finished"


def test_a_comparison_whose_network_does_not_fit_the_next_run_is_closed(desk: Desk) -> None:
    desk.handle(StartRun(small_config(epochs=1), paused=True), Watch((ProbeRequest("gates"),)))
    folder = desk.recording.path
    desk.advance(2)
    desk.handle(StartRun(small_config(), paused=True), CompareRun(str(folder)))
    assert not desk.events_of(ComparisonClosed)
    desk.handle(StartRun(small_config(), paused=True))
    assert not desk.events_of(ComparisonClosed)
    points = replace(small_config(), data=DataConfig("spirals"))
    desk.handle(StartRun(points, paused=True))
    assert desk.events_of(ComparisonClosed)[-1].reason
