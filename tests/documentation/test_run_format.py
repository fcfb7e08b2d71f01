"""A reader that knows only docs/run-format.md reads a run, and the Python on that page runs."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

from dgn_engine.cli import main
from documentation.shell_commands import ROOT

TEXT = (ROOT / "docs" / "run-format.md").read_text("utf-8")
TRAIN = "train --data digits --regime DL --epochs 3 --record gates,npk --quiet --out"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run that the page reads."""
    folder = tmp_path_factory.mktemp("run-format")
    assert main([*TRAIN.split(), str(folder / "runs" / "first")]) == 0
    return folder


@pytest.fixture
def run(here: Path) -> Path:
    return here / "runs" / "first"


def read_frame(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return what a frame states and its arrays as stored."""
    content = path.read_bytes()
    assert path.stem.split("-")[2] == hashlib.sha256(content).hexdigest()[:16]
    size = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + size])["__metadata__"]["frame"]
    return json.loads(head), load(content)


def test_the_python_of_the_page_runs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "run-format.md", "exec"), names)
    assert names["kernel"].shape == (64, 64)


def test_run_json_has_the_keys_and_the_checksum_of_the_page(run: Path) -> None:
    info = json.loads((run / "run.json").read_bytes())
    keys = [key for key in info if not key.startswith("parameters_")]
    assert [key for key in keys if f"`{key}`" not in TEXT] == []
    digest = info.pop("sha256")
    text = json.dumps(info, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    there = {path.relative_to(run).as_posix() for path in run.iterdir()}
    assert [name for name in there if f"`{name}`" not in TEXT and f"`{name}/" not in TEXT] == []


def test_a_line_of_the_log_has_the_checksum_and_the_run_of_the_page(run: Path) -> None:
    info = json.loads((run / "run.json").read_bytes())
    lines = (run / "log.jsonl").read_bytes().splitlines()
    assert len(lines) == info["inventory"]["lines"]
    for number, raw in enumerate(lines):
        line = json.loads(raw)
        assert (line["seq"], line["run"]) == (number, info["id"][:8])
        checked = raw[: raw.rindex(b',"crc"')]
        assert line["crc"] == f"{zlib.crc32(checked):08x}"


def test_shrunk_arrays_are_restored_as_the_page_says(run: Path) -> None:
    import dgn_engine as dgn

    head, stored = read_frame(sorted((run / "frames").iterdir())[-1])
    readings = dgn.open_run(run).frame(head["step"]).readings
    kinds = {about["as"] for about in head["shrunk"].values()}
    assert kinds == {"tones", "triangle"}
    for name, about in head["shrunk"].items():
        probe, _, array = name.partition("/")
        restored = np.zeros(about["shape"], dtype=about["dtype"])
        if about["as"] == "tones":
            restored = (stored[name] / 255).astype(about["dtype"]).reshape(about["shape"])
        else:
            restored[np.triu_indices(len(restored))] = stored[name] * about["scale"]
            restored = np.maximum(restored, restored.T)
        assert restored == pytest.approx(readings[probe].arrays[array], rel=2**-10)


def test_a_checkpoint_is_the_files_that_its_manifest_states(run: Path) -> None:
    (folder,) = (run / "checkpoints").iterdir()
    manifest = json.loads((folder / "manifest.json").read_bytes())
    for name, stated in manifest.items():
        content = (folder / name).read_bytes()
        assert stated == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    state = json.loads((folder / "state.json").read_bytes())
    assert (int(folder.name), state["kept"]) == (state["step"], "final")
    last = (run / "log.jsonl").read_bytes().splitlines()[state["lines"] - 1]
    assert json.loads(last)["crc"] == state["line"]
