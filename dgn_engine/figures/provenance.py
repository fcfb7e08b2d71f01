"""What a figure must say about itself: where its data come from."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_readings import before, diverged, left_out, remarks
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.run_text import data_in_words, net_in_words


@dataclass(frozen=True)
class Provenance:
    """The caption of a figure, and the metadata of exported numbers."""

    title: str
    regime: str = ""
    data: str = ""
    network: str = ""
    seed: int | None = None
    step: int = 0
    before: str = ""  # 'before FR-II': it is of the network as it was before this
    diverged: str = ""  # 'diverged at step 3,007': it is the last finite picture
    examples: str = ""  # '64 probe examples, exact'
    steps: tuple[int, ...] = ()  # both, of a figure of two

    @property
    def caption(self) -> str:
        """'NTK · step 7 · 64 probe examples, exact · DL · digits · fc 64×5 · seed 0'."""
        return " · ".join(part for part in (self.picture, self.run) if part)

    @property
    def picture(self) -> str:
        """What panels of one run do not have in common: title, step and probe examples."""
        said = f"step {self.step:,}"
        if self.steps:
            said = f"steps {' and '.join(f'{step:,}' for step in self.steps)}"
        step = ", ".join(filter(None, (said, self.before, self.diverged)))
        return " · ".join(part for part in (self.title, step, self.examples) if part)

    @property
    def run(self) -> str:
        """What the panels of one run have in common."""
        parts = [self.regime, self.data, self.network]
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        return " · ".join(part for part in parts if part)

    def as_dict(self) -> dict[str, str | int | tuple[int, ...]]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None, ())}


@dataclass(frozen=True)
class FigurePanel:
    """What one panel shows, ready for a figure. `name`: the panel's id, for files and axes."""

    name: str
    scene: Scene
    context: Provenance


def context_of(view: View, spec: PanelSpec, scene: Scene) -> Provenance:
    """The context of what a panel shows, seen in this view."""
    step, remarked = scene.step, (*remarks(spec, view), *left_out(spec, view, scene))
    said = before(spec, view), diverged(view), " · ".join(remarked)
    about: tuple[str, str, int | None] = "", "", None
    if (run := view.run) is not None:
        about = data_in_words(run.config.data), net_in_words(run), run.config.seed
    return Provenance(spec.title, view.regime, *about, step, *said)
