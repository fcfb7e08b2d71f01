"""What tests of commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.engine.cli.user_code import NETS, N


@pytest.fixture(autouse=True)
def _read_here(no_reader_child: None) -> None:
    """Most commands read a small file or two."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with inputs, labels and code; what it imports is forgotten after."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.normal(size=(N, 5)))
    np.save("y.npy", np.array([0, 1, 2, 0, 1, 2]))
    (tmp_path / "user_nets.py").write_text(NETS)
    places, finders = list(sys.path), list(sys.meta_path)
    yield tmp_path
    assert (sys.path, sys.meta_path) == (places, finders)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]
