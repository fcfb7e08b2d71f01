"""Drive neural-tangents over a pipe: it conflicts with this project's own packages."""

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
    """The child process; it inherits this process's single core."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PYTHON, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._folder = tempfile.TemporaryDirectory()
        self.versions = self._read_answer()

    def ask(self, line: str) -> str:
        """Send one line and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._read_answer()

    def file_path(self, name: str) -> Path:
        """Return the path of a temporary file that is deleted with this object."""
        return Path(self._folder.name) / name

    def _read_answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise RuntimeError("The process of neural-tangents ended; its message is above.")
        return answer


def is_installed() -> bool:
    """Return whether `make bench-peers` has installed neural-tangents."""
    return (ENVIRONMENT / "installed").exists()


@cache
def start_peer() -> Peer:
    """Return the child process, which is started on first use."""
    return Peer()


class PeerWork:
    """A kernel computed by the child and timed by the child's clock, without the pipe."""

    def __init__(self, kind: str, arrays: dict[str, Tensor]) -> None:
        self.kind = kind
        self._inputs = start_peer().file_path(f"{kind}.npz")
        plain: dict[str, Any] = {key: value.numpy() for key, value in arrays.items()}
        np.savez(self._inputs, **plain)
        start_peer().ask(f"prepare {kind} {self._inputs}")

    def __call__(self) -> Tensor:
        """Compute and fetch the result."""
        result = start_peer().file_path(f"{self.kind}.npy")
        start_peer().ask(f"save {result}")
        return torch.from_numpy(np.load(result))

    def measure_seconds(self) -> tuple[float, float]:
        """Compute once; return processor and wall seconds by the child's clock."""
        processor, wall = map(float, start_peer().ask("run").split())
        return processor, wall
