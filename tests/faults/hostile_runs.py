"""Run folders and session files that lie about their numbers: each is an honest run but for one
thing, with every checksum made anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dgn_engine.config import RunConfig
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.training import LayerInfo, Measured, RunStarted
from dgn_engine.protocol.watching import ProbeScalars, ProbeSet
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.regular_files import content_digest
from dgn_engine.storage.runs import folder_layout, run_info
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.session_file import archive_format

Make = Callable[[Path], object]
Members = dict[str, bytes]

HUGE = "x" * (1 << 20)
DEEP: Any = json.loads("[" * 900 + "]" * 900)
# What may stand in the place of a number, a word or a list.
VALUES: Mapping[str, Any] = {
    "2^63": 1 << 63,
    "2^64": 1 << 64,
    "10^400": 10**400,
    "-1": -1,
    "-2^70": -(1 << 70),
    "NaN": math.nan,
    "inf": math.inf,
    "10^308": 1e308,
    "a half": 0.5,
    "true": True,
    "null": None,
    "a word": "many",
    "a number in words": "7",
    "a huge word": HUGE,
    "half a character": "\ud800",
    "a list": [1, [2]],
    "a table": {"a": {"b": 1}},
    "a deep list": DEEP,
}
# Places in run.json.
PLACES = (
    *("created", "versions", "device", "threads", "processor", "id", "data_fingerprint"),
    *("seeds.run", "frames.every", "frames.probes", "inventory.lines", "inventory.frames"),
    *("config", "config.seed", "config.device", "config.probe_examples", "config.data.name"),
    *("config.data.train_limit", "config.data.label_noise", "config.data.binary"),
    *("config.net.name", "config.net.options", "config.net.options.width", "config.net.bias"),
    *("config.gating.regime", "config.gating.wiring", "config.gating.beta"),
    *("config.training.batch", "config.training.epochs", "config.training.learning_rate"),
    *("config.training.pace", "config.training.patience", "config.training.keep_epochs"),
    *("started", "started.regime", "started.device", "started.layers", "started.wiring"),
    *("started.layers.0.shape", "started.layers.0.index", "started.parameters_value"),
    *("started.train_examples", "started.classes", "started.steps_per_epoch"),
    *("started.total_steps", "started.began_with", "started.probe_set"),
    *("started.probe_set.indices", "started.probe_set.class_names", "started.accuracy"),
)
# Of a line of the log: what every line has, and the fields of an event.
HEADS = ("seq", "at", "event")
EVENTS: Mapping[str, Mapping[str, Any]] = {
    "Measured": {"step": 12, "epoch": 0.5, "train_loss": 0.1, "train_accuracy": 0.5,
                 "test_loss": 0.1, "test_accuracy": 0.5},
    "Traced": {"step": 12, "probe": "npk", "values": {"nu": 1.0}, "examples": 4, "of": 4},
    "RegimeSwapped": {"step": 12, "before": "DL", "after": "FR-II", "kept": [], "frozen": [],
                      "redrawn": [], "copied": []},
    "RunContinued": {"step": 2, "lines": 1, "frames": 0, "checkpoints": 1},
    "Rewired": {"step": 12, "order": [1, 0], "rotation": [], "shift": []},
    "SettingChanged": {"step": 12, "learning_rate": 0.1, "beta": 8.0, "value_input": "image",
                       "pace": 0.0},
    "ProbeSetChanged": {"step": 12, "examples": 4, "digest": "d"},
    "Finished": {"step": 12},
    "Diverged": {"step": 12},
    "StepsNotCaptured": {"step": 3, "reason": "x"},
    "Failed": {"what": "x", "traceback": ""},
    "Lost": {"upto": 99},
}  # fmt: skip
FILES = ("run.json", "log.jsonl", "config.toml", "notes.json", "answers.json", "lock")
FOLDERS = ("checkpoints", "frames", "weights", "damaged")
STATE = ("step", "order", "lines", "frames", "kept", "finished", "regime", "dials", "config")


def make_honest(folder: Path, seed: int = 0, steps: int = 4, killed: bool = False) -> None:
    """A run as `dgn train` leaves one, but that nothing was trained; `killed`: before its end, so
    that it has no inventory."""
    run = RunFolder.create(folder, RunConfig(seed=seed))
    run.info.record_start(_started(run.info.config), "fingerprint", 1)
    for step in range(1, steps + 1):
        run.write_note("Measured", to_plain(Measured(step, step / 2, 0.5, 0.5, 0.4, step / steps)))
    run.write_note("Traced", to_plain(ProbeScalars(steps, "npk", {"nu": 1.0})))
    arrays = {"eigenvalues": np.ones(3), "cumulative": np.ones(3)}
    reading = Reading("npk", steps, 0.1, 0.2, arrays, {"nu": 1.0})
    run.add_frame(Frame(1, steps, 0.1, 0.0, None, {"npk": reading}))
    state = {
        **{"format": 1, "step": steps, "finished": True, "epoch": 1, "regime": "DL", "dials": {}},
        "config": run.info.config.to_dict(),
    }
    run.add_checkpoint(Snapshot({"value.weights.0": torch.ones(3, 4)}, state), "final")
    run.write_note("Finished", {"step": steps})
    if not killed:
        run.close()
        return
    run.sync()
    left = Path(shutil.copytree(folder, folder.with_name(f"{folder.name}-left")))
    run.close()
    shutil.rmtree(folder)
    left.rename(folder)


def _started(config: RunConfig) -> RunStarted:
    layers = tuple(LayerInfo(index, f"dense {index}", "dense", (4,)) for index in range(2))
    probes = ProbeSet((0, 1, 2, 3), (0, 0, 1, 1), ("zero", "one"), "d")
    return RunStarted(
        1, config, "DL", "cpu", layers, (0, 1), 24, 24, 100, 20, 2, 4, 80, probes, paused=False
    )


def kinds() -> dict[str, Make]:
    """Each by what is wrong with it; it changes the folder of an honest run."""
    return {
        **{f"{place} is {word}": _changed_info(place, value) for place, (word, value) in _places()},
        **{f"{place} is missing": _without(place) for place in PLACES},
        **dict(_lines()),
        **{
            f"state.json: {name} is {word}": _changed_state(name, value)
            for name, (word, value) in product(STATE, VALUES.items())
        },
        **{f"state.json without {name}": _changed_state(name, ...) for name in STATE},
        **_files(),
        **_crowds(),
    }


def _places() -> Iterator[tuple[str, tuple[str, Any]]]:
    return product(PLACES, VALUES.items())


# run.json


def encode_json(tree: Any) -> bytes:
    """As nobody would write it: NaN, numbers beyond counting and half characters as they are."""
    return json.dumps(tree).encode()


def sealed_info(tree: dict[str, Any]) -> bytes:
    """A `run.json` whose own checksum is right, whatever it says."""
    bare = {key: value for key, value in tree.items() if key != "sha256"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return encode_json({**bare, "sha256": sha256})


def change(tree: Any, place: str, value: Any) -> None:
    """Put a value in a place such as 'started.layers.0.shape'; `...` takes it out."""
    *way, last = place.split(".")
    for name in way:
        tree = tree[int(name)] if isinstance(tree, list) else tree.setdefault(name, {})
    if value is ...:
        tree.pop(last, None)
    else:
        tree[last] = value


def _changed_info(place: str, value: Any) -> Make:
    def make(folder: Path) -> None:
        tree = run_info.read_run_info(folder)
        change(tree, place, value)
        (folder / folder_layout.RUN).write_bytes(sealed_info(tree))

    return make


def _without(place: str) -> Make:
    return _changed_info(place, ...)


# log.jsonl


def sealed_line(tree: Any) -> bytes:
    """A line with a checksum that is right, whatever it says."""
    head = encode_json(tree)[:-1]
    return head + b',"crc":"' + f'{zlib.crc32(head):08x}"}}\n'.encode()


def _lines() -> Iterator[tuple[str, Make]]:
    for event, fields in EVENTS.items():
        for name, (word, value) in product((*HEADS, *fields), VALUES.items()):
            yield f"log: {name} of {event} is {word}", _added(event, {**fields, name: value})
        for name in (*HEADS, *fields):
            yield f"log: {event} without {name}", _added(event, fields, without=name)
    yield "log: a list for a line", lambda folder: _append(folder, sealed_line([1, 2]))
    yield "log: an event of no kind", _added("Explode", {"step": 1})
    yield (
        "log: a step twice",
        lambda folder: _append(
            folder, _raw(b'{"seq":7,"at":0.0,"event":"Finished","step":7,"step":[]}')
        ),
    )


def _raw(body: bytes) -> bytes:
    head = body[:-1]
    return head + b',"crc":"' + f'{zlib.crc32(head):08x}"}}\n'.encode()


def _added(event: str, fields: Mapping[str, Any], without: str = "") -> Make:
    def make(folder: Path) -> None:
        seq = (folder / folder_layout.LOG).read_bytes().count(b"\n")
        tree = {"seq": seq, "at": 1e9, "event": event, **fields}
        tree.pop(without, None)
        _append(folder, sealed_line(tree))

    return make


def _append(folder: Path, content: bytes) -> None:
    with (folder / folder_layout.LOG).open("ab") as file:
        file.write(content)


# checkpoints


def _checkpoint(folder: Path) -> Path:
    return next((folder / folder_layout.CHECKPOINTS).iterdir())


def _changed_state(name: str, value: Any) -> Make:
    def make(folder: Path) -> None:
        path = _checkpoint(folder)
        tree = json.loads((path / folder_layout.STATE).read_bytes())
        change(tree, name, value)
        seal_state(path, encode_json(tree))

    return make


def seal_state(path: Path, content: bytes) -> None:
    """Write a checkpoint's state, and a manifest in which it is right."""
    (path / folder_layout.STATE).write_bytes(content)
    manifest = json.loads((path / folder_layout.MANIFEST).read_bytes())
    manifest[folder_layout.STATE] = to_plain(content_digest(content))
    (path / folder_layout.MANIFEST).write_bytes(encode_json(manifest))


