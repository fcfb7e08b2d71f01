"""All hostile archives, folders and images through the real children; prints a table.

`make faults` runs it: minutes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults import hostile_images
from tests.faults.hostile_images import HostileImages
from tests.faults.tables import append_rows

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
ROOT = Path(__file__).parents[2]
PARENT_MOST = 200 << 20  # bytes that the parent may grow
CHILD_MOST = 700 << 20  # bytes of a child: 64 million pixels in colour are 256 MB in Pillow


def read(path: Path, cache: Path) -> dict[str, Any]:
    """What came of it in a process of its own, whose peaks are its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.measured_images", str(path)],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert done.stderr == b""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def misjudged(kind: HostileImages, found: dict[str, Any]) -> str:
    """What is wrong with the verdict; or ''."""
    sentence = found["sentence"]
    if "\n" in sentence or len(sentence) > 700 or not sentence.isprintable():
        return "a sentence that is none"
    if found["parent"] > PARENT_MOST or found["child"] > CHILD_MOST:
        return "too much memory"
    said = sentence or "taken"
    if kind.refused:
        return "" if re.search(kind.refused, said) else said
    return "" if found["images"] == kind.images else f"{said}: {found['images']} images"


def test_every_hostile_archive_and_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = hostile_images.kinds()
    rows: list[dict[str, Any]] = []
    wrong: dict[str, str] = {}
    for place, (name, kind) in enumerate(kinds.items()):
        folder = tmp_path / str(place)
        folder.mkdir()
        path = kind.place(folder)
        before = sorted(folder.rglob("*"))
        found = read(path, tmp_path / "cache")
        fault = misjudged(kind, found)
        if sorted(folder.rglob("*")) != before:
            fault = fault or "something was written"
        if fault:
            wrong[name] = fault
        verdict = found["sentence"].replace(str(folder), "…") or f"{found['images']} images taken"
        with capsys.disabled():
            print(
                f"{name:46.46} {found['seconds']:5.1f} s {found['parent'] / 2**20:4.0f} MB "
                f"{found['child'] / 2**20:4.0f} MB  {verdict[:120]}{'  WRONG' if fault else ''}"
            )
        rows.append(
            {
                "kind": name,
                "refused": bool(found["sentence"]),
                "verdict": verdict,
                "right": not fault,
                "seconds": found["seconds"],
                "parent": found["parent"],
                "child": found["child"],
                "stated": 0,
            }
        )
    append_rows("images", rows)
    assert wrong == {}
