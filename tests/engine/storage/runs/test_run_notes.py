"""The table of recorded runs: what is told of each, the user's words, curves, and deletion."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.cli import main
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.runs import folder_layout, index
from dgn_engine.storage.runs.log import LogLine
from dgn_engine.storage.runs.log_summary import summarise
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.recorded_curves import ScalarCurves, read_curves
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import RunNotes, read_notes, write_notes
from dgn_engine.storage.runs.run_removal import check_removable, delete_run
from tests.engine.storage.runs.short_run import CONFIG, frame, score
from tests.refusals import refused


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder.create(tmp_path / "first", CONFIG)
    for step in (10, 20, 30):
        score(folder, step)
    folder.close()
    return folder.path


def test_a_name_and_notes_lie_in_the_folder_which_keeps_its_own_name(run: Path) -> None:
    assert read_notes(run) == RunNotes()
    write_notes(run, RunNotes("  wide\nbatch ", "Two lines\nof notes: γ"))
    assert read_notes(run) == RunNotes("wide batch", "Two lines\nof notes: γ")
    assert verify(run) == []
    (row,) = index.list_runs(str(run.parent)).runs
    assert (row.name, row.given_name, row.shown_name) == ("first", "wide batch", "wide batch")
    assert row.notes == "Two lines\nof notes: γ"
    write_notes(run, RunNotes())
    assert not (run / folder_layout.NOTES).exists()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"name": 3}', b"\xff", b'"a"', b"[" * 9999]
)
def test_notes_that_cannot_be_read_are_none(run: Path, content: bytes) -> None:
    (run / folder_layout.NOTES).write_bytes(content)
    assert read_notes(run) == RunNotes()


def test_notes_of_no_run_and_names_too_long_are_refused(run: Path, tmp_path: Path) -> None:
    with refused("no-run"):
        write_notes(tmp_path, RunNotes("a"))
    with refused("too-long", value=81):
        write_notes(run, RunNotes("a" * 81))
    with refused("too-long", value=10_001):
        write_notes(run, RunNotes("", "a" * 10_001))


def test_the_list_as_json_has_the_rows_of_the_window(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_notes(run, RunNotes("mine"))
    folder = RunFolder(run)
    for step, accuracy in ((40, 0.5), (50, 0.75), (60, 0.75), (70, 0.25)):
        score = Measured(step, 1.0, 0.5, 0.5, 0.5, accuracy)
        folder.note("Measured", vars(score))
    folder.close()
    RunFolder.create(run.parent / "second", CONFIG).close()
    assert main(["runs", "list", str(run.parent), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    listed = {row.name: row for row in index.list_runs(str(run.parent)).runs}
    assert rows.keys() == listed.keys() == {"first", "second"}
    first, told = rows["first"], listed["first"]
    assert first == {name: getattr(told, name) for name in first}
    assert first["given_name"] == "mine"
    assert (first["best"], first["best_step"]) == (0.75, 50)
    assert first["bytes"] == sum(p.stat().st_size for p in run.rglob("*") if p.is_file())
    assert rows["second"]["best"] is None
    assert math.isnan(listed["second"].best)
    assert main(["runs", "list", str(run.parent)]) == 0
    assert "mine" in capsys.readouterr().out


def test_the_time_of_a_run_leaves_out_what_lies_before_it_goes_on() -> None:
    lines = [
        LogLine(0, 100.0, "Measured", {}),
        LogLine(1, 104.0, "Closed", {}),
        LogLine(2, 9000.0, "RunContinued", {}),
        LogLine(3, 9003.0, "Measured", {}),
        LogLine(4, 9001.0, "Measured", {}),  # the clock was set back
    ]
    assert summarise(lines).seconds == 7.0


def test_curves_are_of_the_examples_that_were_read_last() -> None:
    events = (
        Measured(5, 0.1, 2.0, 0.3),
        ProbeScalars(4, "ntk", {"trace_value": 7.0}, 32, 64),  # of others: every second one
        ProbeScalars(5, "ntk", {"trace_value": 9.0}, 8),
        ProbeScalars(6, "ntk", {"trace_value": 30.0}, 32),
        ProbeScalars(7, "ntk", {"trace_value": 31.0}, 32),
        Measured(10, 0.2, 1.0, 0.5, 1.5, 0.4),
    )
    taken = ScalarCurves()
    for event in events:
        taken.take(event)
    curves = taken.points()
    steps, values = curves["ntk", "trace_value"]
    assert (steps.tolist(), values.tolist()) == ([6, 7], [30.0, 31.0])
    assert curves["training", "train_loss"][1].tolist() == [2.0, 1.0]
    assert curves["training", "test_accuracy"][0].tolist() == [10]
    assert curves["training", "test_loss"][1].dtype == np.float64


def test_curves_of_a_folder_carry_the_name_that_the_user_gave(run: Path) -> None:
    write_notes(run, RunNotes("mine"))
    curves = read_curves(run)
    assert curves.name == "mine"
    assert curves.scalars["training", "train_loss"][0].tolist() == [10, 20, 30]
    assert not curves.spectrum
    folder = RunFolder(run)
    folder.add_frame(frame(30))
    folder.close()
    assert read_curves(run).spectrum_step in (0, 30)
    with refused("no-run"):
        read_curves(run.parent)


def test_a_link_and_a_run_that_is_written_are_not_deleted(run: Path) -> None:
    link = run.parent / "link"
    link.symlink_to(run, target_is_directory=True)
    with refused("link"):
        delete_run(link)
    folder = RunFolder(run)
    for _ in range(2):
        with refused("in-use"):
            check_removable(run)
    folder.close()
    outside = run.parent / "precious"
    outside.mkdir()
    (outside / "a").write_text("kept")
    assert not (run / folder_layout.FRAMES).exists()
    (run / folder_layout.FRAMES).symlink_to(outside, target_is_directory=True)
    write_notes(run, RunNotes("mine"))
    delete_run(run)
    assert (outside / "a").read_text() == "kept"
    assert not (run / folder_layout.RUN).exists()
    assert not (run / folder_layout.NOTES).exists()
