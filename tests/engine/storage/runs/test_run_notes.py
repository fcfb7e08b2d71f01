"""The table of recorded runs: what is told of each, the user's words, curves, and deletion."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.cli import main
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.runs import folder_layout, index
from dgn_engine.storage.runs.log import LogLine
from dgn_engine.storage.runs.log_summary import summarise_log
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.recorded_curves import ScalarCurves, read_curves
from dgn_engine.storage.runs.run_answers import NONE, RunAnswers, read_answers, write_answers
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import RunNotes, read_notes, write_notes
from dgn_engine.storage.runs.run_removal import check_removable, delete_run
from tests.engine.storage.runs.short_run import CONFIG, make_frame, write_score
from tests.refusals import refused


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder.create(tmp_path / "first", CONFIG)
    for step in (10, 20, 30):
        write_score(folder, step)
    folder.close()
    return folder.path


def test_a_name_and_notes_lie_in_the_folder_which_keeps_its_own_name(run: Path) -> None:
    assert read_notes(run) == RunNotes()
    write_notes(run, RunNotes("  wide\nbatch ", "Two lines\nof notes: γ"))
    assert read_notes(run) == RunNotes("wide batch", "Two lines\nof notes: γ")
    assert find_damage(run) == []
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
        folder.write_note("Measured", vars(score))
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
    assert summarise_log(lines).seconds == 7.0


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
        taken.collect_event(event)
    curves = taken.curve_points()
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
    folder.add_frame(make_frame(30))
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


# Which test examples were answered right, as a file.

RIGHT = np.random.default_rng(0).random((3, 10_003)) < 0.7


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    folder = RunFolder.create(tmp_path / "first", CONFIG)
    write_score(folder, 10)
    folder.close()
    write_answers(folder.path, RunAnswers({10: RIGHT[0], 20: RIGHT[1]}, {30: RIGHT[2]}))
    return folder.path


def test_what_was_written_is_read_an_eighth_of_a_byte_for_each_example(answered: Path) -> None:
    found = read_answers(answered)
    assert (list(found.best), list(found.last), found.example_count) == ([10, 20], [30], 10_003)
    masks = (*found.best.values(), *found.last.values())
    assert all(np.array_equal(mask, right) for mask, right in zip(masks, RIGHT, strict=True))
    assert (answered / folder_layout.ANSWERS).stat().st_size < 3 * 10_003 / 5


def test_a_folder_without_the_file_holds_no_answers(tmp_path: Path) -> None:
    assert read_answers(tmp_path) == NONE
    write_answers(tmp_path, NONE)
    assert read_answers(tmp_path) == NONE


def test_the_file_is_no_part_of_the_inventory_nor_of_a_session_file(
    answered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find_damage(answered) == []
    assert folder_layout.kind_of(folder_layout.ANSWERS) is None
    (answered / folder_layout.ANSWERS).unlink()
    assert find_damage(answered) == []
    assert main(["runs", "verify", str(answered)]) == 0
    capsys.readouterr()


def of(examples: Any, best: Any, last: Any) -> bytes:
    return json.dumps({"examples": examples, "best": best, "last": last}).encode()


def bits(*values: int) -> str:
    return base64.b64encode(bytes(values)).decode()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"[]", b"{", b"{}", b"\xff", b"3", b"[" * 9999),
        of(9, {"1": bits(255)}, {}),  # too short
        of(9, {"1": bits(255, 128, 0)}, {}),  # too long
        of(9, {"1": bits(255, 64)}, {}),  # beyond the last example
        of(9, {"-1": bits(255, 128)}, {}),
        of(9, {str(1 << 60): bits(255, 128)}, {}),
        of(9, {"one": bits(255, 128)}, {}),
        of(9, {"1": 3}, {}),
        of(9, {"1": "%"}, {}),
        of(9, {"1": f"!{bits(255, 128)}"}, {}),  # a letter that base64 does not have
        of(9, ["1"], {}),
        of(9, {}, {"1": bits(0, 0), "2": bits(0, 0)}),
        of(9, {str(step): bits(0, 0) for step in range(17)}, {}),
        of(0, {"1": ""}, {}),
        *(of(count, {}, {}) for count in (-1, 9.0, "9", True, None, 1 << 40)),
    ],
)
def test_a_damaged_file_holds_no_answers(answered: Path, content: bytes) -> None:
    (answered / folder_layout.ANSWERS).write_bytes(content)
    assert read_answers(answered) == NONE


def test_a_single_flipped_bit_anywhere_is_seen(answered: Path) -> None:
    path = answered / folder_layout.ANSWERS
    whole = path.read_bytes()
    drawn = np.random.default_rng(1).integers(len(whole), size=20)
    ends = np.arange(-120, 0, 9) + len(whole)  # where the digest stands
    heads = np.arange(0, 80, 7)
    told = read_answers(answered)
    for place in (*heads, *drawn, *ends):
        for bit in range(0, 8, 3):
            changed = whole[place] ^ (1 << bit)
            path.write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
            same = json.loads(whole) == _json(path.read_bytes())  # a blank for another, say
            assert (read_answers(answered) == NONE) != same, (place, bit)
            assert bool(find_damage(answered)) != same
    path.write_bytes(whole)
    assert read_answers(answered).example_count == told.example_count


def test_a_file_of_before_has_no_digest(answered: Path) -> None:
    path = answered / folder_layout.ANSWERS
    tree = {key: value for key, value in json.loads(path.read_bytes()).items() if key != "sha256"}
    path.write_text(json.dumps(tree))
    assert list(read_answers(answered).best) == [10, 20]
    assert find_damage(answered) == []


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_nine_examples_fill_nine_bits(answered: Path) -> None:
    (answered / folder_layout.ANSWERS).write_bytes(of(9, {"1": bits(255, 128)}, {"2": bits(1, 0)}))
    found = read_answers(answered)
    assert found.best[1].all()
    assert found.last[2].tolist() == [False] * 7 + [True, False]
