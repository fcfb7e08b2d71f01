"""Panels of a recorded run at one or two of its steps, ready for a figure."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.figures.provenance import FigurePanel, make_provenance
from dgn_engine.scene.chosen_charts import chart_names, choose_charts
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.gate_agreement import AGREEMENT, OF_BOTH
from dgn_engine.scene.panel_readings import available_readings
from dgn_engine.scene.panel_spec import PanelSpec, View, all_panels
from dgn_engine.scene.two_steps import scene_of_steps, step_labels
from dgn_engine.storage.runs.folder_layout import find_run
from dgn_engine.storage.session_file.loaded_run import LoadedRun, read_run
from dgn_engine.storage.session_file.session_reader import unpack_session
from dgn_engine.views.recorded_view import recorded_history, views_of_two

Specs = Mapping[str, PanelSpec]


@dataclass(frozen=True)
class PanelViews:
    """The views of a panel: `view`, with the second of two steps as B, and `second` alone."""

    view: View
    second: View | None = None

    def with_choice(self, option: str, value: str) -> PanelViews:
        """Return the same views with an option of the panel's header set to this value."""
        choices = {**self.view.choices, option: value}
        second = None if self.second is None else replace(self.second, choices=choices)
        return PanelViews(replace(self.view, choices=choices), second)


def find_panels(wanted: str) -> dict[str, PanelSpec]:
    """Return the panels of 'ntk' or 'ntk,overlap'.

    Raises:
        UserError: There is no such panel.
    """
    known = all_panels()
    names = [name.strip().replace("-", "_") for name in wanted.split(",") if name.strip()]
    for name in names or [""]:
        if name not in known:
            raise UserError(
                f"There is no panel {name or 'without a name'}; --panel takes one or more of "
                f"{', '.join(known)}.{did_you_mean(name, known)}"
            )
    return {name: known[name] for name in names}


def check_steps(steps: tuple[int, ...]) -> tuple[int, ...]:
    """Return the steps of one figure.

    Raises:
        UserError: There are more than two, or one is given twice.
    """
    if len(steps) > 2:
        raise UserError(
            f"A figure shows one step or two, not {len(steps)}: {', '.join(map(str, steps))}."
        )
    if len(set(steps)) < len(steps):
        raise UserError(f"Step {steps[0]:,} is given twice; give two different steps, or one.")
    return steps


def panels_of_run(
    name: str,
    steps: Sequence[int],
    specs: Specs,
    choose: Sequence[str],
    charts: Sequence[str],
) -> list[FigurePanel]:
    """Draw panels of a recorded run.

    Args:
        name: A run's folder or name, or a session (.dgn).
        steps: One or two recorded steps; none means the last.
        specs: The panels, by id.
        choose: Options of their headers: 'show=kernel', or 'ntk.scale=raw'.
        charts: Names of single charts, see `with_charts`; none draws all.

    Raises:
        UserError: There is no such run, step, option or chart, or a panel has nothing to show.
    """
    with tempfile.TemporaryDirectory() as folder:
        loaded = read_at_steps(name, steps or (None,), specs, Path(folder))
        views = choose_options(loaded, specs, choose)
        panels = [figure_panel(panel_id, spec, views[panel_id]) for panel_id, spec in specs.items()]
    return with_charts(panels, charts)


def read_at_steps(
    name: str, steps: Sequence[int | None], specs: Specs, place: Path
) -> list[LoadedRun]:
    """Read the run at each of these steps; None: its last state.

    A session is unpacked into `place`.
    """
    folder = find_run(name)
    session = None
    if folder.is_file():
        session = unpack_session(folder, place)
        folder = session.folder
    framed = any(spec.probes for spec in specs.values())
    return [read_run(folder, session, step, framed) for step in steps]


def choose_options(
    loaded: Sequence[LoadedRun], specs: Specs, wanted: Sequence[str]
) -> dict[str, PanelViews]:
    """Return the views of each panel with these options of its header set."""
    views = views_of_run(loaded, specs)
    for words in wanted:
        option, sign, value = words.partition("=")
        panel, dot, option_id = option.rpartition(".")
        names = [panel] if dot else [name for name in specs if _has_option(specs[name], option_id)]
        if not sign or not names or not all(name in specs for name in names):
            offered = [
                f"{panel_id}.{panel_option.id}"
                for panel_id, spec in specs.items()
                for panel_option in spec.options
            ] or ["none"]
            raise UserError(f"--choose {words}: no such option; available: {', '.join(offered)}.")
        for name in names:
            views[name] = views[name].with_choice(option_id, value)
            _check_choice(specs[name], views[name].view, option_id, value)
    return views


def _has_option(spec: PanelSpec, option: str) -> bool:
    return any(offered.id == option for offered in spec.options)


