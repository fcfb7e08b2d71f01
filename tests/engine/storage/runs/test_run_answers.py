"""Which test examples were answered right, as a file: whole, small, and checked when it is read."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.cli import main
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.run_answers import NONE, RunAnswers, read_answers, write_answers
from dgn_engine.storage.runs.run_folder import RunFolder
from tests.engine.storage.runs.short_run import CONFIG, score

RIGHT = np.random.default_rng(0).random((3, 10_003)) < 0.7


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder.create(tmp_path / "first", CONFIG)
    score(folder, 10)
    folder.close()
    write_answers(folder.path, RunAnswers({10: RIGHT[0], 20: RIGHT[1]}, {30: RIGHT[2]}))
    return folder.path


def test_what_was_written_is_read_an_eighth_of_a_byte_for_each_example(run: Path) -> None:
    found = read_answers(run)
    assert (list(found.best), list(found.last), found.examples) == ([10, 20], [30], 10_003)
    masks = (*found.best.values(), *found.last.values())
    assert all(np.array_equal(mask, right) for mask, right in zip(masks, RIGHT, strict=True))
    assert (run / folder_layout.ANSWERS).stat().st_size < 3 * 10_003 / 5


def test_a_folder_without_the_file_holds_no_answers(tmp_path: Path) -> None:
    assert read_answers(tmp_path) == NONE
    write_answers(tmp_path, NONE)
    assert read_answers(tmp_path) == NONE


def test_the_file_is_no_part_of_the_inventory_nor_of_a_session_file(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(run) == []
    assert folder_layout.kind_of(folder_layout.ANSWERS) is None
    (run / folder_layout.ANSWERS).unlink()
    assert verify(run) == []
    assert main(["runs", "verify", str(run)]) == 0
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
def test_a_damaged_file_holds_no_answers(run: Path, content: bytes) -> None:
    (run / folder_layout.ANSWERS).write_bytes(content)
    assert read_answers(run) == NONE


def test_a_single_flipped_bit_anywhere_is_seen(run: Path) -> None:
    path = run / folder_layout.ANSWERS
    whole = path.read_bytes()
    drawn = np.random.default_rng(1).integers(len(whole), size=20)
    ends = np.arange(-120, 0, 9) + len(whole)  # where the digest stands
    heads = np.arange(0, 80, 7)
    told = read_answers(run)
    for place in (*heads, *drawn, *ends):
        for bit in range(0, 8, 3):
            changed = whole[place] ^ (1 << bit)
            path.write_bytes(whole[:place] + bytes([changed]) + whole[place + 1 :])
            same = json.loads(whole) == _json(path.read_bytes())  # a blank for another, say
            assert (read_answers(run) == NONE) != same, (place, bit)
            assert bool(verify(run)) != same
    path.write_bytes(whole)
    assert read_answers(run).examples == told.examples


def test_a_file_of_before_has_no_digest(run: Path) -> None:
    path = run / folder_layout.ANSWERS
    tree = {key: value for key, value in json.loads(path.read_bytes()).items() if key != "sha256"}
    path.write_text(json.dumps(tree))
    assert list(read_answers(run).best) == [10, 20]
    assert verify(run) == []


def _json(content: bytes) -> object:
    try:
        return json.loads(content)
    except ValueError:
        return None


def test_nine_examples_fill_nine_bits(run: Path) -> None:
    (run / folder_layout.ANSWERS).write_bytes(of(9, {"1": bits(255, 128)}, {"2": bits(1, 0)}))
    found = read_answers(run)
    assert found.best[1].all()
    assert found.last[2].tolist() == [False] * 7 + [True, False]
