"""What lies in the folder of a result."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

RESULTS = "results.json"
PROGRESS = "progress.json"
PLAN = "plan.json"  # every unit, so that another plan is not mixed with this one
REPORT = "report"  # .html and .md
FIGURES = "figures"
LONGEST = 60  # letters of one part of a folder's name


class _Asked(Protocol):
    """What was asked of an experiment: a request of the engine, a wish of the window."""

    @property
    def scale(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def seeds(self) -> int: ...
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


def folder_name(name: str, asked: _Asked) -> str:
    """NAME-SCALE, with what else decides its report; without torch, so that the viewer knows it."""
    parts = [name, asked.scale]
    if asked.protocol != "as-published":
        parts.append(asked.protocol)
    if asked.only:
        parts.append(f"only_{_plain(asked.only)}")
    if asked.data:
        parts.append(_plain(asked.data))
    if asked.steps:
        parts.append("_".join(("steps", *(f"{step:g}" for step in asked.steps))))
    parts += _numbers((asked.seeds, "seeds"), (asked.epochs, "epochs"))
    if asked.augmentation != "none":
        parts.append("augmented")
    parts += _numbers((asked.train_limit, "training"), (asked.test_limit, "test"))
    return "-".join(parts)


def _numbers(*numbers: tuple[int, str]) -> list[str]:
    return [f"{number}_{what}" for number, what in numbers if number]


def _plain(text: str) -> str:
    """Letters and digits alone; what is too long is cut and told apart by its digest."""
    plain = "".join(c if c.isalnum() else "_" for c in text)
    if len(plain) <= LONGEST:
        return plain
    return f"{plain[:LONGEST]}_{sha256(text.encode()).hexdigest()[:8]}"
