"""What lies in a run folder: log, frame_files, run_checkpoints, lock; each alone, and damaged."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured, RegimeSwapped, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage import lock
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import (
    folder_layout,
    frame_content,
    frame_files,
    run_checkpoints,
    run_info,
)
from dgn_engine.storage.runs.frame_files import choose_dropped
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
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader

ROOT = Path(__file__).parents[4]
EVENTS = (
    Measured(3, 0.5, math.nan, 0.25),
    Measured(9, 1.5, math.inf, 0.25, 0.1, 0.9),
    ProbeScalars(3, "npk", {"nu": 1.25, "rank": math.nan}),
    RegimeSwapped(4, "DL", "FL", ("value weights",), (), (), ("feature weights",), "µ.pth"),
    SettingChanged(5, 1e-3, 8.0, "ones", 0.0),
)


def write_log(path, count, first=0):
    log = LogWriter(path)
    for number in range(first, first + count):
        log.append("Measured", to_plain(Measured(number, 0.0, 0.5, 0.5)))
    log.close()


def snapshot(step=7, value=1.0):
    state = {"format": 1, "step": step, "finished": False}
    return Snapshot({"value.weights.0": torch.full((3, 4), value)}, state)


def frame(step, layers=1):
    arrays = {
        f"layer_{layer}": (np.arange(5 * 13).reshape(5, 13) % 3 == 0).astype(np.uint8)
        for layer in range(layers)
    }
    arrays["labels"] = np.arange(5)
    arrays["soft"] = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    reading = Reading("gates", step, 0.1, 0.2, arrays, {"active": 0.1, "nu": math.nan}, {"a": "b"})
    return Frame(1, step, step / 45, 0.0, None, {"gates": reading})


# --- the log ---


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_an_event_comes_back_from_its_line(event):
    raw = encode_line(LogLine(3, 1.5, log_word(event), to_plain(event)))
    json.loads(raw, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    line = decode_line(raw.rstrip(b"\n"))
    assert (line.seq, line.at) == (3, 1.5)
    assert repr(event_of(line)) == repr(event)  # NaN is not equal to itself


def test_no_byte_of_a_line_can_change_unseen():
    raw = encode_line(LogLine(3, 1.5, "Measured", to_plain(EVENTS[1]))).rstrip(b"\n")
    for place in range(len(raw)):
        assert decode_line(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]) is None
        assert decode_line(raw[:place]) is None


def test_a_log_cut_anywhere_keeps_its_whole_lines_and_goes_on(tmp_path):
    path = tmp_path / "log"
    write_log(path, 3)
    content = path.read_bytes()
    second = len(content.split(b"\n")[0]) + 1
    for cut in range(second, len(content)):
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        log = LogContents(path)
        assert len(log.lines) == whole
        assert not log.damaged
        write_log(path, 1)
        log = LogContents(path)
        assert [line.seq for line in log.lines] == list(range(whole + 1))
        assert (log.damaged, log.missing, log.torn) == ((), (), 0)


def test_zeros_at_the_end_of_a_log_are_cut_off_and_in_it_are_named(tmp_path):
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
    log = LogContents(path)
    assert (log.damaged, log.missing) == (((2, 2),), ((1, 1),))
    filled = read_gaps(log.lines, log.end, "DL", ()).fill(log.lines)
    path.write_bytes(b"".join(map(encode_line, filled)))
    again = LogContents(path)
    assert (again.damaged, again.missing) == ((), ())
    assert [line.name for line in again.lines] == ["Measured", "Lost", *["Measured"] * 3]


def test_a_clock_that_is_set_back_changes_no_order(tmp_path, monkeypatch):
    path = tmp_path / "log"
    write_log(path, 2)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    write_log(path, 2, first=2)
    log = LogContents(path)
    assert [line.seq for line in log.lines] == [0, 1, 2, 3]
    assert log.lines[2].at == 1.0 < log.lines[1].at


# --- frames ---


def test_a_frame_comes_back_as_it_was_with_its_gates_packed(tmp_path):
    whole = frame(120, layers=30)
    stored = frame_files.write(tmp_path, whole, 4)
    assert stored.path.name.startswith("000000120-000004-")
    back = frame_files.read(frame_files.scan(tmp_path)[0])
    reading, other = whole.readings["gates"], back.readings["gates"]
    assert repr((reading.scalars, reading.facts)) == repr((other.scalars, other.facts))
    assert reading.arrays.keys() == other.arrays.keys()
    for name, array in reading.arrays.items():
        assert np.array_equal(array, other.arrays[name])
        assert array.dtype == other.arrays[name].dtype
        assert not other.arrays[name].flags.writeable
    assert frame_content.encode(whole).count(b"\x01") < 30 * 65  # not a byte for each gate


def test_a_frame_keeps_the_error_of_an_estimate_and_leaves_out_what_is_still_to_come(tmp_path):
    whole = frame(120)
    estimate = Reading("npk", 120, error=0.05, remark="64 probe examples · ± 5 %", progress=0.4)
    pending = Reading("ntk", 120, absent="It is being made.", progress=0.0)
    readings = {"npk": estimate, "ntk": pending}
    frame_files.write(tmp_path, replace(whole, readings=readings), 4)
    back = frame_files.read(frame_files.scan(tmp_path)[0]).readings
    assert set(back) == {"npk"}
    assert (back["npk"].error, back["npk"].remark) == (0.05, estimate.remark)
    assert back["npk"].progress == 1.0, "nothing is under way in a file"


def test_a_damaged_frame_is_refused_and_named(tmp_path):
    stored = frame_files.write(tmp_path, frame(1), 0)
    content = stored.path.whole.read_bytes()
    for damaged in (content[:50], bytes(len(content)), b""):
        stored.path.whole.write_bytes(damaged)
        assert "sha256" in frame_files.check(stored)
        with pytest.raises(UserError, match="damaged"):
            frame_files.read(stored)


def stored_frames(steps):
    return [
        frame_files.StoredFrame(Path(), step, serial, "", 100) for serial, step in enumerate(steps)
    ]


def test_frames_thin_out_on_a_logarithmic_axis_and_keep_what_is_pinned():
    found = stored_frames(range(0, 10_000, 10))
    dropped = choose_dropped(found, events=[5_003], cap=20_000)
    left = [one for one in found if one not in dropped]
    assert sum(one.bytes for one in left) <= 20_000
    steps = [one.step for one in left]
    assert {0, 5_000, 5_010} <= set(steps)
    assert steps[-32:] == list(range(9_680, 10_000, 10))
    early = sum(step < 1_000 for step in steps) / 100  # of so many there were
    late = sum(1_000 <= step < 9_000 for step in steps) / 800
    assert early > 5 * late > 0


def test_nothing_is_thinned_under_the_cap():
    assert choose_dropped(stored_frames(range(100)), [], cap=10_000) == []


def test_the_cap_is_kept_though_every_frame_is_beside_an_event():
    found = stored_frames(range(1000))
    assert len(found) - len(choose_dropped(found, list(range(1000)), cap=10_000)) <= 100


# --- checkpoints ---


def write_checkpoint(folder, order, step=7, kept=""):
    return run_checkpoints.write(
        folder, snapshot(step), order, {"kept": kept, "lines": 0, "frames": 0}
    )


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    write_checkpoint(tmp_path, 0)
    (found,) = run_checkpoints.scan(tmp_path)
    assert (found.path.name, found.step, found.sound) == ("000000007", 7, True)
    assert torch.equal(run_checkpoints.load(found).tensors["value.weights.0"], torch.ones(3, 4))


@pytest.mark.parametrize(
    "name", [folder_layout.TENSORS, folder_layout.STATE, folder_layout.MANIFEST]
)
@pytest.mark.parametrize("damage", ["cut", "zeroed", "missing", "flipped"])
def test_a_damaged_checkpoint_is_known_and_its_file_named(tmp_path, name, damage):
    path = write_checkpoint(tmp_path, 0).path.whole / name
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.unlink()
    if damage != "missing":
        path.write_bytes(
            {"cut": content[:-9], "zeroed": bytes(len(content)), "flipped": flipped}[damage]
        )
    (found,) = run_checkpoints.scan(tmp_path)
    if (name, damage) == (folder_layout.MANIFEST, "flipped") and found.sound:
        return  # a blank of its layout
    assert not found.sound
    assert found.culprit == name or (name, damage) == (folder_layout.MANIFEST, "flipped")


def test_another_checkpoint_at_the_same_step_has_a_folder_of_its_own(tmp_path):
    write_checkpoint(tmp_path, 0)
    write_checkpoint(tmp_path, 1)
    assert [one.path.name for one in run_checkpoints.scan(tmp_path)] == [
        "000000007",
        "000000007-1",
    ]


def test_the_last_two_the_final_one_and_those_beside_events_stay(tmp_path):
    kept = ["", "before FL", "", "final", "", "", ""]
    for order, why in enumerate(kept):
        write_checkpoint(tmp_path, order, step=order, kept=why)
    (tmp_path / "000000002" / folder_layout.KEEP).touch()
    going = run_checkpoints.choose_superfluous(run_checkpoints.scan(tmp_path))
    assert [one.step for one in going] == [0, 4]


def test_a_snapshot_that_is_not_finite_is_known():
    assert snapshot().weights_finite()
    assert not snapshot(value=math.nan).weights_finite()


# --- the lock ---


def test_two_writers_are_kept_apart_and_the_second_is_told_of_the_first(tmp_path):
    first = RunFolder.create(tmp_path / "run", RunConfig())
    with pytest.raises(UserError, match=f"process {os.getpid()}"):
        RunFolder(tmp_path / "run")
    assert lock.holder(first.path / folder_layout.LOCK).pid == os.getpid()
    first.close()
    assert lock.holder(first.path / folder_layout.LOCK) is None
    RunFolder(tmp_path / "run").close()


def test_a_lock_ends_with_its_process(tmp_path):
    program = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from dgn_engine.storage.lock import Lock\n"
        "held = Lock(Path(sys.argv[1])); held.take()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "lock"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    assert path.stat().st_size > 0
    assert lock.holder(path) is None
    taken = lock.Lock(path)
    taken.take()
    taken.release()


def test_a_lock_of_another_machine_is_respected_but_not_in_a_copy(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    told = {"pid": 1, "host": "elsewhere", "boot": "b", "inode": path.stat().st_ino}
    path.write_text(json.dumps(told))
    with pytest.raises(UserError, match="elsewhere"):
        lock.Lock(path).take()
    path.write_text(json.dumps({**told, "inode": told["inode"] + 1}))
    taken = lock.Lock(path)
    taken.take()
    taken.release()


# --- run.json ---


def test_a_damaged_run_json_is_refused_and_a_strangers_is_not_believed(tmp_path):
    RunFolder.create(tmp_path / "run", RunConfig()).close()
    path = tmp_path / "run" / folder_layout.RUN
    assert run_info.read(tmp_path / "run")["config"]["seed"] == 0
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(UserError, match="repair"):
        RunReader(tmp_path / "run")
    for text in ("", "[]", "null", '{"sha256": 3}', "[" * 10_000):
        path.write_text(text)
        with pytest.raises(UserError, match="damaged"):
            RunReader(tmp_path / "run")


def open_files():
    return sorted(one.name for one in Path("/dev/fd").iterdir())


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="open files cannot be listed here")
@pytest.mark.parametrize(
    "part",
    [
        "run_folder.run_checkpoints.scan",
        "run_folder.frame_files.scan",
        "run_folder.ManifestWriter.__init__",
        "written_log.known_facts",
        "written_log.LogWriter.sync",
    ],
)
def test_a_folder_that_fails_while_it_is_opened_leaves_no_file_open(part, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    RunFolder.create(tmp_path / "run", RunConfig()).close()
    before = open_files()
    with monkeypatch.context() as patched:
        patched.setattr(f"dgn_engine.storage.runs.{part}", fails)
        with pytest.raises(UserError, match="Cannot write the run") as refusal:
            RunFolder(tmp_path / "run")
    assert open_files() == before, refusal  # whose traceback still holds what was made
    RunFolder(tmp_path / "run").close()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write"):
        RunFolder.create(tmp_path / "file" / "run", RunConfig())
    with pytest.raises(UserError, match="is not a folder"):
        RunFolder.create(tmp_path / "file", RunConfig())


def test_a_reader_drops_what_a_continued_run_has_superseded(tmp_path):
    folder = RunFolder.create(tmp_path / "run", RunConfig())
    for step in (1, 2):
        folder.note("Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
        folder.add_frame(frame(step))
    folder.checkpoint(snapshot(2), "")
    for step in (3, 4):
        folder.note("Measured", to_plain(Measured(step, 0.0, 9.0, 0.5)))
        folder.add_frame(frame(step))
    folder.close()
    again = RunFolder(tmp_path / "run")
    again.go_on({"step": 2, "remark": "", "folder": ""})
    again.note("Measured", to_plain(replace(EVENTS[0], step=3)))
    again.close()
    reader = RunReader(tmp_path / "run")
    assert [event.step for event in reader.measured] == [1, 2, 3]
    assert math.isnan(reader.measured[-1].train_loss)
    assert len(reader.log.contents.lines) == 6  # nothing was taken out of the log
    assert [one.step for one in reader.frames] == [1, 2]
    assert reader.latest_frame(99).step == 2
    assert reader.latest_frame(1).step == 1
    assert reader.latest_frame(0) is None
    assert reader.frame(2).step == 2
    for step, near in ((0, "the nearest is of step 1"), (99, "the nearest is of step 2")):
        with pytest.raises(UserError, match=near):
            reader.frame(step)
