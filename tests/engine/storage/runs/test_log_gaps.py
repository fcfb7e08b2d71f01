"""A lost line may have said anything: what it said is read elsewhere, or nothing is built on it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.index_entry import UNKNOWN, read_entry
from dgn_engine.storage.runs.log import LogContents, LogLine, decode_line
from dgn_engine.storage.runs.log_gaps import LogFact, read_gaps
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.short_run import CONFIG, make_frame, make_snapshot
from tests.engine.storage.runs.short_run import write_score as scored_line

FIRST = RunConfig().gating.regime
OTHER = "FR-II"


def score(run: RunFolder, step: int, accuracy: float) -> None:
    run.write_note("Measured", to_plain(Measured(step, step / 10, 0.5, accuracy, 0.5, accuracy)))


def save(run: RunFolder, step: int, regime: str, kept: str = "") -> None:
    run.add_checkpoint(make_snapshot(step, regime=regime), kept)


def continued(folder: Path, last_checkpoint: bool = True, closed: bool = True) -> Path:
    """A run whose scores of steps 30 to 50 were discarded: they were the best ones."""
    run = RunFolder.create(folder, RunConfig())
    for step in (10, 20):
        score(run, step, 0.5)
    save(run, 20, FIRST)
    for step in (30, 40, 50):
        score(run, step, 0.9)
    run.resume_from_newest({"step": 20, "remark": "", "folder": str(folder)})
    for step in (30, 40, 50, 60):
        score(run, step, 0.6)
    if last_checkpoint:
        save(run, 60, FIRST)
    score(run, 70, 0.55)
    return left(run, closed)


def swapped(folder: Path, last_checkpoint: bool = True, closed: bool = True) -> Path:
    """A run of two regimes: the scores of the first were better."""
    run = RunFolder.create(folder, RunConfig())
    for step in (10, 20):
        score(run, step, 0.9)
    save(run, 20, FIRST, f"before {OTHER}")
    swap = RegimeSwapped(20, FIRST, OTHER, (), (), (), ())
    run.write_note("RegimeSwapped", to_plain(swap))
    for step in (30, 40):
        score(run, step, 0.6)
    if last_checkpoint:
        save(run, 40, OTHER)
    score(run, 50, 0.55)
    return left(run, closed)


def left(run: RunFolder, closed: bool) -> Path:
    if closed:
        run.close()
        return run.path
    run.sync()
    killed = Path(shutil.copytree(run.path, run.path.with_name(f"{run.path.name}-killed")))
    run.close()
    return killed


def lose(run: Path, word: str, more: int = 0) -> None:
    """Flip a bit in the line of this name, and in so many before it."""
    raw = (run / "log.jsonl").read_bytes().splitlines(keepends=True)
    (at,) = (n for n, line in enumerate(raw) if f'"{word}"'.encode() in line)
    for n in range(at - more, at + 1):
        changed = bytearray(raw[n])
        changed[len(changed) // 2] ^= 1
        raw[n] = bytes(changed)
    (run / "log.jsonl").write_bytes(b"".join(raw))


def without_facts(run: Path) -> None:
    """As versions before wrote it: nothing but `RunContinued` says where the run went on."""
    info = run_info.read_run_info(run)
    run_info.write_run_info(run, {key: value for key, value in info.items() if key != "digests"})


def steps_and_scores(run: Path) -> list[tuple[int, float]]:
    return [(one.step, one.train_accuracy) for one in RunReader(run).measured_events]


@pytest.mark.wide
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("last_checkpoint", [True, False])
@pytest.mark.parametrize("more", [0, 1])
def test_scores_that_a_lost_line_discarded_do_not_come_back(
    more: int, last_checkpoint: bool, closed: bool, tmp_path: Path
) -> None:
    run = continued(tmp_path / "run", last_checkpoint, closed)
    before = steps_and_scores(run)
    lose(run, "RunContinued", more)
    assert any(not one.harmless for one in find_damage(run))
    for _ in range(2):  # damaged, then made whole
        assert steps_and_scores(run) == before
        reader = RunReader(run)
        reader.log.all_contents  # noqa: B018 - the lines are held: another way to the same numbers
        assert [(one.step, one.train_accuracy) for one in reader.measured_events] == before
        assert RunReader(run).log.summary.best.accuracy == 0.6
        repair_run_folder(run)
    assert [one for one in find_damage(run) if not one.harmless] == []


def test_steps_that_go_back_say_that_the_run_went_on_where_nothing_else_does(
    tmp_path: Path,
) -> None:
    run = continued(tmp_path / "run", last_checkpoint=False)
    without_facts(run)
    before = steps_and_scores(run)
    lose(run, "RunContinued")
    assert steps_and_scores(run) == before
    repair_run_folder(run)
    assert steps_and_scores(run) == before
    lines = (run / "log.jsonl").read_bytes().splitlines()
    (made,) = (one for one in map(decode_line, lines) if one and one.name == "RunContinued")
    assert made.fields["lines"] == 2


def test_no_score_counts_that_may_have_been_discarded_in_a_gap() -> None:
    """Steps 30 and 40 stand before the gap; the run may have gone on from 20 and lost its own."""
    lines = [
        LogLine(n, 1.0, "Measured", {"step": step}) for n, step in enumerate((10, 20, 30, 40, 50))
    ]
    lines += [LogLine(8, 1.0, "Measured", {"step": 50})]
    found = read_gaps(lines, 0, "DL", ())
    assert [(one.seq, one.name) for one in found.lines] == [(5, "RunContinued"), (6, "Lost")]
    assert found.lines[0].fields["lines"] == 2
    known = read_gaps(lines, 0, "DL", [LogFact(3, 30)])
    assert known.lines[0].fields["lines"] == 3  # a checkpoint that is there was the newest


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_the_best_of_another_regime_is_not_given_where_the_change_is_lost(
    closed: bool, tmp_path: Path
) -> None:
    run = swapped(tmp_path / "run", closed=closed)
    lose(run, "RegimeSwapped")
    for _ in range(2):
        entry = read_entry(run, "")
        assert entry is not None
        assert (entry.regime, entry.best, entry.best_step) == (OTHER, 0.6, 30)
        assert entry.status != "damaged"
        repair_run_folder(run)
    assert find_damage(run) == []
    assert len(RunReader(run).checkpoints) == 2  # that before the change is still of this log


def test_where_nothing_says_the_regime_no_best_of_before_is_given(tmp_path: Path) -> None:
    run = swapped(tmp_path / "run", last_checkpoint=False, closed=False)
    lose(run, "RegimeSwapped")
    for _ in range(2):
        entry = read_entry(run, "")
        assert entry is not None
        assert (entry.regime, entry.best) == (UNKNOWN, 0.6)
        assert entry.trouble
        assert not RunReader(run).log.summary.regime_known
        repair_run_folder(run)


def test_the_next_change_says_the_regime_before_it() -> None:
    lines = [
        LogLine(0, 1.0, "Measured", {"step": 10}),
        LogLine(2, 1.0, "Measured", {"step": 20}),
        LogLine(3, 1.0, "RegimeSwapped", {"step": 20, "before": "FR-II", "after": "DL"}),
    ]
    found = read_gaps(lines, 0, "DL", ())
    (made,) = found.lines
    assert (made.seq, made.fields["before"], made.fields["after"]) == (1, "DL", "FR-II")
    assert not found.doubtful
    assert read_gaps(lines[:2], 0, "DL", ()).doubtful
    assert not read_gaps(lines[:2], 0, "DL", [LogFact(3, 20, "DL")]).doubtful


@pytest.mark.parametrize("make", [continued, swapped])
def test_what_is_lost_is_said_by_every_command(
    make: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path / "run", False, False)
    lose(run, "RunContinued" if make is continued else "RegimeSwapped", 1)
    words = RunReader(run).log.lost_in_words
    assert words
    for command in (["list", str(tmp_path)], ["show", str(run)]):
        assert main(["runs", *command]) == 0
        assert words in capsys.readouterr().out
    assert main(["runs", "export", str(run), str(tmp_path / "scores.csv")]) == 0
    assert words in capsys.readouterr().out
    assert main(["runs", "repair", str(run)]) == 0
    words = RunReader(run).log.lost_in_words
    assert words in capsys.readouterr().out
    assert main(["runs", "verify", str(run)]) == 0
    assert words in capsys.readouterr().out


def test_a_run_that_goes_on_after_a_gap_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    run = continued(tmp_path / "run", last_checkpoint=False, closed=False)
    lose(run, "RunContinued")
    before = steps_and_scores(run)
    folder = RunFolder(run)
    score(folder, 80, 0.5)
    save(folder, 80, FIRST)
    folder.close()
    assert steps_and_scores(run) == [*before, (80, 0.5)]


def test_an_honest_log_has_no_gaps(tmp_path: Path) -> None:
    for make in (continued, swapped):
        for closed in (True, False):
            run = make(tmp_path / f"{make.__name__}-{closed}", closed=closed)
            assert find_damage(run) == []
            assert RunReader(run).log.lost_in_words == ""
            assert not math.isnan(RunReader(run).log.summary.best.accuracy)


# A line of another run in a log is none of the run's own, wherever it stands.

LINES = 20


def record(folder: Path, loss: float, closed: bool = True, lines: Sequence[int] = ()) -> Path:
    """A run whose training loss is `loss` in each line; `closed`: its writer was not killed."""
    run = RunFolder(folder) if folder.exists() else RunFolder.create(folder, RunConfig())
    for step in lines or range(LINES):
        run.write_note("Measured", to_plain(Measured(step, 0.5, loss, 0.5)))
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
    return {one.train_loss for one in RunReader(run).measured_events}


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
    (damage,) = [one for one in find_damage(mixed) if "another run" in one.trouble]
    assert damage.path == "log.jsonl"
    assert "6–15" in damage.trouble
    assert losses(mixed) == {0.25}
    log = LogContents(mixed / "log.jsonl")
    assert (log.foreign, log.damaged, log.missing) == (((6, 15),), ((6, 15),), ((5, 14),))
    assert len(LogTail(mixed / "log.jsonl").read_new_events()) == LINES - 10


def test_a_repair_keeps_the_lines_that_are_the_run_s_own(mixed: Path) -> None:
    repair_run_folder(mixed)
    assert find_damage(mixed) == []
    assert losses(mixed) == {0.25}
    assert len(RunReader(mixed).measured_events) == LINES - 10
    assert (mixed / "damaged" / "log.jsonl").is_file()


@pytest.mark.parametrize("closed", [True, False])
def test_a_log_of_which_no_line_is_the_run_s_own_is_refused(closed: bool, tmp_path: Path) -> None:
    run, other = (record(tmp_path / name, 0.5, closed) for name in ("run", "other"))
    shutil.copy(other / "log.jsonl", run / "log.jsonl")
    assert any("another run" in one.trouble for one in find_damage(run))
    with pytest.raises(Exception, match="another run"):
        RunReader(run).events  # noqa: B018 - read for its refusal
    repair_run_folder(run)
    assert RunReader(run).measured_events == ()


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_json_that_is_made_anew_keeps_the_lines_of_the_log(
    closed: bool, tmp_path: Path
) -> None:
    run = record(tmp_path / "run", 0.25, closed)
    before = str(run_info.read_run_info(run)["id"])
    (run / "run.json").unlink()
    repair_run_folder(run)
    assert len(RunReader(run).measured_events) == LINES
    record(run, 0.75, lines=range(LINES, 2 * LINES))
    assert losses(run) == {0.25, 0.75}
    assert [one for one in find_damage(run) if not one.harmless] == []
    assert before[:8] in {line.run for raw in raw_lines(run) if (line := decode_line(raw[:-1]))}


def test_a_run_that_states_no_id_has_every_line(tmp_path: Path) -> None:
    run = record(tmp_path / "run", 0.25)
    info = run_info.read_run_info(run)
    run_info.write_run_info(run, {key: value for key, value in info.items() if key != "id"})
    assert len(RunReader(run).measured_events) == LINES
    record(run, 0.75, lines=range(LINES, 2 * LINES))
    assert losses(run) == {0.25, 0.75}


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_json_of_a_twin_is_put_aside_and_the_run_stays(closed: bool, tmp_path: Path) -> None:
    """Of equal settings: nothing but the ids tells them apart."""
    run, twin = tmp_path / "run", tmp_path / "twin"
    for folder in (run, twin):
        opened = RunFolder.create(folder, CONFIG)
        scored_line(opened, 10)
        opened.add_checkpoint(make_snapshot(10), "")
        opened.add_frame(make_frame(10))
        opened.sync()
        copy = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-killed")))
        opened.close()
        if not closed:
            shutil.rmtree(folder)
            copy.rename(folder)
    own = str(run_info.read_run_info(run)["id"])
    shutil.copy(twin / "run.json", run / "run.json")
    assert [one.path for one in find_damage(run)] == ["run.json"]
    repair_run_folder(run)
    assert run_info.read_run_info(run)["id"] == own
    reader = RunReader(run)
    assert (len(reader.checkpoints), len(reader.frames), len(reader.measured_events)) == (1, 1, 1)
