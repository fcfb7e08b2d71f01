"""What is gone from a run's folder is named, whatever it is; what was thinned out is not gone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.cli import main
from dgn_engine.storage.runs import folder_layout, manifest, run_info
from dgn_engine.storage.runs.manifest import find_damage, reason_uncertain
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_reader import adopt_run, unpack_session
from dgn_engine.storage.session_file.session_writer import export_run
from tests.engine.conftest import SMALL
from tests.engine.storage.runs.short_run import CONFIG, make_frame, make_snapshot, write_score
from tests.engine.storage.trained_runs import StopAfter, continue_run, train_new_run

KEEPING = replace(SMALL, training=replace(SMALL.training, keep_epochs=(0, 1)))


@pytest.fixture(scope="module")
def finished(module_path: Path) -> Path:
    train_new_run(module_path / "run", KEEPING, None, ("gates",), 0.0)
    assert find_damage(module_path / "run") == []
    assert not reason_uncertain(module_path / "run")
    return module_path / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path, lines: int) -> None:
    """After so many whole lines: no line is torn, and no number is missing between two."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


def hurt(run: Path, how: str) -> str:
    """What must be named for it."""
    weights, kept = run / folder_layout.WEIGHTS, run / folder_layout.KEPT / "epoch-0001.safetensors"
    frame, last = (
        RunReader(run).frames[0].path.full_path,
        RunReader(run).checkpoints[-1].path.full_path,
    )
    if how == "log cut":
        cut(run / folder_layout.LOG, 10)
    elif how == "log emptied":
        cut(run / folder_layout.LOG, 0)
    elif how == "last line of the log":
        cut(run / folder_layout.LOG, len(RunReader(run).log.all_contents.lines) - 1)
    elif how == "checkpoints":
        shutil.rmtree(run / folder_layout.CHECKPOINTS)
    elif how == "a checkpoint":
        shutil.rmtree(last)
    elif how == "frames":
        shutil.rmtree(run / folder_layout.FRAMES)
    elif how.endswith("flipped"):
        flip(weights if how.startswith("weights") else kept)
    else:
        {"log": run / folder_layout.LOG, "weights": weights, "kept": kept, "frame": frame}[
            how
        ].unlink()
    return {
        "checkpoints": f"{folder_layout.CHECKPOINTS}/{last.name}",
        "a checkpoint": f"{folder_layout.CHECKPOINTS}/{last.name}",
        "frame": f"{folder_layout.FRAMES}/*-000000-*.safetensors",
        "frames": f"{folder_layout.FRAMES}/*-000000-*.safetensors",
        "weights": folder_layout.WEIGHTS,
        "weights flipped": folder_layout.WEIGHTS,
        "kept": kept.relative_to(run).as_posix(),
        "kept flipped": kept.relative_to(run).as_posix(),
    }.get(how, folder_layout.LOG)


HURTS = (
    *("log", "log cut", "log emptied", "last line of the log", "checkpoints", "a checkpoint"),
    *("frame", "frames", "weights", "weights flipped", "kept", "kept flipped"),
)


