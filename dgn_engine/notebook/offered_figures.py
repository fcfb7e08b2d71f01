"""Figures of panels in a notebook, drawn by the package that offers `dgn figure`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgn_engine.cli import OFFERED, Subcommand
from dgn_engine.errors import UserError

if TYPE_CHECKING:
    from dgn_engine.notebook.notebook_run import NotebookRun

COMMAND = "figure"  # the command of `dgn` that another package offers, and that draws


def figure(
    run: NotebookRun | str | Path,
    panel: str,
    step: int | Sequence[int] | None = None,
    **style: Any,
) -> Any:
    """A panel of a recorded run as a figure of matplotlib, as `dgn figure` writes it.

    `run`: a run of `dgn.train` or `dgn.open_run`, a folder, a name, or a session (.dgn). `panel`:
    'spectrum', say, or several on a page: 'ntk,overlap'. `step`: a recorded step, or two in one
    picture: (0, 900); None is the last. `style`: `width`, `height` (inches), `font` (points),
    `across`, `letters`, `caption`; `choose=["show=kernel"]` sets options of the panel's header,
    `chart="kernel"` draws one chart of several.

    Raises `UserError` where the panel has nothing to show, or the viewer is not installed.
    """
    offered = [entry.load() for entry in entry_points(group=OFFERED) if entry.name == COMMAND]
    draws = [one.draw for one in offered if isinstance(one, Subcommand) and one.draw is not None]
    if not draws:
        raise UserError("Figures are drawn by the viewer, which is not installed with this engine.")
    return draws[0](str(getattr(run, "path", run)), panel, step, **style)
