"""Each file of a run × each kind of damage: `verify` names it, or numbers are read as before."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import frame_files, run_checkpoints
from dgn_engine.storage.runs.manifest import find_damage, reason_uncertain
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_answers import RunAnswers, read_answers, write_answers
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes
from dgn_engine.storage.runs.run_reader import RunReader
from tests.daily import nightly

Damage = Callable[[Path, Path], object]
LONG = 3 << 20  # bytes: more than a line may have

# Roles of files in a run's folder, as patterns; of several the second.
FILES = {
    "run.json": "run.json",
    "config.toml": "config.toml",
    "log": "log.jsonl",
    "frame": "frames/*.safetensors",
    "tensors": "checkpoints/*/tensors.safetensors",
    "state": "checkpoints/*/state.json",
    "manifest": "checkpoints/*/manifest.json",
    "weights": "weights.safetensors",
    "kept weights": "weights/*.safetensors",
    "notes": "notes.json",
    "answers": "answers.json",
    "lock": "lock",
}
FOLDERS = {
    "frames": "frames",
    "checkpoints": "checkpoints",
    "a checkpoint": "checkpoints/0*",
    "weights/": "weights",
}


def record(folder: Path, seed: int = 0, closed: bool = True) -> Path:
    """A run that has every kind of file; its numbers are those of its seed and step."""
    config = RunConfig(seed=seed)
    run = RunFolder.create(folder, config)
    for step in range(10, 60, 10):
        score = Measured(step, step / 10, 0.5 + seed, 0.5, 0.4, step / 100)
        run.write_note("Measured", to_plain(score))
        arrays = {"layer_0": np.full((2, 3), step + seed, np.float32)}
        reading = Reading("gates", step, 0.1, 0.2, arrays, {"nu": 1.0})
        run.add_frame(Frame(1, step, step / 10, 0.0, None, {"gates": reading}))
        if step in (20, 40, 50):
            state = {"format": 1, "step": step, "finished": False, "config": config.to_dict()}
            tensors = {"value.weights.0": torch.full((4, 4), float(step + seed))}
            run.add_checkpoint(Snapshot(tensors, state), f"before {step}" if step < 50 else "")
    run.write_note("Measured", to_plain(Measured(55, 5.5, 0.5 + seed, 0.5)))
    (folder / "weights").mkdir(mode=0o700)
    for name in ("weights", "weights/epoch-0001", "weights/epoch-0002"):
        save_file({"w": torch.full((4,), 1.0 + seed + len(name))}, folder / f"{name}.safetensors")
    mask = np.arange(8) % 3 == seed
    write_answers(folder, RunAnswers({50: mask}, {50: mask}))
    write_notes(folder, RunNotes(f"run {seed}", "notes"))
    if closed:
        run.close()
        return folder
    killed = folder.with_name(f"{folder.name}-killed")
    run.sync()
    shutil.copytree(folder, killed)
    run.close()
    shutil.rmtree(folder)
    return killed


def readings(folder: Path) -> list[Any]:
    """Every number that readers give of a run, but the words of notes."""
    reader = RunReader(folder)
    found: list[Any] = [reader.config, reader.outcome, reader.step, reader.log.all_contents.lines]
    found += [(one.step, one.serial) for one in reader.frames]
    frames = [frame_files.read_frame(one) for one in reader.frames]
    found += [(one.step, one.readings["gates"].arrays["layer_0"].tolist()) for one in frames]
    for one in reader.checkpoints:
        content = (one.path / "tensors.safetensors").full_path.read_bytes()
        found.append((one.step, one.order, one.kept, content))
    answers = read_answers(folder)
    found += [{step: mask.tolist() for step, mask in answers.best.items()}]
    weights = sorted(path for path in folder.rglob("*.safetensors") if "frames" not in path.parts)
    found += [(path.name, path.read_bytes()) for path in weights if "damaged" not in path.parts]
    return found


def flipped(raw: bytes) -> bytes:
    half = len(raw) // 2  # the lock of a run that is not written is empty
    return raw[:half] + bytes(b ^ 1 for b in raw[half : half + 1]) + raw[half + 1 :]


def of_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda raw: b"".join(change(raw.splitlines(keepends=True)))


CONTENT: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda raw: raw[: -(len(raw) // 3)],
    "empty": lambda _: b"",
    "tail": lambda raw: raw + b'{"seq":99,"at":1.5,"event":"Mea',
    "long_tail": lambda raw: raw + b'{"seq":99,' + b"x" * LONG,
    "short_zeros": lambda raw: raw + bytes(100),
    "holes": lambda raw: raw + bytes(4 << 20),
    "hole_inside": lambda raw: raw[: len(raw) // 2 - 8] + bytes(16) + raw[len(raw) // 2 + 8 :],
    "flip": flipped,
    "doubled": of_lines(lambda lines: [*lines, *lines[-1:]]),
    "line_out": of_lines(lambda lines: lines[:2] + lines[3:]),
    "lines_turned": of_lines(lambda lines: [*lines[:1], *lines[2:0:-1], *lines[3:]]),
}


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def swap_folder(path: Path, other: Path) -> None:
    remove(path)
    shutil.copytree(other, path)


PLACE: dict[str, Damage] = {  # what lies there, once it was removed
    "swap": lambda path, other: shutil.copy2(other, path),
    "swap_folder": lambda path, other: shutil.copytree(other, path),
    "remove": lambda *_: None,
    "as_folder": lambda path, _: path.mkdir(),
    "as_fifo": lambda path, _: os.mkfifo(path),
    "as_link": lambda path, other: path.symlink_to(other),
    "as_file": lambda path, _: path.write_bytes(b"x"),
}


def damage(how: str, path: Path, other: Path) -> None:
    if how in CONTENT:
        path.write_bytes(CONTENT[how](path.read_bytes()))
        return
    remove(path)
    PLACE[how](path, other)


OF_LINES = ("line_out", "lines_turned")
OF_FILES = (
    *(how for how in CONTENT if how not in OF_LINES),
    *("swap", "remove", "as_folder", "as_fifo", "as_link"),
)
OF_FOLDERS = ("swap_folder", "remove", "as_fifo", "as_link", "as_file")
# What cannot be known without an inventory: `verify` says 'as far as can be told'.
WITHOUT_INVENTORY = ("log", "frame", "tensors", "state", "weights", "answers", "lock", *FOLDERS)
UNTOLD = {
    *product(("weights", "kept weights"), ("swap", "flip", "hole_inside", "remove")),
    ("frame", "remove"),
    *product(("frames", "checkpoints", "a checkpoint", "weights/"), ("remove",)),
    ("weights/", "swap_folder"),
}


@pytest.fixture(scope="module")
def honest(module_path: Path) -> dict[str, Path]:
    found = {
        "closed": record(module_path / "closed"),
        "killed": record(module_path / "killed", closed=False),
        "other": record(module_path / "other", seed=1),
    }
    for folder in found.values():
        assert find_damage(folder) == []
    assert reason_uncertain(found["killed"])
    return found


def pick(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    return found[min(1, len(found) - 1)]


def cases() -> Iterator[Any]:
    for kind, (roles, damages) in product(
        ("closed", "killed"),
        ((FILES, OF_FILES), ({"log": FILES["log"]}, OF_LINES), (FOLDERS, OF_FOLDERS)),
    ):
        for number, (role, how) in enumerate(product(roles, damages)):
            if kind == "closed" or role in WITHOUT_INVENTORY:
                # Every role and every damage at each push, all pairs of them nightly.
                marks = [pytest.mark.nightly] if number % 7 else []
                name = f"{kind}, {role}, {how}"
                yield pytest.param(kind, roles[role], role, how, id=name, marks=marks)


@pytest.fixture(scope="module")
def read_before(honest: dict[str, Path]) -> dict[str, list[Any]]:
    return {kind: readings(folder) for kind, folder in honest.items()}


@pytest.mark.parametrize(("kind", "pattern", "role", "how"), list(cases()))
def test_nothing_is_sound_that_is_read_differently(
    kind: str,
    pattern: str,
    role: str,
    how: str,
    honest: dict[str, Path],
    read_before: dict[str, list[Any]],
    tmp_path: Path,
) -> None:
    run = Path(shutil.copytree(honest[kind], tmp_path / "run"))
    damage(how, pick(run, pattern), pick(honest["other"], pattern))
    named = [one for one in find_damage(run) if not one.harmless]
    if (role, how) == ("answers", "remove"):
        return  # a run need not have them: docs/run-format.md
    told = named or (kind == "killed" and (role, how) in UNTOLD)
    if not told:
        assert readings(run) == read_before[kind]
        return
    if named:
        assert repair_run_folder(run)
        assert [str(one) for one in find_damage(run) if not one.harmless] == []
        readings(run)


def copied(run: Path, other: Path, what: str) -> None:
    folder, frame = run / "checkpoints", sorted((run / "frames").iterdir())[1]
    step, _, rest = frame.name.split("-")
    if what == "a checkpoint under a later number":
        shutil.copytree(folder / "000000020", folder / "000000900")
    elif what == "a checkpoint under another number, renamed":
        (folder / "000000040").rename(folder / "000000045")
    elif what == "a checkpoint a second time":
        shutil.copytree(folder / "000000020", folder / "000000020-1")
    elif what == "a checkpoint of another run":
        shutil.copytree(other / "checkpoints/000000050", folder / "000000060")
    elif what == "a checkpoint of another run, of the same step":
        swap_folder(folder / "000000040", other / "checkpoints/000000040")
    elif what == "a frame under a later step":
        shutil.copy2(frame, frame.with_name(f"000000900-000099-{rest}"))
    elif what == "a frame under another serial number":
        frame.rename(frame.with_name(f"{step}-000077-{rest}"))
    elif what == "a frame of another run":
        theirs = sorted((other / "frames").iterdir())[1]
        shutil.copy2(theirs, frame.parent / theirs.name)
        frame.unlink()
    elif what == "a frame of another run besides":
        theirs = sorted((other / "frames").iterdir())[1]
        shutil.copy2(theirs, frame.parent / theirs.name)


COPIES = (
    *("a checkpoint under a later number", "a checkpoint under another number, renamed"),
    *("a checkpoint a second time", "a checkpoint of another run"),
    *("a checkpoint of another run, of the same step", "a frame under a later step"),
    *("a frame under another serial number", "a frame of another run"),
    "a frame of another run besides",
)


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["closed", "killed"])
@pytest.mark.parametrize("what", COPIES)
def test_what_lies_under_a_false_name_or_in_another_run_is_named_and_put_aside(
    what: str, kind: str, honest: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(honest[kind], tmp_path / "run"))
    copied(run, honest["other"], what)
    assert any(not one.harmless for one in find_damage(run))
    assert repair_run_folder(run)
    assert not any(not one.harmless for one in find_damage(run))
    assert [one.step for one in RunReader(run).checkpoints][-1:] == [50]
    assert any((run / "damaged").iterdir())
    for one in RunReader(run).checkpoints:
        assert weight_of(one.path.full_path) == one.step


def weight_of(checkpoint: Path) -> float:
    """Of seed 0 it is the step."""
    tensors = load_file(checkpoint / "tensors.safetensors")
    return float(tensors["value.weights.0"][0, 0])


@pytest.mark.parametrize("what", [COPIES[0], *nightly(*COPIES[1:5])])
def test_a_false_checkpoint_is_taken_by_no_reader_and_no_writer(
    what: str, honest: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(honest["killed"], tmp_path / "run"))
    copied(run, honest["other"], what)
    for one in RunReader(run).checkpoints:
        assert weight_of(one.path.full_path) == one.step
    folder = RunFolder(run)
    snapshot = folder.newest_snapshot()
    folder.close()
    assert snapshot is not None
    assert snapshot.step == 50


def test_a_checkpoint_under_a_later_number_is_refused_with_the_newest_that_is_sound(
    honest: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(honest["closed"], tmp_path / "run"))
    copied(run, honest["other"], "a checkpoint under a later number")
    with pytest.raises(UserError, match="is from step 20, not 900"):
        RunReader(run).find_checkpoint()
    with pytest.raises(UserError, match="no checkpoint at step 900"):
        RunReader(run).find_checkpoint(900)


@pytest.mark.parametrize("what", ["a frame under a later step", "a frame of another run"])
def test_a_false_frame_is_not_read(what: str, honest: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(honest["closed"], tmp_path / "run"))
    copied(run, honest["other"], what)
    with pytest.raises(UserError):
        RunReader(run).frame_of_step(900 if "later" in what else 20)


def test_a_tail_that_a_kill_or_a_disk_leaves_is_sound_and_another_is_damage_of_its_size(
    honest: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(honest["killed"], tmp_path / "run"))
    log = run / "log.jsonl"
    whole = log.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for length in (*range(1, 12), *range(12, len(last), 9), len(last) - 1):
        log.write_bytes(whole + last[:length])
        assert all(one.harmless for one in find_damage(run)), length
    for zeros in (b"\0", bytes(4096), last[:9] + b"\0", last[:-1] + bytes(9000)):
        log.write_bytes(whole + zeros)
        assert [(one.path, one.harmless) for one in find_damage(run)] == [("log.jsonl", True)]
        assert len(RunReader(run).measured_events) == 6
    long = b'{"seq":' + b"1" * LONG
    for stray in (
        b"x",
        b"\0x",
        last[:9] + b"\0" + last[9:-1],
        bytes(LONG),
        bytes(9000) + b"x",
        long,
    ):
        log.write_bytes(whole + stray)
        assert [one.path for one in find_damage(run)] == ["log.jsonl"]
        with pytest.raises(UserError):
            RunReader(run).log.summary  # noqa: B018 - as the list of runs reads it
    assert repair_run_folder(run)
    assert log.read_bytes() == whole


def test_what_no_writer_leaves_is_named(honest: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(honest["closed"], tmp_path / "run"))
    strange = {"plot.png", "frames/x.txt", "checkpoints/900/", "weights/a.pt"}
    for name in strange:
        path = run / name
        path.mkdir() if name.endswith("/") else path.write_bytes(b"x")
    found = {one.path for one in find_damage(run) if one.harmless}
    assert found == {name.rstrip("/") for name in strange}


def test_files_that_state_no_run_are_compared_by_what_they_hold(
    honest: dict[str, Path], tmp_path: Path
) -> None:
    """As 0.1 wrote them: a checkpoint has its configuration alone."""
    run = Path(shutil.copytree(honest["killed"], tmp_path / "run"))
    for folder in (run / "checkpoints").iterdir():
        forget_run(folder)
    assert find_damage(run) == []
    theirs = Path(shutil.copytree(honest["other"] / "checkpoints/000000050", tmp_path / "c"))
    forget_run(theirs)
    swap_folder(run / "checkpoints/000000050", theirs)
    assert [one.path for one in find_damage(run)] == ["checkpoints/000000050/state.json"]


def forget_run(checkpoint: Path) -> None:
    state = json.loads((checkpoint / "state.json").read_text())
    del state["run"], state["line"]
    content = json.dumps(state).encode()
    (checkpoint / "state.json").write_bytes(content)
    digests = json.loads((checkpoint / "manifest.json").read_text())
    digests["state.json"] = to_plain(run_checkpoints.content_digest(content))
    (checkpoint / "manifest.json").write_text(json.dumps(digests))
