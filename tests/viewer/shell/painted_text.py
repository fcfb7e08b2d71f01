"""Records the words that the window's own canvases paint, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QTransform
from PySide6.QtWidgets import QScrollBar, QTabBar, QWidget

from dgn_engine.scene.typeset import split_runs
from dgn_viewer.plots.chart_frame import FramePicture, paint_frame
from dgn_viewer.plots.rich_text import TextStyle
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.shell.clipped_text import shown_text

_CAPITALS = 0.72  # height of a capital or a figure as a share of the type size
_SLACK = 1.0  # pixels by which a measure may be off
_APART = 2.0  # pixels between two numbers of an axis, which would be read as one
_TICK = re.compile(r"[−+]?\d[\d.,]*[kMGT]?(×10[⁻⁰¹²³⁴-⁹]+)?")


@dataclass(frozen=True)
class PaintedText:
    """A text on a canvas: `box` in pixels of the canvas; `whole`: what it is the beginning of."""

    text: str
    box: QRectF
    fits: bool  # in the room that it was given
    whole: str = ""


@dataclass
class PaintedTexts:
    """What each canvas has painted since recording began."""

    by_canvas: dict[QWidget, list[PaintedText]] = field(default_factory=dict)

    def clear(self) -> None:
        self.by_canvas.clear()

    def add(self, painter: QPainter, text: str, box: QRectF, fits: bool, whole: str = "") -> None:
        canvas = painter.device()
        if isinstance(canvas, QWidget) and text.strip():
            scale = 1 / canvas.devicePixelRatioF()
            to_canvas = painter.combinedTransform() * QTransform.fromScale(scale, scale)
            mapped = to_canvas.mapRect(box)
            if painter.hasClipping():
                clip = to_canvas.mapRect(painter.clipBoundingRect())
                if not clip.intersects(mapped):
                    return  # scrolled away
            self.by_canvas.setdefault(canvas, []).append(PaintedText(text, mapped, fits, whole))


@contextmanager
def recorded_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[PaintedTexts]:
    """Record every text that Python code paints while the context is open."""
    found, cut = PaintedTexts(), dict[str, str]()
    draw, paint, shorten = QPainter.drawText, TextStyle.paint, TextStyle.shorten_label
    inside = [False]

    def draw_text(painter: QPainter, *given: Any) -> Any:
        answer = draw(painter, *given)
        if not inside[0] and len(given) >= 3 and isinstance(given[-1], str):
            room = QRectF(given[0])
            needed = QRectF(painter.boundingRect(room, int(given[1]), given[-1]))
            room.adjust(-_SLACK, -_SLACK, _SLACK, _SLACK)
            tight = QFontMetricsF(painter.font()).tightBoundingRect(given[-1]).height()
            fits = needed.width() <= room.width() and tight <= room.height()
            needed.setTop(needed.center().y() - tight / 2)
            needed.setHeight(tight)
            found.add(painter, given[-1], needed, fits)
        return answer

    def paint_label(
        style: TextStyle, painter: QPainter, place: QPointF, label: str, colour: QColor
    ) -> None:
        inside[0] = True
        paint(style, painter, place, label, colour)
        inside[0] = False
        high = _CAPITALS * style.pixels
        box = QRectF(place.x(), place.y() - high, style.width(label), high)
        found.add(painter, label, box, True, cut.get(label, ""))

    def shortened(style: TextStyle, label: str, width: float) -> str:
        short = shorten(style, label, width)
        if short != label:
            cut[short] = label
        return short

    def paint_whole_frame(
        frame: FramePicture, painter: QPainter, _area: object, *given: Any
    ) -> None:
        frame.cut = paint_frame(painter, *given)

    with monkeypatch.context() as patched:
        patched.setattr(QPainter, "drawText", draw_text)
        patched.setattr(TextStyle, "paint", paint_label)
        patched.setattr(TextStyle, "shorten_label", shortened)
        patched.setattr(FramePicture, "paint", paint_whole_frame)
        yield found


def painted_complaints(found: PaintedTexts) -> Iterator[str]:
    """One sentence for each painted text that is cut, raw or that lies on another."""
    for canvas, texts in found.by_canvas.items():
        if not canvas.isVisible():
            continue
        room = QRectF(canvas.rect()).adjusted(-_SLACK, -_SLACK, _SLACK, _SLACK)
        where = canvas_name(canvas)
        for one in texts:
            if not one.fits or not (room.contains(one.box) or _scrolls(canvas)):
                yield f"{where} cuts the painted {one.text!r} at {_corners(one.box)}"
            if one.whole and _letters(one.whole) not in canvas_tip(canvas, one.box.center()):
                yield f"{where} shortens {one.whole!r} to {one.text!r} without a tip"
        for one, other in combinations(texts, 2):
            if one.box.intersects(other.box):
                yield f"{where} paints {one.text!r} over {other.text!r} at {_corners(one.box)}"
            elif _touch(one, other):
                yield f"{where} paints {one.text!r} beside {other.text!r} at {_corners(one.box)}"


def _touch(one: PaintedText, other: PaintedText) -> bool:
    """Whether two numbers of one row stand so close that they are read as one."""
    wider = one.box.adjusted(-_APART, 0.0, _APART, 0.0)
    return all(_TICK.fullmatch(text.text) for text in (one, other)) and wider.intersects(other.box)


def canvas_tip(canvas: QWidget, place: QPointF) -> str:
    """What the canvas says about a place where the mouse rests."""
    if isinstance(canvas, QTabBar):
        return shown_text(canvas.tabToolTip(canvas.tabAt(place.toPoint())))
    above: QWidget | None = canvas
    while above is not None:
        if isinstance(above, SceneView):
            return shown_text(above.charts.tip_at(QPointF(canvas.mapTo(above, place))))
        if above.toolTip():
            return shown_text(above.toolTip())
        above = above.parentWidget()
    return ""


def _letters(label: str) -> str:
    """What a reader sees of a label."""
    return "".join(run.text for run in split_runs(label))


def _scrolls(canvas: QWidget) -> bool:
    """Whether a chart is larger than what shows it, and can be moved."""
    view = canvas.parentWidget()
    while view is not None and not isinstance(view, SceneView):
        view = view.parentWidget()
    return view is not None and any(one.isVisible() for one in view.findChildren(QScrollBar))


def canvas_name(widget: QWidget) -> str:
    """The classes of a canvas and of what holds it."""
    names, above = [], widget
    while above is not None and len(names) < 4:
        names.append(
            type(above).__name__ + (f" {above.objectName()}" if above.objectName() else "")
        )
        above = above.parentWidget()
    return " in ".join(names)


def _corners(box: QRectF) -> str:
    return f"{box.left():.0f}…{box.right():.0f} × {box.top():.0f}…{box.bottom():.0f}"
