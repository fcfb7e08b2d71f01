"""What is asked of `dgn`: the arguments of the child process and the folder of its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dgn_engine.reporting.places import folder_name
from dgn_engine.runs.places import results_root


@dataclass(frozen=True)
class Wish:
    """An experiment with its settings; 0 and '' leave the choice to the experiment."""

    name: str
    scale: str = "quick"
    protocol: str = "as-published"
    seeds: int = 0
    epochs: int = 0
    data: str = ""
    workers: int = 0

    @property
    def folder(self) -> Path:
        """Where `dgn reproduce` writes it by itself."""
        name = folder_name(self.name, self.scale, self.protocol, self.data, self.epochs)
        return results_root() / name

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows `dgn`."""
        said = ["reproduce", self.name, f"--{self.scale}", "--protocol", self.protocol]
        for name in ("seeds", "epochs", "data", "workers"):
            value = getattr(self, name)
            if value:
                said += [f"--{name}", str(value)]
        return (*said, "--out", str(self.folder))
