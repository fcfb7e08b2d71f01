"""What an animation is to show, as data that another process can be given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.views.frame_source import Source
from dgn_engine.views.past_view import PastViews

Told = Callable[[str, int, int], object]  # what is done, in words; pages done; of how many


@dataclass(frozen=True)
class FilmPanel:
    """A panel of each page. `choices`: of its header; `charts`: as they are set, by key."""

    choices: Mapping[str, str]
    charts: Mapping[str, ChartSettings]


@dataclass(frozen=True)
class FilmOrder:
    """Panels, by id, at the recorded steps from `reach[0]` to `reach[1]`, on `pages` pages at most.

    `kind`: '.gif' or '.mp4'; `per_second`: pages a second; `run`: what the run is called.
    """

    run: str
    views: PastViews
    source: Source
    panels: Mapping[str, FilmPanel]
    reach: tuple[int, int]
    pages: int
    kind: str
    style: FigureStyle
    per_second: float


@dataclass(frozen=True)
class Film:
    """The bytes of a file, and in words what it shows."""

    content: bytes
    words: str
