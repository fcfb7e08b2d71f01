"""The folder of a result and the files in it; does not import torch."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Protocol

from dgn_engine.storage.runs.folder_layout import results_root

RESULTS = "results.json"
PROGRESS = "progress.json"
PLAN = "plan.json"  # all units, so that different plans are not mixed in a folder
REPORT = "report"  # .html and .md
FIGURES = "figures"  # .pdf and .svg
TABLES = "tables"  # .md, .csv and .tex
LONGEST = 60  # characters of a part of a folder name


class _ReportOptions(Protocol):
    """The options of a reproduction that affect its results."""

    @property
    def scale(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def seeds(self) -> int: ...
    @property
    def seed_start(self) -> int: ...
    @property
    def epochs(self) -> int: ...
    @property
    def only(self) -> str: ...
    @property
    def steps(self) -> tuple[float, ...]: ...
    @property
    def data(self) -> str: ...
    @property
    def augmentation(self) -> str: ...
    @property
    def train_limit(self) -> int: ...
    @property
    def test_limit(self) -> int: ...


def default_folder(name: str, request: _ReportOptions) -> Path:
    """Return NAME-SCALE in the user's results folder, plus other options that affect results."""
    parts = [name, request.scale]
    if request.protocol != "as-published":
        parts.append(request.protocol)
    if request.only:
        parts.append(f"only_{_plain_name(request.only)}")
    if request.data:
        parts.append(_plain_name(request.data))
    if request.steps:
        parts.append("_".join(("steps", *(f"{step:g}" for step in request.steps))))
    parts += _numbered_parts((request.seeds, "seeds"))
    if request.seed_start:
        parts.append(f"from_{request.seed_start}")
    parts += _numbered_parts((request.epochs, "epochs"))
    if request.augmentation != "none":
        parts.append("augmented")
    parts += _numbered_parts((request.train_limit, "training"), (request.test_limit, "test"))
    return results_root() / "-".join(parts)


def measurement_folder(name: str, file: Path, settings: str) -> Path:
    """Return the results folder of a measurement, unique for the file and the settings."""
    return results_root() / f"{_plain_name(name, '-')}-{_short_digest(str(file) + settings)}"


def _numbered_parts(*numbers: tuple[int, str]) -> list[str]:
    return [f"{number}_{noun}" for number, noun in numbers if number]


def _plain_name(text: str, kept: str = "") -> str:
    """Keep letters, digits and `kept`; truncate long text and append a digest."""
    plain = "".join(c if c.isalnum() or c in kept else "_" for c in text)
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}_{_short_digest(text)}"


def _short_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:8]
