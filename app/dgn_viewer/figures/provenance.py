"""What a figure must say about itself: where its data come from."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dgn_viewer.scene.panel_spec import View
from dgn_viewer.scene.run_text import data_in_words, net_in_words


@dataclass(frozen=True)
class Provenance:
    """The caption of a figure, and the metadata of exported numbers."""

    title: str
    regime: str = ""
    data: str = ""
    network: str = ""
    seed: int | None = None
    step: int = 0

    @property
    def caption(self) -> str:
        """'NPK spectrum · step 12,480 · DL · digits · fc 64×5 · seed 0'."""
        parts = [self.title, f"step {self.step:,}", self.regime, self.data, self.network]
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        return " · ".join(part for part in parts if part)

    def as_dict(self) -> dict[str, str | int]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}


def context_of(view: View, title: str, step: int) -> Provenance:
    """The context of data of one step, seen in this view."""
    run = view.run
    if run is None:
        return Provenance(title, view.regime, step=step)
    config = run.config
    return Provenance(
        title, view.regime, data_in_words(config.data), net_in_words(run), config.seed, step
    )
