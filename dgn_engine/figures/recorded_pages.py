"""Pages of panels at the recorded steps of a run, one per step, for an animation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dgn_engine.errors import UserError
from dgn_engine.figures.provenance import FigurePanel, make_provenance
from dgn_engine.scene.axes import with_step_cursor
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings
from dgn_engine.scene.elements import Empty, Shown
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.views.drawn_panel import DrawnPanel
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.past_view import Past, PastViews
from dgn_engine.views.recorded_view import recorded_history


@dataclass(frozen=True)
class PagePanel:
    """A panel of every page. `choices`: of its header; `charts`: chart settings by key."""

    spec: PanelSpec
    choices: Mapping[str, str] = field(default_factory=dict)
    charts: Mapping[str, ChartSettings] = field(default_factory=dict)

    def draw(self, view: View) -> Shown:
        """Return what it shows in a view of a past step."""
        drawn = DrawnPanel(self.spec)
        shown = drawn.draw(view)
        if isinstance(shown, Empty):
            return shown
        return apply_chart_settings(
            with_step_cursor(shown, view.cursor), self.charts, drawn.draw_with
        )


@dataclass(frozen=True)
class RecordedPages:
    """The pages of an animation: `pages[i]` has the panels at `steps[i]`.

    `left_out`: number of recorded steps at which a panel had nothing to show. `thinned`: number of
    recorded steps in the range that were not chosen.
    """

    steps: tuple[int, ...]
    pages: tuple[tuple[FigurePanel, ...], ...]
    left_out: int
    thinned: int

    @property
    def page_summary(self) -> str:
        """A summary: '100 frames, steps 0 to 2,000', and what was left out."""
        words = f"{len(self.pages)} frames, steps {self.steps[0]:,} to {self.steps[-1]:,}"
        if self.thinned:
            words += f"; {self.thinned:,} recorded steps in between were skipped"
        if self.left_out:
            words += f"; omitted because a panel had nothing to show: {self.left_out:,}"
        return words


def pages_of_run(
    loaded: LoadedRun,
    specs: Mapping[str, PanelSpec],
    choices: Mapping[str, Mapping[str, str]],
    reach: tuple[int, int | None],
    most: int,
) -> RecordedPages:
    """Return pages of a recorded run that was read; see `recorded_pages`.

    `reach`: first and last step; None: the last of the run.
    """
    probes = tuple(dict.fromkeys(probe for spec in specs.values() for probe in spec.probes))
    views = recorded_history(loaded, probes).past_views()
    recorded = FrameSource(str(loaded.folder), foreign=loaded.session is not None).open_frames()
    panels = {name: PagePanel(spec, choices.get(name, {})) for name, spec in specs.items()}
    last = loaded.step if reach[1] is None else min(reach[1], loaded.step)
    return recorded_pages(loaded.name, views, recorded, panels, (reach[0], last), most)


def recorded_pages(
    name: str,
    views: PastViews,
    recorded: RecordedSteps | HeldFrames,
    panels: Mapping[str, PagePanel],
    reach: tuple[int, int],
    most: int,
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> RecordedPages:
    """Return the panels at the recorded steps from `reach[0]` to `reach[1]`.

    Args:
        name: Name of the run.
        views: Makes the view of a past step.
        recorded: The recorded steps.
        panels: Panels of each page, by id.
        reach: First and last step.
        most: Most pages; of more steps, `most` are chosen evenly by index.
        on_progress: Called with (steps read, all steps).

    Raises:
        UserError: Fewer than two pages are left.
    """
    probes = tuple(
        dict.fromkeys(probe for page_panel in panels.values() for probe in page_panel.spec.probes)
    )
    inside = [step for step in recorded.steps if reach[0] <= step <= reach[1]]
    chosen = _spread_steps(inside, most)
    pages, steps = [], []
    for number, step in enumerate(chosen):
        on_progress(number, len(chosen))
        past = Past(step, recorded.frame_at(step), probes)
        page = _draw_panels_at(panels, views, past) if past.frame is not None else None
        if page is not None:
            pages.append(page)
            steps.append(step)
    if len(pages) < 2:
        titles = ", ".join(panel.spec.title for panel in panels.values())
        raise UserError(
            f"{name} recorded {len(pages)} step{'' if len(pages) == 1 else 's'} between "
            f"{reach[0]:,} and {reach[1]:,} at which {titles} can be drawn; an animation needs at "
            "least two.",
            kind="out-of-bounds",
            value=len(pages),
        )
    return RecordedPages(
        tuple(steps), tuple(pages), len(chosen) - len(pages), len(inside) - len(chosen)
    )


def _draw_panels_at(
    panels: Mapping[str, PagePanel], views: PastViews, past: Past
) -> tuple[FigurePanel, ...] | None:
    """Draw all panels at a step; None if one of them has nothing to show."""
    page = []
    for name, panel in panels.items():
        view = views.view_at(past, panel.choices)
        shown = panel.draw(view)
        if isinstance(shown, Empty):
            return None
        page.append(FigurePanel(name, shown, make_provenance(view, panel.spec, shown)))
    return tuple(page)


def _spread_steps(steps: Sequence[int], most: int) -> list[int]:
    """Choose at most `most` of the steps, including the first and the last."""
    if len(steps) <= most:
        return list(steps)
    indices = [round(number * (len(steps) - 1) / (most - 1)) for number in range(most)]
    return [steps[index] for index in indices]
