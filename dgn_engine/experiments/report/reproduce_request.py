"""Requests to `dgn reproduce`: its arguments, its results folder, and existing results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from dgn_engine.experiments.report.result_layout import RESULTS, default_folder
from dgn_engine.storage.regular_files import read_text

_SCALES = ("quick", "full")
_MADE = re.compile(r'"made": "(\d{4}-\d{2}-\d{2}[^"]*)"')


class FoundResult(NamedTuple):
    """The folder of a result, and when it was made (ISO 8601)."""

    folder: Path
    made: str


def find_results(root: Path, names: Iterable[str]) -> Mapping[str, FoundResult]:
    """Return the newest result of each experiment, by name.

    Only the time is read from each file; damaged files are ignored.
    """
    longest_first = sorted(names, key=len, reverse=True)
    newest: dict[str, FoundResult] = {}
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        name = next(
            (
                candidate
                for candidate in longest_first
                for scale in _SCALES
                if folder.name == f"{candidate}-{scale}"
                or folder.name.startswith(f"{candidate}-{scale}-")
            ),
            "",
        )
        made = _time_made(folder / RESULTS) if name else ""
        if made and (name not in newest or made > newest[name].made):
            newest[name] = FoundResult(folder, made)
    return newest


def _time_made(path: Path) -> str:
    try:
        match = _MADE.search(read_text(path))
    except (OSError, ValueError):
        return ""
    return match[1] if match is not None else ""


@dataclass(frozen=True)
class ReproduceRequest:
    """An experiment with its options; 0 and '' leave the choice to the experiment.

    The fields from `seeds` on are options of `dgn`, in this order.
    """

    name: str
    scale: str = "quick"
    protocol: str = "as-published"
    seeds: int = 0
    seed_start: int = 0
    epochs: int = 0
    only: str = ""
    data: str = ""
    data_root: str = ""
    train_limit: int = 0
    test_limit: int = 0
    augmentation: str = "none"
    device: str = "auto"
    executor: str = "auto"
    workers: int = 0
    devices: str = ""
    steps: tuple[float, ...] = ()

    @property
    def folder(self) -> Path:
        """The default results folder of `dgn reproduce`."""
        return default_folder(self.name, self)

    @property
    def arguments(self) -> tuple[str, ...]:
        typed = ["reproduce", self.name, f"--{self.scale}", "--protocol", self.protocol]
        for field in fields(self)[3:]:
            value = getattr(self, field.name)
            if value not in (0, "", "auto", "none", ()):
                text = ",".join(map(repr, value)) if isinstance(value, tuple) else str(value)
                typed += [f"--{field.name.replace('_', '-')}", text]
        return (*typed, "--out", str(self.folder))
