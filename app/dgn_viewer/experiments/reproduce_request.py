"""What is asked of `dgn`: the arguments of the child process and the folder of its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dgn_engine.experiments.report.result_layout import default_folder

_NUMBERS_AND_WORDS = (
    "seeds",
    "seed_start",
    "epochs",
    "only",
    "data",
    "data_root",
    "train_limit",
    "test_limit",
    "augmentation",
    "device",
    "executor",
    "workers",
    "devices",
)


@dataclass(frozen=True)
class ReproduceRequest:
    """An experiment with its settings; 0 and '' leave the choice to the experiment."""

    name: str
    scale: str = "quick"
    protocol: str = "as-published"
    seeds: int = 0
    seed_start: int = 0
    epochs: int = 0
    data: str = ""
    data_root: str = ""
    workers: int = 0
    only: str = ""
    steps: tuple[float, ...] = ()
    augmentation: str = "none"
    train_limit: int = 0
    test_limit: int = 0
    device: str = "auto"
    executor: str = "auto"
    devices: str = ""

    @property
    def folder(self) -> Path:
        """Where `dgn reproduce` writes it by itself."""
        return default_folder(self.name, self)

    @property
    def arguments(self) -> tuple[str, ...]:
        said = ["reproduce", self.name, f"--{self.scale}", "--protocol", self.protocol]
        for name in _NUMBERS_AND_WORDS:
            value = getattr(self, name)
            if value not in (0, "", "auto", "none"):
                said += [f"--{name.replace('_', '-')}", str(value)]
        if self.steps:
            said += ["--steps", ",".join(repr(step) for step in self.steps)]
        return (*said, "--out", str(self.folder))
