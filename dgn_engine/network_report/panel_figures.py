"""The figure of a section from a panel of the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dgn_engine.figures.provenance import FigurePanel, make_provenance
from dgn_engine.network_report.subject import Subject
from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.chosen_charts import choose_charts
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_spec import all_panels


def draw_panel(
    subject: Subject,
    panel: str,
    readings: Mapping[str, Reading],
    charts: tuple[str, ...] = (),
    choices: Mapping[str, str] | None = None,
) -> FigurePanel | None:
    """Draw a panel from readings.

    Args:
        subject: The network.
        panel: Its id.
        readings: The readings of its probes.
        charts: The charts to keep; all if empty.
        choices: Options in its header.

    Returns:
        The figure; None if the panel shows nothing.
    """
    spec = all_panels()[panel]
    view = replace(subject.view(readings), choices=dict(choices or {}))
    shown = spec.draw(view)
    if isinstance(shown, Empty):
        return None
    scene: Scene = choose_charts(shown, set(charts)) if charts else shown
    context = make_provenance(view, spec, scene)
    return FigurePanel(panel, scene, replace(context, network=subject.name))
