"""Links in a run's folder: none is followed, whatever is done to the run, and each is named."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.storage.inner_path import LinkInside
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_answers import read_answers
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import read_notes
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.short_run import make_frame, make_snapshot, write_score
from tests.refusals import refused, refused_command

# Inner folders and files, and things deeper in the folder, by the first that there is.
SHALLOW = (*folder_layout.FOLDERS, *folder_layout.FILES, folder_layout.LOCK)
DEEP = ("checkpoints/*", "checkpoints/*/tensors.safetensors", "checkpoints/*/manifest.json")
DEEP += ("checkpoints/*/state.json", "frames/*")


@pytest.fixture
def run(run: Path) -> Path:
    """With weights too, and something that was damaged."""
    for name in (folder_layout.KEPT, folder_layout.DAMAGED):
        (run / name).mkdir()
    for name in ("weights.safetensors", "weights/best.safetensors", "damaged/x"):
        (run / name).write_bytes(b"weights")
    return run


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder that nothing may change."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    yield place
    assert contents(place) == place_before.pop()


place_before: list[dict[str, tuple[bytes, int]]] = []


def contents(place: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below it with the time when it was changed; links are not followed."""
    return {
        path.relative_to(place).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def linked(run: Path, pattern: str, elsewhere: Path) -> Path:
    """Move what there is out of the run's folder, and put a link to it there."""
    path = next(iter(sorted(run.glob(pattern))))
    target = elsewhere / path.name
    path.rename(target)
    if target.is_dir():  # a killed writer's leftovers and a stranger's files
        (target / ".x.part").write_text("precious")
        (target / "000000009").mkdir(exist_ok=True)
        (target / "000000009" / "mine").write_text("precious")
        (target / f"000000009-000009-{'0' * 16}.safetensors").write_text("precious")
    path.symlink_to(target)
    place_before.append(contents(elsewhere))
    return path


@pytest.mark.parametrize("pattern", [*SHALLOW, *DEEP])
def test_a_link_is_named_and_put_aside_and_what_it_names_stays(
    pattern: str, run: Path, elsewhere: Path
) -> None:
    path = linked(run, pattern, elsewhere)
    named = {one.path for one in find_damage(run)}
    assert path.relative_to(run).as_posix() in named
    repair_run_folder(run)
    assert find_damage(run) == []
    assert not path.is_symlink()
    links = [one for one in run.rglob("*") if one.is_symlink()]
    whole = pattern.count("/") == 2  # the checkpoint went aside with it
    assert [one.name for one in links] == [path.name if whole else f"{path.name}.link"]


@pytest.mark.parametrize("name", SHALLOW)
def test_a_run_with_a_linked_part_is_not_gone_on_with_and_one_sentence_says_why(
    name: str, run: Path, elsewhere: Path
) -> None:
    linked(run, name, elsewhere)
    for act in (RunFolder, RunReader):
        with refused("link", value=name):
            act(run)
    for words in (
        *(("train", "--resume", run), ("runs", "show", run), ("runs", "keep", run)),
        ("runs", "export", run, run.parent / "x.dgn"),
    ):
        refusal = refused_command(*words)
        assert (refusal.kind, refusal.value) == ("link", name)
    assert not (run.parent / "x.dgn").exists()


@pytest.mark.parametrize("pattern", DEEP)
def test_nothing_deeper_is_read_or_exported_through_a_link(
    pattern: str, run: Path, elsewhere: Path, tmp_path: Path
) -> None:
    path = linked(run, pattern, elsewhere)
    out = tmp_path / "x.dgn"
    if "frames" in pattern:
        assert main(["runs", "export", str(run), str(out)]) == 2
        assert not out.exists()
    else:
        assert RunReader(run).checkpoints == ()
        assert main(["runs", "export", str(run), str(out)]) == 0
        assert not [name for name in zipfile.ZipFile(out).namelist() if "checkpoints" in name]
    folder = RunFolder(run)
    assert folder.newest_snapshot() is None or "frames" in pattern
    folder.resume_from_newest({"step": 0})
    folder.close()
    assert path.is_symlink() or "frames" in pattern


@pytest.mark.parametrize("pattern", [*SHALLOW, *DEEP])
def test_a_run_is_deleted_and_what_its_links_name_stays(
    pattern: str, run: Path, elsewhere: Path
) -> None:
    linked(run, pattern, elsewhere)
    if pattern == folder_layout.LOCK:
        assert main(["runs", "delete", "--yes", str(run)]) == 2
    else:
        assert main(["runs", "delete", "--yes", str(run)]) == 0


def test_notes_and_answers_are_not_read_through_a_link(run: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.json"
    notes.write_text('{"name": "a secret", "notes": ""}')
    (run / folder_layout.NOTES).symlink_to(notes)
    assert read_notes(run).name == ""
    answers = tmp_path / "answers.json"
    answers.write_text('{"examples": 8, "best": {"1": "/w=="}, "last": {"1": "/w=="}}')
    shutil.copy(answers, run / folder_layout.ANSWERS)
    assert read_answers(run).example_count == 8
    (run / folder_layout.ANSWERS).unlink()
    (run / folder_layout.ANSWERS).symlink_to(answers)
    assert read_answers(run).example_count == 0


@pytest.mark.parametrize("step", ["note", "add_frame", "checkpoint"])
def test_a_folder_that_becomes_a_link_in_mid_run_is_not_written_through(
    step: str, run: Path, tmp_path: Path
) -> None:
    """The run goes on once the link is gone."""
    folder = RunFolder(run)
    place = tmp_path / "elsewhere"
    place.mkdir()
    acts: dict[str, Callable[[], None]] = {
        "note": lambda: write_score(folder, 3),
        "add_frame": lambda: folder.add_frame(make_frame(3)),
        "checkpoint": lambda: folder.add_checkpoint(make_snapshot(3), ""),
    }
    for name in (folder_layout.FRAMES, folder_layout.CHECKPOINTS):
        (run / name).rename(run / f"{name}-before")
        (run / name).symlink_to(place)
    if step == "note":
        acts[step]()
    else:
        with pytest.raises(LinkInside):
            acts[step]()
    assert list(place.iterdir()) == []
    for name in (folder_layout.FRAMES, folder_layout.CHECKPOINTS):
        (run / name).unlink()
        (run / f"{name}-before").rename(run / name)
    folder.recover_folder()
    for act in acts.values():
        act()
    folder.close()
    assert find_damage(run) == []
