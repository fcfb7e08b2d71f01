"""One dock per discovered panel: the layout, which panels are visible, which is in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QToolBar, QWidget
from shiboken6 import isValid

from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.scene.theme import Theme
from dgn_engine.views.layout_presets import OVERVIEW, PRESETS, Node, outline, preset_tree, tree_like
from dgn_engine.views.reading_age import ReadingAges
from dgn_viewer.docks.dock_layout import arranged, described, share_out
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_frame import DockTitle, PanelFrame
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.widgets.announcement import announce

_AROUND = 200  # pixels of the window's height that are no docks, before it is laid out


class MaximisedPanel:
    """Hides the other panels; what else the window shows stays as it is."""

    def __init__(self, window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
        self._window = window
        self._docks = docks
        self._state = QByteArray()
        self.name = ""  # the panel; '' while none is maximised
        self.open: frozenset[str] = frozenset()  # panels that the layout before has
        self.layout: dict[str, Any] = {}  # as `described` gave it

    def enter(self, name: str) -> None:
        """Fill the window with this panel alone, docked."""
        self.leave()
        self.open = frozenset(n for n, dock in self._docks.items() if not dock.isHidden())
        self.layout = described(self._window, self._docks)
        self._state = self._window.saveState()
        self.name = name
        for other, dock in self._docks.items():
            if other != name:
                dock.hide()
        self._docks[name].setFloating(False)
        self._docks[name].show()

    def leave(self) -> None:
        """The layout before, to the pixel; what was opened beside the panels meanwhile stays."""
        if not self.name:
            return
        self.name = ""
        panels = set(self._docks.values())
        others = [
            part
            for kind in (QDockWidget, QToolBar)
            for part in self._window.findChildren(kind)
            if part not in panels
        ]
        hidden = [(part, part.isHidden()) for part in others]
        self._window.restoreState(self._state)
        for part, was in hidden:
            part.setHidden(was)


class PanelSizes:
    """Where a panel goes that is opened, and the sizes that panels had together."""

    def __init__(
        self,
        window: QMainWindow,
        docks: Mapping[str, QDockWidget],
        specs: Mapping[str, PanelSpec],
        large: MaximisedPanel,
    ) -> None:
        self._window, self._docks, self._specs, self._large = window, docks, specs, large
        self._known: dict[frozenset[str], Node] = {}  # that these panels had together

    def open(self) -> frozenset[str]:
        """Return the panels that have a place in the window."""
        docks = self._docks.items()
        return frozenset(n for n, dock in docks if not (dock.isHidden() or dock.isFloating()))

    def keep(self) -> None:
        """Remember what these panels have together, for when one of them is opened again."""
        if self._large.name:
            return
        if (tree := described(self._window, self._docks)["tree"]) is not None:
            self._known[self.open()] = tree

    def give(self, usual: Node | None) -> None:
        """A panel was opened: the sizes that the same ones had, else the usual ones."""
        self.activate()
        names = self.open()
        tree, now = self._known.get(names, usual), described(self._window, self._docks)["tree"]
        if tree is not None and outline(tree, names) == outline(now, names):
            share_out(self._window, self._docks, tree)

    def put(self, layout: dict[str, Any]) -> None:
        """Give the panels the shares of this layout, which they have taken the places of."""
        self.activate()
        share_out(self._window, self._docks, layout["tree"])

    def activate(self) -> None:
        """Let the window lay out what has changed in it."""
        if (room := self._window.layout()) is not None:
            room.activate()

    def give_place(self, name: str) -> None:
        """One that is not open at first becomes a tab behind the last panel of its column."""
        spec, dock = self._specs[name], self._docks[name]
        if spec.opened or spec.compares or dock.isFloating():
            return
        others = [n for n in self.open() if self._specs[n].area == spec.area] or [*self.open()]
        if others:
            last = max(others, key=lambda n: self._docks[n].geometry().bottom())
            self._window.tabifyDockWidget(self._docks[last], dock)


class PanelArrangement(QObject):
    """The layout of the docks: a preset, what the user has made of it, or one panel alone.

    `arranged`: panels were given their sizes, and what lies beside them may have been squeezed.
    `restored(name)`: this panel no longer fills the window.

    Args:
        visible: Returns the panels that are seen.
        front: Returns the panel that commands mean.
        settled: Several panels come and go inside of it, which is told once.
    """

    arranged = Signal()
    restored = Signal(str)

    def __init__(
        self,
        window: QMainWindow,
        docks: Mapping[str, PanelFrame],
        specs: Mapping[str, PanelSpec],
        visible: Callable[[], tuple[str, ...]],
        front: Callable[[], str],
        settled: Callable[[], AbstractContextManager[None]],
    ) -> None:
        super().__init__(window)
        self._window, self._docks, self._specs = window, docks, specs
        self._visible, self._front, self._settled = visible, front, settled
        self._comparing = self._told_comparing = False
        self._before: tuple[QByteArray, str, Node | None] | None = None  # the comparison
        self._preset = ""  # the layout that is shown, until the user changes it
        self._tree: Node | None = None  # as the preset was last arranged
        self._adopting = False  # a restored layout is a preset's, laid out for some height
        self._large = MaximisedPanel(window, docks)
        self.sizes = PanelSizes(window, docks, specs, self._large)
        self._refitting = QTimer(self, singleShot=True, interval=0)
        self._refitting.timeout.connect(self._refit)

    @property
    def maximised(self) -> str:
        """The panel that fills the window; '' where none does."""
        return self._large.name

    def maximise(self, name: str) -> None:
        with self._settled():
            self._large.enter(name)

    def restore(self) -> None:
        """The layout that there was before a panel was maximised."""
        name = self._large.name
        if name:
            with self._settled():
                self._large.leave()
            self.restored.emit(name)
            self.arranged.emit()

    def is_open(self, name: str) -> bool:
        """Whether the panel has a place in the layout, perhaps behind another tab."""
        return name in self._large.open if self._large.name else not self._docks[name].isHidden()

    def open(self, name: str) -> None:
        """Bring a panel to the front, in a place of its own where it is closed."""
        if self._large.name != name:
            self.restore()
        closed = self._docks[name].isHidden()
        if closed:
            self.sizes.give_place(name)
        self._docks[name].come_to_front()
        if closed:
            self.sizes.give(self._tree)

    @property
    def preset(self) -> str:
        """The layout that is shown by name; '' after the user has changed it."""
        return self._preset if self._is_preset() else ""

    def stands_as(self, preset: str) -> bool:
        return self._preset == preset and self._is_preset()

    def comparing_changed(self) -> bool:
        """Whether a comparison has opened or closed its panels since this was asked last."""
        before, self._told_comparing = self._told_comparing, self._comparing
        return before != self._comparing

    def arrange(self, preset: str = OVERVIEW) -> None:
        """Arrange the panels as the preset says, at the size that the window has."""
        self.restore()
        tree = preset_tree(PRESETS[preset], self._specs, self._wanted(preset), self._height())
        if tree is None:
            return
        front = self._front()
        with self._settled():
            arranged(self._window, self._docks, {"tree": tree})
            for name, spec in self._specs.items():
                if spec.compares and not self._comparing:
                    self._docks[name].hide()
        self._preset, self._tree, self._before = preset, tree, None
        share_out(self._window, self._docks, tree)
        if front and not self._docks[front].isHidden():
            self._docks[front].raise_()
        self.arranged.emit()

    def adopt(self, preset: str) -> bool:
        """Take the layout that was restored for this preset; whether it is."""
        if preset not in PRESETS:
            return False
        self._preset, self._adopting = preset, True
        self._tree = preset_tree(PRESETS[preset], self._specs, self._wanted(preset), self._height())
        self._refitting.start()
        return True

    def compare(self, on: bool) -> None:
        """Open the panels that belong to a comparison; closed, the layout is as it was before."""
        if on == self._comparing:
            return
        self.restore()
        self._comparing = on
        if on:
            self._before = self._window.saveState(), self._preset, self._tree
            for name, dock in self._docks.items():
                dock.setVisible(self._specs[name].compares or not dock.isHidden())
            self.share_out()
            if self._preset:  # again, once the rows that name A and B have taken their height
                self._refitting.start()
        elif self._before is not None:
            state, self._preset, self._tree = self._before
            self._window.restoreState(state)
            self.arranged.emit()
        else:  # another layout was chosen meanwhile
            for name, dock in self._docks.items():
                dock.setVisible(not self._specs[name].compares and not dock.isHidden())

    def share_out(self) -> None:
        """Give columns and panels their shares, as tabs where the window is low."""
        self.sizes.activate()
        self._refit()
        if self._tree is not None:
            share_out(self._window, self._docks, self._tree)
        self.arranged.emit()

    def layout(self) -> dict[str, Any]:
        """As `dock_layout.described` has it; that of before while a panel is maximised."""
        return self._large.layout if self._large.name else described(self._window, self._docks)

    def put_layout(self, layout: Any, preset: str = "") -> bool:
        """Arrange the panels so; False where that makes no sense, and nothing is changed.

        `preset`: that it was called when it was there before.
        """
        self.restore()
        done = arranged(self._window, self._docks, layout)
        if done:
            self._preset, self._tree = "", None
            self.adopt(preset)
            self.arranged.emit()
        return done

    def resize(self, _event: object = None) -> None:
        if self._preset:
            self._refitting.start()

    # Inside

    def _wanted(self, preset: str) -> tuple[str, ...]:
        """Panels that the preset is to show now."""
        specs = self._specs.items()
        known = {name for name, spec in specs if not spec.compares or self._comparing}
        if preset == OVERVIEW:
            return tuple(n for n, spec in specs if n in known and spec.opened)
        columns = PRESETS[preset].columns
        named = {name for _, groups in columns for group in groups for name in group}
        return tuple(n for n in self._specs if n in known and (n in named or self.is_open(n)))

    def _height(self) -> float:
        """Of the room for docks."""
        rects = [
            dock.geometry()
            for dock in self._docks.values()
            if dock.isVisible() and not dock.isFloating() and not dock.visibleRegion().isEmpty()
        ]
        if not rects:
            return float(self._window.height() - _AROUND)
        return float(max(r.bottom() for r in rects) + 1 - min(r.top() for r in rects))

    def _is_preset(self) -> bool:
        if not self._preset or self._tree is None:
            return False
        now, specs = self.layout(), self._specs.items()
        wanted = {name for name, spec in specs if not spec.compares or self._comparing}
        same = outline(now["tree"], self._specs) == outline(self._tree, wanted)
        return same and not now["floating"]

    def _refit(self) -> None:
        """The same preset for the size that the window has now."""
        if self._large.name or not self._preset:
            return
        wanted = self._wanted(self._preset)
        if self._adopting and self._visible():  # only now it is known how the panels lie
            self._adopting, preset = False, PRESETS[self._preset]
            self._tree = tree_like(self.layout()["tree"], preset, self._specs, wanted) or self._tree
        tree = preset_tree(PRESETS[self._preset], self._specs, wanted, self._height())
        if outline(tree, wanted) == outline(self._tree, wanted) or not self._is_preset():
            return
        before = self._before
        self.arrange(self._preset)
        self._before = before


class PanelDocks(QObject):
    """Docks by panel id.

    `changed`: a panel was opened, closed, or went behind another tab. `arrangement`: how they
    stand in the window.
    """

    changed = Signal()

    def __init__(self, window: QMainWindow, specs: Mapping[str, PanelSpec], theme: Theme) -> None:
        super().__init__(window)
        self.window = window
        self._specs = dict(specs)
        self._seen: set[str] = set()
        self._front = ""
        self._settling = False
        self.hosts: dict[str, PanelDock] = {}
        self.linked = LinkedSelection(self)
        self.steps = LinkedSteps(self)
        self.ages = ReadingAges()
        self._docks: dict[str, PanelFrame] = {}
        self._titles: dict[str, DockTitle] = {}
        self.arrangement = PanelArrangement(
            window, self._docks, self._specs, self.visible, self.front, self._settled
        )
        self.arrangement.restored.connect(lambda name: self._titles[name].show_maximised(False))
        for name, spec in specs.items():
            self._add(name, spec, theme)
        callbacks = {
            QEvent.Type.Resize: self.arrangement.resize,
            QEvent.Type.WindowActivate: self._raise_floating,
        }
        EventFilter(self, callbacks, window)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus)

    def _add(self, name: str, spec: PanelSpec, theme: Theme) -> None:
        dock = PanelFrame(spec.title, self.window)
        dock.setObjectName(f"panel.{name}")
        linked, steps, ages = self.linked, self.steps, self.ages
        host = PanelDock(name, spec, theme, linked=linked, steps=steps, ages=ages)
        dock.setWidget(host)
        title = DockTitle(dock)
        dock.setTitleBarWidget(title)
        title.pressed.connect(lambda: self.choose(name))
        host.age.changed.connect(title.show_age)
        host.age.became_stale.connect(lambda words: self._say_stale(name, words))
        title.maximised.connect(lambda: self.toggle_maximised(name))
        self._titles[name] = title
        dock.closing.connect(self.arrangement.sizes.keep)
        dock.visibilityChanged.connect(lambda seen, name=name: self._on_visibility(name, seen))
        self.hosts[name] = host
        self._docks[name] = dock

    def docks(self) -> tuple[PanelFrame, ...]:
        """The docks themselves, for who watches where they go."""
        return tuple(self._docks.values())

    # Which panels are seen

    def visible(self) -> tuple[str, ...]:
        """Panels that are visible: open and not behind another tab."""
        return tuple(name for name in self.hosts if name in self._seen)

    def toggle(self, name: str) -> None:
        """Close a panel that is seen, else bring it to the front."""
        dock = self._docks[name]
        covered = dock.isFloating() and not dock.isActiveWindow()
        if name in self._seen and not covered and not self.arrangement.maximised:
            dock.close()
        else:
            self.show(name)

    def show(self, name: str) -> None:
        self.arrangement.open(name)
        self.choose(name)

    def front(self) -> str:
        """The panel that a command means: the one last clicked or focused, else the first seen."""
        seen = self.visible()
        return self._front if self._front in seen else next(iter(seen), "")

    def choose(self, name: str) -> None:
        """Commands mean this panel from now on, and its title is marked."""
        self._front = name
        self._mark_front()

    def make_scene_views(self) -> None:
        """Import what draws charts, which takes long, and make room for them in every panel."""
        for host in self.hosts.values():
            _ = host.charts.view

    def go_to_step(self, step: int) -> bool:
        """Show this step on the time axes of the panels in sight; False where there are none."""
        scenes = [self.hosts[name].charts.view for name in self.visible()]
        found = [scene.steps.go_to(step, step, back=False) for scene in scenes]
        return any(found)

    def toggle_maximised(self, name: str = "") -> None:
        """Fill the window with this panel (the one in front), or go back to the layout before."""
        name = name or self.front()
        if self.arrangement.maximised or not name:
            self.arrangement.restore()
            return
        self.arrangement.maximise(name)
        self.choose(name)
        self._titles[name].show_maximised(True)

    def set_theme(self, theme: Theme) -> None:
        for host in self.hosts.values():
            host.set_theme(theme)
        for title in self._titles.values():
            title.set_theme(theme)
        for dock in self._docks.values():
            dock.set_theme(theme)

    # Inside

    def _raise_floating(self, _event: object = None) -> None:
        """Floating panels are not lost behind the window when it comes to the front."""
        for dock in self._docks.values():
            if dock.isFloating() and dock.isVisible():
                dock.raise_()

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Many panels come and go at once: that is told once, when it is over."""
        before = set(self._seen)
        self._settling = True
        try:
            yield
        finally:
            self._settling = False
            if self._seen != before:
                self._mark_front()
                self.changed.emit()

    def _on_visibility(self, name: str, seen: bool) -> None:
        if seen == (name in self._seen) or not self._lives():
            return
        (self._seen.add if seen else self._seen.discard)(name)
        if self._settling:
            return
        if name == self.arrangement.maximised and self._docks[name].isHidden():  # it was closed
            self.arrangement.restore()
            self._docks[name].hide()
        self._mark_front()
        self.changed.emit()

    def _on_focus(self, _before: QWidget | None, now: QWidget | None) -> None:
        if (name := self._panel_of(now)) and self._lives():
            self.choose(name)

    def _say_stale(self, name: str, words: str) -> None:
        if name == self.front():
            announce(self.hosts[name], f"{self._specs[name].title}: {words}", urgent=False)

    def _lives(self) -> bool:
        """Not while the window is deleted: panels hide and lose the focus then, too."""
        return isValid(self.window) and all(map(isValid, self._titles.values()))

    def _mark_front(self) -> None:
        front = self.front()
        for name, title in self._titles.items():
            title.mark(name == front)

    def _panel_of(self, widget: QWidget | None) -> str:
        while widget is not None:
            if isinstance(widget, PanelDock):
                return next((name for name, host in self.hosts.items() if host is widget), "")
            widget = widget.parentWidget()
        return ""
