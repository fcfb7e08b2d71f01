"""Two copies of one run that both went on: what the one wrote is no part of the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.storage.runs import run_identity, run_info
from dgn_engine.storage.runs.log import DIGEST, MOST_DIGESTS, STRETCH, LogDigests
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_reader import adopt_run
from tests.engine.storage.runs.short_run import make_frame, make_snapshot, write_score

LINES = 2 * STRETCH


def go_on(run: RunFolder, first: int, loss: float) -> None:
    for step in range(first, first + LINES):
        write_score(run, step, loss)
        if step % 50 == 0:
            run.add_frame(make_frame(step, loss))
    run.add_checkpoint(make_snapshot(step, loss), "")


@pytest.fixture(scope="module")
def parent(module_path: Path) -> Path:
    run = RunFolder.create(module_path / "run", RunConfig())
    go_on(run, 0, 0.25)
    run.close()
    return run.path


def gone_on(parent: Path, folder: Path, loss: float, imported: bool = False) -> Path:
    if imported:
        folder = adopt_run(parent, folder.parent, folder.name)
    else:
        shutil.copytree(parent, folder)
    run = RunFolder(folder)
    run.resume_from_newest({"step": LINES - 1, "remark": "", "folder": ""})
    go_on(run, LINES, loss)
    run.close()
    return folder


def take_lines(run: Path, other: Path) -> None:
    ours, theirs = ((one / "log.jsonl").read_bytes().splitlines(True) for one in (run, other))
    ours[LINES + 20 : LINES + 40] = theirs[LINES + 20 : LINES + 40]
    (run / "log.jsonl").write_bytes(b"".join(ours))


def take_frame(run: Path, other: Path) -> None:
    (ours,), (theirs,) = (list((one / "frames").glob("*-000004-*")) for one in (run, other))
    ours.unlink()
    shutil.copy2(theirs, run / "frames")


def take_checkpoint(run: Path, other: Path) -> None:
    name = sorted((other / "checkpoints").iterdir())[-1].name
    shutil.rmtree(run / "checkpoints" / name)
    shutil.copytree(other / "checkpoints" / name, run / "checkpoints" / name)


@pytest.mark.wide
@pytest.mark.parametrize("imported", [False, True], ids=["copied", "imported"])
@pytest.mark.parametrize("take", [take_lines, take_frame, take_checkpoint])
def test_what_another_copy_wrote_is_named_and_put_aside(
    take: Callable[[Path, Path], None], imported: bool, parent: Path, tmp_path: Path
) -> None:
    run = gone_on(parent, tmp_path / "run", 0.5, imported)
    other = gone_on(parent, tmp_path / "other", 0.75)
    for one in (run, other):
        assert find_damage(one) == []
    take(run, other)
    assert [one for one in find_damage(run) if not one.harmless]
    repair_run_folder(run)
    assert [one for one in find_damage(run) if not one.harmless] == []
    reader = RunReader(run)
    assert {one.train_loss for one in reader.measured_events} == {0.25, 0.5}
    for stored in reader.frames:
        loss = reader.frame_of_step(stored.step).readings["gates"].arrays["layer_0"][0, 0]
        assert loss == (0.25 if stored.step < LINES else 0.5)
    assert (run / "damaged").is_dir()


def test_a_former_id_counts_up_to_the_import(parent: Path, tmp_path: Path) -> None:
    """Also where no inventory says what should be there."""
    run = gone_on(parent, tmp_path / "run", 0.5, imported=True)
    other = gone_on(parent, tmp_path / "other", 0.75)
    info = run_info.read_run_info(run)
    counts = info["former_counts"][run_info.read_run_info(parent)["id"]]
    frames = [one.serial for one in RunReader(parent).frames]
    assert counts == [LINES, 1 + max(frames), 1]
    bare = {"inventory", "log_marks", "digests"}
    run_info.write_run_info(run, {key: value for key, value in info.items() if key not in bare})
    assert find_damage(run) == []
    for take, path in ((take_lines, "log.jsonl"), (take_frame, "frames")):
        hurt = Path(shutil.copytree(run, tmp_path / path))
        take(hurt, other)
        assert any(path in one.path and "another run" in one.trouble for one in find_damage(hurt))
        losses = {one.train_loss for one in RunReader(hurt).measured_events}
        assert losses == {0.25, 0.5}


@pytest.mark.parametrize("closed", [True, False])
def test_a_run_json_of_an_imported_run_is_made_anew_with_the_ids_before(
    closed: bool, parent: Path, tmp_path: Path
) -> None:
    run = gone_on(parent, tmp_path / "run", 0.5, imported=True)
    before = run_info.read_run_info(run)
    if not closed:
        shutil.rmtree(run / "checkpoints")
    numbers = [(one.step, one.train_loss) for one in RunReader(run).measured_events]
    frames = [one.path.name for one in RunReader(run).frames]
    (run / "run.json").write_text("{")
    repair_run_folder(run)
    assert [one for one in find_damage(run) if not one.harmless] == []
    assert [(one.step, one.train_loss) for one in RunReader(run).measured_events] == numbers
    assert [one.path.name for one in RunReader(run).frames] == frames
    after = run_info.read_run_info(run)
    assert (after["id"], after["former_ids"]) == (before["id"], before["former_ids"])
    ends = [one["former_counts"][before["former_ids"][0]] for one in (before, after)]
    assert ends[0][:2] == ends[1][:2]


def test_an_import_of_an_import_keeps_every_count(parent: Path, tmp_path: Path) -> None:
    run = gone_on(parent, tmp_path / "run", 0.5, imported=True)
    again = gone_on(run, tmp_path / "again", 0.75, imported=True)
    assert find_damage(again) == []
    ends = sorted(run_identity.ids_of(run_info.read_run_info(again), run_identity.LINES).values())
    assert ends == [LINES, 2 * LINES + 1, float("inf")]


def test_digests_do_not_make_a_description_large() -> None:
    digests = LogDigests()
    for number in range(STRETCH * (MOST_DIGESTS + 1)):
        digests.digest_line(number, b"x")
    stretch, found = digests.all_digests()
    assert stretch == 2 * STRETCH
    assert len(found) == MOST_DIGESTS // 2 + 1
    assert {len(one) for one in found} == {DIGEST}
    other = LogDigests()
    for number in range(STRETCH * (MOST_DIGESTS + 1)):
        other.digest_line(number, b"y" if number == STRETCH else b"x")
    differ = [
        n for n, (a, b) in enumerate(zip(found, other.all_digests()[1], strict=True)) if a != b
    ]
    assert differ == [0]


@pytest.mark.parametrize("word", ["", [], {}, {"stretch": "x"}, {"log": "abc"}])
def test_digests_that_make_no_sense_are_named_or_left_alone(
    word: object, parent: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(parent, tmp_path / "run"))
    info = run_info.read_run_info(folder)
    changed = {**info["digests"], **word} if isinstance(word, dict) and word else word
    run_info.write_run_info(folder, {**info, "digests": changed})
    named = find_damage(folder)
    assert bool(named) == (isinstance(word, dict) and bool(word))
    RunReader(folder).log.summary  # noqa: B018 - is read for what it raises
    repair_run_folder(folder)
    assert find_damage(folder) == []
    assert json.loads((folder / "run.json").read_text())["id"] == info["id"]
