"""Lines, frames and checkpoints of a run keep their numbers: none is given twice, whatever went."""

from __future__ import annotations

import shutil

import pytest
import torch

from dgn_engine.protocol.training import Redo, StartRun, SwapRegime, Undo
from dgn_engine.storage.runs import folder_layout, run_checkpoints
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.session.conftest import Desk, small_config
from tests.engine.storage.runs import short_run
from tests.engine.storage.runs.short_run import make_frame, make_snapshot, write_score


def killed(folder, place):
    """The folder as a kill leaves it: no manifest, and what was written is there."""
    folder.sync()
    return shutil.copytree(folder.path, place)


@pytest.fixture
def run(tmp_path):
    """Three steps, each with a score, a frame and a checkpoint; killed."""
    folder = RunFolder.create(tmp_path / "first", short_run.CONFIG)
    for step in (1, 2, 3):
        write_score(folder, step)
        folder.add_frame(make_frame(step))
        folder.add_checkpoint(make_snapshot(step), "by the user")
    path = killed(folder, tmp_path / "run")
    folder.close()
    return path


def next_numbers(path):
    """Of the line, the frame and the checkpoint that are written next."""
    folder = RunFolder(path)
    write_score(folder, 9)
    folder.add_frame(make_frame(9))
    folder.add_checkpoint(make_snapshot(9), "")
    folder.close()
    reader = RunReader(path)
    assert reader.frames[-1].step == reader.checkpoints[-1].step == 9
    return (
        reader.log.all_contents.lines[-1].seq,
        reader.frames[-1].serial,
        reader.checkpoints[-1].order,
    )


def damage(path):
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))


def test_numbers_count_on_after_a_kill(run):
    assert next_numbers(run) == (3, 3, 3)


def test_the_number_of_a_frame_that_was_deleted_is_not_given_again(run):
    RunReader(run).frames[-1].path.full_path.unlink()
    assert next_numbers(run) == (3, 3, 3)


def test_numbers_of_what_repair_put_aside_are_not_given_again(run):
    reader = RunReader(run)
    shutil.rmtree(reader.checkpoints[1].path.full_path)
    damage(reader.frames[-1].path.full_path)
    damage(reader.checkpoints[-1].path.full_path / folder_layout.TENSORS)
    repair_run_folder(run)
    assert [one.order for one in RunReader(run).checkpoints] == [0]
    assert next_numbers(run) == (3, 3, 3)


def test_a_frame_that_was_put_aside_twice_keeps_its_number(run, tmp_path):
    frames = RunReader(run).frames
    spare = shutil.copy(frames[-1].path.full_path, tmp_path / "spare")
    for one in RunReader(run).checkpoints:
        shutil.rmtree(one.path.full_path)
    for content in (b"one", b"two"):
        frames[-1].path.full_path.write_bytes(content)
        repair_run_folder(run)
    assert len(list((run / folder_layout.DAMAGED / folder_layout.FRAMES).iterdir())) == 2
    assert spare.exists()
    (run / folder_layout.DAMAGED / folder_layout.FRAMES / frames[-1].path.name).unlink()
    assert next_numbers(run)[1] == 3


def test_the_number_of_a_damaged_checkpoint_is_not_given_again(run):
    """On a disk that is read from afar it may be sound again tomorrow: it is not the newest."""
    newest = RunReader(run).checkpoints[-1].path.full_path / folder_layout.TENSORS
    content = newest.read_bytes()
    damage(newest)
    assert next_numbers(run)[2] == 3
    newest.write_bytes(content)
    folder = RunFolder(run)
    assert folder.newest_checkpoint.step == 9
    folder.close()


def test_numbers_that_are_superseded_are_not_given_again_after_another_kill(run, tmp_path):
    folder = RunFolder(run)
    write_score(folder, 4)
    folder.add_frame(make_frame(4))
    folder.add_frame(make_frame(5))
    folder.drop_checkpoint(folder.newest_checkpoint)
    folder.resume_from_newest({"step": 2})
    again = killed(folder, tmp_path / "again")
    folder.close()
    assert [one.serial for one in RunReader(again).frames] == [0, 1]
    assert [one.order for one in RunReader(again).checkpoints] == [0, 1]
    assert next_numbers(again) == (5, 5, 3)


def test_scores_of_a_part_that_was_done_again_do_not_count_where_the_log_was_lost(run):
    """Its lines have no number that the checkpoint counts as its own."""
    (run / folder_layout.LOG).unlink()
    for _ in range(2):
        folder = RunFolder(run)
        folder.resume_from_newest({"step": 3})
        for step in (4, 5):
            write_score(folder, step)
        folder.close()
    assert [one.step for one in RunReader(run).measured_events] == [4, 5]
    assert [str(one) for one in find_damage(run)] == ["log.jsonl lacks the entries 0–2"]
    repair_run_folder(run)
    assert find_damage(run) == []
    assert [one.step for one in RunReader(run).measured_events] == [4, 5]


def test_a_checkpoint_that_cannot_be_removed_stays_and_is_not_written_twice(run, monkeypatch):
    def refuse(_):
        raise OSError(30, "Read-only file system")

    folder = RunFolder(run)
    for step in (4, 5):
        folder.add_checkpoint(make_snapshot(step), "")
    with monkeypatch.context() as patch:
        patch.setattr(run_checkpoints, "remove_checkpoint", refuse)
        folder.add_checkpoint(make_snapshot(6), "")
        folder.add_checkpoint(make_snapshot(7), "")
    assert [one.step for one in RunReader(run).checkpoints] == [1, 2, 3, 4, 5, 6, 7]
    folder.add_checkpoint(make_snapshot(8), "")
    folder.close()
    assert [one.step for one in RunReader(run).checkpoints] == [1, 2, 3, 7, 8]


def test_nonsense_in_a_damaged_state_gives_no_number(run):
    states = [one.path.full_path / folder_layout.STATE for one in RunReader(run).checkpoints]
    for state, text in zip(states, ('{"order": 1e99, "frames": "many"}', "[]", "{"), strict=True):
        state.write_text(text)
    assert next_numbers(run) == (3, 3, 0)


def test_numbers_grow_over_swaps_undo_and_redo(tmp_path):
    desk = Desk(str(tmp_path))
    desk.handle(StartRun(small_config("DL"), paused=True))
    path = desk.engine.state.recording.path
    seen = set()
    for command in (SwapRegime("FR-II"), Undo(), Redo(), Undo(), SwapRegime("FL")):
        desk.train(3)
        desk.handle(command)
        assert desk.engine.state.recording._recorder.flush()
        seen |= {(one.order, one.step) for one in RunReader(path).checkpoints}
    desk.engine.close()
    reader = RunReader(path)
    orders = sorted(order for order, _ in seen)
    assert orders == sorted(set(orders))
    assert [step for _, step in sorted(seen)] == sorted(step for _, step in seen)
    seqs = [line.seq for line in reader.log.all_contents.lines]
    assert seqs == list(range(len(seqs)))
    assert torch.tensor([one.serial for one in reader.frames]).diff().ge(1).all()
