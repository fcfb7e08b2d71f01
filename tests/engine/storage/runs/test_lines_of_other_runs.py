"""A line of another run in a log is none of the run's own, wherever it stands."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.log import LogContents, decode_line
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.repair import repair
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.short_run import CONFIG, frame, score, snapshot

LINES = 20


def record(folder: Path, loss: float, closed: bool = True, lines: Sequence[int] = ()) -> Path:
    """A run whose training loss is `loss` in each line; `closed`: its writer was not killed."""
    run = RunFolder(folder) if folder.exists() else RunFolder.create(folder, RunConfig())
    for step in lines or range(LINES):
        run.note("Measured", to_plain(Measured(step, 0.5, loss, 0.5)))
    run.sync()
    if closed:
        run.close()
        return folder
    killed = folder.with_name(f"{folder.name}-killed")
    shutil.copytree(folder, killed)
    run.close()
    return killed


def raw_lines(run: Path) -> list[bytes]:
    return (run / "log.jsonl").read_bytes().splitlines(keepends=True)


def losses(run: Path) -> set[float]:
    return {one.train_loss for one in RunReader(run).measured}


@pytest.fixture(params=[True, False], ids=["closed", "killed"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run in whose log lines 6 to 15 are those of another."""
    run = record(tmp_path / "run", 0.25, request.param)
    other = record(tmp_path / "other", 0.75, request.param)
    raw = raw_lines(run)
    raw[5:15] = raw_lines(other)[5:15]
    (run / "log.jsonl").write_bytes(b"".join(raw))
    return run


def test_lines_of_another_run_are_named_and_count_nowhere(mixed: Path) -> None:
    (damage,) = [one for one in verify(mixed) if "another run" in one.trouble]
    assert damage.path == "log.jsonl"
    assert "6–15" in damage.trouble
    assert losses(mixed) == {0.25}
    log = LogContents(mixed / "log.jsonl")
    assert (log.foreign, log.damaged, log.missing) == (((6, 15),), ((6, 15),), ((5, 14),))
    assert len(LogTail(mixed / "log.jsonl").take()) == LINES - 10


def test_a_repair_keeps_the_lines_that_are_the_run_s_own(mixed: Path) -> None:
    repair(mixed)
    assert verify(mixed) == []
    assert losses(mixed) == {0.25}
    assert len(RunReader(mixed).measured) == LINES - 10
    assert (mixed / "damaged" / "log.jsonl").is_file()


@pytest.mark.parametrize("closed", [True, False])
def test_a_log_of_which_no_line_is_the_run_s_own_is_refused(closed: bool, tmp_path: Path) -> None:
    run, other = (record(tmp_path / name, 0.5, closed) for name in ("run", "other"))
    shutil.copy(other / "log.jsonl", run / "log.jsonl")
    assert any("another run" in one.trouble for one in verify(run))
    with pytest.raises(Exception, match="another run"):
        RunReader(run).events  # noqa: B018 - read for its refusal
    repair(run)
    assert RunReader(run).measured == ()


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_json_that_is_made_anew_keeps_the_lines_of_the_log(
    closed: bool, tmp_path: Path
) -> None:
    run = record(tmp_path / "run", 0.25, closed)
    before = str(run_info.read(run)["id"])
    (run / "run.json").unlink()
    repair(run)
    assert len(RunReader(run).measured) == LINES
    record(run, 0.75, lines=range(LINES, 2 * LINES))
    assert losses(run) == {0.25, 0.75}
    assert [one for one in verify(run) if not one.harmless] == []
    assert before[:8] in {line.run for raw in raw_lines(run) if (line := decode_line(raw[:-1]))}


def test_a_run_that_states_no_id_has_every_line(tmp_path: Path) -> None:
    run = record(tmp_path / "run", 0.25)
    info = run_info.read(run)
    run_info.write(run, {key: value for key, value in info.items() if key != "id"})
    assert len(RunReader(run).measured) == LINES
    record(run, 0.75, lines=range(LINES, 2 * LINES))
    assert losses(run) == {0.25, 0.75}


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_json_of_a_twin_is_put_aside_and_the_run_stays(closed: bool, tmp_path: Path) -> None:
    """Of equal settings: nothing but the ids tells them apart."""
    run, twin = tmp_path / "run", tmp_path / "twin"
    for folder in (run, twin):
        opened = RunFolder.create(folder, CONFIG)
        score(opened, 10)
        opened.checkpoint(snapshot(10), "")
        opened.add_frame(frame(10))
        opened.sync()
        copy = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-killed")))
        opened.close()
        if not closed:
            shutil.rmtree(folder)
            copy.rename(folder)
    own = str(run_info.read(run)["id"])
    shutil.copy(twin / "run.json", run / "run.json")
    assert [one.path for one in verify(run)] == ["run.json"]
    repair(run)
    assert run_info.read(run)["id"] == own
    reader = RunReader(run)
    assert (len(reader.checkpoints), len(reader.frames), len(reader.measured)) == (1, 1, 1)
