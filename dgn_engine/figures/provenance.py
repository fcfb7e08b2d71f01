"""The origin of a figure's data: its caption and metadata."""

from __future__ import annotations

from dataclasses import asdict

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_readings import (
    describe_divergence,
    describe_left_out,
    describe_outdated,
    list_remarks,
)
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.run_text import describe_data, describe_network


@dataclass(frozen=True)
class Provenance:
    """The caption of a figure, and the metadata of exported numbers."""

    title: str
    regime: str = ""
    data: str = ""
    network: str = ""
    seed: int | None = None
    step: int = 0
    before: str = ""  # 'before FR-II': it shows the network before that change
    diverged: str = ""  # 'diverged at step 3,007': it shows the last finite state
    examples: str = ""  # '64 probe examples, exact'
    steps: tuple[int, ...] = ()  # both steps, of a figure of two

    @property
    def caption(self) -> str:
        """'NTK · step 7 · 64 probe examples, exact · DL · digits · fc 64×5 · seed 0'."""
        return " · ".join(part for part in (self.panel_caption, self.run_caption) if part)

    @property
    def panel_caption(self) -> str:
        """Caption part of a single panel: title, step and probe examples."""
        step_text = f"step {self.step:,}"
        if self.steps:
            step_text = f"steps {' and '.join(f'{step:,}' for step in self.steps)}"
        step = ", ".join(filter(None, (step_text, self.before, self.diverged)))
        return " · ".join(part for part in (self.title, step, self.examples) if part)

    @property
    def run_caption(self) -> str:
        """Caption part that the panels of one run share."""
        parts = [self.regime, self.data, self.network]
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        return " · ".join(part for part in parts if part)

    def as_dict(self) -> dict[str, str | int | tuple[int, ...]]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None, ())}


@dataclass(frozen=True)
class FigurePanel:
    """What one panel shows, for a figure. `name`: the panel's id, for files and axes."""

    name: str
    scene: Scene
    context: Provenance


def make_provenance(view: View, spec: PanelSpec, scene: Scene) -> Provenance:
    """Return the origin of what a panel shows in this view."""
    step, remarked = scene.step, (*list_remarks(spec, view), *describe_left_out(spec, view, scene))
    state = describe_outdated(spec, view), describe_divergence(view), " · ".join(remarked)
    about: tuple[str, str, int | None] = "", "", None
    if (run := view.run) is not None:
        about = describe_data(run.config.data), describe_network(run), run.config.seed
    return Provenance(spec.title, view.regime, *about, step, *state)
