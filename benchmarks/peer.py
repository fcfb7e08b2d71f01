"""neural-tangents driven over a pipe: it cannot be installed beside this project's own packages."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

CHILD = Path(__file__).with_name("peer_child.py")
ENVIRONMENT = Path(__file__).parents[1] / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"


class Peer:
    """One child process; it inherits this process's single core."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PYTHON, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._folder = tempfile.TemporaryDirectory()
        self.versions = self._answer()

    def ask(self, line: str) -> str:
        """Send one line, return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def file(self, name: str) -> Path:
        """A file that goes with this object."""
        return Path(self._folder.name) / name

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError("The process of neural-tangents ended; its message is above.")
        return answer


def is_here() -> bool:
    """Whether `make bench-peers` could install neural-tangents."""
    return (ENVIRONMENT / "installed").exists()


@cache
def peer() -> Peer:
    """The one child process of this run, started on first use."""
    return Peer()


class PeerWork:
    """A kernel that the child computes; it is timed by its own clock, without the pipe."""

    def __init__(self, kind: str, arrays: dict[str, Tensor]) -> None:
        self.kind = kind
        self._inputs = peer().file(f"{kind}.npz")
        plain: dict[str, Any] = {key: value.numpy() for key, value in arrays.items()}
        np.savez(self._inputs, **plain)
        peer().ask(f"prepare {kind} {self._inputs}")

    def __call__(self) -> Tensor:
        """Compute and fetch the result."""
        result = peer().file(f"{self.kind}.npy")
        peer().ask(f"save {result}")
        return torch.from_numpy(np.load(result))

    def seconds(self) -> tuple[float, float]:
        """Compute once; processor and wall seconds by the child's clock."""
        processor, wall = map(float, peer().ask("run").split())
        return processor, wall
