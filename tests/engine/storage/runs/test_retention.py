"""Runs under a limit: what goes, that it is written down, and what stays as it was."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordThinned
from dgn_engine.storage.runs import folder_layout, storage_limits, thin_runs
from dgn_engine.storage.runs.folder_layout import bytes_of
from dgn_engine.storage.runs.frame_files import choose_thinned
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.storage_limits import StorageLimits
from dgn_engine.storage.session_file.session_writer import export_run
from dgn_engine.text.byte_counts import binary_size_in_words
from tests.refusals import refused_command

MIB = 1 << 20


def slow_choice(steps: list[int], sizes: list[int], pinned: set[int], room: int) -> list[int]:
    """The rule as it is written, one after the other."""
    left, total, gone = list(range(len(steps))), sum(sizes), []

    def spread(place: int) -> float:
        one, other = steps[left[place - 1]], steps[left[place + 1]]
        age, later = steps[-1] - one, steps[-1] - other
        early = math.log1p(other) - math.log1p(one)
        return max(early, -math.log1p(later) + math.log1p(age))

    while total > room and len(left) > 2:
        inner = range(1, len(left) - 1)
        free = [place for place in inner if left[place] not in pinned] or list(inner)
        place = min(free, key=spread)
        total -= sizes[left[place]]
        gone.append(left.pop(place))
    return gone


@settings(max_examples=60)
@given(st.data())
def test_what_goes_is_what_the_rule_says(data: st.DataObject) -> None:
    steps = sorted(data.draw(st.lists(st.integers(0, 200), max_size=24)))
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=len(steps), max_size=len(steps)))
    pinned = {place for place in range(len(steps)) if data.draw(st.booleans())}
    room = data.draw(st.integers(0, 1 + sum(sizes)))
    wanted = slow_choice(steps, sizes, pinned, room)
    assert choose_thinned(steps, sizes, pinned, room) == wanted


def test_a_record_whose_steps_are_in_no_order_is_thinned_out_as_well() -> None:
    """A folder may be foreign, or superseded frames were out of reach when they should go."""
    steps = [0, 500, 20, 900, 10, 30]
    gone = choose_thinned(steps, [1] * len(steps), (), 3)
    assert len(gone) == 3
    assert not {0, len(steps) - 1}.intersection(gone)


def test_a_long_record_is_dense_at_its_beginning_and_at_its_end() -> None:
    steps = list(range(0, 100_000, 10))
    gone = set(choose_thinned(steps, [1] * len(steps), (), 300))
    left = [step for place, step in enumerate(steps) if place not in gone]
    assert len(left) == 300
    assert (left[0], left[-1]) == (0, 99_990)
    first, middle, last = (
        sum(a <= step < a + 10_000 for step in left) for a in (0, 45_000, 90_000)
    )
    assert first > 8 * middle
    assert last > 8 * middle


# --- one run ---


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of runs with the smallest limit."""
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path))
    storage_limits.write_limits(tmp_path, StorageLimits(run=16 * MIB, all=32 * MIB))
    return tmp_path


