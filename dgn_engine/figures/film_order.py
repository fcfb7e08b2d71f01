"""The content of an animation, as data that can be sent to another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.past_view import PastViews

Told = Callable[[str, int, int], object]  # what is being done, pages done, all pages


@dataclass(frozen=True)
class FilmPanel:
    """A panel of each page. `choices`: of its header; `charts`: chart settings by key."""

    choices: Mapping[str, str]
    charts: Mapping[str, ChartSettings]


@dataclass(frozen=True)
class FilmOrder:
    """Panels, by id, at recorded steps from `reach[0]` to `reach[1]`, at most `pages` pages.

    `kind`: '.gif' or '.mp4'; `per_second`: pages per second; `run`: name of the run.
    """

    run: str
    views: PastViews
    source: FrameSource
    panels: Mapping[str, FilmPanel]
    reach: tuple[int, int]
    pages: int
    kind: str
    style: FigureStyle
    per_second: float


@dataclass(frozen=True)
class Film:
    """The bytes of a file, and a description of what it shows."""

    content: bytes
    words: str
