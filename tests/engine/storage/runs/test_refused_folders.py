"""What is said where a run's folder has not, or not soundly, what it is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.inner_path import InnerPath, inner, inside
from dgn_engine.storage.runs import folder_layout, frame_content, index, run_checkpoints, run_info
from dgn_engine.storage.runs.branch_origin import BranchOrigin, branch_info, log_before, origin_of
from dgn_engine.storage.runs.log import decode_line
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.runs.repair import repair
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.thin_runs import ThinningPlan
from tests.engine.storage.runs.short_run import CONFIG, frame, score, snapshot

LOG, RUN = folder_layout.LOG, folder_layout.RUN
MIB = 1 << 20


@pytest.fixture
def run(memory: Path) -> Path:
    """Scores of three steps, checkpoints of three, of the last step two; closed."""
    folder = RunFolder.create(memory / "run", CONFIG)
    for step in (10, 20, 30):
        score(folder, step)
    folder.add_frame(frame(20))
    for step in (10, 20, 30, 30):
        folder.checkpoint(snapshot(step), "before FL")  # one that is kept
    folder.close()
    return folder.path


def sentence(act: Callable[..., object], *given: Any) -> str:
    with pytest.raises(UserError) as refused:
        act(*given)
    return str(refused.value)


def spoil(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


# Repair


def test_a_run_of_a_later_version_is_not_repaired_and_not_changed(run: Path) -> None:
    (run / RUN).write_bytes(run_info.encode({**run_info.read(run), "format": "dgn-viewer run 2"}))
    later = (run / RUN).read_bytes()
    [damage] = verify(run)
    assert "was written by a later version of dgn-viewer; install that one" in str(damage)
    assert "was written by a later version of dgn-viewer" in sentence(repair, run)
    assert (run / RUN).read_bytes() == later
    assert not (run / "damaged").exists()


def test_what_was_trained_is_found_in_the_newest_sound_checkpoint(run: Path) -> None:
    (run / RUN).unlink()
    (run / folder_layout.CONFIG).unlink()
    newest, *_ = sorted(run.glob("checkpoints/000000030*/state.json"), reverse=True)
    newest.write_text("{}")
    done = repair(run)
    assert done[0].startswith("run.json was made anew from checkpoints/000000030")
    assert newest.parent.name not in done[0]
    assert run_info.config_of(run_info.read(run)) == CONFIG
    assert verify(run) == []


def test_a_run_of_which_nothing_says_what_was_trained_is_not_repaired(run: Path) -> None:
    for file in (RUN, folder_layout.CONFIG):
        (run / file).unlink()
    for file in run.glob("checkpoints/*/state.json"):
        file.write_text("{}")
    assert sentence(repair, run) == (
        f"{run} cannot be repaired: neither run.json nor config.toml nor a checkpoint says what "
        "was trained."
    )


# Steps that are not there


def test_scores_of_a_step_are_those_of_just_this_step(run: Path, memory: Path) -> None:
    assert RunReader(run).scores(20).step == 20
    assert sentence(RunReader(run).scores, 25) == (
        "run has no scores of step 25; the nearest are of steps 20 and 30."
    )
    assert sentence(RunReader(run).scores, 99).endswith("; the nearest is of step 30.")
    RunFolder.create(memory / "empty", CONFIG).close()
    assert sentence(RunReader(memory / "empty").scores, 1) == "empty holds no scores."
    assert sentence(RunReader(memory / "empty").checkpoint) == "empty holds no checkpoint."


def test_an_older_checkpoint_is_not_taken_for_the_newest(run: Path) -> None:
    newest = max(run.glob("checkpoints/000000030*"))
    (newest / folder_layout.STATE).write_text("[]")
    said = sentence(RunReader(run).checkpoint)
    assert f"checkpoints/{newest.name}/state.json" in said
    assert said.endswith("the newest sound checkpoint of run is of step 30: run@30.")
    assert f"checkpoints/{newest.name}/state.json" in sentence(RunReader(run).checkpoint, 30)
    assert RunReader(run).checkpoint(20).step == 20
    assert sentence(RunReader(run).checkpoint, 15) == (
        "run has no checkpoint of step 15; the nearest are of steps 10 and 20."
    )


def test_a_checkpoint_that_was_spoilt_since_it_was_listed_is_refused_by_its_file(
    run: Path,
) -> None:
    listed = RunReader(run).checkpoint(10)
    spoil(run / "checkpoints" / listed.path.name / folder_layout.TENSORS)
    assert folder_layout.TENSORS in sentence(run_checkpoints.load, listed)


def test_a_state_that_is_no_table_is_none(memory: Path) -> None:
    (memory / folder_layout.STATE).write_text("[1, 2]")
    with pytest.raises(ValueError, match="no table"):
        run_checkpoints.read_state(inside(memory))


# New folders


def test_a_run_is_written_into_a_new_or_an_empty_folder_only(memory: Path) -> None:
    def said(name: str) -> str:
        return sentence(RunFolder.create, memory / name, CONFIG)

    (memory / "full").mkdir()
    (memory / "full" / "x").touch()
    (memory / "file").touch()
    (memory / "link").symlink_to(memory / "full")
    assert said("full") == f"{memory / 'full'} is not empty; choose another folder with --out."
    assert said("file") == f"{memory / 'file'} is not a folder; choose another one with --out."
    assert said("link") == f"{memory / 'link'} is a link; choose another folder with --out."
    assert said("a\udcffb").endswith("is no name in UTF-8; choose another folder with --out.")
    assert sorted(path.name for path in memory.iterdir()) == ["file", "full", "link"]


def test_the_run_to_go_on_with_is_the_last_one_that_nobody_writes(memory: Path) -> None:
    assert index.newest_resumable(memory / "nowhere") is None
    held = []
    for place, name in enumerate(("old", "new", "written", "without")):
        folder = RunFolder.create(memory / name, CONFIG)
        if name != "without":
            folder.checkpoint(snapshot(1), "")
        held.append(folder)
        if name != "written":
            folder.close()
        os.utime(memory / name / LOG, (place + 1, place + 1))
    assert index.newest_resumable(memory) == memory / "new"
    held[2].close()
    assert index.newest_resumable(memory) == memory / "written"


# Frames


def encoded(**changed: Any) -> bytes:
    """A frame with gates and a kernel, with another head."""
    readings = {
        "gates": Reading("gates", 7, arrays={"layer_0": np.eye(8, dtype=np.uint8)}),
        "npk": Reading("npk", 7, arrays={"kernel": np.eye(64)}),
    }
    content = frame_content.encode(Frame(1, 7, 0.5, 0.0, None, readings))
    head = json.loads(frame_content._metadata(content)["frame"])
    arrays = safetensors.numpy.load(content)
    return safetensors.numpy.save(arrays, {"frame": json.dumps(head | changed)})


def test_a_frame_comes_back_as_it_was_written() -> None:
    found = frame_content.decode(encoded())
    assert np.array_equal(found.readings["gates"].arrays["layer_0"], np.eye(8))
    assert np.allclose(found.readings["npk"].arrays["kernel"], np.eye(64), atol=1e-6)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 3},
        {"step": -1},
        {"step": 1.5},
        {"epoch": "1e300"},
        {"packed": {"gates/layer_0": [1 << 20, 1 << 20]}},
        {"packed": {"gates/layer_0": [-8, 8]}},
        {"examples": 3},
        {"regime": 3},
        {"wiring": [0, 2]},
        {"readings": {"gates": {"step": -1}, "npk": {"step": 7}}},
        {"readings": {"gates": {"step": 7}}},
    ],
    ids=str,
)
def test_a_frame_that_makes_no_sense_is_unsound(changed: dict[str, Any]) -> None:
    with pytest.raises(frame_content.UNSOUND):
        frame_content.decode(encoded(**changed))


def test_a_frame_that_would_fill_the_memory_is_unsound(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encoded()
    monkeypatch.setattr(frame_content, "UNPACKED", 70)  # the gates alone
    with pytest.raises(ValueError, match="npk/kernel is too large"):
        frame_content.decode(whole)


def test_a_file_without_its_head_is_unsound() -> None:
    with pytest.raises(ValueError, match="its header is cut off"):
        frame_content.decode(encoded()[:20])


def test_frames_that_cannot_be_listed_are_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    assert RecordedSteps(run).steps == (20,)
    monkeypatch.setattr(InnerPath, "exists", fail)
    assert sentence(RecordedSteps, run) == ("The frames of run cannot be read: Permission denied.")


# Branches


def test_a_branch_says_where_it_comes_from_and_what_it_took(run: Path) -> None:
    parent = run_info.read(run)
    origin = BranchOrigin("run", str(parent["id"]), 20, BranchChanges(regime="FR"))
    branch = branch_info(CONFIG, parent, origin)
    assert origin_of(branch) == origin
    assert branch["versions"] == parent["versions"]
    assert branch["id"] != parent["id"]
    assert origin_of(parent) is None
    assert origin_of({**branch, "branch": {"parent": 3}}) is None


def test_a_branch_begins_with_the_lines_before_it(run: Path) -> None:
    whole = (run / LOG).read_bytes().splitlines(keepends=True)
    path, own = inner(run / LOG), str(run_info.read(run)["id"])
    assert log_before(path, 2, own) == b"".join(whole[:2])
    assert log_before(path, 10**6, own) == b"".join(whole)
    (run / LOG).write_bytes(b"".join(whole)[:-3])  # its last line is not finished
    assert log_before(path, 10**6, own) == b"".join(whole[:-1])
    branch = log_before(path, 10**6, "0123456789").splitlines()
    read = [decode_line(raw) for raw in branch]
    assert [line.run for line in read if line] == ["01234567"] * (len(whole) - 1)


# A log that grows


def test_a_tail_tells_each_line_once_and_begins_anew_with_another_file(run: Path) -> None:
    tail = LogTail(run / LOG, after=1)
    assert [event.step for event in tail.take() if isinstance(event, Measured)] == [20, 30]
    assert tail.take() == []
    content = (run / LOG).read_bytes()
    (run / LOG).write_bytes(content[:40])  # cut, and the beginning of a line
    assert tail.take() == []
    (run / LOG).unlink()
    assert tail.take() == []


def test_a_line_without_an_end_does_not_hold_up_what_follows(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgn_engine.storage.runs.recorded_log.PIECE", 512)
    content = (run / LOG).read_bytes()
    (run / LOG).write_bytes(b"x" * 600 + b"\n" + content)
    tail = LogTail(run / LOG)
    assert tail.take() == []
    assert [event.step for event in tail.take() if isinstance(event, Measured)] == [10, 20, 30]


# Thinning, in words


def test_runs_that_take_too_much_say_what_can_be_done() -> None:
    over = ThinningPlan(30 * MIB, 20 * MIB, (Path("a"), Path("b")), 12 * MIB)
    assert over.over
    assert over.sentence == (
        "All recorded runs together take 30 MiB, over their limit of 20 MiB. "
        "Thinning out the 2 oldest runs would free about 12 MiB."
    )
    one = replace(over, folders=(Path("a"),))
    assert "Thinning out the oldest run would" in one.sentence
    none = replace(over, folders=(), freed=0)
    assert none.sentence.endswith("thinned out: delete some, or raise the limit.")
    assert none.outcome(0) == none.sentence
    assert over.outcome(12 * MIB) == (
        "2 runs were thinned out, 12 MiB freed. All runs together take 18 MiB of 20 MiB."
    )
    assert one.outcome(MIB).endswith("That is still too much: delete some, or raise the limit.")
    under = ThinningPlan(MIB, 20 * MIB, (), 0)
    assert not under.over
    assert under.outcome(0).startswith("Nothing has to be thinned out. ")
