"""Session files: what is saved comes back whole, and a stranger's file does no harm."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from dgn_engine.cli.__main__ import main
from dgn_engine.errors import UserError
from dgn_engine.storage.runs import folder_layout, log, run_info
from dgn_engine.storage.runs.folder_layout import ANSWERS
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file import archive_format
from dgn_engine.storage.session_file.session_reader import adopt_run, is_session, unpack_session
from dgn_engine.storage.session_file.session_writer import SavePoint, export_run, save_session
from tests.daily import nightly
from tests.engine.conftest import SMALL
from tests.engine.files_read_here import read_files_here
from tests.engine.storage.trained_runs import continue_run, train_new_run
from tests.refusals import refused

Members = dict[str, bytes]


@pytest.fixture(scope="module")
def recorded(module_path: Path) -> Path:
    train_new_run(module_path / "first", SMALL, None, ("gates",))
    return module_path / "first"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def files_of(folder: Path) -> Members:
    kept = (".json", ".jsonl", ".safetensors", ".toml")
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix in kept]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_whole_run_goes_through_one_file_and_comes_back(
    recorded: Path, tmp_path: Path, place: Path
) -> None:
    out = tmp_path / "first.dgn"
    assert "files" in export_run(recorded, out)
    assert is_session(out)
    session = unpack_session(out, place)
    assert (session.name, session.status, session.window) == ("first", "finished", None)
    before, after = files_of(recorded), files_of(session.folder)
    assert before.pop(ANSWERS), "it stays on the machine that tested it"
    assert before == after
    assert find_damage(session.folder) == []
    assert RunReader(session.folder).events == RunReader(recorded).events


def test_what_came_after_the_moment_is_left_out(
    recorded: Path, tmp_path: Path, place: Path
) -> None:
    reader = RunReader(recorded)
    frame = reader.latest_frame(reader.step)
    assert frame is not None
    seen = {name: replace(reading, step=20) for name, reading in frame.readings.items()}
    frame = replace(frame, step=20, readings=seen)
    log = reader.log.all_contents.lines
    save_session(recorded, tmp_path / "s", SavePoint(20, log[3].seq, frame), {"theme": "dark"})
    session = unpack_session(tmp_path / "s", place)
    after = RunReader(session.folder)
    assert (session.step, session.window) == (20, {"theme": "dark"})
    assert after.log.all_contents.lines == log[:3]
    assert [one for one in after.frames if one.step > 20] == []
    assert after.checkpoints == ()
    last = after.frame_of_step(20)
    for name, array in frame.readings["gates"].arrays.items():
        np.testing.assert_array_equal(last.readings["gates"].arrays[name], array)


def test_an_adopted_run_goes_on_under_its_own_identity(
    recorded: Path, tmp_path: Path, place: Path
) -> None:
    export_run(recorded, tmp_path / "a.dgn")
    session = unpack_session(tmp_path / "a.dgn", place)
    first = adopt_run(session.folder, tmp_path / "root", "../../first")
    second = adopt_run(session.folder, tmp_path / "root", "../../first")
    assert {first.parent, second.parent} == {tmp_path / "root"}
    assert (first.name, second.name) == ("first", "first-2")
    told = [run_info.read_run_info(path)["id"] for path in (recorded, first, second)]
    assert len(set(told)) == 3
    assert find_damage(first) == []
    assert continue_run(first).step == RunReader(recorded).step


def test_the_command_line_imports_and_shows(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export_run(recorded, tmp_path / "a.dgn")
    assert main(["runs", "show", str(tmp_path / "a.dgn")]) == 0
    assert "a session, saved" in capsys.readouterr().out
    assert main(["runs", "import", str(tmp_path / "a.dgn")]) == 0
    folder = Path(capsys.readouterr().out.strip())
    assert RunReader(folder).step == RunReader(recorded).step
    (tmp_path / "b.dgn").write_bytes(b"PK\x03\x04 and nothing more")
    assert main(["runs", "import", str(tmp_path / "b.dgn")]) == 2
    told = capsys.readouterr().err.strip()
    assert told.count("\n") == 0
    assert "b.dgn" in told


@pytest.mark.parametrize("command", ["inspect", *nightly("gate-information")])
def test_a_session_is_read_as_its_run_and_a_damaged_one_is_refused(
    command: str, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tmp_path / "a.dgn"
    export_run(recorded, session)
    short = ["--seeds", "1", "--epochs", "1", "--executor", "serial", "--quiet"]
    few = ["--train-limit", "64", "--test-limit", "60", *short, "--out", str(tmp_path / "out")]
    options = few if command == "gate-information" else []
    assert main([command, str(session), *options]) == 0
    assert f"a.dgn@{RunReader(recorded).step}" in capsys.readouterr().out
    (tmp_path / "b.dgn").write_bytes(session.read_bytes()[:-200])
    assert main([command, str(tmp_path / "b.dgn"), *options[:4]]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "b.dgn" in said


# What a stranger may send.


def packed(members: Members, manifest: bool = True, **changes: object) -> bytes:
    """A zip of these, with a manifest that tells the truth unless one is among them."""
    content = io.BytesIO()
    told = {
        n: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in members.items()
    }
    with zipfile.ZipFile(content, "w", int(changes.get("method", zipfile.ZIP_STORED))) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = int(changes.get(f"mode {name}", 0)) << 16  # type: ignore[call-overload]
            info.compress_type = archive.compression
            archive.writestr(info, data)
        if manifest:
            archive.writestr(archive_format.MANIFEST, json.dumps(told))
    return content.getvalue()


def with_run(members: Members, **fields: object) -> Members:
    """`run.json` with other fields and a sound checksum."""
    tree = json.loads(members["run/run.json"])
    for name, value in fields.items():
        home = tree
        *way, last = name.split("__")
        for step in way:
            home = home[step]
        home[last] = value
    return {**members, "run/run.json": run_info.encode_info(tree)}


def with_line(members: Members, name: str, **fields: object) -> Members:
    raw = members["run/log.jsonl"]
    line = log.LogLine(raw.count(b"\n"), 0.0, name, fields)
    return {**members, "run/log.jsonl": raw + log.encode_line(line)}


def a_frame(members: Members) -> str:
    return next(name for name in members if name.startswith("run/frames/"))


def other_frame(members: Members, tensors: dict[str, np.ndarray], **head: object) -> Members:
    kept = {name: data for name, data in members.items() if not name.startswith("run/frames/")}
    told = {"format": 1, "step": 9, "epoch": 0.2, "packed": {}, "readings": {}, **head}
    content = save(tensors, metadata={"frame": json.dumps(told)})
    name = folder_layout.frame_name(9, 0, hashlib.sha256(content).hexdigest())
    return {**kept, f"run/frames/{name}": content}


def lying_header(content: bytes) -> bytes:
    size = struct.unpack("<Q", content[:8])[0]
    head = json.loads(content[8 : 8 + size])
    for name, told in head.items():
        if name != "__metadata__":
            told["shape"] = [1 << 20, 1 << 20]
    told_bytes = json.dumps(head).encode()
    return struct.pack("<Q", len(told_bytes)) + told_bytes + content[8 + size :]


DEEP = b"[" * 5000 + b"]" * 5000
THROUGH_A_CHILD = ("path traversal", "gates out of nothing")
LINK = stat.S_IFLNK | 0o777
HOSTILE: dict[str, tuple[Callable[[Members], bytes | Members], str]] = {
    "path traversal": (lambda m: {**m, "run/../../../canary": b"{}"}, "leads outside"),
    "a link": (
        lambda m: packed(
            {**m, "run/config.toml": b"/etc/passwd"}, **{"mode run/config.toml": LINK}
        ),
        "a link",
    ),
    "a bomb": (
        lambda m: packed({**m, "run/log.jsonl": b"0" * (1 << 27)}, method=zipfile.ZIP_DEFLATED),
        "unpacks to far more",
    ),
    "deflated": (lambda m: packed(m, method=zipfile.ZIP_DEFLATED), "sessions never do"),
    "a flipped bit": (
        lambda m: packed(m).replace(b'"event":"Measured"', b'"event":"Neasured"', 1),
        "is damaged",
    ),
    "a pickle": (lambda m: {**m, "run/data.pkl": pickle.dumps([])}, "not part of a session"),
    "a pickle as weights": (
        lambda m: {**m, "run/weights.safetensors": pickle.dumps(list(range(99)))},
        "no safetensors",
    ),
    "a lying header": (
        lambda m: {**m, a_frame(m): lying_header(m[a_frame(m)])},
        "does not match its size",
    ),
    "huge JSON": (
        lambda m: {**m, "run/run.json": b'{"a": "' + b"x" * (5 << 20) + b'"}'},
        "unreasonable size",
    ),
    "deep JSON": (lambda m: {**m, "run/run.json": b'{"a":' + DEEP + b"}"}, "run/run.json"),
    "no JSON": (lambda m: {**m, "run/run.json": b"<html>"}, "not valid JSON"),
    "an endless line": (lambda m: {**m, "run/log.jsonl": b"x" * (2 << 20)}, "unreasonable length"),
    "a manifest that lies": (
        lambda m: packed({**m, "manifest.json": b'{"run/run.json": {}}'}, manifest=False),
        "a manifest that does not match its files",
    ),
    "a manifest with wrong sums": (
        lambda m: packed(
            {**m, "manifest.json": json.dumps(dict.fromkeys(m, "")).encode()}, manifest=False
        ),
        "does not match its manifest",
    ),
    "no manifest": (lambda m: packed(m, manifest=False), "no manifest.json"),
    "another version": (
        lambda m: {**m, "session.json": b'{"format": "dgn-viewer session 9"}'},
        "a later version of dgn-viewer",
    ),
    "a session of nothing": (
        lambda m: {**m, "session.json": b'{"format": "dgn-viewer session 1"}'},
        "session.json",
    ),
    "a run without its checksum": (lambda m: {**m, "run/run.json": b"{}"}, "run.json is damaged"),
    "an impossible configuration": (lambda m: with_run(m, config__training__batch=-1), "batch"),
    "a million classes": (
        lambda m: with_run(m, started__classes=1 << 30),
        "its description is invalid",
    ),
    "a step beyond counting": (
        lambda m: with_line(
            m, "Measured", step=10**40, epoch=0.0, train_loss=0.0, train_accuracy=0.0
        ),
        "its log is invalid",
    ),
    "ten thousand curves": (
        lambda m: with_line(
            m, "Traced", step=1, probe="npk", values={f"v{i}": 0.0 for i in range(9999)}
        ),
        "too many curves",
    ),
    "a regime of no kind": (
        lambda m: with_line(
            m,
            "RegimeSwapped",
            step=1,
            before="DL",
            after="<b>",
            kept=[],
            frozen=[],
            redrawn=[],
            copied=[],
        ),
        "Unknown regime '<b>'",
    ),
    "gates out of nothing": (
        lambda m: other_frame(
            m,
            {"gates/a": np.zeros(1, np.uint8)},
            packed={"gates/a": [1 << 20, 1 << 20]},
            readings={"gates": {"step": 9}},
        ),
        "does not match its bits",
    ),
    "a frame without a head": (
        lambda m: other_frame(m, {"gates/a": np.zeros(1)}, readings=[]),
        "damaged",
    ),
}


@pytest.fixture(scope="module")
def honest(recorded: Path, module_path: Path) -> Members:
    out = module_path / "a.dgn"
    export_run(recorded, out)
    with zipfile.ZipFile(out) as archive:
        names = [name for name in archive.namelist() if name != archive_format.MANIFEST]
        return {name: archive.read(name) for name in names}


@pytest.fixture
def no_canary(tmp_path: Path) -> Iterator[None]:
    before = set(tmp_path.parent.rglob("*canary*"))
    yield
    assert set(tmp_path.parent.rglob("*canary*")) == before
    assert not Path("/canary").exists()


@pytest.fixture
def read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.callspec.params["kind"] not in THROUGH_A_CHILD:
        read_files_here(monkeypatch)


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.usefixtures("no_canary", "read_here")
def test_a_hostile_session_is_refused_in_one_sentence(
    kind: str, honest: Members, tmp_path: Path, place: Path
) -> None:
    make, why = HOSTILE[kind]
    file = tmp_path / "stranger.dgn"
    made = make(honest)
    file.write_bytes(made if isinstance(made, bytes) else packed(made))
    with pytest.raises(UserError) as refusal:
        unpack_session(file, place)
    told = str(refusal.value)
    assert why in told
    assert told.startswith("stranger.dgn ")
    assert told.endswith(".")
    assert "\n" not in told
    assert str(place) not in told
    assert list(place.iterdir()) == []


def test_names_meant_to_confuse_are_read_as_plain_text(
    honest: Members, tmp_path: Path, place: Path
) -> None:
    names = ["<img src=x onerror=y>", "\u202egnp.exe", "a\nb", *"3456789"]
    told = json.loads(honest["session.json"])
    file = tmp_path / "stranger.dgn"
    file.write_bytes(
        packed(
            {
                **with_run(honest, started__probe_set__class_names=names),
                "session.json": json.dumps({**told, "run": "\u202e<b>../../x\n"}).encode(),
            }
        )
    )
    session = unpack_session(file, place)
    assert session.name == "\\u202e<b>../../x\\n"
    assert adopt_run(session.folder, tmp_path / "root", session.name).name == "u202eb....xn"
    started = RunReader(session.folder).start_event
    assert started is not None
    shown = started.probe_set.class_names[:3]
    assert shown == ("<img src=x onerror=y>", "\\u202egnp.exe", "a\\nb")


@pytest.mark.parametrize("thing", ["folder", "fifo", "empty", "nothing", "huge"])
def test_what_is_no_regular_file_is_refused(thing: str, tmp_path: Path, place: Path) -> None:
    path = tmp_path / "x.dgn"
    if thing == "folder":
        path.mkdir()
    elif thing == "fifo":
        os.mkfifo(path)
    elif thing == "empty":
        path.touch()
    elif thing == "huge":
        path.touch()
        os.truncate(path, 3 << 30)
    assert not is_session(path)
    with pytest.raises(UserError, match=r"^x\.dgn "):
        unpack_session(path, place)
    assert list(place.iterdir()) == []


def test_a_session_that_cannot_be_written_leaves_nothing(recorded: Path, tmp_path: Path) -> None:
    with refused("not-writable"):
        export_run(recorded, tmp_path / "nowhere" / "a.dgn")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.wide
@pytest.mark.parametrize("regime", [["DL"], 7, "no such regime"])
@pytest.mark.parametrize("shift", [0, 10**30])
def test_a_checkpoint_that_makes_no_sense_is_refused_before_it_is_used(
    regime: object, shift: int, honest: Members, tmp_path: Path, place: Path
) -> None:
    name = next(name for name in honest if name.endswith("state.json"))
    state = json.loads(honest[name])
    state |= {"regime": regime, "shift": [shift] * 3}
    manifest = name.replace("state.json", "manifest.json")
    content = json.dumps(state).encode()
    told = json.loads(honest[manifest])
    told["state.json"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    file = tmp_path / "stranger.dgn"
    file.write_bytes(packed({**honest, name: content, manifest: json.dumps(told).encode()}))
    with refused("refused-run"):
        unpack_session(file, place)
