"""Somebody who types `dgn` for the first time: a process, a home and a terminal of their own.

Nothing of the tests reaches the command: no variable that names a folder or a number of threads,
no fixture, no patch, no current folder with our sources in it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen

import matplotlib
import torch
from torch import nn

_OURS = ("DGN_", "XDG_", "OMP_", "MKL_", "OPENBLAS_", "PYTEST_", "MPL")
_MODULES = {"dgn": "dgn_engine.cli", "dgn-viewer": "dgn_viewer"}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Stranger:
    """`home`: an empty folder, where their data and results come to lie; they work in `folder`.

    They have drawn with matplotlib before: the list of fonts that it makes once takes seconds.
    """

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        kept = home / ".cache" / "matplotlib"
        kept.mkdir(parents=True)
        for fonts in Path(matplotlib.get_cachedir()).glob("fontlist*.json"):
            shutil.copy(fonts, kept)

    def types(self, *words: str | Path) -> CompletedProcess[str]:
        """Run `dgn WORDS` to its end, with pipes in the place of a terminal."""
        return subprocess.run(
            self._command(words),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def starts(self, *words: str | Path, program: str = "dgn") -> Iterator[Popen[str]]:
        """Start `dgn WORDS`, which would not end by itself; it is killed on exit."""
        process = Popen(
            self._command(words, program),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def types_on_a_terminal(
        self, *words: str | Path, asked: str = "", answer: str = ""
    ) -> tuple[int, str]:
        """Run `dgn WORDS` on a terminal, type `answer` where it shows `asked`, and return the exit
        code and all that the terminal showed, without colours and movements of the cursor."""
        import pty

        ours, theirs = pty.openpty()
        process = Popen(
            self._command(words),
            cwd=self.folder,
            env=self._environment() | {"TERM": "xterm", "COLUMNS": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown = bytearray()
        try:
            with contextlib.suppress(OSError):  # Linux says so when nobody holds the other end
                while more := os.read(ours, 4096):
                    shown += more
                    if answer and asked.encode() in shown:
                        os.write(ours, f"{answer}\n".encode())
                        answer = ""
            code = process.wait()
        finally:
            process.kill()
            process.wait()
            os.close(ours)
        return code, _CONTROL.sub("", shown.decode("utf-8", "replace"))

    def results(self) -> list[Path]:
        """The folders of all their results."""
        return [*self.home.rglob("results/*")]

    def result_of(self, name: str) -> Path:
        """The one whose name begins so."""
        (found,) = (path for path in self.results() if path.name.startswith(name))
        return found

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_OURS)}
        paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
        # BROWSER: `dgn docs` would open a real one
        return kept | {"HOME": str(self.home), "PYTHONPATH": paths, "BROWSER": "true"}

    def _command(self, words: Sequence[str | Path], program: str = "dgn") -> list[str]:
        """The installed program, or its module where the tests run without one."""
        installed = Path(sys.executable).with_name(program)
        module = ("-P", "-m", _MODULES[program])
        start = [str(installed)] if installed.exists() else [sys.executable, *module]
        return [*start, *map(str, words)]


def save_numbered(path: Path) -> Path:
    """Save the state dict of dense layers of unequal widths, by their numbers."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 10)
    )
    torch.save(net.state_dict(), path)
    return path