@pytest.mark.parametrize("how", HURTS)
def test_what_is_gone_or_changed_is_named_and_the_rest_is_kept(
    how: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = hurt(run, how)
    named = {one.path for one in find_damage(run) if not one.harmless}
    assert name in named
    assert {one.split("/")[0] for one in named} == {name.split("/")[0]}
    assert main(["runs", "verify", str(run)]) == 1
    left = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert repair_run_folder(run)
    assert find_damage(run) == []
    if how.endswith("flipped"):  # no reader takes them any more, and nothing is lost
        assert not (run / name).exists()
        assert (run / folder_layout.DAMAGED / name).read_bytes() == left[run / name]
    whole = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert repair_run_folder(run) == []  # a second time there is nothing to do
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == whole
    touched = {
        run / folder_layout.RUN,
        run / folder_layout.LOG,
        run / folder_layout.LOCK,
        run / name,
    }
    for path, content in left.items():
        if path not in touched:
            assert path.read_bytes() == content
    numbers = [line.seq for line in RunReader(run).log.all_contents.lines]
    assert numbers == sorted(set(numbers))
    capsys.readouterr()


def test_a_folder_of_an_older_version_is_sound_as_far_as_can_be_told(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_info.write_run_info(run, manifest.with_manifest(run_info.read_run_info(run), None))
    (run / folder_layout.WEIGHTS).unlink()
    assert find_damage(run) == []
    assert main(["runs", "verify", str(run)]) == 0
    assert reason_uncertain(run)
    cut(run / folder_layout.LOG, 10)  # its checkpoints say how long it was
    assert [one.path for one in find_damage(run)] == [folder_layout.LOG]


def test_what_was_gone_before_a_run_went_on_is_still_gone_after(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train_new_run(path, KEEPING, StopAfter(21), ("gates",), 0.0)
    assert find_damage(path) == []
    assert RunReader(path).status == "stopped"
    RunReader(path).frames[0].path.full_path.unlink()
    flip(path / folder_layout.KEPT / "epoch-0000.safetensors")
    gone = [one.path for one in find_damage(path)]
    assert gone == [
        f"{folder_layout.FRAMES}/*-000000-*.safetensors",
        f"{folder_layout.KEPT}/epoch-0000.safetensors",
    ]
    assert continue_run(path).step == 45
    assert [one.path for one in find_damage(path)] == gone


def test_a_frame_that_was_gone_and_is_superseded_is_missed_no_more(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", CONFIG)
    folder.add_checkpoint(make_snapshot(1), "")
    for step in (2, 3):
        folder.add_frame(make_frame(step))
    folder.close()
    RunReader(folder.path).frames[-1].path.full_path.unlink()
    assert len(find_damage(folder.path)) == 1
    again = RunFolder(folder.path)
    again.resume_from_newest({"step": 1})
    again.close()
    assert find_damage(folder.path) == []


@pytest.mark.parametrize("text", ["colour = 1", "seed = 'one'", "[training]\nbatch = -1"])
def test_a_refused_configuration_is_named_and_made_anew(text: str, run: Path) -> None:
    (run / folder_layout.CONFIG).write_text(text)
    assert [str(one) for one in find_damage(run)] == [f"{folder_layout.CONFIG} is damaged"]
    assert repair_run_folder(run)
    assert find_damage(run) == []


def claims(path: Path) -> Any:
    return json.loads((path / folder_layout.RUN).read_text()).get(manifest.KEY)


def test_the_inventory_is_taken_out_before_anything_changes_and_written_last(run: Path) -> None:
    before = (run / folder_layout.RUN).read_bytes()
    RunFolder(run).close()
    assert (run / folder_layout.RUN).read_bytes() == before
    folder = RunFolder(run)
    write_score(folder, 46)
    assert claims(run) is None  # a kill now leaves no claim that may be wrong
    assert find_damage(run) == []
    assert "written" in reason_uncertain(run)
    folder.add_checkpoint(make_snapshot(46), "")
    folder.close()
    assert claims(run)["lines"] == len(RunReader(run).log.all_contents.lines)
    assert find_damage(run) == []


@pytest.mark.parametrize(
    "nonsense",
    [
        *(7, [], {}, "x", {"lines": -1}),
        {"lines": 0, "frames": [[0, 1 << 50]], "checkpoints": [], "files": {}},
        {"lines": 0, "frames": [[0, 1 << 40], [1 << 40, 0]], "checkpoints": [], "files": {}},
        {"lines": 0, "frames": [], "checkpoints": ["../../x"], "files": {}},
        {"lines": 0, "frames": [], "checkpoints": [[]], "files": {}},
        {"lines": 0, "frames": [], "checkpoints": [3], "files": {}},
        {
            "lines": 0,
            "frames": [],
            "checkpoints": [],
            "files": {"weights/../../x.safetensors": {"bytes": 1, "sha256": ""}},
        },
    ],
)
def test_an_inventory_that_makes_no_sense_is_named_and_taken_out(nonsense: Any, run: Path) -> None:
    run_info.write_run_info(run, {**run_info.read_run_info(run), manifest.KEY: nonsense})
    assert [one.path for one in find_damage(run)] == [folder_layout.RUN]
    RunFolder(run).close()
    assert repair_run_folder(run)
    assert find_damage(run) == []


def test_a_session_claims_what_it_holds(run: Path, tmp_path: Path) -> None:
    flip(RunReader(run).checkpoints[-1].path.full_path / folder_layout.STATE)
    export_run(run, tmp_path / "a.dgn")
    (tmp_path / "place").mkdir()
    session = unpack_session(tmp_path / "a.dgn", tmp_path / "place")
    path = adopt_run(session.folder, tmp_path / "root", "a")
    assert [one.path for one in find_damage(path)] == []
    (path / folder_layout.WEIGHTS).unlink()
    assert [one.path for one in find_damage(path)] == [folder_layout.WEIGHTS]
