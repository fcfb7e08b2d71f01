"""What the figures of sections share, and a figure from a panel of the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dgn_engine.figures.provenance import FigurePanel, Provenance, make_provenance
from dgn_engine.network_report.subject import Subject
from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.chosen_charts import choose_charts
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_spec import all_panels

_MOST_NAMED = 12  # classes whose names fit beside an axis


def name_ticks(names: Sequence[str]) -> tuple[tuple[float, str], ...]:
    """Return ticks at 0, 1, … with the names of classes; of many classes, some."""
    stride = max(1, -(-len(names) // _MOST_NAMED))
    return tuple((float(at), names[at][:12]) for at in range(0, len(names), stride))


def describe_figure(subject: Subject, title: str, examples: str = "") -> Provenance:
    """Return what a figure says about its network; `examples`: which ones, if not all."""
    regime, step = subject.imported.regime.name, subject.imported.step
    return Provenance(
        title, regime, subject.examples.name, subject.name, step=step, examples=examples
    )


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