# whole files


def _files() -> dict[str, Make]:
    """Each file of a run is something else."""
    found: dict[str, Make] = {}
    for name, (what, put) in product((*FILES, *FOLDERS), _THINGS.items()):
        found[f"{name} is {what}"] = _put(name, put)
    for name, (what, content) in product(FILES, _CONTENTS.items()):
        found[f"{name} holds {what}"] = _put(name, _written(content))
    for name, (what, content) in product(("state.json", "manifest.json"), _CONTENTS.items()):
        found[f"{name} of a checkpoint holds {what}"] = _of_checkpoint(name, content)
    for word, value in VALUES.items():
        notes = encode_json({"name": value, "notes": value})
        found[f"notes.json of {word}"] = _put("notes.json", _written(notes))
        owner = encode_json({"pid": value, "host": value, "boot": value, "inode": value})
        found[f"lock of {word}"] = _put("lock", _written(owner))
    return found


def _crowds() -> dict[str, Make]:
    return {
        "run.json with a key twice": _twice,
        "run.json of a million lists": _put(
            "run.json", _written(b'{"a":[' + b"[]," * (1 << 20) + b"[]]}")
        ),
        "run.json of another version": lambda folder: (folder / "run.json").write_bytes(
            run_info.encode_info({**run_info.read_run_info(folder), "format": "dgn-viewer run 99"})
        ),
        "300 levels of folders": lambda folder: _nest(folder / "frames", 300),
        "a thousand checkpoints of nothing": lambda folder: [
            (folder / "checkpoints" / f"{step:09}").mkdir() for step in range(1000, 2000)
        ],
        "a file from the far future": lambda folder: _date(folder / "log.jsonl", 1 << 33),
        "a file from before all time": lambda folder: _date(folder / "log.jsonl", -(1 << 31)),
        "ten thousand lines that go on": lambda folder: _append(
            folder,
            b"".join(
                sealed_line(
                    {"seq": seq, "at": 0.0, "event": "RunContinued", "step": 1, "lines": seq - 1}
                )
                for seq in range(6, 10_006)
            ),
        ),
        "a log of nothing but ends of lines": lambda folder: _append(folder, b"\n" * (1 << 16)),
        "a log of one long line": lambda folder: _append(folder, b"x" * (3 << 20) + b"\n"),
    }