def frame(step: int, size: int = MIB) -> Frame:
    values = np.full(size // 4, step, np.float32)
    return Frame(1, step, 0.0, 0.0, None, {"npk": Reading("npk", step, 0, 0, {"x": values})})


def snapshot(step: int, size: int = 1024) -> Snapshot:
    state = {"step": step, "finished": False, "config": RunConfig().to_dict()}
    return Snapshot({"value.weights.0": torch.full((size // 4,), float(step))}, state)


def recorded(path: Path, frames: int = 30, changes: tuple[int, ...] = ()) -> list[Event]:
    """A run of so many frames of a MiB, with a checkpoint of as much before each change."""
    folder, told = RunFolder.create(path, RunConfig()), list[Event]()
    folder.tell = told.append
    for step in range(frames):
        if step in changes:
            folder.add_checkpoint(snapshot(step, MIB), "before FL")
            folder.write_note("SettingChanged", {"step": step})
        folder.add_frame(frame(step))
    folder.add_checkpoint(snapshot(frames), "")
    folder.close()
    return told


def test_a_folder_stays_under_its_limit_and_says_once_that_it_thins_out(root: Path) -> None:
    told = recorded(root / "run", frames=40, changes=(7,))
    assert bytes_of(root / "run") <= 16 * MIB
    assert [type(event) for event in told] == [RecordThinned]
    assert "limit of 16 MiB" in told[0].sentence  # type: ignore[attr-defined]
    assert find_damage(root / "run") == []


def test_what_was_thinned_out_is_in_the_log_and_the_rest_is_there(root: Path) -> None:
    recorded(root / "run", frames=60)
    reader = RunReader(root / "run")
    thinned, _, limit = reader.log.summary.thinned
    assert thinned + len(reader.frames) == 60
    assert limit == 16 * MIB
    steps = [one.step for one in reader.frames]
    assert (steps[0], steps[-1]) == (0, 59)
    assert reader.frame_of_step(59).readings["npk"].arrays["x"][0] == 59
    with pytest.raises(UserError, match="has no frame at step"):
        reader.frame_of_step(next(step for step in range(60) if step not in steps))


def test_checkpoints_before_changes_thin_out_too_and_a_kept_one_stays(root: Path) -> None:
    recorded(root / "run", frames=14, changes=tuple(range(1, 14)))
    names = {one.step for one in RunReader(root / "run").checkpoints}
    assert {1, 14} <= names
    assert len(names) < 14
    assert RunReader(root / "run").log.summary.thinned[1] > 0
    assert find_damage(root / "run") == []
    again = RunFolder(root / "run")
    assert again.newest_checkpoint is not None
    assert again.newest_checkpoint.step == 14
    again.close()


def test_a_run_that_was_thinned_out_is_exported_and_gone_on_with(root: Path) -> None:
    recorded(root / "run", frames=40)
    left = [one.serial for one in RunReader(root / "run").frames]
    export_run(root / "run", root / "run.dgn")
    again = RunFolder(root / "run")
    again.resume_from_newest({"step": 40})
    again.add_frame(frame(41))
    again.close()
    assert [one.serial for one in RunReader(root / "run").frames] == [*left, 40]
    assert find_damage(root / "run") == []


def test_a_missing_frame_is_still_missed_beside_those_that_were_thinned_out(root: Path) -> None:
    recorded(root / "run", frames=40)
    frames = RunReader(root / "run").frames
    Path(str(frames[3].path)).unlink()
    assert len(find_damage(root / "run")) == 1


def test_another_limit_holds_from_the_next_checkpoint_on(root: Path) -> None:
    folder = RunFolder.create(root / "run", RunConfig())
    for step in range(10):
        folder.add_frame(frame(step))
    storage_limits.write_limits(root, StorageLimits(run=64 * MIB, all=64 * MIB))
    folder.add_checkpoint(snapshot(10), "")
    for step in range(11, 31):
        folder.add_frame(frame(step))
    folder.close()
    assert len(RunReader(root / "run").frames) == 30


def test_nonsense_in_the_log_is_nothing_that_was_thinned_out(root: Path) -> None:
    folder = RunFolder.create(root / "run", RunConfig())
    for fields in ({}, {"frames": [["a", 2]], "checkpoints": [], "limit": 1}, {"frames": 3}):
        folder.write_note("Thinned", fields)  # type: ignore[arg-type]
        assert RunReader(root / "run").log.summary.thinned == (0, 0, 0)
    folder.close()
    assert main(["runs", "show", str(root / "run")]) == 0


# --- all runs together ---


def test_the_oldest_runs_are_thinned_out_after_asking_and_pinned_ones_are_not(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    storage_limits.write_limits(root, StorageLimits(run=200 * MIB, all=200 * MIB))
    for name in ("first", "second", "third"):
        recorded(root / name, frames=0)
        folder = RunFolder(root / name)
        for step in range(80):
            folder.add_frame(frame(step, MIB // 8))
        folder.close()
    write_notes(root / "first", RunNotes("the one of the paper"))
    storage_limits.write_limits(root, StorageLimits(run=16 * MIB, all=24 * MIB))
    touched = (root / "second" / folder_layout.LOG).stat().st_mtime_ns
    found = thin_runs.plan_thinning(root)
    assert found.is_over_limit
    assert found.folders[0].name == "second"
    assert main(["runs", "list"]) == 0
    assert "'dgn runs thin'" in capsys.readouterr().err
    assert "first" not in [path.name for path in found.folders]
    assert main(["runs", "thin"]) == 2  # nobody was asked
    assert main(["runs", "thin", "--yes"]) == 0
    assert "freed" in capsys.readouterr().out
    assert len(RunReader(root / "first").frames) == 80
    assert len(RunReader(root / "second").frames) < 20
    assert (root / "second" / folder_layout.LOG).stat().st_mtime_ns == touched
    assert RunReader(root / "second").outcome == RunReader(root / "first").outcome
    for name in ("first", "second", "third"):
        assert find_damage(root / name) == []


def test_a_run_that_is_written_is_left_alone(root: Path) -> None:
    recorded(root / "run", frames=4)
    folder = RunFolder(root / "run")
    said: list[str] = []
    assert thin_runs.thin_folders([root / "run"], said.append) == 0
    assert len(said) == 1
    folder.close()


# --- the limits ---


@pytest.mark.parametrize(
    ("text", "size"), [("512 MiB", 512 * MIB), ("1.5GiB", 1536 * MIB), ("2 TiB", 2 << 40)]
)
def test_sizes_are_read_as_they_are_written(text: str, size: int) -> None:
    assert storage_limits.parse_size(text) == size
    assert storage_limits.parse_size(binary_size_in_words(size)) == size


@pytest.mark.parametrize("text", ["", "12", "-1 GiB", "1 GB", "1e9 MiB", "nan GiB", "٣ GiB"])
def test_what_is_no_size_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UserError, match="is not a size"):
        storage_limits.parse_size(text)


@pytest.mark.parametrize("text", ["run = 3", "run =", "walk = '1 GiB'", "run = '1 GB'", "\x00"])
def test_a_damaged_file_of_limits_is_named_and_a_run_is_recorded_all_the_same(
    root: Path, text: str
) -> None:
    (root / folder_layout.LIMITS).write_text(text)
    with pytest.raises(UserError, match="is damaged"):
        storage_limits.read_limits(root)
    assert storage_limits.effective_limits(root) == StorageLimits()
    recorded(root / "run", frames=2)
    assert main(["runs", "limits"]) == 2
    assert main(["runs", "limits", "--run", "1GiB"]) == 0
    assert storage_limits.read_limits(root).run == 1 << 30


@pytest.mark.parametrize("size", [1000 << 20, 1023 << 20, (1 << 30) + 1, 7 << 27, 1 << 40, 1 << 58])
def test_limits_are_read_as_they_were_written(size: int, tmp_path: Path) -> None:
    """1,000 MiB was written with a comma, and not read again."""
    limits = storage_limits.StorageLimits(run=size, all=size)
    storage_limits.write_limits(tmp_path, limits)
    read = storage_limits.read_limits(tmp_path)
    assert read.run == pytest.approx(size, rel=1e-9)
    assert read.all == read.run


def test_a_limit_that_is_not_named_stays(root: Path) -> None:
    assert main(["runs", "limits", "--run", "1GiB", "--all", "5GiB"]) == 0
    assert main(["runs", "limits", "--run", "2GiB"]) == 0
    assert storage_limits.read_limits(root) == StorageLimits(run=2 << 30, all=5 << 30)
    assert main(["runs", "limits", "--all", "7GiB"]) == 0
    assert storage_limits.read_limits(root) == StorageLimits(run=2 << 30, all=7 << 30)


# --- what the terminal is asked, and what it answers ---


@pytest.mark.parametrize("answer", ["y", " YES ", "n", ""])
def test_a_run_is_deleted_only_where_the_terminal_agrees(
    root: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(root / "run", frames=1)
    refusal = refused_command("runs", "delete", root / "run")
    assert refusal.kind == "not-confirmed"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert main(["runs", "delete", str(root / "run")]) == 0
    assert (root / "run").exists() == (answer in ("n", ""))


@pytest.mark.parametrize("answer", ["y", "n"])
def test_old_runs_are_thinned_out_only_where_the_terminal_agrees(
    root: Path, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        folder = RunFolder.create(root / name, RunConfig())
        for step in range(80):
            folder.add_frame(frame(step, MIB // 8))
        folder.close()
    storage_limits.write_limits(root, StorageLimits(run=16 * MIB, all=16 * MIB))
    assert refused_command("runs", "thin").kind == "not-confirmed"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert main(["runs", "thin"]) == 0
    left = sum(len(RunReader(root / name).frames) for name in ("first", "second"))
    assert (left == 160) == (answer == "n")


@pytest.mark.parametrize(("options", "step"), [((), 4), (("--step", "2"), 2)])
def test_the_checkpoint_of_a_step_is_kept_or_else_the_newest(
    root: Path, options: tuple[str, ...], step: int
) -> None:
    recorded(root / "run", frames=4, changes=(1, 2, 3))
    assert main(["runs", "keep", str(root / "run"), *options]) == 0
    marked = [
        one.step
        for one in RunReader(root / "run").checkpoints
        if (one.path / folder_layout.KEEP).exists()
    ]
    assert marked == [step]
    refusal = refused_command("runs", "keep", root / "run", "--step", 99)
    assert (refusal.kind, refusal.value) == ("not-recorded", 99)
