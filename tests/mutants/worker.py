"""A process that tries mutants in a copy of the tree: one fork for each, torch loaded before.

It reads a JSON object a line (`Trial`) and answers with one word a line: killed, survived or
timeout.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

# Third parties only: what is mutated is imported anew in each fork. Not hypothesis: pytest refuses
# to start where a plug-in of its own is imported already, and every mutant would count as killed.
LOADED = ("torch", "matplotlib.figure", "pyqtgraph", "scipy", "torch._dynamo")


@dataclass(frozen=True)
class Trial:
    """`file` below the tree becomes `content` (latin-1 for bytes) while the `tests` run.

    `seconds`: of processor time; waiting tests have four times as long by the clock, so that a
    busy machine kills no mutant.
    """

    file: str
    content: str
    tests: tuple[str, ...]
    seconds: float

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def attempt(trial: Trial) -> str:
    """Run the tests on the changed tree; the first that fails kills the mutant."""
    path = Path(trial.file)
    before = path.read_bytes()
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
    path.write_bytes(trial.content.encode("latin-1"))
    try:
        return _forked(trial)
    finally:
        path.write_bytes(before)


def _forked(trial: Trial) -> str:
    child = os.fork()
    if child == 0:
        _run_tests(trial)
    until = time.monotonic() + 4 * trial.seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return {0: "survived", -signal.SIGXCPU: "timeout"}.get(code, "killed")
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def _run_tests(trial: Trial) -> None:
    """In the fork; never returns."""
    code = 1
    try:
        os.setsid()
        most = int(trial.seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        import pytest

        code = int(
            pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *trial.tests])
        )
    finally:
        os._exit(code)


def main(loaded: tuple[str, ...] = LOADED) -> None:
    """Serve until the input ends, with these modules imported before the first fork."""
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    for name in loaded:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    if "torch" in loaded:
        sys.modules["torch"].set_num_threads(1)
    for line in sys.stdin:
        told = json.loads(line)
        trial = Trial(told["file"], told["content"], tuple(told["tests"]), told["seconds"])
        print(attempt(trial), flush=True)


if __name__ == "__main__":
    main()