def _date(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def _twice(folder: Path) -> None:
    path = folder / "run.json"
    path.write_bytes(path.read_bytes().replace(b"{", b'{"device": [], ', 1))


def _nest(place: Path, depth: int) -> None:
    handle = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=handle)
        inner = os.open("a", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _put(name: str, put: Make) -> Make:
    def make(folder: Path) -> None:
        _clear(folder / name)
        put(folder / name)

    return make


def _of_checkpoint(name: str, content: bytes) -> Make:
    def make(folder: Path) -> None:
        path = _checkpoint(folder)
        if name == folder_layout.STATE:
            seal_state(path, content)
        else:
            (path / name).write_bytes(content)

    return make


def _written(content: bytes) -> Make:
    return lambda path: path.write_bytes(content)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


_THINGS: Mapping[str, Make] = {
    "a folder": lambda path: path.mkdir(),
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to its own folder": lambda path: path.symlink_to("."),
    "3 GiB of holes": _sparse,
    "missing": lambda path: None,
}
_CONTENTS: Mapping[str, bytes] = {
    "nothing": b"",
    "one byte": b"{",
    "zeros": bytes(4096),
    "no UTF-8": b'{"a": "\xff\xfe"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "NaN": b"NaN",
    "a word": b'"x"',
    "a table of nothing": b"{}",
    "5,000 levels": b"[" * 5000 + b"]" * 5000,
    "900 levels": b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    "a number of 10^5 digits": b'{"a": ' + b"9" * 100_000 + b"}",
    "half a character": b'{"a": "\\ud800"}',
}

NAMES = (  # of folders
    *("with blanks ", " ", "-rf", "--json", "%s%n", "a\nb", "a\r\x1b[2Jb", "\u202egnp.exe", "🜁"),
    *("e\u0301", "~", "*", "$(id)", "<img src=x>", "&amp;", "x" * 255, ".hidden", "NUL", "a\x7fb"),
)
BYTE_NAMES = (b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80")  # no UTF-8


def make_all(root: Path, chosen: Mapping[str, Make] | None = None) -> dict[str, str]:
    """A folder for each kind below `root`, and the kind of each folder's name."""
    honest = root.parent / f"{root.name}-honest"
    make_honest(honest)
    made = {}
    for number, (kind, make) in enumerate((kinds() if chosen is None else chosen).items()):
        name = f"h{number:04}"
        shutil.copytree(honest, root / name)
        make(root / name)
        made[name] = kind
    shutil.rmtree(honest)
    return made


def family(kind: str) -> str:
    """What kinds have in common: a row of the table of `make safety-report`."""
    if kind.startswith("log: "):
        return "a line of the log"
    if kind.startswith("state.json") or "checkpoint" in kind:
        return "a checkpoint"
    for place, name in (("config", "the configuration"), ("started", "the description")):
        if kind.startswith(place) and not kind.startswith("config.toml"):
            return f"{name} in run.json"
    whole = (*FILES, *FOLDERS, "300 levels", "a file from", "ten thousand", "a log of")
    return "a whole file or folder" if kind.startswith(whole) else "the rest of run.json"


# session files


def members_of(folder: Path) -> Members:
    """What a session file of this run holds, without its manifest."""
    about = {
        **{"format": archive_format.FORMAT, "run": folder.name, "step": 4, "status": "finished"},
        **{"saved": "2026-01-01T00:00:00+00:00", "versions": {}, "look": None},
    }
    members = {archive_format.ABOUT: encode_json(about)}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and folder_layout.kind_of(name) is not None:
            members[archive_format.FOLDER + name] = path.read_bytes()
    return members


def packed(members: Members) -> bytes:
    """A session file whose manifest is right, whatever its members say."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
        manifest = {name: to_plain(content_digest(data)) for name, data in members.items()}
        archive.writestr(zipfile.ZipInfo(archive_format.MANIFEST), encode_json(manifest))
    return content.getvalue()
