"""On paper events are named in the lane below the axis."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Scene


def test_a_figure_names_events_below_the_axis_and_names_never_overprint() -> None:
    marks = tuple(Mark(20.0 * n, f"lr {0.001 / n:.3g}", "dial") for n in range(1, 31))
    axis = Axis("step", limits=(0.0, 640.0), epoch=64)
    steps = np.arange(640)
    charts = tuple(
        Chart(
            key, key, axis, Axis(), curves=(Curve("a", steps, np.sin(steps)),), marks=marks, row=row
        )
        for row, key in enumerate(("above", "below"))
    )
    with print_style():
        figure = draw_page(
            [FigurePanel("training", Scene(charts), Provenance("Training"))], FigureStyle()
        )
        FigureCanvasAgg(figure).draw()
        names = [text for axes in figure.axes for text in axes.texts]
        events = [text for text in names if str(text.get_gid()).endswith(".event")]
        assert events
        assert {text.get_gid() for text in events} == {"below.event"}
        boxes = sorted((text.get_window_extent() for text in events), key=lambda box: box.x0)
        assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))
        ticks = [label.get_window_extent() for label in figure.axes[1].get_xticklabels()]
        ticks.append(figure.axes[1].xaxis.label.get_window_extent())
        assert not any(box.overlaps(tick) for box in boxes for tick in ticks)
