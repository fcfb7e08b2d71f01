"""Numbers that are not finite reach the disk as JSON that every reader takes, and come back."""

from __future__ import annotations

import json
import math
import zipfile
from dataclasses import replace

import pytest

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout, frame_content, run_checkpoints
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_writer import save_session
from dgn_engine.training.run_snapshot import capture_run, restore_run
from tests.engine.storage.runs import short_run

WAITING = Measured(1, 0.5, math.nan, math.inf)  # for its test


def strictly(content):
    """As a reader that knows JSON and nothing of Python."""
    return json.loads(content, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_every_json_file_of_a_run_is_json(tmp_path, make_run):
    run = make_run("DL")
    run.evaluation.resume_test(WAITING, (0.0, 0))
    folder = RunFolder.create(tmp_path / "run", run.config)
    folder.info.record_start(run.started_event(paused=False), "0", 1)
    for value in (math.nan, math.inf, -math.inf):
        folder.write_note("Measured", to_plain(Measured(1, 0.0, value, value, value, value)))
    folder.add_checkpoint(capture_run(run), "final")
    folder.close()
    files = [path for path in folder.path.rglob("*.json*") if path.is_file()]
    assert {path.name for path in files} >= {
        folder_layout.RUN,
        folder_layout.LOG,
        folder_layout.STATE,
        folder_layout.MANIFEST,
    }
    for path in files:
        text = path.read_text("utf-8")
        for part in text.splitlines() if path.name == folder_layout.LOG else [text]:
            strictly(part)
    scores = RunReader(folder.path).measured_events
    assert repr([one.train_loss for one in scores]) == "[nan, inf, -inf]"


def test_a_score_without_a_number_that_waits_for_its_test_comes_back(tmp_path, make_run):
    run, again = make_run("DL"), make_run("DL")
    run.evaluation.resume_test(WAITING, (0.0, 0))
    written = run_checkpoints.write_step_folder(
        tmp_path, capture_run(run), 0, {"kept": "", "lines": 0, "frames": 0}
    )
    restore_run(again, run_checkpoints.load_checkpoint(written))
    assert repr(again.evaluation.pending_scores) == repr(run.evaluation.pending_scores)


def test_a_score_that_an_older_version_wrote_as_a_bare_word_is_read(make_run):
    run, again = make_run("DL"), make_run("DL")
    run.evaluation.resume_test(WAITING, (0.0, 0))
    snapshot = capture_run(run)
    older = json.loads(json.dumps(dict(snapshot.state)))
    assert math.isnan(older["awaited"]["train_loss"])
    restore_run(again, replace(snapshot, state=older))
    assert repr(again.evaluation.pending_scores) == repr(run.evaluation.pending_scores)


def test_a_frame_without_numbers_has_a_head_that_is_json():
    reading = Reading("gates", 3, math.nan, math.inf, {}, {"nu": -math.inf}, {"a": "b"})
    frame = Frame(0, 3, math.nan, 0.0, None, {"gates": reading})
    content = frame_content.encode_frame(frame)
    size = int.from_bytes(content[:8], "little")
    strictly(strictly(content[8 : 8 + size])["__metadata__"]["frame"])
    assert repr(frame_content.decode_frame(content)) == repr(frame)


def test_what_a_session_says_of_its_window_is_json(tmp_path):
    folder = RunFolder.create(tmp_path / "run", short_run.CONFIG)
    folder.close()
    save_session(folder.path, tmp_path / "x.dgn", window={"zoom": math.nan})
    with zipfile.ZipFile(tmp_path / "x.dgn") as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                strictly(archive.read(name))
