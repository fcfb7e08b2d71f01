"""One short run, again and again; each time another of its writes fails. Started with the shim.

`python -m tests.faults.failing_runs PLACE ERRNO STRIDE [--on]`; the last line that it prints is
JSON. `--on`: not that write alone fails, but all from then on.
"""

from __future__ import annotations

import errno
import itertools
import json
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.repair import repair_run_folder
from tests.faults.failing_disk import Shim
from tests.faults.reference_runs import (
    Reference,
    assert_equal,
    continue_run,
    describe_damage,
    train_reference,
)

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


def trouble(out: Path, code: int, whole: Reference) -> str:
    """What is wrong with a run of which a write failed, or with going on with it; '' if nothing."""
    if code not in (0, 2, 4):
        return f"exit code {code}"
    if not (out / folder_layout.RUN).exists():
        if code != 2:
            return f"exit code {code}, and nothing is there"
        if out.exists():
            shutil.rmtree(out)
    elif lost := describe_damage(out):
        return "; ".join(lost)
    elif code == 0 and not (out / folder_layout.WEIGHTS).exists():
        return "it says that all is well, and its weights are not there"
    if code := continue_run(out, whole).wait():
        return f"it cannot be gone on with: exit code {code}"
    repair_run_folder(out)
    try:
        assert_equal(out, whole.path)
    except AssertionError as error:
        return f"it ends otherwise than one that was not disturbed: {error}"
    return ""


def main(place: Path, error: int, stride: int, on: bool) -> Found:
    """Until a run has ended before its turn came; `stride`: the first of so many writes fails."""
    shim = Shim()
    whole = train_reference(RUN, place / "whole")
    found = Found(0, {}, [])
    for number in itertools.count(0, stride):
        inner = place / f"{number}"
        inner.mkdir()
        arm = partial(shim.arm, inner, number, error, on)
        code = continue_run(inner / "run", whole, arm).wait()
        if shim.seen > number:
            found.injected += 1
            found.codes[code] = found.codes.get(code, 0) + 1
            if why := trouble(inner / "run", code, whole):
                found.wrong.append(f"write {number}, {errno.errorcode[error]}: {why}")
        shutil.rmtree(inner)
        if shim.seen <= number:
            break
    return found


if __name__ == "__main__":
    done = main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), "--on" in sys.argv[4:])
    print(json.dumps(vars(done)))
