"""Panels as figures are made of them, with ten long names of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, make_provenance
from dgn_engine.scene.elements import Scene
from dgn_engine.scene.panel_spec import View, all_panels

PANELS = all_panels()
CLASSES = (
    "airplane",
    "automobile",
    "greenhouse cat",
    "hummingbird",
    "Labrador retriever",
    "motorcycle",
    "palm tree",
    "sweet pepper",
    "sewing machine",
    "wardrobe",
)


def panel(name: str, view: View) -> FigurePanel:
    """What a panel shows in this view, with ten long names of classes."""
    assert view.run is not None
    probes = replace(view.run.probe_set, class_names=CLASSES)
    view = replace(view, run=replace(view.run, probe_set=probes))
    scene = PANELS[name].draw(view)
    assert isinstance(scene, Scene)
    return FigurePanel(name, scene, make_provenance(view, PANELS[name], scene))


def page(panels: Sequence[FigurePanel], style: FigureStyle) -> Figure:
    """Laid out as it is saved; no pixel is drawn."""
    with print_style():
        figure = draw_page(panels, style)
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
    return figure
