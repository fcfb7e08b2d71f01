"""What actions and menus are declared as: rows of data, in the order of their menu."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dgn_engine.protocol.run_state import RunState

SEPARATOR = None


@dataclass(frozen=True, kw_only=True)
class ActionRow:
    """One action: a line of a menu, of the palette and of the sheet of shortcuts.

    Attributes:
        callback: What the action does.
        keys: Its shortcuts; the first is the one that is shown.
        tip: What it does, in words; empty where the title says it.
        enabled: Whether it can be done in this state.
        checked: Whether it is ticked in this state; None: it has no tick.
        why_not: Why it cannot be done in this state; '' where it can.
        text_now: What it is called in this state, in place of its title.
        icon_now: Its icon in this state, in place of its usual one.
        fixed: False where its text comes and goes, as that of a recent file.
        group: Within a family ('regime.*') a separator lies between groups.
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
    """The rows whose ids match a pattern, which the engine's catalogue brings.

    `submenus`: each group of them has a submenu of its own.
    """

    pattern: str
    submenus: bool = False


@dataclass(frozen=True)
class Menu:
    """A menu of the menu bar, or a menu within a menu.

    `opening`: what is done first when it is about to show.
    """

    title: str
    entries: tuple[ActionRow | Menu | Family | None, ...]  # None: a separator
    opening: Callable[[], object] = lambda: None


def walk_menus(menus: Iterable[Menu]) -> Iterator[tuple[str, ActionRow | Family]]:
    """Yield each row and each family, with the title of the innermost menu that holds it."""
    for menu in menus:
        for entry in menu.entries:
            if isinstance(entry, Menu):
                yield from walk_menus((entry,))
            elif entry is not None:
                yield menu.title, entry


def is_ready(now: RunState) -> bool:
    return now.ready


def has_run(now: RunState) -> bool:
    return now.has_run


def shows_run(now: RunState) -> bool:
    return now.run is not None


def shows_run_and_ready(now: RunState) -> bool:
    return now.run is not None and now.ready
