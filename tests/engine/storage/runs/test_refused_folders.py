"""What a run's folder has not, or not soundly, of what it is asked for; what is repaired of it."""

from __future__ import annotations

import errno
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
from dgn_engine.protocol.runs import RunsListed
from dgn_engine.protocol.training import Measured
from dgn_engine.storage import lock
from dgn_engine.storage.inner_path import as_inner_path, inner_folder
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import (
    folder_layout,
    frame_content,
    index,
    run_checkpoints,
    run_info,
    serial_numbers,
)
from dgn_engine.storage.runs.branch_origin import BranchOrigin, branch_info, log_before, origin_of
from dgn_engine.storage.runs.log import LogLine, decode_line, encode_line
from dgn_engine.storage.runs.manifest import Manifest, find_damage, find_ranges
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.run_removal import delete_run
from dgn_engine.storage.runs.thin_runs import ThinningPlan
from dgn_engine.storage.session_file.session_writer import export_run
from tests.engine.storage.runs.short_run import CONFIG, make_frame, make_snapshot, write_score
from tests.refusals import refused

LOG, RUN = folder_layout.LOG, folder_layout.RUN
MIB = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Scores of three steps, checkpoints of three, of the last step two; frames of two; closed."""
    folder = RunFolder.create(tmp_path / "run", CONFIG)
    for step in (10, 20, 30):
        write_score(folder, step)
    for step in (1000, 2000):
        folder.add_frame(make_frame(step))
    for step in (10, 20, 30, 30):
        folder.add_checkpoint(make_snapshot(step), "before FL")  # one that is kept
    folder.close()
    return folder.path


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    RunFolder.create(tmp_path / "empty", CONFIG).close()
    return tmp_path / "empty"


# Verify and repair


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ((2,), ("line 2", "1")),
        ((1, 2), ("1–2", "0–1")),
        ((3,), ("line 3", "2 lines, but 3")),
        (range(2, 30, 2), ("2, 4, 6, 8, 10, 12, 14, 16, 18, 20 …", "1, 3, 5, 7, 9")),
    ],
    ids=["one", "a stretch", "the last", "more than ten"],
)
def test_damaged_lines_are_named_and_counted(
    damaged: Any, said: tuple[str, str], run: Path
) -> None:
    folder = RunFolder(run)
    for step in range(40, 67) if len(damaged) > 2 else ():
        write_score(folder, step)
    folder.close()
    lines = (run / LOG).read_bytes().splitlines(keepends=True)
    for number in damaged:
        lines[number - 1] = lines[number - 1].replace(b'"seq"', b'"sea"')
    (run / LOG).write_bytes(b"".join(lines))
    found = find_damage(run)
    assert [one.path for one in found] == [LOG, LOG]
    assert all(words in one.trouble for words, one in zip(said, found, strict=True))
    (repaired,) = repair_run_folder(run)
    assert f"{len(lines) - len(damaged)} intact" in repaired
    verb = "is" if len(damaged) == 1 else "are"
    assert f"{len(damaged)} {verb} lost" in repaired
    assert repair_run_folder(run) == []


def test_ranges_are_stretches_without_a_gap() -> None:
    assert find_ranges([1, 2, 3, 7, 9, 10]) == ((1, 3), (7, 7), (9, 10))


def test_what_was_missing_is_made_anew_and_what_lies_in_its_place_is_put_aside_each_time(
    run: Path,
) -> None:
    config = run / folder_layout.CONFIG
    whole = config.read_bytes()
    config.unlink()
    assert len(repair_run_folder(run)) == 1
    assert not (run / "damaged").exists()
    for number in range(2):
        config.write_text(f"seed = 'x{number}'")
        assert len(repair_run_folder(run)) == 1
        assert config.read_bytes() == whole
        assert repair_run_folder(run) == find_damage(run) == []
    aside = sorted((run / "damaged").iterdir())
    assert [path.read_text() for path in aside] == ["seed = 'x0'", "seed = 'x1'"]


@pytest.mark.skipif(os.name != "posix", reason="files are linked through handles of folders")
def test_a_file_stays_in_its_place_and_in_damaged_until_it_is_written_anew(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = run / folder_layout.CONFIG
    config.write_text("seed = 'x0'")

    def full_disk(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("dgn_engine.storage.runs.repair.write_file", full_disk)
    with pytest.raises(UserError, match="no room"):
        repair_run_folder(run)
    assert config.samefile(run / "damaged" / folder_layout.CONFIG)
    assert config.read_text() == "seed = 'x0'"


def test_a_run_of_a_later_version_is_not_repaired_and_not_changed(run: Path) -> None:
    (run / RUN).write_bytes(
        run_info.encode_info({**run_info.read_run_info(run), "format": "dgn-viewer run 2"})
    )
    later = (run / RUN).read_bytes()
    assert [one.path for one in find_damage(run)] == [RUN]
    for _ in range(2):
        with refused("later-version"):
            repair_run_folder(run)
        assert (run / RUN).read_bytes() == later
        assert not (run / "damaged").exists()


def test_what_was_trained_is_found_in_the_newest_sound_checkpoint(run: Path) -> None:
    (run / RUN).unlink()
    (run / folder_layout.CONFIG).unlink()
    newest, *_ = sorted(run.glob("checkpoints/000000030*/state.json"), reverse=True)
    newest.write_text("{}")
    done = repair_run_folder(run)
    assert "checkpoints/000000030" in done[0]
    assert newest.parent.name not in done[0]
    assert run_info.config_of(run_info.read_run_info(run)) == CONFIG
    assert find_damage(run) == []


def test_a_run_of_which_nothing_says_what_was_trained_is_not_repaired(run: Path) -> None:
    for file in (RUN, folder_layout.CONFIG):
        (run / file).unlink()
    for state in run.glob("checkpoints/*/state.json"):
        state.write_text("{}")
    for _ in range(2):
        with refused("no-configuration"):
            repair_run_folder(run)
    RunFolder.create(run.parent / "other", CONFIG).close()  # nothing is held any more
    (run / RUN).write_bytes((run.parent / "other" / RUN).read_bytes())
    repair_run_folder(run)


def test_what_a_writer_changes_between_two_looks_is_no_damage(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ask = RunFolder(run), lock.find_lock_holder
    (run / folder_layout.CONFIG).unlink()
    frames = sorted((run / folder_layout.FRAMES).iterdir())
    frames[0].rename(run / "away")

    def meanwhile(path: Any) -> lock.LockHolder | None:
        if (run / "away").exists():
            (run / "away").rename(frames[0])
        return ask(path)

    monkeypatch.setattr(lock, "find_lock_holder", meanwhile)
    assert [one.path for one in find_damage(run)] == [folder_layout.CONFIG]
    folder.close()


def test_a_folder_of_something_else_holds_no_run(tmp_path: Path) -> None:
    (tmp_path / "x.txt").touch()
    for folder in (tmp_path, tmp_path / "nowhere"):
        with refused("no-run", value=folder):
            find_damage(folder)


@pytest.mark.parametrize(
    "change",
    [
        *({"lines": -1}, {"lines": (1 << 53) + 1}, {"frames": ((3, 2),)}, {"frames": ((-1, 2),)}),
        *({"frames": ((0, 1_000_000),)}, {"checkpoints": ("x",)}, {"checkpoints": ("12",)}),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    sound = Manifest.from_parts(3, [0, 1, 5], ["000000010"], {})
    assert sound.frames == ((0, 1), (5, 5))
    assert sound.frame_serials == {0, 1, 5}
    assert replace(sound, frames=((0, 999_999),)).frame_serials
    with pytest.raises(ValueError, match=r"a |too many"):
        replace(sound, **change)


def test_states_that_cannot_be_read_hide_no_others(tmp_path: Path) -> None:
    places = tmp_path / "checkpoints"
    sound = {0: {"lines": 50}, 11: {"frames": 60}, 6: {"order": 70}}
    for n in range(12):
        (places / f"{n:09}").mkdir(parents=True)
        text = json.dumps(sound[n]) if n in sound else "["
        (places / f"{n:09}" / "state.json").write_text(text)
    found = serial_numbers.find_next_numbers(tmp_path, Manifest.from_parts(0, [], [], {}), [])
    assert (found.lines, found.frames, found.checkpoints) == (50, 60, 71)


# Steps that are not there


@pytest.mark.parametrize(
    ("read", "steps", "there"),
    [
        (RunReader.scores_at, {25: (20, 30), 99: (30,), 1: (10,)}, 20),
        (RunReader.find_checkpoint, {15: (10, 20), 99: (30,), 1: (10,)}, 20),
        (RunReader.frame_of_step, {1500: (1000, 2000), 9000: (2000,), 5: (1000,)}, 1000),
    ],
)
def test_a_step_that_is_not_there_names_the_nearest(
    read: Callable[[RunReader, int], Any], steps: dict[int, tuple[int, ...]], there: int, run: Path
) -> None:
    for step, near in steps.items():
        with refused("no-step", value=near) as told:
            read(RunReader(run), step)
        assert all(f"{one:,}" in str(told.error) for one in (step, *near))
    assert read(RunReader(run), there).step == there


def test_a_run_without_anything_says_so(empty: Path) -> None:
    reader = RunReader(empty)
    for act, kind in (
        *(
            (reader.find_checkpoint, "no-checkpoint"),
            (lambda: reader.find_checkpoint(5), "no-checkpoint"),
        ),
        *(
            (lambda: reader.frame_of_step(5), "no-frames"),
            (lambda: reader.scores_at(5), "no-scores"),
        ),
    ):
        with refused(kind):
            act()
    assert reader.latest_frame(10) is None


def test_the_last_frame_at_or_before_a_step_is_shown(run: Path) -> None:
    found = [RunReader(run).latest_frame(step) for step in (999, 1000, 1001, 10**9)]
    assert [one and one.step for one in found] == [None, 1000, 1000, 2000]
    assert RunReader(run).step == 30


def test_an_older_checkpoint_is_not_taken_for_the_newest(run: Path) -> None:
    newest = max(run.glob("checkpoints/000000030*"))
    (newest / folder_layout.STATE).write_text("[]")
    with refused("damaged", value=f"checkpoints/{newest.name}/state.json") as told:
        RunReader(run).find_checkpoint()
    assert told.error.way_out == "run@30"
    with refused("damaged", value=f"checkpoints/{newest.name}/state.json"):
        RunReader(run).find_checkpoint(30)
    assert RunReader(run).find_checkpoint(20).step == 20


def test_a_state_that_is_no_table_is_none(tmp_path: Path) -> None:
    (tmp_path / folder_layout.STATE).write_text("[1, 2]")
    with pytest.raises(ValueError, match="not a table"):
        run_checkpoints.read_state(inner_folder(tmp_path))


# Listed, exported, deleted


def test_runs_are_listed_with_the_last_written_to_first(tmp_path: Path) -> None:
    for place, name in enumerate(("a", "b", "c")):
        folder = RunFolder.create(tmp_path / name, replace(CONFIG, seed=place))
        if name == "b":
            folder.add_checkpoint(make_snapshot(3), "")
        folder.close()
        os.utime(tmp_path / name / LOG, (100 + 10 * (place == 1), 100 + 10 * (place == 1) + place))
    (tmp_path / "c" / LOG).unlink()
    os.utime(tmp_path / "c" / RUN, (500, 500))
    (tmp_path / "no run").mkdir()
    listed = index.list_runs(str(tmp_path))
    assert listed.root == str(tmp_path)
    assert [(one.name, one.touched) for one in listed.runs] == [("c", 500), ("b", 111), ("a", 100)]
    assert [one.resumable for one in listed.runs] == [False, True, False]
    assert [one.status for one in listed.runs] == ["damaged", "interrupted", "interrupted"]
    assert listed.runs[1].folder == str(tmp_path / "b")
    assert index.list_runs("") == RunsListed("", ())
    assert index.list_runs(str(tmp_path / "nowhere")).runs == ()


def test_the_run_to_go_on_with_is_the_last_one_that_nobody_writes(tmp_path: Path) -> None:
    assert index.newest_resumable(tmp_path / "nowhere") is None
    held = []
    for place, name in enumerate(("old", "new", "written", "without")):
        folder = RunFolder.create(tmp_path / name, CONFIG)
        if name != "without":
            folder.add_checkpoint(make_snapshot(1), "")
        held.append(folder)
        if name != "written":
            folder.close()
        os.utime(tmp_path / name / LOG, (place + 1, place + 1))
    assert index.newest_resumable(tmp_path) == tmp_path / "new"
    held[2].close()
    assert index.newest_resumable(tmp_path) == tmp_path / "written"


def test_the_scores_of_a_run_are_a_table(run: Path, tmp_path: Path) -> None:
    assert "3 scores" in export_run(run, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes() == (
        b"step,epoch,train_loss,train_accuracy,test_loss,test_accuracy\n"
        b"10,0.0,nan,0.5,,\n20,0.0,nan,0.5,,\n30,0.0,nan,0.5,,\n"
    )
    with refused("unknown-ending", value="x.txt"):
        export_run(run, tmp_path / "x.txt")
    with refused("not-writable"):
        export_run(run, tmp_path / "no" / "x.csv")


@pytest.mark.parametrize("left", [RUN, LOG])
def test_half_a_run_is_deleted_too_and_what_is_none_stays(run: Path, left: str) -> None:
    (run / ({RUN, LOG} - {left}).pop()).unlink()
    delete_run(run)
    assert not run.exists()
    run.mkdir()
    with refused("no-run"):
        delete_run(run)
    assert run.exists()


# Frames


def encoded(**changed: Any) -> bytes:
    """A frame with gates and a kernel, with another head."""
    readings = {
        "gates": Reading("gates", 7, arrays={"layer_0": np.eye(8, dtype=np.uint8)}),
        "npk": Reading("npk", 7, arrays={"kernel": np.eye(64)}),
    }
    content = frame_content.encode_frame(Frame(1, 7, 0.5, 0.0, None, readings))
    size = int.from_bytes(content[:8], "little")
    head = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["frame"])
    arrays = safetensors.numpy.load(content)
    return safetensors.numpy.save(arrays, {"frame": json.dumps(head | changed)})


def test_a_frame_comes_back_as_it_was_written() -> None:
    found = frame_content.decode_frame(encoded())
    assert np.array_equal(found.readings["gates"].arrays["layer_0"], np.eye(8))
    assert np.allclose(found.readings["npk"].arrays["kernel"], np.eye(64), atol=1e-6)


@pytest.mark.parametrize(
    "changed",
    [
        *({"format": 3}, {"step": -1}, {"step": 1.5}, {"epoch": "1e300"}, {"examples": 3}),
        {"packed": {"gates/layer_0": [1 << 20, 1 << 20]}},
        {"packed": {"gates/layer_0": [-8, 8]}},
        *({"regime": 3}, {"wiring": [0, 2]}, {"readings": {"gates": {"step": 7}}}),
        {"readings": {"gates": {"step": -1}, "npk": {"step": 7}}},
    ],
    ids=str,
)
def test_a_frame_that_makes_no_sense_is_unsound(changed: dict[str, Any]) -> None:
    with pytest.raises(frame_content.UNSOUND):
        frame_content.decode_frame(encoded(**changed))


def test_a_frame_that_would_fill_the_memory_or_has_no_head_is_unsound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = encoded()
    for content in (whole[:20], b"", whole[:9]):
        with pytest.raises(frame_content.UNSOUND):
            frame_content.decode_frame(content)
    monkeypatch.setattr(frame_content, "UNPACKED", 70)  # the gates alone
    with pytest.raises(ValueError, match="npk/kernel"):
        frame_content.decode_frame(whole)


# Branches


def test_a_branch_says_where_it_comes_from_and_what_it_took(run: Path) -> None:
    parent = run_info.read_run_info(run)
    origin = BranchOrigin("run", str(parent["id"]), 20, BranchChanges(regime="FR"))
    branch = branch_info(CONFIG, parent, origin)
    assert origin_of(branch) == origin
    assert branch["versions"] == parent["versions"]
    assert branch["id"] != parent["id"]
    assert origin_of(parent) is None
    assert origin_of({**branch, "branch": {"parent": 3}}) is None


def test_a_branch_begins_with_the_lines_before_it(run: Path) -> None:
    whole = (run / LOG).read_bytes().splitlines(keepends=True)
    path, own = as_inner_path(run / LOG), str(run_info.read_run_info(run)["id"])
    assert log_before(path, 2, own) == b"".join(whole[:2])
    assert log_before(path, 10**6, own) == b"".join(whole)
    (run / LOG).write_bytes(b"".join(whole)[:-3])  # its last line is not finished
    assert log_before(path, 10**6, own) == b"".join(whole[:-1])
    branch = log_before(path, 10**6, "0123456789").splitlines()
    read = [decode_line(raw) for raw in branch]
    assert [line.run for line in read if line] == ["01234567"] * (len(whole) - 1)


# A log that grows


def told(tail: LogTail) -> list[int]:
    return [event.step for event in tail.read_new_events() if isinstance(event, Measured)]


def test_a_tail_tells_each_line_once_and_begins_anew_with_another_file(run: Path) -> None:
    tail = LogTail(run / LOG, after=1)
    assert told(tail) == [20, 30]
    assert told(tail) == []
    folder = RunFolder(run)
    write_score(folder, 40)  # a writer between two looks
    assert told(tail) == [40]
    folder.close()
    content = (run / LOG).read_bytes()
    for _ in range(2):
        (run / LOG).write_bytes(content[:40])  # cut, and the beginning of a line
        assert told(tail) == []
        (run / LOG).unlink()
        assert told(tail) == []
    (run / LOG).write_bytes(content)
    assert told(tail) == []  # they were told
    for step in (50, 60):  # cut in place, then another file of this name
        line = LogLine(step, 1.0, "Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
        (run / LOG).write_bytes(encode_line(line))
        assert told(tail) == [step]
        (run / "new").write_bytes(content + encode_line(line._replace(seq=step + 1)))
        (run / "new").replace(run / LOG)
        assert told(tail) == [step]


def test_a_line_without_an_end_does_not_hold_up_what_follows(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgn_engine.storage.runs.recorded_log.PIECE", 512)
    content = (run / LOG).read_bytes()
    (run / LOG).write_bytes(b"x" * 600 + b"\n" + content)
    tail = LogTail(run / LOG)
    assert told(tail) == []
    assert told(tail) == [10, 20, 30]


# Thinning, in words


def test_runs_that_take_too_much_say_how_much_and_what_can_be_done() -> None:
    over = ThinningPlan(30 * MIB, 20 * MIB, (Path("a"), Path("b")), 12 * MIB)
    one, none = replace(over, folders=(Path("a"),)), replace(over, folders=(), freed=0)
    under = ThinningPlan(MIB, 20 * MIB, (), 0)
    assert (over.is_over_limit, under.is_over_limit) == (True, False)
    for words in ("30 MiB", "20 MiB", "12 MiB", "2 oldest runs"):
        assert words in over.sentence
    assert "oldest run would" in one.sentence
    assert none.describe_outcome(0) == none.sentence
    assert "12 MiB" not in none.sentence
    for words in ("2 runs", "12 MiB freed", "18 MiB of 20 MiB"):
        assert words in over.describe_outcome(12 * MIB)
    assert len(one.describe_outcome(MIB)) > len(
        one.describe_outcome(12 * MIB)
    )  # it is still too much
    assert "1 MiB of 20 MiB" in under.describe_outcome(0)


def test_a_deletion_and_its_refusal_hold_nothing(run: Path) -> None:
    """As of a lock that another machine left, which is seen only when it is taken."""
    held = run / folder_layout.LOCK
    held.touch()
    other = {"pid": 1, "host": "elsewhere", "boot": "b", "inode": held.stat().st_ino}
    held.write_text(json.dumps(other))
    before = len([*Path("/dev/fd").iterdir()])
    for _ in range(3):
        with pytest.raises(UserError):
            delete_run(run)
    assert len([*Path("/dev/fd").iterdir()]) == before
    held.unlink()
    delete_run(run)
    assert not run.exists()
    assert len([*Path("/dev/fd").iterdir()]) == before
