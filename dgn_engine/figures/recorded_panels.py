"""Panels of a recorded run at one of its steps or at two, ready for a figure."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.figures.provenance import FigurePanel, context_of
from dgn_engine.scene.chosen_charts import chart_names, choose_charts
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.gate_agreement import AGREEMENT
from dgn_engine.scene.panel_readings import readings_of
from dgn_engine.scene.panel_spec import PanelSpec, View, all_panels
from dgn_engine.scene.two_steps import scene_of_steps, step_labels
from dgn_engine.storage.runs.folder_layout import find_run
from dgn_engine.storage.session_file.loaded_run import LoadedRun, read_run
from dgn_engine.storage.session_file.session_reader import unpack
from dgn_engine.views.recorded_view import recorded_history, views_of_two

Specs = Mapping[str, PanelSpec]


@dataclass(frozen=True)
class PanelViews:
    """What a panel is given: `view`, of two steps with the second as B; `second`: that alone."""

    view: View
    second: View | None = None

    def choose(self, option: str, value: str) -> PanelViews:
        """The same views with this value of an option of the panel's header."""
        choices = {**self.view.choices, option: value}
        second = None if self.second is None else replace(self.second, choices=choices)
        return PanelViews(replace(self.view, choices=choices), second)


def find_panels(wanted: str) -> dict[str, PanelSpec]:
    """Return the panels of 'ntk' or 'ntk,overlap'; raises `UserError` for one that is not there."""
    known = all_panels()
    names = [name.strip().replace("-", "_") for name in wanted.split(",") if name.strip()]
    for name in names or [""]:
        if name not in known:
            raise UserError(
                f"There is no panel {name or 'without a name'}; --panel is one or more of "
                f"{', '.join(known)}.{did_you_mean(name, known)}"
            )
    return {name: known[name] for name in names}


