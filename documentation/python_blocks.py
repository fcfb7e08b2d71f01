"""Runs the Python that a document shows: its blocks in their order, in one namespace.

`documentation/shell_commands.py` runs them among the commands of the document, in the same folder.
A block with a title is a file and is written, not run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

# Documents whose blocks a test of their own runs, and why.
COVERED = {
    "docs/adding.md": (
        "each block is a file of the project, and is tested in its place",
        "tests/architecture/test_examples_in_place.py",
    ),
    "docs/guide/files.md": (
        "its first command ends with exit code 2, and the last takes minutes",
        "tests/documentation/test_files_section.py",
    ),
    "docs/run-format.md": (
        "it reads a run that its test records",
        "tests/documentation/test_run_format.py",
    ),
}
# What a reader has before the first block: `lightning` and `transformers` are small stand-ins.
GIVEN = {
    "docs/watch.md": """
import sys
from types import SimpleNamespace

import torch
from torch import nn

x, y = torch.rand(12, 6), torch.arange(12) % 3
loader = [(x, y)] * 3
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
criterion = nn.CrossEntropyLoss()
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
lightning = transformers = SimpleNamespace(
    Callback=object, TrainerCallback=object, Trainer=lambda *arguments, callbacks: callbacks
)
for name in ("lightning", "lightning.pytorch", "transformers"):
    sys.modules[name] = lightning
""",
}


@contextlib.contextmanager
def namespace_of(document: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Give the names in which the blocks of a document run; modules may be in the folder.

    Modules that the blocks load from there, or put in themselves, are forgotten at the end.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    modules = dict(sys.modules)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        with torch.random.fork_rng(devices=[]):
            exec(compile(GIVEN.get(document, ""), "given", "exec"), names)
            yield names
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            origin = getattr(module, "__file__", None)
            if name not in modules and (origin is None or folder in Path(origin).parents):
                del sys.modules[name]


def run_block(code: str, names: dict[str, Any]) -> tuple[int, str]:
    """Run a block and return an exit code and what it printed, its error among it."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            exec(compile(code, "a block of Python", "exec"), names)
        except Exception:
            traceback.print_exc()
            return 1, output.getvalue()
    return 0, output.getvalue()
