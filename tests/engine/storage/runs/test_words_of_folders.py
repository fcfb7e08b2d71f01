"""What a run's folder says of itself: damage in words, steps, frames and checkpoints by number."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import RunsListed
from dgn_engine.protocol.training import Measured, Paused
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import (
    folder_layout,
    index,
    index_entry,
    log,
    run_checkpoints,
    run_info,
    serial_numbers,
)
from dgn_engine.storage.runs.frame_files import StoredFrame, choose_dropped
from dgn_engine.storage.runs.log import LogContents, LogLine, LogWriter, decode_line, encode_line
from dgn_engine.storage.runs.manifest import Manifest, find_ranges, verify, why_uncertain
from dgn_engine.storage.runs.repair import repair
from dgn_engine.storage.runs.run_checkpoints import StoredCheckpoint, choose_superfluous
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.run_removal import delete_run
from dgn_engine.storage.session_file.session_writer import export_run
from tests.engine.storage.runs.short_run import CONFIG, frame, score, snapshot

LOG, RUN = folder_layout.LOG, folder_layout.RUN


@pytest.fixture
def run(memory: Path) -> Path:
    """Three scores, frames of two steps, checkpoints of two; closed."""
    folder = RunFolder.create(memory / "run", CONFIG)
    for step in (10, 20, 30):
        score(folder, step)
    for step in (1000, 2000):
        folder.add_frame(frame(step))
        folder.checkpoint(snapshot(step), "")
    folder.close()
    assert verify(folder.path) == []
    return folder.path


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def sentence(act: Any, *given: Any) -> str:
    with pytest.raises(UserError) as refused:
        act(*given)
    return str(refused.value)


# verify


def spoilt(run: Path, *numbers: int) -> list[str]:
    """What is said of the log when these lines (from 1) are damaged."""
    content = lines(run / LOG)
    for number in numbers:
        content[number - 1] = content[number - 1].replace(b'"seq"', b'"sea"')
    (run / LOG).write_bytes(b"".join(content))
    return [str(damage) for damage in verify(run)]


def test_damaged_lines_are_counted_in_words(run: Path) -> None:
    assert spoilt(run, 2) == [
        "log.jsonl is damaged in line 2",
        "log.jsonl lacks the entries 1",
    ]


def test_damaged_lines_in_a_row_are_a_range(run: Path) -> None:
    assert spoilt(run, 1, 2) == [
        "log.jsonl is damaged in lines 1–2",
        "log.jsonl lacks the entries 0–1",
    ]


def test_the_last_line_that_is_damaged_is_missed(run: Path) -> None:
    assert spoilt(run, 3) == [
        "log.jsonl is damaged in line 3",
        "log.jsonl has 2 lines, 3 were written",
    ]


def test_a_line_that_was_not_finished_does_no_harm(run: Path) -> None:
    with (run / LOG).open("ab") as file:
        file.write(b'{"seq":3')
    (damage,) = verify(run)
    assert str(damage) == "log.jsonl ends in a line that was not finished"
    assert damage.harmless
    assert repair(run) == ["log.jsonl: a last line that was not finished was cut off."]
    assert verify(run) == []


def test_more_than_ten_ranges_are_cut(memory: Path) -> None:
    folder = RunFolder.create(memory / "run", CONFIG)
    for step in range(30):
        score(folder, step)
    folder.close()
    said = spoilt(folder.path, *range(2, 30, 2))
    assert said[0].endswith("in lines 2, 4, 6, 8, 10, 12, 14, 16, 18, 20 …")
    (repaired,) = repair(folder.path)
    assert repaired == "log.jsonl: 16 sound lines were kept, 14 are lost."
    assert find_ranges([1, 2, 3, 7, 9, 10]) == ((1, 3), (7, 7), (9, 10))


def test_what_is_missing_is_named_each_by_itself(run: Path) -> None:
    for path in (run / "frames").iterdir():
        path.unlink()
    shutil.rmtree(run / "checkpoints" / "000001000")
    (run / "config.toml").unlink()
    (run / ".x.part").touch()
    found = verify(run)
    assert [str(damage) for damage in found] == [
        "config.toml is missing",
        "checkpoints/000001000 is missing",
        "frames/*-000000-*.safetensors to *-000001-* are missing",
        ".x.part was not finished",
    ]
    assert [damage.harmless for damage in found] == [False, False, False, True]


def test_a_configuration_that_is_not_that_of_the_run_is_named(run: Path) -> None:
    (run / "config.toml").write_text(replace(CONFIG, seed=7).to_toml())
    assert [str(one) for one in verify(run)] == ["config.toml is not the configuration of run.json"]


def test_what_was_missing_is_made_anew_and_nothing_is_put_aside(run: Path) -> None:
    (run / "config.toml").unlink()
    assert repair(run) == ["config.toml was made anew from run.json."]
    assert not (run / "damaged").exists()
    (run / "config.toml").write_text("seed = 'x'")
    assert repair(run) == ["config.toml was made anew from run.json."]
    assert (run / "damaged" / "config.toml").read_text() == "seed = 'x'"
    assert repair(run) == []


def test_why_nobody_can_tell_what_is_missing(run: Path) -> None:
    assert why_uncertain(run) == ""
    folder = RunFolder(run)
    score(folder, 40)
    assert why_uncertain(run) == "it is being written"
    folder.close()
    run_info.write(run, {k: v for k, v in run_info.read(run).items() if k != "inventory"})
    assert "its writer was killed, or an older version" in why_uncertain(run)


def test_a_folder_of_something_else_holds_no_run(memory: Path) -> None:
    (memory / "x.txt").touch()
    assert sentence(verify, memory) == f"{memory} holds no run."
    assert sentence(verify, memory / "nowhere") == f"{memory / 'nowhere'} holds no run."


@pytest.mark.parametrize(
    "change",
    [
        {"lines": -1},
        {"lines": (1 << 53) + 1},
        {"frames": ((3, 2),)},
        {"frames": ((-1, 2),)},
        {"frames": ((0, 1_000_000),)},
        {"checkpoints": ("x",)},
        {"checkpoints": ("12",)},
    ],
)
def test_a_manifest_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    sound = Manifest.of(3, [0, 1, 5], ["000000010"], {})
    assert sound.frames == ((0, 1), (5, 5))
    assert sound.serials == {0, 1, 5}
    assert replace(sound, frames=((0, 999_999),)).serials
    with pytest.raises(ValueError, match=r"a |too many"):
        replace(sound, **change)


# by step


def test_a_frame_or_a_checkpoint_of_no_step_names_the_nearest(run: Path) -> None:
    reader = RunReader(run)
    assert reader.frame(1000).step == 1000
    assert sentence(reader.frame, 1500) == (
        "run has no frame of step 1,500; the nearest are of steps 1,000 and 2,000."
    )
    assert sentence(reader.frame, 5) == (
        "run has no frame of step 5; the nearest is of step 1,000."
    )
    assert sentence(reader.frame, 9000).endswith("the nearest is of step 2,000.")
    assert reader.checkpoint().step == 2000
    assert reader.checkpoint(1000).step == 1000
    assert sentence(reader.checkpoint, 1500) == (
        "run has no checkpoint of step 1,500; the nearest are of steps 1,000 and 2,000."
    )
    steps = [f.step if f is not None else None for f in map(reader.latest_frame, (999, 1000, 1001))]
    assert steps == [None, 1000, 1000]
    assert reader.step == 2000


def test_a_run_without_frames_or_checkpoints_says_so(memory: Path) -> None:
    folder = RunFolder.create(memory / "run", CONFIG)
    score(folder, 10)
    folder.close()
    reader = RunReader(folder.path)
    assert (
        sentence(reader.checkpoint) == sentence(reader.checkpoint, 5) == "run holds no checkpoint."
    )
    assert sentence(reader.frame, 5).startswith("run holds no frames: what probes see is recorded")
    assert reader.step == 10
    assert RunReader(folder.path).latest_frame(10) is None


@pytest.mark.parametrize(
    ("names", "outcome"),
    [
        (["Measured", "Finished"], "finished"),
        (["Diverged"], "diverged"),
        (["Failed"], "failed"),
        (["Closed"], "stopped"),
        (["Measured"], "interrupted"),
        ([], "interrupted"),
        (["Finished", "Measured"], "interrupted"),
        (["Closed", "RunContinued"], "interrupted"),
        (["Finished", "RegimeSwapped"], "finished"),
    ],
)
def test_how_a_run_ended_is_what_it_wrote_last(
    memory: Path, names: list[str], outcome: str
) -> None:
    folder = RunFolder.create(memory / "run", CONFIG)
    for name in names:
        folder.note(name, {"step": 3, "lines": 1000})
    reader = RunReader(folder.path)
    assert (reader.outcome, reader.status) == (outcome, "running")
    folder.close()
    assert RunReader(folder.path).status == outcome


# run.json


def test_words_of_any_language_have_one_checksum() -> None:
    """Runs of earlier versions are read by it."""
    info = {"format": run_info.FORMAT, "id": "größe β", "n": [1, 2.5, None]}
    text = run_info.encode(info).decode()
    assert '"id": "größe β"' in text
    compact = '{"format":"dgn-viewer run 1","id":"größe β","n":[1,2.5,null]}'
    assert json.loads(text)["sha256"] == hashlib.sha256(compact.encode()).hexdigest()


def test_why_a_run_may_differ_is_told_reason_by_reason() -> None:
    here = {
        "versions": run_info.versions(),
        "device": "cpu",
        "threads": 2,
        "processor": run_info.processor(),
    }
    assert run_info.why_not_exact(here, "cpu", 2) == ""
    assert run_info.why_not_exact(here, "cpu", 3) == "2 threads then, 3 now"
    assert run_info.why_not_exact(here, "mps", 2) == "the device was cpu, is mps"
    cuda = {**here, "device": "NVIDIA H100"}
    words = "NVIDIA H100 does not add in a fixed order"
    assert run_info.why_not_exact(cuda, "NVIDIA H100", 2) == words
    other = {**here, "processor": "another", "versions": {**run_info.versions(), "torch": "1.0"}}
    reasons = f"torch was 1.0, is {run_info.versions()['torch']}; the processor is another one"
    assert run_info.why_not_exact(other, "cpu", 2) == reasons
    assert run_info.why_not_exact({}, "cpu", 2).startswith("dgn-viewer was unknown, is ")
    assert "unknown threads then, 2 now" in run_info.why_not_exact({}, "cpu", 2)


def test_what_is_not_ours_is_refused_by_name(run: Path) -> None:
    (run / RUN).write_bytes(run_info.encode({**run_info.read(run), "format": "other"}))
    assert sentence(run_info.read, run) == (
        f"{run / RUN} was written by a later version of dgn-viewer; install that one to open it."
    )
    (run / RUN).write_text("{}")
    assert sentence(run_info.read, run).startswith(f"{run / RUN} is damaged; 'dgn runs repair")
    (run / RUN).unlink()
    assert sentence(run_info.read, run) == f"{run} holds no run: there is no run.json in it."


# listed


def test_runs_are_listed_with_the_last_written_to_first(memory: Path) -> None:
    for place, name in enumerate(("a", "b", "c")):
        folder = RunFolder.create(memory / name, replace(CONFIG, seed=place))
        if name == "b":
            folder.checkpoint(snapshot(3), "")
        folder.close()
        os.utime(memory / name / LOG, (100 + 10 * (place == 1), 100 + 10 * (place == 1) + place))
    (memory / "c" / LOG).unlink()
    os.utime(memory / "c" / RUN, (500, 500))
    (memory / "no run").mkdir()
    listed = index.list_runs(str(memory))
    assert listed.root == str(memory)
    assert [(one.name, one.touched) for one in listed.runs] == [("c", 500), ("b", 111), ("a", 100)]
    assert [one.resumable for one in listed.runs] == [False, True, False]
    assert [one.status for one in listed.runs] == ["damaged", "interrupted", "interrupted"]
    assert listed.runs[1].folder == str(memory / "b")
    assert index.list_runs("") == RunsListed("", ())
    assert index.list_runs(str(memory / "nowhere")).runs == ()


def test_only_runs_that_changed_are_read_anew(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        RunFolder.create(memory / name, CONFIG).close()
    first = index.read_index(memory)
    read: list[str] = []
    before = index_entry._read

    def counted(path: Path, stamp: str) -> index_entry.IndexEntry:
        read.append(path.name)
        return before(path, stamp)

    monkeypatch.setattr(index_entry, "_read", counted)
    assert repr(index.read_index(memory)) == repr(first)
    assert read == []
    folder = RunFolder(memory / "a")
    folder.note("Finished", {"step": 3})
    folder.close()
    assert [one.status for one in index.read_index(memory)] == ["finished", "interrupted"]
    assert read == ["a"]


# written, exported, deleted


def test_a_line_has_its_time_in_thousandths(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time=lambda: 1234.56789, monotonic=lambda: 0.0)
    monkeypatch.setattr(log, "time", clock)
    writer = LogWriter(memory / LOG)
    writer.append("x", {"β": 1})
    writer.close()
    (line,) = LogContents(memory / LOG).lines
    assert line == LogLine(0, 1234.568, "x", {"β": 1})
    assert "β" in (memory / LOG).read_text(encoding="utf-8")
    raw = encode_line(line)[:-1]
    assert decode_line(raw) == line
    assert decode_line(raw[:-1]) is None


def test_the_scores_of_a_run_are_a_table(run: Path, memory: Path) -> None:
    assert export_run(run, memory / "x.csv") == f"{memory / 'x.csv'}: 3 scores."
    assert (memory / "x.csv").read_bytes() == (
        b"step,epoch,train_loss,train_accuracy,test_loss,test_accuracy\n"
        b"10,0.0,nan,0.5,,\n20,0.0,nan,0.5,,\n30,0.0,nan,0.5,,\n"
    )
    assert export_run(run, memory / "x.dgn").startswith(f"{memory / 'x.dgn'}: ")
    assert sentence(export_run, run, memory / "x.txt") == (
        "x.txt must end in .dgn (the whole run) or .csv (its scores)."
    )
    assert sentence(export_run, run, memory / "no" / "x.csv").startswith("Cannot write ")


@pytest.mark.parametrize("left", [RUN, LOG])
def test_half_a_run_is_deleted_too_and_what_is_none_stays(run: Path, left: str) -> None:
    (run / ({RUN, LOG} - {left}).pop()).unlink()
    delete_run(run)
    assert not run.exists()
    other = run.parent / "other"
    other.mkdir()
    assert sentence(delete_run, other) == f"{other} holds no run; nothing was deleted."


def test_a_run_is_named_by_its_time_and_settings(memory: Path) -> None:
    config = replace(CONFIG, data=replace(CONFIG.data, name="digits"))
    first, second = create_named(memory, config), create_named(memory, config)
    words = f"{config.gating.regime}-{config.net.name}-digits"
    for folder in (first, second):
        assert re.fullmatch(rf"[0-9]{{8}}-[0-9]{{6}}-{words}(-2)?", folder.path.name)
        folder.close()
    assert first.path != second.path
    for n in range(3):
        assert folder_layout.unused_path(memory, "x").name == ("x" if n == 0 else f"x-{n + 1}")
        folder_layout.unused_path(memory, "x").mkdir()
    for name in ("limits.toml", "Limits.TOML"):  # what the folder of runs has for itself
        assert folder_layout.unused_path(memory, name).name == f"{name}-2"
        with pytest.raises(UserError):
            RunFolder.create(memory / name, CONFIG)


def test_names_of_checkpoints_and_frames_are_read_back() -> None:
    assert folder_layout.checkpoint_name(120, 0) == "000000120"
    assert folder_layout.checkpoint_name(120, 3) == "000000120-3"
    assert folder_layout.checkpoint_key("000000120-3") == (120, 3)
    assert folder_layout.checkpoint_key("000000120") == (120, 0)
    assert folder_layout.checkpoint_key("120") is None
    name = folder_layout.frame_name(7, 12, "0123456789abcdef" * 4)
    assert name == "000000007-000012-0123456789abcdef.safetensors"
    assert folder_layout.frame_key(name) == (7, 12, "0123456789abcdef")
    kinds = {
        "run.json": "json",
        "log.jsonl": "log",
        "config.toml": "text",
        "lock": None,
        "weights.safetensors": "tensors",
        f"frames/{name}": "tensors",
        "frames/x": None,
        "checkpoints/000000120/state.json": "json",
        "checkpoints/000000120/keep": "mark",
        "checkpoints/x/state.json": None,
        "weights/best.safetensors": None,
        "damaged/run.json": None,
    }
    assert {path: folder_layout.kind_of(path) for path in kinds} == kinds


def test_where_runs_and_results_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DGN_RUNS_ROOT", "DGN_RESULTS_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert folder_layout.runs_root() == Path("/data/dgn-viewer/runs")
    assert folder_layout.results_root() == Path("/data/dgn-viewer/results")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert folder_layout.runs_root() == Path.home() / ".local/share/dgn-viewer/runs"
    monkeypatch.setenv("DGN_RUNS_ROOT", "/r/runs")
    assert folder_layout.results_root() == Path("/r/results")
    monkeypatch.setenv("DGN_RESULTS_ROOT", "/elsewhere")
    assert folder_layout.results_root() == Path("/elsewhere")


# which stay


def stored(order: int, kept: str = "", trouble: str = "") -> StoredCheckpoint:
    return StoredCheckpoint(Path(str(order)), order, order, kept, trouble=trouble)


def test_checkpoints_that_need_not_stay() -> None:
    some = [
        stored(-1, trouble="is missing"),
        stored(0),
        stored(1, "by the user"),
        stored(2, "final"),
        stored(3, "before FL"),
        stored(4),
        stored(5, "final"),
        stored(6),
        stored(7),
    ]
    assert [one.order for one in choose_superfluous(some)] == [0, 2, 4]
    many = [stored(n, f"before {n}") for n in range(104)]
    assert [one.order for one in choose_superfluous([*many, stored(200), stored(201)])] == [
        0,
        1,
        2,
        3,
    ]


def test_only_finite_weights_are_worth_a_checkpoint() -> None:
    nan = torch.tensor([1.0, math.nan])
    assert snapshot(3).weights_finite()
    assert not run_checkpoints.Snapshot({"value.weights.0": nan}, {}).weights_finite()
    assert run_checkpoints.Snapshot({"optimiser.0": nan}, {}).weights_finite()
    assert snapshot(17).step == 17


def test_frames_are_dropped_to_nine_tenths_and_never_the_first_or_the_newest() -> None:
    def frames(count: int) -> list[StoredFrame]:
        return [StoredFrame(Path(str(n)), 10 * n, n, "", 10) for n in range(count)]

    assert choose_dropped(frames(100), [], cap=1000) == []
    dropped = {one.serial for one in choose_dropped(frames(101), [], cap=1000)}
    assert len(dropped) == 11  # 1,010 bytes to 900
    assert 0 not in dropped
    assert max(dropped) < 101 - 32
    beside = {one.serial for one in choose_dropped(frames(101), [405], cap=1000)}
    assert not beside & {40, 41, 42}
    here = {one.serial for one in choose_dropped(frames(101), [400], cap=500)}
    assert not here & {40, 41}
    assert [one.serial for one in choose_dropped(frames(3), [], cap=1)] == [1]
    assert choose_dropped(frames(2), [], cap=1) == []


def test_states_that_cannot_be_read_hide_no_others(memory: Path) -> None:
    places = memory / "checkpoints"
    sound = {0: {"lines": 50}, 11: {"frames": 60}, 6: {"order": 70}}
    for n in range(12):
        (places / f"{n:09}").mkdir(parents=True)
        text = json.dumps(sound[n]) if n in sound else "["
        (places / f"{n:09}" / "state.json").write_text(text)
    found = serial_numbers.find_next_numbers(memory, Manifest.of(0, [], [], {}), [])
    assert (found.lines, found.frames, found.checkpoints) == (50, 60, 71)


def test_an_event_of_the_log_is_known_by_its_word() -> None:
    measured = Measured(3, 0.5, 1.0, 0.25)
    assert log.is_logged(measured)
    assert not log.is_logged(Paused(3))
    assert log.log_word(measured) == "Measured"
    line = LogLine(0, 1.0, "Measured", {**to_plain(measured), "later": 3})
    assert log.event_of(line) == measured  # a field of a later version is passed over
    assert log.event_of(line._replace(name="Other")) is None
    assert log.event_of(line._replace(fields={"step": "x"})) is None
