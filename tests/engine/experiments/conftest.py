"""How quickly made-up worlds are drawn; figures that are drawn once."""

from __future__ import annotations

from functools import cache

import pytest

from dgn_engine.experiments._grid import TrainedCell
from dgn_engine.experiments.report import report_figures
from dgn_engine.protocol.experiments import Figure, PlottedLine
from tests.engine.experiments import worlds


@pytest.fixture
def quick_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Student's t without checks, and no curves, at which nobody looks in so many draws."""
    monkeypatch.setattr("scipy.stats.t", worlds.QuickT)
    monkeypatch.setattr(TrainedCell, "accuracy_line", lambda *_: PlottedLine("", (), ()))


_drawn = cache(report_figures.figure_bytes)


@pytest.fixture
def figures_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SVG, for the page and the file; that there is a PDF too is tested with the figures."""

    def once(figure: Figure, kind: str) -> bytes:
        return _drawn(figure, "svg") if kind == "svg" else b"%PDF"

    monkeypatch.setattr(report_figures, "figure_bytes", once)
