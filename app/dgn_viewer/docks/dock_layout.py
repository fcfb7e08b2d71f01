"""The dock layout as plain JSON (a tree of rows and columns), for session files.

Qt's own `saveState` returns opaque bytes, which are not safe to restore from an untrusted file.
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
_WHOLE = 10_000  # resolution of shares when they are handed to Qt as integer sizes
_AREA = Qt.DockWidgetArea.LeftDockWidgetArea


@dataclass(frozen=True)
class _TabGroup:
    """Docks tabbed together, the front one first; `order` is the order of the tabs."""

    names: tuple[str, ...]
    rect: QRect
    order: tuple[str, ...] = ()


def describe_layout(window: QMainWindow, docks: Docks) -> dict[str, Any]:
    """Return the layout as {'tree': node or None, 'floating': {panel: [x, y, width, height]}}.

    A node is either {'tabs': [panel, …]}, the front tab first, plus 'order': [panel, …] if the tabs
    are ordered differently, or {'across': bool, 'shares': [float, …], 'parts': [node, …]}, where
    'across' means side by side and the shares sum to 1. Closed panels are absent.
    """
    floating = {
        name: [geometry.x(), geometry.y(), geometry.width(), geometry.height()]
        for name, dock in docks.items()
        if dock.isFloating() and not dock.isHidden() and (geometry := dock.geometry()).isValid()
    }
    groups = _find_tab_groups(window, docks)
    return {"tree": _build_node(groups) if groups else None, "floating": floating}


def apply_layout(window: QMainWindow, docks: Docks, layout: Any) -> bool:
    """Arrange the docks; return False and change nothing if the layout is invalid."""
    tree = _validate_node(layout.get("tree"), set(docks), 0) if isinstance(layout, dict) else None
    if tree is None:
        return False
    floating = layout.get("floating")
    for dock in docks.values():
        dock.setFloating(False)
        window.removeDockWidget(dock)
    first = docks[_head_panel(tree)]
    window.addDockWidget(_AREA, first)
    open_panels = _panel_names(tree)
    for name, dock in docks.items():
        # Closed docks get a position for later, by a split: Qt loses docks added next to tabs.
        if name not in open_panels:
            window.splitDockWidget(first, dock, Qt.Orientation.Vertical)
            dock.hide()
            if isinstance(floating, dict) and _is_rect(floating.get(name)):
                _restore_floating(dock, floating[name])
    _place_node(window, docks, tree)
    for name in open_panels:
        docks[name].show()
    if (window_layout := window.layout()) is not None:
        window_layout.activate()  # resizing has no effect before the docks are laid out
    resize_to_shares(window, docks, tree)
    for head in _front_panels(tree):
        docks[head].raise_()
    return True


def _find_tab_groups(window: QMainWindow, docks: Docks) -> list[_TabGroup]:
    remaining = [n for n, dock in docks.items() if not (dock.isHidden() or dock.isFloating())]
    groups: list[_TabGroup] = []
    while remaining:
        name = remaining[0]
        tabbed = {dock.objectName() for dock in window.tabifiedDockWidgets(docks[name])}
        tabs = [n for n in remaining if n == name or docks[n].objectName() in tabbed]
        remaining = [n for n in remaining if n not in tabs]
        # Only the front tab is laid out; the others keep an outdated geometry.
        front = next((n for n in tabs if not docks[n].visibleRegion().isEmpty()), name)
        rect = docks[front].geometry()
        names = (front, *(n for n in tabs if n != front))
        bar = _tabs_at(window, rect) if len(tabs) > 1 else None
        if bar is None:
            groups.append(_TabGroup(names, rect))
            continue
        titles = {docks[n].windowTitle(): n for n in names}
        tab_names = [titles.get(bar.tabText(index), "") for index in range(bar.count())]
        order = tuple(tab_names) if sorted(tab_names) == sorted(names) else ()
        groups.append(_TabGroup(names, rect.united(bar.geometry()), order))
    return groups


def _tabs_at(window: QMainWindow, rect: QRect) -> QTabBar | None:
    """Return the tab bar that touches the edge of this rectangle."""
    near = rect.adjusted(0, -2, 0, 2)
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    for bar in window.findChildren(QTabBar, options=direct):
        if bar.isVisible() and bar.geometry().intersects(near):
            return bar
    return None


def _build_node(groups: list[_TabGroup]) -> dict[str, Any]:
    if len(groups) == 1:
        names, order = list(groups[0].names), list(groups[0].order)
        return {"tabs": names} | ({"order": order} if order and order != names else {})
    for across in (True, False):
        parts = _split_groups(groups, across)
        if len(parts) > 1:
            sizes = [_total_extent(part, across) for part in parts]
            return {
                "across": across,
                "shares": [round(size / max(1, sum(sizes)), 4) for size in sizes],
                "parts": [_build_node(part) for part in parts],
            }
    # Not separable by straight lines, which QMainWindow should never produce.
    everything = tuple(name for group in groups for name in group.names)
    return {"tabs": list(everything)}


def _split_groups(places: list[_TabGroup], across: bool) -> list[list[_TabGroup]]:
    """Split the groups along every straight line that crosses none of them."""
    parts: list[list[_TabGroup]] = []
    covered_to = None
    for group in sorted(places, key=lambda item: _rect_span(item.rect, across)):
        begin, end = _rect_span(group.rect, across)
        if covered_to is None or begin >= covered_to:
            parts.append([])
        parts[-1].append(group)
        covered_to = end if covered_to is None else max(covered_to, end)
    return parts


def _rect_span(rect: QRect, across: bool) -> tuple[int, int]:
    if across:
        return rect.x(), rect.x() + rect.width()
    return rect.y(), rect.y() + rect.height()


def _total_extent(groups: list[_TabGroup], across: bool) -> int:
    spans = [_rect_span(group.rect, across) for group in groups]
    return max(end for _, end in spans) - min(begin for begin, _ in spans)


def _validate_node(node: Any, free: set[str], depth: int) -> dict[str, Any] | None:
    """Return the valid part of a node: known panels, each at most once."""
    if not isinstance(node, dict) or depth > _DEEPEST:
        return None
    if isinstance(tabs := node.get("tabs"), list):
        names = [name for name in tabs if isinstance(name, str) and name in free]
        names = list(dict.fromkeys(names))
        free.difference_update(names)
        order = node.get("order")
        order = [tab for tab in order if isinstance(tab, str)] if isinstance(order, list) else []
        if names and sorted(order) == sorted(names):
            return {"tabs": names, "order": order}
        return {"tabs": names} if names else None
    parts, shares = node.get("parts"), node.get("shares")
    if not isinstance(parts, list) or not isinstance(shares, list) or len(parts) != len(shares):
        return None
    valid_parts = [
        (part, float(share))
        for inner, share in zip(parts, shares, strict=True)
        if isinstance(share, (int, float)) and 0 < share <= 1
        if (part := _validate_node(inner, free, depth + 1)) is not None
    ]
    if not valid_parts:
        return None
    return {
        "across": bool(node.get("across")),
        "shares": [share for _, share in valid_parts],
        "parts": [part for part, _ in valid_parts],
    }


def _panel_names(node: dict[str, Any]) -> list[str]:
    tabs: list[str] = node.get("tabs", [])
    return tabs + [name for part in node.get("parts", ()) for name in _panel_names(part)]


def _front_panels(node: dict[str, Any]) -> list[str]:
    fronts: list[str] = node.get("tabs", [])[:1]
    return fronts + [name for part in node.get("parts", ()) for name in _front_panels(part)]


def _head_panel(node: dict[str, Any]) -> str:
    """Return the panel that represents a node: the first tab of its first part."""
    while parts := node.get("parts"):
        node = parts[0]
    return str(_tab_order(node)[0])


def _tab_order(node: dict[str, Any]) -> list[str]:
    """Return the panels of a tab group in the order of their tabs."""
    order: list[str] = node.get("order", node.get("tabs", []))
    return order


def _place_node(window: QMainWindow, docks: Docks, node: dict[str, Any]) -> None:
    """Place a whole node at the position of its head panel."""
    head = docks[_head_panel(node)]
    for name in _tab_order(node)[1:]:
        window.tabifyDockWidget(head, docks[name])
    parts = node.get("parts", ())
    for before, part in itertools.pairwise(parts):
        window.splitDockWidget(
            docks[_head_panel(before)], docks[_head_panel(part)], _split_direction(node)
        )
    for part in parts:
        _place_node(window, docks, part)


def resize_to_shares(window: QMainWindow, docks: Docks, node: dict[str, Any]) -> None:
    """Resize the open docks of a node according to their shares.

    Qt distributes the available space in the ratio of the requested sizes.
    """
    shares = node.get("shares", ())
    open_parts = [
        (part, share, open_panels[0])
        for part, share in zip(node.get("parts", ()), shares, strict=True)
        if (open_panels := [name for name in _panel_names(part) if not docks[name].isHidden()])
    ]
    heads = [docks[head] for _, _, head in open_parts]
    sizes = [math.ceil(_WHOLE * share) for _, share, _ in open_parts]
    if len(heads) > 1:
        window.resizeDocks(heads, sizes, _split_direction(node))
    for part, _, _ in open_parts:
        resize_to_shares(window, docks, part)


def _split_direction(node: dict[str, Any]) -> Qt.Orientation:
    return Qt.Orientation.Horizontal if node["across"] else Qt.Orientation.Vertical


def _is_rect(rect: Any) -> bool:
    return (
        isinstance(rect, list)
        and len(rect) == 4
        and all(type(number) is int and abs(number) < 1 << 15 for number in rect)
    )


def _restore_floating(dock: QDockWidget, numbers: list[int]) -> None:
    """Float a dock at its saved geometry, moved onto the window's screen if needed."""
    if isinstance(dock, PanelFrame):
        dock.float_at(QRect(*numbers))
        dock.show()
