"""Pages of panels at the recorded steps of a run, one a step: what an animation is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.storage.session_file.untrusted_run import plain_frame
from dgn_viewer.figures.provenance import FigurePanel, context_of
from dgn_viewer.scene.elements import Empty
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.state.past_view import Past
from dgn_viewer.state.recorded_view import recorded_history


@dataclass(frozen=True)
class RecordedPages:
    """`pages[i]`: the panels at `steps[i]`. `left_out`: recorded steps at which one of the panels
    had nothing to show. `thinned`: recorded steps of the range that were not chosen."""

    steps: tuple[int, ...]
    pages: tuple[tuple[FigurePanel, ...], ...]
    left_out: int
    thinned: int


def recorded_pages(
    loaded: LoadedRun,
    specs: Mapping[str, PanelSpec],
    choices: Mapping[str, Mapping[str, str]],
    reach: tuple[int, int | None],
    most: int,
) -> RecordedPages:
    """What these panels show at the recorded steps from reach[0] to reach[1] (None: the last).

    `choices[panel]`: of its header. Of more than `most` steps as many are chosen, evenly by their
    place in the record. Raises `UserError` where fewer than two are left.
    """
    probes = tuple(dict.fromkeys(probe for spec in specs.values() for probe in spec.probes))
    history = recorded_history(loaded, probes)
    recorded = RecordedSteps(loaded.folder, clean=plain_frame if loaded.session else _as_it_is)
    last = loaded.step if reach[1] is None else min(reach[1], loaded.step)
    inside = [step for step in recorded.steps if reach[0] <= step <= last]
    chosen = _spread(inside, most)
    pages, steps = [], []
    for step in chosen:
        frame = recorded.at(step)
        history.look_back(Past(step, frame, probes))
        views = {name: history.view(choices.get(name, {})) for name in specs}
        shown = {name: spec.draw(views[name]) for name, spec in specs.items()}
        if frame is None or any(isinstance(one, Empty) for one in shown.values()):
            continue
        page = tuple(
            FigurePanel(name, scene, context_of(views[name], specs[name], scene))
            for name, scene in shown.items()
            if not isinstance(scene, Empty)
        )
        pages.append(page)
        steps.append(step)
    if len(pages) < 2:
        titles = ", ".join(spec.title for spec in specs.values())
        raise UserError(
            f"{loaded.name} recorded {len(pages)} steps between {reach[0]:,} and {last:,} at which "
            f"{titles} can be drawn; an animation needs two or more."
        )
    return RecordedPages(
        tuple(steps), tuple(pages), len(chosen) - len(pages), len(inside) - len(chosen)
    )


def _spread(steps: Sequence[int], most: int) -> list[int]:
    """At most so many of them, the first and the last among them."""
    if len(steps) <= most:
        return list(steps)
    places = [round(number * (len(steps) - 1) / (most - 1)) for number in range(most)]
    return [steps[place] for place in places]


def _as_it_is(frame: Frame) -> Frame:
    return frame