def check_steps(steps: tuple[int, ...]) -> tuple[int, ...]:
    """Return these steps of one figure; raises `UserError` unless they are one or two."""
    if len(steps) > 2:
        raise UserError(
            f"A figure shows one step or two, not {len(steps)}: {', '.join(map(str, steps))}."
        )
    if len(set(steps)) < len(steps):
        raise UserError(f"Step {steps[0]:,} is named twice; name two steps, or one once.")
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
        name: A run's folder, its name, or a session (.dgn).
        steps: One recorded step or two; none is the last.
        specs: The panels, by id.
        choose: Options of their headers: 'show=kernel', or 'ntk.show=norms'.
        charts: Names of single charts, see `with_charts`; none draws all.

    Raises:
        UserError: There is no such run, step, option or chart, or a panel has nothing to show.
    """
    with tempfile.TemporaryDirectory() as place:
        loaded = read_at_steps(name, steps or (None,), specs, Path(place))
        views = choose_options(loaded, specs, choose)
        panels = [figure_panel(each, spec, views[each]) for each, spec in specs.items()]
    return with_charts(panels, charts)


def read_at_steps(
    name: str, steps: Sequence[int | None], specs: Specs, place: Path
) -> list[LoadedRun]:
    """Read the run as it was at each of these steps; None: as it is. A session is unpacked into
    `place`."""
    folder = find_run(name)
    session = None
    if folder.is_file():
        session = unpack(folder, place)
        folder = session.folder
    framed = any(spec.probes for spec in specs.values())
    return [read_run(folder, session, step, framed) for step in steps]


def choose_options(
    loaded: Sequence[LoadedRun], specs: Specs, wanted: Sequence[str]
) -> dict[str, PanelViews]:
    """Return the views of each panel with these options of its header."""
    views = views_of_run(loaded, specs)
    for words in wanted:
        option, sign, value = words.partition("=")
        panel, dot, rest = option.rpartition(".")
        names = [panel] if dot else [name for name in specs if _offers(specs[name], rest)]
        if not sign or not names or not all(name in specs for name in names):
            offered = [f"{n}.{o.id}" for n, s in specs.items() for o in s.options] or ["none"]
            raise UserError(f"--choose {words} is no option here; there are {', '.join(offered)}.")
        for name in names:
            views[name] = views[name].choose(rest, value)
            _check_choice(specs[name], views[name].view, rest, value)
    return views


def _offers(spec: PanelSpec, option: str) -> bool:
    return any(one.id == option for one in spec.options)


def _check_choice(spec: PanelSpec, view: View, option: str, value: str) -> None:
    found = [one for one in spec.options if one.id == option]
    values = [each for one in found for each, _ in one.values(view)]
    if value not in values:
        raise UserError(
            f"{option}={value} is not offered by {spec.title}; it offers "
            f"{', '.join(values) or 'nothing'}.{did_you_mean(value, values)}"
        )


def views_of_run(loaded: Sequence[LoadedRun], specs: Specs) -> dict[str, PanelViews]:
    """Return the views of these panels at one step or two.

    Args:
        loaded: The run as it was at each step.
        specs: The panels, by id.

    Raises:
        UserError: What a panel needs was not recorded.
    """
    for one in loaded:
        for spec in specs.values():
            _check_recorded(one, spec, len(loaded) > 1)
    probes = tuple(dict.fromkeys(probe for spec in specs.values() for probe in spec.probes))
    if len(loaded) == 1:
        view = recorded_history(loaded[0], probes).view({})
        return dict.fromkeys(specs, PanelViews(view))
    first, second = loaded
    return dict.fromkeys(specs, PanelViews(*views_of_two(first, second, probes)))


def figure_panel(name: str, spec: PanelSpec, views: PanelViews) -> FigurePanel:
    """Draw the panel; raises `UserError` where it shows nothing."""
    if views.second is None:
        scene = _drawn(spec, views.view)
        return FigurePanel(name, scene, context_of(views.view, spec, scene))
    alone = replace(views.view, compared=None)
    steps = _read_at(spec, alone), _read_at(spec, views.second)
    if steps[0] == steps[1]:
        raise UserError(
            f"{spec.title} was read at step {steps[0]:,}, and not again before the other step."
        )
    compared = views.view.compared
    assert compared is not None
    view = replace(views.view, compared=replace(compared, labels=step_labels(steps)))
    scene = _drawn(spec, view)
    if AGREEMENT not in spec.probes:  # else it needs both
        first, second = _drawn(spec, alone), _drawn(spec, views.second)
        scene = scene_of_steps(scene, first, second, steps)
    return FigurePanel(name, scene, replace(context_of(view, spec, scene), steps=steps))


def with_charts(panels: Sequence[FigurePanel], wanted: Sequence[str]) -> list[FigurePanel]:
    """Return these panels with the charts of these names alone, where one names any of theirs.

    Args:
        panels: Those of the figure.
        wanted: 'eigenvalues', or 'spectrum.eigenvalues' where several panels have such a chart.

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
                f"There is no chart {words} here; there are {', '.join(every)}."
                f"{did_you_mean(words, every)}"
            )
        if len(owners) > 1:
            ways = " or ".join(f"{name}.{chart}" for name in owners)
            raise UserError(f"Several panels have a chart {words}; write {ways}.")
        chosen.setdefault(owners[0], set()).add(chart)
    return [
        replace(panel, scene=choose_charts(panel.scene, chosen[panel.name]))
        if panel.name in chosen
        else panel
        for panel in panels
    ]


def _check_recorded(loaded: LoadedRun, spec: PanelSpec, two: bool) -> None:
    recorded = set(loaded.frame.readings) if loaded.frame is not None else set()
    missing = [probe for probe in spec.probes if probe not in recorded and probe != AGREEMENT]
    if missing:
        here = f"; recorded are {', '.join(sorted(recorded))}" if recorded else ""
        raise UserError(
            f"{spec.title} needs {', '.join(missing)}, which {loaded.name} did not record by "
            f"step {loaded.step:,}{here}. dgn train --record {','.join(missing)} keeps it from the "
            "start."
        )
    if AGREEMENT in spec.probes and not two:
        raise UserError(f"{spec.title} compares two steps; name both, for example 0,{loaded.step}.")


def _drawn(spec: PanelSpec, view: View) -> Scene:
    shown = spec.draw(view)
    if isinstance(shown, Empty):
        raise UserError(f"{spec.title} shows nothing at step {view.step:,}: {shown.reason}")
    return shown


def _read_at(spec: PanelSpec, view: View) -> int:
    """The step of what the panel shows, which may be an earlier one than was asked for."""
    steps = [one.step for one in readings_of(spec, view) if one.probe != AGREEMENT]
    return max(steps, default=view.step)
