"""Declarations of actions and menus: plain data, in menu order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.run_state import RunState

SEPARATOR = None


@dataclass(frozen=True, kw_only=True)
class ActionRow:
    """Declaration of one action, as shown in menus, the palette and the shortcut sheet.

    Attributes:
        callback: Runs the action.
        keys: Shortcuts; the first one is displayed.
        tip: Tooltip; empty if the title is enough.
        enabled: Whether the action is enabled in a given state.
        checked: Whether the action is checked in a given state; None if it is not checkable.
        why_not: Why the action is disabled in a given state; '' if it is enabled.
        text_now: Title in a given state, replacing `title`.
        icon_now: Icon in a given state, replacing `icon`.
        fixed: False for entries that come and go, such as recent files.
        group: Within a family ('regime.*'), groups are divided by separators.
    """

    id: str
    title: str
    callback: Callable[[], object]
    keys: tuple[str, ...] = ()
    icon: str = ""
    tip: str = ""
    enabled: Callable[[RunState], bool] = lambda _: True
    visible: Callable[[RunState], bool] = lambda _: True
    checked: Callable[[RunState], bool] | None = None
    why_not: Callable[[RunState], str] | None = None
    text_now: Callable[[RunState], str] | None = None
    icon_now: Callable[[RunState], str] | None = None
    fixed: bool = True
    group: str = ""


@dataclass(frozen=True)
class Family:
    """Placeholder for all rows whose id matches a pattern; the engine's catalogue provides them.

    `listed`: shown in the menu; otherwise only the palette lists them.
    """

    pattern: str
    listed: bool = True


@dataclass(frozen=True)
class Menu:
    """A menu of the menu bar, or a submenu.

    `opening`: called just before the menu opens.
    """

    title: str
    entries: tuple[ActionRow | Menu | Family | None, ...]  # None: a separator
    opening: Callable[[], object] = lambda: None


def walk_menus(menus: Iterable[Menu]) -> Iterator[tuple[str, ActionRow | Family]]:
    """Yield each row and family with the title of its innermost menu."""
    for menu in menus:
        for entry in menu.entries:
            if isinstance(entry, Menu):
                yield from walk_menus((entry,))
            elif entry is not None:
                yield menu.title, entry


def is_ready(now: RunState) -> bool:
    return now.is_ready


def has_run(now: RunState) -> bool:
    return now.has_run


def shows_run(now: RunState) -> bool:
    return now.run is not None


def shows_run_and_ready(now: RunState) -> bool:
    return now.run is not None and now.is_ready
