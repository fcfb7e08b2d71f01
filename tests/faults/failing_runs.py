"""One short run, again and again; each time another of its writes fails. Started with the shim.

`python -m tests.faults.failing_runs PLACE ERRNO STRIDE`; the last line that it prints is JSON.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.repair import repair
from tests.faults.failing_disk import Shim
from tests.faults.victims import Victim

RUN = [
    *("train", "--width", "8", "--depth", "3", "--train-limit", "64", "--epochs", "3", "--quiet"),
    *("--record", "gates", "--checkpoint-every", "0", "--lr", "1e-3"),
]


@dataclass
class Found:
    """What came of all of them. `codes`: how many ended with which exit code."""

    injected: int
    codes: dict[int, int]
    wrong: list[str]


def train(out: Path, fail: int, error: int, shim: Shim, seen: Path | None = None) -> int:
    """The exit code of a run, or of its continuation, of which a write fails."""
    from dgn_engine.cli import main

    resumed = (out / folder_layout.RUN).exists()
    words = ["train", "--resume", str(out), "--quiet"] if resumed else [*RUN, "--out", str(out)]

    def work() -> int:
        shim.arm(out.parent, fail, error)
        code = main(words)
        if seen is not None:
            count = shim.seen
            shim.arm(out.parent, -1, 0)
            seen.write_text(str(count), "ascii")
        return code

    return Victim(work).wait(300.0)


def weights(out: Path) -> dict[str, np.ndarray]:
    return load((out / folder_layout.WEIGHTS).read_bytes())


def trouble(out: Path, code: int, wanted: dict[str, np.ndarray], shim: Shim) -> str:
    """What is wrong with a run of which a write failed, or with going on with it; '' if nothing."""
    if code not in (0, 2, 4):
        return f"exit code {code}"
    if not (out / folder_layout.RUN).exists():
        if code == 0:
            return "it says that all is well, and nothing is there"
    elif lost := [str(one) for one in verify(out) if not one.harmless]:
        return "; ".join(lost)
    elif code == 0 and not (out / folder_layout.WEIGHTS).exists():
        return "it says that all is well, and its weights are not there"
    if out.exists() and not (out / folder_layout.RUN).exists():
        shutil.rmtree(out)
    if code := train(out, -1, 0, shim):
        return f"it cannot be gone on with: exit code {code}"
    repair(out)
    found = weights(out)
    same = all(np.array_equal(found[name], array) for name, array in wanted.items())
    return "" if same else "it ends with other weights"


def main(place: Path, error: int, stride: int) -> Found:
    shim = Shim()
    load_examples(DataConfig())  # what it imports is then there in every child
    counted = place / "count"
    (place / "whole").mkdir()
    whole = place / "whole" / "run"
    assert train(whole, -1, 0, shim, counted) == 0
    wanted, count = weights(whole), int(counted.read_text("ascii"))
    found = Found(0, {}, [])
    for number in range(0, count, stride):
        inner = place / f"{number}"
        inner.mkdir()
        out = inner / "run"
        code = train(out, number, error, shim)
        found.injected += 1
        found.codes[code] = found.codes.get(code, 0) + 1
        if why := trouble(out, code, wanted, shim):
            found.wrong.append(f"write {number} of {count}, {errno.errorcode[error]}: {why}")
        shutil.rmtree(inner)
    return found


if __name__ == "__main__":
    print(json.dumps(vars(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
