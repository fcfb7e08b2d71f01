"""What lies in a run folder: log, frames, checkpoints, lock; whole, damaged, opened again."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured, Paused, RegimeSwapped, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage import lock
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import (
    folder_layout,
    frame_content,
    frame_files,
    log,
    run_checkpoints,
    run_info,
)
from dgn_engine.storage.runs.frame_files import StoredFrame, choose_dropped
from dgn_engine.storage.runs.log import (
    LogContents,
    LogLine,
    LogWriter,
    decode_line,
    encode_line,
    event_of,
    log_word,
)
from dgn_engine.storage.runs.log_gaps import read_gaps
from dgn_engine.storage.runs.manifest import KEY, find_damage
from dgn_engine.storage.runs.run_checkpoints import Snapshot, StoredCheckpoint, choose_superfluous
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.short_run import CONFIG, make_snapshot, write_score
from tests.refusals import refused

ROOT = Path(__file__).parents[4]
EVENTS = (
    Measured(3, 0.5, math.nan, 0.25),
    Measured(9, 1.5, math.inf, 0.25, 0.1, 0.9),
    ProbeScalars(3, "npk", {"nu": 1.25, "rank": math.nan}),
    RegimeSwapped(4, "DL", "FL", ("value weights",), (), (), ("feature weights",), "µ.pth"),
    SettingChanged(5, 1e-3, 8.0, "ones", 0.0),
)


def write_log(path: Path, count: int, first: int = 0, **given: Any) -> None:
    writer = LogWriter(path, **given)
    for number in range(first, first + count):
        writer.append_line("Measured", to_plain(Measured(number, 0.0, 0.5, 0.5)))
    writer.close()


def frame(step: int, layers: int = 1) -> Frame:
    arrays: dict[str, Any] = {
        f"layer_{layer}": (np.arange(5 * 13).reshape(5, 13) % 3 == 0).astype(np.uint8)
        for layer in range(layers)
    }
    arrays["labels"] = np.arange(5)
    arrays["soft"] = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    reading = Reading("gates", step, 0.1, 0.2, arrays, {"active": 0.1, "nu": math.nan}, {"a": "b"})
    return Frame(1, step, step / 45, 0.0, None, {"gates": reading})


# --- the log ---


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_an_event_comes_back_from_its_line(event: Event) -> None:
    raw = encode_line(LogLine(3, 1.5, log_word(event), to_plain(event)))
    json.loads(raw, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    line = decode_line(raw.rstrip(b"\n"))
    assert line is not None
    assert (line.seq, line.at) == (3, 1.5)
    assert repr(event_of(line)) == repr(event)  # NaN is not equal to itself


def test_an_event_of_the_log_is_known_by_its_word() -> None:
    measured = Measured(3, 0.5, 1.0, 0.25)
    assert (log.is_logged(measured), log.is_logged(Paused(3))) == (True, False)
    line = LogLine(0, 1.0, "Measured", {**to_plain(measured), "later": 3})
    assert log.event_of(line) == measured  # a field of a later version is passed over
    assert log.event_of(line._replace(name="Other")) is None
    assert log.event_of(line._replace(fields={"step": "x"})) is None


def test_no_byte_of_a_line_can_change_unseen() -> None:
    raw = encode_line(LogLine(3, 1.5, "Measured", to_plain(EVENTS[1]))).rstrip(b"\n")
    for place in range(len(raw)):
        assert decode_line(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]) is None
        assert decode_line(raw[:place]) is None


def test_a_log_cut_anywhere_keeps_its_whole_lines_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write_log(path, 3)
    content = path.read_bytes()
    second = len(content.split(b"\n")[0]) + 1
    for cut in range(second, len(content)):
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        read = LogContents(path)
        assert (len(read.lines), read.damaged) == (whole, ())
        write_log(path, 1)
        read = LogContents(path)
        assert [line.seq for line in read.lines] == list(range(whole + 1))
        assert (read.damaged, read.missing, read.torn) == ((), (), 0)


def test_zeros_at_the_end_of_a_log_are_cut_off_and_in_it_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write_log(path, 5)
    content = path.read_bytes()
    lines = content.split(b"\n")
    path.write_bytes(content + bytes(512))
    assert LogContents(path).torn == 512
    write_log(path, 1)
    assert len(LogContents(path).lines) == 6
    lines[1] = bytes(len(lines[1]))
    path.write_bytes(b"\n".join(lines))
    read = LogContents(path)
    assert (read.damaged, read.missing) == (((2, 2),), ((1, 1),))
    filled = read_gaps(read.lines, read.end, "DL", ()).fill_gaps(read.lines)
    path.write_bytes(b"".join(map(encode_line, filled)))
    again = LogContents(path)
    assert (again.damaged, again.missing) == ((), ())
    assert [line.name for line in again.lines] == ["Measured", "Lost", *["Measured"] * 3]


def test_lines_have_their_time_in_thousandths_and_a_clock_that_goes_back_no_other_order(
    tmp_path: Path,
) -> None:
    write_log(tmp_path / "log", 2, clock=lambda: 1234.56789)
    write_log(tmp_path / "log", 2, first=2, clock=lambda: 1.0)
    lines = LogContents(tmp_path / "log").lines
    assert [(line.seq, line.at) for line in lines] == [
        *((0, 1234.568), (1, 1234.568)),
        *((2, 1.0), (3, 1.0)),
    ]


# --- frames ---


def test_a_frame_comes_back_as_it_was_with_its_gates_packed(tmp_path: Path) -> None:
    whole = frame(120, layers=30)
    stored = frame_files.write_frame(tmp_path, whole, 4)
    assert stored.path.name.startswith("000000120-000004-")
    back = frame_files.read_frame(frame_files.scan_frames(tmp_path)[0])
    reading, other = whole.readings["gates"], back.readings["gates"]
    assert repr((reading.scalars, reading.facts)) == repr((other.scalars, other.facts))
    assert reading.arrays.keys() == other.arrays.keys()
    for name, array in reading.arrays.items():
        assert np.array_equal(array, other.arrays[name])
        assert array.dtype == other.arrays[name].dtype
        assert not other.arrays[name].flags.writeable
    assert frame_content.encode_frame(whole).count(b"\x01") < 30 * 65  # not a byte for each gate


def test_a_frame_keeps_the_error_of_an_estimate_and_leaves_out_what_is_still_to_come(
    tmp_path: Path,
) -> None:
    estimate = Reading("npk", 120, error=0.05, remark="± 5 %", progress=0.4)
    pending = Reading("ntk", 120, absent="soon", progress=0.0)
    frame_files.write_frame(
        tmp_path, replace(frame(120), readings={"npk": estimate, "ntk": pending}), 4
    )
    back = frame_files.read_frame(frame_files.scan_frames(tmp_path)[0]).readings
    assert set(back) == {"npk"}
    assert (back["npk"].error, back["npk"].remark) == (0.05, estimate.remark)
    assert back["npk"].progress == 1.0, "nothing is under way in a file"


def test_a_damaged_frame_is_refused_and_named(tmp_path: Path) -> None:
    stored = frame_files.write_frame(tmp_path, frame(1), 0)
    content = stored.path.full_path.read_bytes()
    for damaged in (content[:50], bytes(len(content)), b""):
        stored.path.full_path.write_bytes(damaged)
        assert "sha256" in frame_files.check_frame(stored)
        with refused("damaged", value=stored.path.name):
            frame_files.read_frame(stored)


def test_frames_are_dropped_to_nine_tenths_and_never_the_first_or_the_newest() -> None:
    def frames(count: int) -> list[StoredFrame]:
        return [StoredFrame(Path(str(n)), 10 * n, n, "", 10) for n in range(count)]

    def dropped(count: int, events: list[int], cap: int) -> set[int]:
        return {one.serial for one in choose_dropped(frames(count), events, cap)}

    assert dropped(100, [], 1000) == dropped(2, [], 1) == set()
    gone = dropped(101, [], 1000)
    assert len(gone) == 11  # 1,010 bytes to 900
    assert 0 not in gone
    assert max(gone) < 101 - 32
    assert not dropped(101, [405], 1000) & {40, 41, 42}
    assert not dropped(101, [400], 500) & {40, 41}
    assert dropped(3, [], 1) == {1}
    beside_events = choose_dropped(frames(1000), list(range(0, 10_000, 10)), 1000)
    assert 1000 - len(beside_events) <= 100


# --- checkpoints ---


def write_checkpoint(folder: Path, order: int, step: int = 7, kept: str = "") -> StoredCheckpoint:
    marks = {"kept": kept, "lines": 0, "frames": 0}
    return run_checkpoints.write_step_folder(folder, make_snapshot(step), order, marks)


def test_checkpoints_come_back_as_they_were_those_of_one_step_in_folders_of_their_own(
    tmp_path: Path,
) -> None:
    for order in (0, 1):
        write_checkpoint(tmp_path, order)
    found = run_checkpoints.scan_checkpoints(tmp_path)
    assert [one.path.name for one in found] == ["000000007", "000000007-1"]
    for one in found:
        assert (one.step, one.is_intact) == (7, True)
        loaded = run_checkpoints.load_checkpoint(one)
        assert loaded.step == 7
        assert torch.equal(loaded.tensors["value.weights.0"], torch.full((2, 2), 7.0))
    write_checkpoint(tmp_path, 2, step=3)  # the run has gone back: it is the newest
    assert [one.step for one in run_checkpoints.scan_checkpoints(tmp_path)] == [7, 7, 3]
    found[0].path.full_path.joinpath(folder_layout.TENSORS).write_bytes(b"spoilt since")
    with refused("damaged"):
        run_checkpoints.load_checkpoint(found[0])


@pytest.mark.parametrize(
    "name", [folder_layout.TENSORS, folder_layout.STATE, folder_layout.MANIFEST]
)
@pytest.mark.parametrize("damage", ["cut", "zeroed", "missing", "flipped"])
def test_a_damaged_checkpoint_is_known_and_its_file_named(
    tmp_path: Path, name: str, damage: str
) -> None:
    path = write_checkpoint(tmp_path, 0).path.full_path / name
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    hurt = {"cut": content[:-9], "zeroed": bytes(len(content)), "flipped": flipped}
    path.unlink()
    if damage in hurt:
        path.write_bytes(hurt[damage])
    (found,) = run_checkpoints.scan_checkpoints(tmp_path)
    if (name, damage) == (folder_layout.MANIFEST, "flipped"):
        return  # it may be a blank of its layout
    assert not found.is_intact
    assert found.culprit == name
    with refused("damaged"):
        run_checkpoints.load_checkpoint(found)


def test_checkpoints_that_need_not_stay(tmp_path: Path) -> None:
    def stored(order: int, kept: str = "", trouble: str = "") -> StoredCheckpoint:
        return StoredCheckpoint(Path(str(order)), order, order, kept, trouble=trouble)

    some = [
        *(stored(-1, trouble="is missing"), stored(0), stored(1, "by the user")),
        *(stored(2, "final"), stored(3, "before FL"), stored(4), stored(5, "final")),
        *(stored(6), stored(7)),
    ]
    assert [one.order for one in choose_superfluous(some)] == [0, 2, 4]
    many = [*(stored(n, f"before {n}") for n in range(104)), stored(200), stored(201)]
    assert [one.order for one in choose_superfluous(many)] == [0, 1, 2, 3]
    for order in range(3):
        write_checkpoint(tmp_path, order, step=order)
    (tmp_path / "000000000" / folder_layout.KEEP).touch()
    assert choose_superfluous(run_checkpoints.scan_checkpoints(tmp_path)) == []


@pytest.mark.parametrize("name", ["value.weights.0", "optimiser.0"])
def test_only_finite_weights_are_worth_a_checkpoint(name: str) -> None:
    nan = Snapshot({name: torch.tensor([1.0, math.nan])}, {})
    assert nan.weights_finite() == name.startswith("optimiser")
    assert make_snapshot(3).weights_finite()


# --- opened, closed and opened again ---


def test_two_writers_are_kept_apart_and_the_second_is_told_of_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        path = tmp_path / "run"
        first = RunFolder(path) if path.exists() else RunFolder.create(path, RunConfig())
        for _ in range(2):
            with refused("in-use") as told:
                RunFolder(path)
            assert f"process {os.getpid()}" in str(told.error)
        holder = lock.find_lock_holder(path / folder_layout.LOCK)
        assert holder is not None
        assert holder.pid == os.getpid()
        first.close()
        assert lock.find_lock_holder(path / folder_layout.LOCK) is None


def test_two_runs_are_recorded_one_after_another_and_each_is_opened_twice(tmp_path: Path) -> None:
    """Nothing of one is in the other, and nothing of the first opening in the second."""
    for name, steps in (("one", (1, 2)), ("two", (5,)), ("one", (3,)), ("two", (6, 7))):
        path = tmp_path / name
        folder = RunFolder(path) if path.exists() else RunFolder.create(path, RunConfig())
        assert not folder.info.is_changed
        for step in steps:
            write_score(folder, step)
            folder.add_frame(frame(step))
            folder.add_checkpoint(make_snapshot(step), "by the user")
        assert folder.info.is_changed
        folder.close()
        folder.close()
        assert find_damage(path) == []
    for name, steps in (("one", (1, 2, 3)), ("two", (5, 6, 7))):
        reader = RunReader(tmp_path / name)
        assert [line.seq for line in reader.log.all_contents.lines] == list(range(len(steps)))
        for found in (reader.measured_events, reader.frames, reader.checkpoints):
            assert [one.step for one in found] == list(steps)
        assert [one.serial for one in reader.frames] == list(range(len(steps)))
        assert [one.order for one in reader.checkpoints] == list(range(len(steps)))


def test_a_second_close_changes_nothing_of_who_writes_now(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path / "run", RunConfig())
    write_score(first, 1)
    first.close()
    second = RunFolder(tmp_path / "run")
    write_score(second, 2)
    first.close()
    assert lock.find_lock_holder(tmp_path / "run" / folder_layout.LOCK) is not None
    assert KEY not in run_info.read_run_info(tmp_path / "run")
    second.close()
    assert find_damage(tmp_path / "run") == []


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from dgn_engine.storage.lock import Lock\n"
        "held = Lock(Path(sys.argv[1])); held.acquire()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "lock"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    assert path.stat().st_size > 0
    assert lock.find_lock_holder(path) is None
    taken = lock.Lock(path)
    taken.acquire()
    taken.release()


def open_files() -> list[str]:
    return sorted(one.name for one in Path("/dev/fd").iterdir())


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="open files cannot be listed here")
@pytest.mark.parametrize(
    "part",
    [
        "run_folder.run_checkpoints.scan_checkpoints",
        "run_folder.frame_files.scan_frames",
        "run_folder.ManifestWriter.__init__",
        "written_log.known_facts",
        "written_log.LogWriter.sync",
    ],
)
def test_a_folder_that_fails_while_it_is_opened_leaves_no_file_open_and_no_lock(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    RunFolder.create(tmp_path / "run", RunConfig()).close()
    before = open_files()
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(f"dgn_engine.storage.runs.{part}", fails)
            with refused("not-writable", value=os.strerror(errno.EIO)) as refusal:
                RunFolder(tmp_path / "run")
        assert open_files() == before, refusal  # whose traceback still holds what was made
        RunFolder(tmp_path / "run").close()


def test_a_reader_drops_what_a_continued_run_has_superseded(tmp_path: Path) -> None:
    """And what it has superseded again, when it went on a second time."""
    folder = RunFolder.create(tmp_path / "run", RunConfig())
    for step in (1, 2):
        write_score(folder, step)
        folder.add_frame(frame(step))
    folder.add_checkpoint(make_snapshot(2), "")
    for _ in range(2):
        for step in (3, 4):
            folder.write_note("Measured", to_plain(Measured(step, 0.0, 9.0, 0.5)))
            folder.add_frame(frame(step))
        folder.close()
        folder = RunFolder(tmp_path / "run")
        folder.resume_from_newest({"step": 2, "remark": "", "folder": ""})
        assert folder.last_frame_step == 2
    folder.write_note("Measured", to_plain(replace(EVENTS[0], step=3)))
    folder.close()
    reader = RunReader(tmp_path / "run")
    assert [event.step for event in reader.measured_events] == [1, 2, 3]
    assert math.isnan(reader.measured_events[-1].train_loss)
    assert len(reader.log.all_contents.lines) == 9  # nothing was taken out of the log
    assert [one.step for one in reader.frames] == [1, 2]
    assert find_damage(tmp_path / "run") == []


@pytest.mark.parametrize(
    ("names", "outcome"),
    [
        (["Measured", "Finished"], "finished"),
        *((["Diverged"], "diverged"), (["Failed"], "failed"), (["Closed"], "stopped")),
        *((["Measured"], "interrupted"), ([], "interrupted")),
        (["Finished", "Measured"], "interrupted"),
        (["Closed", "RunContinued"], "interrupted"),
        (["Finished", "RegimeSwapped"], "finished"),
    ],
)
def test_how_a_run_ended_is_what_it_wrote_last(
    tmp_path: Path, names: list[str], outcome: str
) -> None:
    folder = RunFolder.create(tmp_path / "run", CONFIG)
    for name in names:
        folder.write_note(name, {"step": 3, "lines": 1000})
    reader = RunReader(folder.path)
    assert (reader.outcome, reader.status) == (outcome, "running")
    folder.close()
    assert RunReader(folder.path).status == outcome


def test_a_run_that_ends_while_it_is_read_is_not_said_to_be_interrupted(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", CONFIG)
    reader = RunReader(folder.path)
    assert reader.events == ()  # its log is read
    folder.write_note("Finished", {"step": 3})
    folder.close()
    assert reader.status == "finished"


# --- run.json and names ---


def test_a_run_json_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", RunConfig()).close()
    path = tmp_path / "run" / folder_layout.RUN
    whole, tree = path.read_text(), run_info.read_run_info(tmp_path / "run")
    changed = whole.replace('"seed": 0', '"seed": 1')
    assert changed != whole
    for text in (changed, "", "[]", "null", "{}", '{"sha256": 3}', "[" * 10_000):
        path.write_text(text)
        with refused("damaged"):
            RunReader(tmp_path / "run")
    path.write_bytes(run_info.encode_info({**tree, "format": "other"}))
    with refused("later-version"):
        RunReader(tmp_path / "run")
    path.unlink()
    with refused("no-run"):
        RunReader(tmp_path / "run")


def test_words_of_any_language_have_one_checksum() -> None:
    """Runs of earlier versions are read by it."""
    info = {"format": run_info.FORMAT, "id": "größe β", "n": [1, 2.5, None]}
    text = run_info.encode_info(info).decode()
    assert '"id": "größe β"' in text
    compact = '{"format":"dgn-viewer run 1","id":"größe β","n":[1,2.5,null]}'
    assert json.loads(text)["sha256"] == hashlib.sha256(compact.encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "device", "threads", "said"),
    [
        ({}, "cpu", 2, ()),
        ({}, "cpu", 3, ("2", "3")),
        ({}, "mps", 2, ("cpu", "mps")),
        ({"device": "NVIDIA H100"}, "NVIDIA H100", 2, ("NVIDIA H100",)),
        ({"versions": {**run_info.package_versions(), "torch": "1.0"}}, "cpu", 2, ("torch", "1.0")),
        ({"processor": "another"}, "cpu", 2, ("processor",)),
        ({"versions": {}, "threads": None}, "cpu", 2, ("dgn-viewer", "unknown", "torch", "2")),
    ],
)
def test_why_a_run_may_differ_is_told_reason_by_reason(
    change: dict[str, Any], device: str, threads: int, said: tuple[str, ...]
) -> None:
    here = {"versions": run_info.package_versions(), "processor": run_info.processor_name()}
    info = {**here, "device": "cpu", "threads": 2, **change}
    told = run_info.reason_not_exact(info, device, threads)
    assert bool(told) == bool(said)
    assert all(word in told for word in said)


def test_a_run_is_named_by_its_time_and_settings(tmp_path: Path) -> None:
    config = replace(CONFIG, data=replace(CONFIG.data, name="digits"))
    first, second = create_named(tmp_path, config), create_named(tmp_path, config)
    words = f"{config.gating.regime}-{config.net.name}-digits"
    for folder in (first, second):
        assert re.fullmatch(rf"[0-9]{{8}}-[0-9]{{6}}-{words}(-2)?", folder.path.name)
        folder.close()
    assert first.path != second.path
    for n in range(3):
        assert folder_layout.unused_path(tmp_path, "x").name == ("x" if n == 0 else f"x-{n + 1}")
        folder_layout.unused_path(tmp_path, "x").mkdir()


NAME = "000000007-000012-0123456789abcdef.safetensors"


def test_names_of_checkpoints_and_frames_are_read_back() -> None:
    assert folder_layout.checkpoint_name(120, 0) == "000000120"
    assert folder_layout.checkpoint_name(120, 3) == "000000120-3"
    keys = [folder_layout.checkpoint_key(name) for name in ("000000120-3", "000000120", "120")]
    assert keys == [(120, 3), (120, 0), None]
    assert folder_layout.frame_name(7, 12, "0123456789abcdef" * 4) == NAME
    assert folder_layout.frame_key(NAME) == (7, 12, "0123456789abcdef")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        *(("run.json", "json"), ("log.jsonl", "log"), ("config.toml", "text"), ("lock", None)),
        *(("weights.safetensors", "tensors"), (f"frames/{NAME}", "tensors"), ("frames/x", None)),
        *(("checkpoints/000000120/state.json", "json"), ("checkpoints/000000120/keep", "mark")),
        *(("checkpoints/x/state.json", None), ("weights/best.safetensors", None)),
        ("damaged/run.json", None),
    ],
)
def test_the_kind_of_a_part_is_known_by_its_name(path: str, kind: str | None) -> None:
    assert folder_layout.kind_of(path) == kind


def test_where_runs_and_results_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DGN_RESULTS_ROOT", raising=False)
    monkeypatch.setenv("DGN_RUNS_ROOT", "/r/runs")
    roots: list[Callable[[], Path]] = [folder_layout.runs_root, folder_layout.results_root]
    assert [root() for root in roots] == [Path("/r/runs"), Path("/r/results")]
    monkeypatch.setenv("DGN_RESULTS_ROOT", "/elsewhere")
    assert folder_layout.results_root() == Path("/elsewhere")


def unwritable(tmp_path: Path, kind: str) -> Path:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "full")
    return {
        "not-empty": tmp_path / "full",
        "no-folder": tmp_path / "file",
        "link": tmp_path / "link",
        "no-name": tmp_path / "a\udcffb",
        "not-writable": tmp_path / "file" / "run",
        "reserved-name": tmp_path / "Limits.TOML",
    }[kind]


@pytest.mark.parametrize(
    "kind", ["not-empty", "no-folder", "link", "no-name", "not-writable", "reserved-name"]
)
def test_a_run_is_written_into_a_new_or_an_empty_folder_only(kind: str, tmp_path: Path) -> None:
    path = unwritable(tmp_path, kind)
    before = sorted(tmp_path.rglob("*"))
    with refused(kind):
        RunFolder.create(path, CONFIG)
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(UserError):
        RunFolder(path)
