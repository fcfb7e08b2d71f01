"""Draw panels as figures in a notebook, as `dgn figure` writes them."""

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
    """Anything with a run folder, such as a run of `dgn.train` or `dgn.open_run`."""

    path: Path


def figure(
    run: HasFolder | str | Path,
    panel: str,
    step: int | Sequence[int] | None = None,
    choose: str | Sequence[str] = (),
    chart: str | Sequence[str] = (),
    **style: Any,
) -> Figure:
    """Draw a panel of a recorded run as a matplotlib figure, as `dgn figure` writes it.

    Args:
        run: A run of `dgn.train` or `dgn.open_run`, a folder, a name, or a session file (.dgn).
        panel: A panel, such as 'spectrum', or several on one page: 'ntk,overlap'.
        step: A recorded step, or two steps side by side: (0, 900); None is the last.
        choose: Options from the panel's header: ['show=kernel'].
        chart: One or more charts of the panel, such as 'kernel'; all by default.
        style: `width`, `height` (inches), `font` (points), `across`, `letters`, `caption`.

    Returns:
        The figure. `savefig` writes it in full; the notebook shows it at screen resolution.

    Raises:
        UserError: The panel, step or setting does not exist, the panel has nothing to show, or the
            panels do not fit on a page.
    """
    known = [field.name for field in dataclasses.fields(FigureStyle)]
    for name in style:
        if name not in known:
            raise UserError(
                f"Unknown figure setting {name}. Available: {', '.join(known)}."
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
        page = draw_page(panels, page_style)
    vars(page)["_repr_png_"] = lambda: page_bytes(panels, "png", page_style, SCREEN)
    return page


def _whole_steps(step: Any) -> tuple[int, ...]:
    """Return the steps as integers; numpy integers are accepted."""
    if step is None:
        return ()
    given = step if isinstance(step, Sequence) and not isinstance(step, str) else (step,)
    try:
        return tuple(operator.index(number) for number in given)
    except TypeError:
        raise UserError(
            f"step={step!r} is not a step; pass a recorded step, 900, or two, (0, 900).",
            kind="wrong-type",
        ) from None