def _check_choice(spec: PanelSpec, view: View, option: str, value: str) -> None:
    options = [candidate for candidate in spec.options if candidate.id == option]
    values = [offered for candidate in options for offered, _ in candidate.values(view)]
    if value not in values:
        raise UserError(
            f"{spec.title} does not offer {option}={value}; it offers "
            f"{', '.join(values) or 'nothing'}.{did_you_mean(value, values)}"
        )


def views_of_run(loaded: Sequence[LoadedRun], specs: Specs) -> dict[str, PanelViews]:
    """Return the views of these panels at one or two steps.

    Args:
        loaded: The run as it was at each step.
        specs: The panels, by id.

    Raises:
        UserError: A panel needs something that was not recorded.
    """
    for run in loaded:
        for spec in specs.values():
            _check_recorded(run, spec, len(loaded) > 1)
    probes = tuple(dict.fromkeys(probe for spec in specs.values() for probe in spec.probes))
    if len(loaded) == 1:
        view = recorded_history(loaded[0], probes).view({})
        return dict.fromkeys(specs, PanelViews(view))
    first, second = loaded
    return dict.fromkeys(specs, PanelViews(*views_of_two(first, second, probes)))


def figure_panel(name: str, spec: PanelSpec, views: PanelViews) -> FigurePanel:
    """Draw the panel.

    Raises:
        UserError: It shows nothing.
    """
    if views.second is None:
        scene = _draw_scene(spec, views.view)
        return FigurePanel(name, scene, make_provenance(views.view, spec, scene))
    alone = replace(views.view, compared=None)
    steps = _read_at(spec, alone), _read_at(spec, views.second)
    if steps[0] == steps[1]:
        raise UserError(
            f"{spec.title} was read at step {steps[0]:,}, but not again before the other step."
        )
    compared = views.view.compared
    assert compared is not None
    view = replace(views.view, compared=replace(compared, labels=step_labels(steps)))
    scene = _draw_scene(spec, view)
    if AGREEMENT not in spec.probes:  # otherwise it needs both
        first, second = _draw_scene(spec, alone), _draw_scene(spec, views.second)
        scene = scene_of_steps(scene, first, second, steps)
    return FigurePanel(name, scene, replace(make_provenance(view, spec, scene), steps=steps))


def with_charts(panels: Sequence[FigurePanel], wanted: Sequence[str]) -> list[FigurePanel]:
    """Keep only the charts of these names in panels for which any are given.

    Args:
        panels: Panels of the figure.
        wanted: 'eigenvalues', or 'spectrum.eigenvalues' if several panels have such a chart.

    Raises:
        UserError: There is no such chart, or several panels have one.
    """
    known = {panel.name: chart_names(panel.scene) for panel in panels}
    chosen: dict[str, set[str]] = {}
    for words in wanted:
        panel, _, chart = words.rpartition(".")
        owners = [name for name in known if panel in ("", name) and chart in known[name]]
        if not owners:
            every = [chart for charts in known.values() for chart in charts]
            if len(known) > 1:
                every = [f"{name}.{chart}" for name in known for chart in known[name]]
            raise UserError(
                f"There is no chart {words}; available: "
                f"{', '.join(every)}.{did_you_mean(words, every)}"
            )
        if len(owners) > 1:
            choices = " or ".join(f"{name}.{chart}" for name in owners)
            raise UserError(f"Several panels have a chart {words}; write {choices}.")
        chosen.setdefault(owners[0], set()).add(chart)
    return [
        replace(panel, scene=choose_charts(panel.scene, chosen[panel.name]))
        if panel.name in chosen
        else panel
        for panel in panels
    ]


def _check_recorded(loaded: LoadedRun, spec: PanelSpec, two: bool) -> None:
    recorded = set(loaded.frame.readings) if loaded.frame is not None else set()
    missing = [probe for probe in spec.probes if probe not in (*recorded, *OF_BOTH)]
    if missing:
        here = f"; it recorded {', '.join(sorted(recorded))}" if recorded else ""
        raise UserError(
            f"{spec.title} needs {', '.join(missing)}, which {loaded.name} did not record by step "
            f"{loaded.step:,}{here}. Use dgn train --record {','.join(missing)} to record it from "
            "the start."
        )
    if AGREEMENT in spec.probes and not two:
        raise UserError(f"{spec.title} compares two steps; give both, for example 0,{loaded.step}.")


def _draw_scene(spec: PanelSpec, view: View) -> Scene:
    shown = spec.draw(view)
    if isinstance(shown, Empty):
        raise UserError(f"{spec.title} shows nothing at step {view.step:,}: {shown.reason}")
    return shown


def _read_at(spec: PanelSpec, view: View) -> int:
    """Return the step of the panel's readings, which may be earlier than requested."""
    steps = [
        reading.step for reading in available_readings(spec, view) if reading.probe not in OF_BOTH
    ]
    return max(steps, default=view.step)
