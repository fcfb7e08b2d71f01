"""The layout of the docks as plain JSON: a tree of rows and columns, for session files.

Qt's own `saveState` is opaque bytes; it is not safe to restore them from an untrusted file.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabBar

from dgn_viewer.docks.panel_frame import PanelFrame

Docks = Mapping[str, QDockWidget]
_DEEPEST = 20
_WHOLE = 10_000  # of which shares are parts
_AREA = Qt.DockWidgetArea.LeftDockWidgetArea


@dataclass(frozen=True)
class _TabGroup:
    """Docks that share one place as tabs, the one in front first; `order`: as the tabs stand."""

    names: tuple[str, ...]
    rect: QRect
    order: tuple[str, ...] = ()


def described(window: QMainWindow, docks: Docks) -> dict[str, Any]:
    """{'tree': node or None, 'floating': {panel: [x, y, width, height]}}; what is closed is absent.

    A node is {'tabs': [panel, …]}, the one in front first, with 'order': [panel, …] where the tabs
    stand in another one, or {'across': whether its parts lie side by side, 'shares': [of the room,
    …], 'parts': [node, …]}.
    """
    floating = {
        name: [at.x(), at.y(), at.width(), at.height()]
        for name, dock in docks.items()
        if dock.isFloating() and not dock.isHidden() and (at := dock.geometry()).isValid()
    }
    places = _places(window, docks)
    return {"tree": _node(places) if places else None, "floating": floating}


def arranged(window: QMainWindow, docks: Docks, layout: Any) -> bool:
    """Arrange the docks so; False, and nothing is changed, where the layout makes no sense."""
    tree = _checked(layout.get("tree"), set(docks), 0) if isinstance(layout, dict) else None
    if tree is None:
        return False
    floating = layout.get("floating")
    for dock in docks.values():
        dock.setFloating(False)
        window.removeDockWidget(dock)
    first = docks[_head(tree)]
    window.addDockWidget(_AREA, first)
    shown = _names(tree)
    for name, dock in docks.items():
        if name not in shown:  # it has a place for when it is opened; beside tabs Qt loses them
            window.splitDockWidget(first, dock, Qt.Orientation.Vertical)
            dock.hide()
            if isinstance(floating, dict) and _is_rect(floating.get(name)):
                _float(dock, floating[name])
    _place(window, docks, tree)
    for name in shown:
        docks[name].show()
    if (room := window.layout()) is not None:
        room.activate()  # so that the docks have places that can be changed
    share_out(window, docks, tree)
    for head in _fronts(tree):
        docks[head].raise_()
    return True


def _places(window: QMainWindow, docks: Docks) -> list[_TabGroup]:
    left = [n for n, dock in docks.items() if not (dock.isHidden() or dock.isFloating())]
    found: list[_TabGroup] = []
    while left:
        name = left[0]
        tabbed = {dock.objectName() for dock in window.tabifiedDockWidgets(docks[name])}
        tabs = [n for n in left if n == name or docks[n].objectName() in tabbed]
        left = [n for n in left if n not in tabs]
        # Only the tab in front is laid out; the others keep some earlier place.
        front = next((n for n in tabs if not docks[n].visibleRegion().isEmpty()), name)
        rect = docks[front].geometry()
        names = (front, *(n for n in tabs if n != front))
        bar = _tabs_at(window, rect) if len(tabs) > 1 else None
        if bar is None:
            found.append(_TabGroup(names, rect))
            continue
        titles = {docks[n].windowTitle(): n for n in names}
        shown = [titles.get(bar.tabText(place), "") for place in range(bar.count())]
        order = tuple(shown) if sorted(shown) == sorted(names) else ()
        found.append(_TabGroup(names, rect.united(bar.geometry()), order))
    return found


def _tabs_at(window: QMainWindow, rect: QRect) -> QTabBar | None:
    """The tabs at the edge of this place, which belong to it."""
    near = rect.adjusted(0, -2, 0, 2)
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    for bar in window.findChildren(QTabBar, options=direct):
        if bar.isVisible() and bar.geometry().intersects(near):
            return bar
    return None


def _node(places: list[_TabGroup]) -> dict[str, Any]:
    if len(places) == 1:
        names, order = list(places[0].names), list(places[0].order)
        return {"tabs": names} | ({"order": order} if order and order != names else {})
    for across in (True, False):
        parts = _cut(places, across)
        if len(parts) > 1:
            sizes = [_extent(part, across) for part in parts]
            return {
                "across": across,
                "shares": [round(size / max(1, sum(sizes)), 4) for size in sizes],
                "parts": [_node(part) for part in parts],
            }
    everything = tuple(name for place in places for name in place.names)  # no cut: never seen
    return {"tabs": list(everything)}


def _cut(places: list[_TabGroup], across: bool) -> list[list[_TabGroup]]:
    """Along every line that goes through no place."""
    parts: list[list[_TabGroup]] = []
    reached = None
    for place in sorted(places, key=lambda one: _span(one.rect, across)):
        begin, end = _span(place.rect, across)
        if reached is None or begin >= reached:
            parts.append([])
        parts[-1].append(place)
        reached = end if reached is None else max(reached, end)
    return parts


def _span(rect: QRect, across: bool) -> tuple[int, int]:
    if across:
        return rect.x(), rect.x() + rect.width()
    return rect.y(), rect.y() + rect.height()


def _extent(places: list[_TabGroup], across: bool) -> int:
    spans = [_span(place.rect, across) for place in places]
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


def _checked(node: Any, free: set[str], depth: int) -> dict[str, Any] | None:
    """The node as far as it makes sense: panels that are known, each once."""
    if not isinstance(node, dict) or depth > _DEEPEST:
        return None
    if isinstance(tabs := node.get("tabs"), list):
        names = [name for name in tabs if isinstance(name, str) and name in free]
        names = list(dict.fromkeys(names))
        free.difference_update(names)
        order = node.get("order")
        order = [one for one in order if isinstance(one, str)] if isinstance(order, list) else []
        if names and sorted(order) == sorted(names):
            return {"tabs": names, "order": order}
        return {"tabs": names} if names else None
    parts, shares = node.get("parts"), node.get("shares")
    if not isinstance(parts, list) or not isinstance(shares, list) or len(parts) != len(shares):
        return None
    kept = [
        (part, float(share))
        for inner, share in zip(parts, shares, strict=True)
        if isinstance(share, (int, float)) and 0 < share <= 1
        if (part := _checked(inner, free, depth + 1)) is not None
    ]
    if not kept:
        return None
    return {
        "across": bool(node.get("across")),
        "shares": [share for _, share in kept],
        "parts": [part for part, _ in kept],
    }


def _names(node: dict[str, Any]) -> list[str]:
    tabs: list[str] = node.get("tabs", [])
    return tabs + [name for part in node.get("parts", ()) for name in _names(part)]


def _fronts(node: dict[str, Any]) -> list[str]:
    fronts: list[str] = node.get("tabs", [])[:1]
    return fronts + [name for part in node.get("parts", ()) for name in _fronts(part)]


def _head(node: dict[str, Any]) -> str:
    """The panel that stands for a node: the first of its first tabs."""
    while parts := node.get("parts"):
        node = parts[0]
    return str(_ordered(node)[0])


def _ordered(node: dict[str, Any]) -> list[str]:
    """The panels of a group of tabs as they stand."""
    order: list[str] = node.get("order", node.get("tabs", []))
    return order


def _place(window: QMainWindow, docks: Docks, node: dict[str, Any]) -> None:
    """Its head has a place; give that to the whole node."""
    head = docks[_head(node)]
    for name in _ordered(node)[1:]:
        window.tabifyDockWidget(head, docks[name])
    parts = node.get("parts", ())
    for before, part in itertools.pairwise(parts):
        window.splitDockWidget(docks[_head(before)], docks[_head(part)], _direction(node))
    for part in parts:
        _place(window, docks, part)


def share_out(window: QMainWindow, docks: Docks, node: dict[str, Any]) -> None:
    """Sizes by the shares of a node, those of what is closed left out.

    Qt shares what room there is out by the ratio of the sizes.
    """
    shares = node.get("shares", ())
    seen = [
        (part, share, open_[0])
        for part, share in zip(node.get("parts", ()), shares, strict=True)
        if (open_ := [name for name in _names(part) if not docks[name].isHidden()])
    ]
    heads = [docks[head] for _, _, head in seen]
    sizes = [math.ceil(_WHOLE * share) for _, share, _ in seen]
    if len(heads) > 1:
        window.resizeDocks(heads, sizes, _direction(node))
    for part, _, _ in seen:
        share_out(window, docks, part)


def _direction(node: dict[str, Any]) -> Qt.Orientation:
    return Qt.Orientation.Horizontal if node["across"] else Qt.Orientation.Vertical


def _is_rect(rect: Any) -> bool:
    return (
        isinstance(rect, list)
        and len(rect) == 4
        and all(type(one) is int and abs(one) < 1 << 15 for one in rect)
    )


def _float(dock: QDockWidget, numbers: list[int]) -> None:
    """On the screen of the window, wherever it was on another one."""
    if isinstance(dock, PanelFrame):
        dock.float_at(QRect(*numbers))
        dock.show()
