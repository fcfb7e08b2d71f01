"""Figures of panels in a notebook, as `dgn figure` writes them."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.recorded_panels import check_steps, find_panels, panels_of_run
from dgn_engine.figures.save_figure import page_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SCREEN = 110.0  # dots per inch


class HasFolder(Protocol):
    """A run of `dgn.train` or `dgn.open_run`."""

    path: Path


def figure(
    run: HasFolder | str | Path,
    panel: str,
    step: int | Sequence[int] | None = None,
    choose: str | Sequence[str] = (),
    chart: str | Sequence[str] = (),
    **style: Any,
) -> Figure:
    """Draw a panel of a recorded run as a figure of matplotlib, as `dgn figure` writes it.

    Args:
        run: A run of `dgn.train` or `dgn.open_run`, a folder, a name, or a session (.dgn).
        panel: 'spectrum', say, or several on a page: 'ntk,overlap'.
        step: A recorded step, or two in one picture: (0, 900); None is the last.
        choose: Options of the panel's header: ['show=kernel'].
        chart: Draw this chart of several, or these: 'kernel'.
        style: `width`, `height` (inches), `font` (points), `across`, `letters`, `caption`.

    Returns:
        The figure that `savefig` writes; the picture in the notebook has the resolution of screens.

    Raises:
        UserError: There is no such panel, step or setting, the panel has nothing to show, or the
            panels do not fit on a page.
    """
    known = [each.name for each in dataclasses.fields(FigureStyle)]
    for name in style:
        if name not in known:
            raise UserError(
                f"{name} is no setting of a figure; there are {', '.join(known)}."
                f"{did_you_mean(name, known)}",
                kind="unknown-name",
            )
    page_style = FigureStyle(**style)
    charts = (chart,) if isinstance(chart, str) else chart
    choose = (choose,) if isinstance(choose, str) else choose
    specs = find_panels(panel)
    folder = str(getattr(run, "path", run))
    panels = panels_of_run(folder, check_steps(_whole_steps(step)), specs, choose, charts)
    with print_style():
        drawn = draw_page(panels, page_style)
    vars(drawn)["_repr_png_"] = lambda: page_bytes(panels, "png", page_style, SCREEN)
    return drawn


def _whole_steps(step: Any) -> tuple[int, ...]:
    """Return the steps as integers, numpy's among them."""
    if step is None:
        return ()
    given = step if isinstance(step, Sequence) and not isinstance(step, str) else (step,)
    try:
        return tuple(operator.index(one) for one in given)
    except TypeError:
        raise UserError(
            f"step={step!r} is no step; give a recorded one, 900, or two, (0, 900).",
            kind="wrong-type",
        ) from None
