"""The docks of all panels: their layout, which are visible, and which one is in front."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QTabBar, QToolBar, QWidget
from shiboken6 import isValid

from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.scene.theme import Theme
from dgn_engine.views.layout_presets import (
    COMPARE,
    OVERVIEW,
    PRESETS,
    Node,
    find_matching_tree,
    layout_outline,
    preset_tree,
)
from dgn_engine.views.reading_age import ReadingAges
from dgn_viewer.docks.dock_layout import apply_layout, describe_layout, resize_to_shares
from dgn_viewer.docks.linked_selection import LinkedSelection
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_frame import DockTitle, PanelFrame
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.widgets.announcement import announce_text

_AROUND = 200  # estimated pixels of the window's height outside the docks, before layout
SavedArrangement = tuple[QByteArray, str, Node | None]  # Qt's state, the preset and its tree


def restore_docks(window: QMainWindow, docks: Mapping[str, QDockWidget], state: QByteArray) -> None:
    """Restore these docks from a state of the window; other docks and toolbars stay as they are."""
    panels = set(docks.values())
    others = [
        part
        for kind in (QDockWidget, QToolBar)
        for part in window.findChildren(kind)
        if part not in panels
    ]
    hidden = [(part, part.isHidden()) for part in others]
    window.restoreState(state)
    for part, was_hidden in hidden:
        part.setHidden(was_hidden)
    hide_unused_tabs(window)


def hide_unused_tabs(window: QMainWindow) -> None:
    """Hide tab bars of groups that are no more: Qt leaves them over the restored panels."""
    groups = set()
    for dock in window.findChildren(QDockWidget):
        others = window.tabifiedDockWidgets(dock)
        groups.add(frozenset(part.windowTitle() for part in (dock, *others) if not part.isHidden()))
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    for bar in window.findChildren(QTabBar, options=direct):
        if frozenset(bar.tabText(index) for index in range(bar.count())) not in groups:
            bar.hide()


class MaximisedPanel:
    """A panel that temporarily fills the window by hiding all others."""

    def __init__(self, window: QMainWindow, docks: Mapping[str, QDockWidget]) -> None:
        self._window = window
        self._docks = docks
        self._state = QByteArray()
        self.name = ""  # the maximised panel, or ''
        self.open: frozenset[str] = frozenset()  # panels open before
        self.layout: dict[str, Any] = {}  # layout before, as from `describe_layout`

    def fill_window(self, name: str) -> None:
        """Dock this panel and hide all others."""
        self.restore_window()
        self.open = frozenset(n for n, dock in self._docks.items() if not dock.isHidden())
        self.layout = describe_layout(self._window, self._docks)
        self._state = self._window.saveState()
        self.name = name
        for other, dock in self._docks.items():
            if other != name:
                dock.hide()
        self._docks[name].setFloating(False)
        self._docks[name].show()

    def restore_window(self) -> None:
        """Restore the layout before, but keep other docks and toolbars as they are now."""
        if not self.name:
            return
        self.name = ""
        restore_docks(self._window, self._docks, self._state)


class PanelSizes:
    """Position and size of newly opened panels, with the sizes used before."""

    def __init__(
        self,
        window: QMainWindow,
        docks: Mapping[str, QDockWidget],
        specs: Mapping[str, PanelSpec],
        large: MaximisedPanel,
    ) -> None:
        self._window, self._docks, self._specs, self._large = window, docks, specs, large
        self._known: dict[frozenset[str], Node] = {}  # last layout of each set of panels

    def docked_panels(self) -> frozenset[str]:
        """Return the panels that are docked in the window."""
        docks = self._docks.items()
        return frozenset(n for n, dock in docks if not (dock.isHidden() or dock.isFloating()))

    def remember_sizes(self) -> None:
        """Remember the sizes of the docked panels, for when one of them is reopened."""
        if self._large.name:
            return
        if (tree := describe_layout(self._window, self._docks)["tree"]) is not None:
            self._known[self.docked_panels()] = tree

    def apply_known_sizes(self, usual: Node | None) -> None:
        """Apply the remembered sizes of the docked panels, or those of `usual`."""
        self.activate_layout()
        names = self.docked_panels()
        tree, current_tree = (
            self._known.get(names, usual),
            describe_layout(self._window, self._docks)["tree"],
        )
        if tree is not None and layout_outline(tree, names) == layout_outline(current_tree, names):
            resize_to_shares(self._window, self._docks, tree)

    def apply_layout_shares(self, layout: dict[str, Any]) -> None:
        """Apply the shares of a layout that the docks are already arranged in."""
        self.activate_layout()
        resize_to_shares(self._window, self._docks, layout["tree"])

    def activate_layout(self) -> None:
        """Make the window process pending layout changes now."""
        if (window_layout := self._window.layout()) is not None:
            window_layout.activate()

    def tabify_in_column(self, name: str) -> None:
        """Add a panel that is closed by default as a tab of the last panel of its column."""
        spec, dock = self._specs[name], self._docks[name]
        if spec.opened or spec.compares or dock.isFloating():
            return
        others = [n for n in self.docked_panels() if self._specs[n].area == spec.area] or [
            *self.docked_panels()
        ]
        if others:
            last = max(others, key=lambda n: self._docks[n].geometry().bottom())
            self._window.tabifyDockWidget(self._docks[last], dock)


class PanelArrangement(QObject):
    """The layout of the docks: a preset, a user's variation of it, or a maximised panel.

    Signals: `arranged` after panels were resized, which may have squeezed their neighbours,
    `restored(name)` when this panel is no longer maximised, and `compared` when a comparison is
    shown that was not shown before.

    Args:
        window: The window that holds the docks.
        docks: The docks by panel id.
        specs: The panels by id.
        visible: Returns the visible panels.
        front: Returns the panel that commands apply to.
        settled: A context in which several panels may change visibility, reported once.
    """

    arranged = Signal()
    restored = Signal(str)
    compared = Signal()

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
        self._compared: object = None  # what the run is compared with
        self._before: tuple[dict[str, Any], str] | None = None  # layout before, and its preset
        self._of_comparison: tuple[dict[str, Any], str] | None = None  # as it was left
        self._preset = ""  # the last arranged preset
        self._tree: Node | None = None  # its tree when it was arranged
        self._adopting = False  # a restored layout belongs to a preset, for some other height
        self._large = MaximisedPanel(window, docks)
        self.sizes = PanelSizes(window, docks, specs, self._large)
        self._refitting = QTimer(self, singleShot=True, interval=0)
        self._refitting.timeout.connect(self._refit_preset)

    @property
    def maximised_name(self) -> str:
        """The maximised panel, or ''."""
        return self._large.name

    def maximise_panel(self, name: str) -> None:
        with self._settled():
            self._large.fill_window(name)

    def restore_panels(self) -> None:
        """Restore the layout from before a panel was maximised."""
        name = self._large.name
        if name:
            with self._settled():
                self._large.restore_window()
            self.restored.emit(name)
            self.arranged.emit()

    def is_open(self, name: str) -> bool:
        """Return whether the panel is open, possibly behind another tab."""
        return name in self._large.open if self._large.name else not self._docks[name].isHidden()

    def open_panel(self, name: str) -> None:
        """Bring a panel to the front, and dock it first if it is closed."""
        if self._large.name != name:
            self.restore_panels()
        closed = self._docks[name].isHidden()
        if closed:
            self.sizes.tabify_in_column(name)
        self._docks[name].come_to_front()
        if closed:
            self.sizes.apply_known_sizes(self._tree)

    @property
    def preset(self) -> str:
        """The name of the current preset; '' once the user has changed the layout."""
        return self._preset if self._is_preset() else ""

    def is_showing_preset(self, preset: str) -> bool:
        return self._preset == preset and self._is_preset()

    @property
    def is_showing_comparison(self) -> bool:
        """Return whether the Compare layout is shown, which `leave_compare_layout` ends."""
        return self._before is not None

    def arrange_preset(self, preset: str = OVERVIEW) -> None:
        """Arrange the panels in a preset, for the current size of the window.

        The choice replaces the layout that the end of a comparison would restore.
        """
        self.restore_panels()
        if preset != COMPARE or self._compared is None:
            self._before = None
        elif self._before is None:
            self._before = self._describe_current()
        self._arrange_tree(preset)

    def _arrange_tree(self, preset: str) -> None:
        tree = preset_tree(
            PRESETS[preset], self._specs, self._preset_panels(preset), self.docks_height()
        )
        if tree is None:
            return
        front = self._front()
        with self._settled():
            apply_layout(self._window, self._docks, {"tree": tree})
            for name, spec in self._specs.items():
                if spec.compares and (preset != COMPARE or self._compared is None):
                    self._docks[name].hide()
        self._preset, self._tree = preset, tree
        resize_to_shares(self._window, self._docks, tree)
        if front and not self._docks[front].isHidden():
            self._docks[front].raise_()
        self.arranged.emit()

    def adopt_preset(self, preset: str) -> bool:
        """Treat the current layout as this preset; return False if there is no such preset."""
        if preset not in PRESETS:
            return False
        self._preset, self._adopting = preset, True
        self._tree = preset_tree(
            PRESETS[preset], self._specs, self._preset_panels(preset), self.docks_height()
        )
        self._refitting.start()
        return True

    def set_compared(self, subject: object) -> None:
        """Show the Compare layout for a new comparison, or end it.

        Args:
            subject: Identifies what the run is compared with; None at the end of the comparison,
                which restores the layout from before unless the user has chosen another one.
        """
        if subject == self._compared:
            return
        if subject is not None:
            self._compared = subject
            self._enter_compare_layout()
            self.compared.emit()
            return
        self._compared = None
        if self._before is not None:
            self.leave_compare_layout()
        else:
            self.restore_panels()
            for name, dock in self._docks.items():
                dock.setVisible(not self._specs[name].compares and not dock.isHidden())

    def toggle_compare_layout(self) -> None:
        """Show the Compare layout, or go back to the layout from before."""
        if self.is_showing_comparison:
            self.leave_compare_layout()
        else:
            self._enter_compare_layout()

    def leave_compare_layout(self) -> None:
        """Restore the layout from before the Compare layout."""
        if self._before is None:
            return
        self.restore_panels()
        self._of_comparison = self._describe_current()
        (layout, preset), self._before = self._before, None
        self.restore_layout(layout, preset)
        self._schedule_shares(layout)

    def resize_panels(self) -> None:
        """Resize columns and panels to their shares, tabbing panels in a low window."""
        self.sizes.activate_layout()
        self._refit_preset()
        if self._tree is not None:
            resize_to_shares(self._window, self._docks, self._tree)
        self.arranged.emit()

    def current_layout(self) -> dict[str, Any]:
        """Return the layout as `describe_layout` does, ignoring a maximised panel."""
        return (
            self._large.layout if self._large.name else describe_layout(self._window, self._docks)
        )

    def restore_layout(self, layout: Any, preset: str = "") -> bool:
        """Restore a layout; return False and change nothing if it is invalid.

        Args:
            layout: A layout from `current_layout`, possibly from an untrusted file.
            preset: The name of its preset, or ''.
        """
        self.restore_panels()
        with self._settled():
            applied = apply_layout(self._window, self._docks, layout)
        if applied:
            self._preset, self._tree = "", None
            self.adopt_preset(preset)
            self.arranged.emit()
        return applied

    def saved(self) -> SavedArrangement:
        """Return the arrangement to the pixel, for `restore_saved` of the same window."""
        return self._window.saveState(), self._preset, self._tree

    def restore_saved(self, saved: SavedArrangement) -> None:
        with self._settled():
            restore_docks(self._window, self._docks, saved[0])
        _, self._preset, self._tree = saved
        self.arranged.emit()

    def schedule_refit(self, _event: object = None) -> None:
        if self._preset:
            self._refitting.start()

    # Private

    def _describe_current(self) -> tuple[dict[str, Any], str]:
        return self.current_layout(), self.preset

    def _enter_compare_layout(self) -> None:
        """Show the Compare layout as it was left, or for the first time."""
        if self._before is not None:
            return
        if self._of_comparison is None:
            self.arrange_preset(COMPARE)
            return
        self.restore_panels()
        self._before = self._describe_current()
        self.restore_layout(*self._of_comparison)
        self._schedule_shares(self._of_comparison[0])

    def _schedule_shares(self, layout: dict[str, Any]) -> None:
        """Resize again once all panels are shown: closed ones accept no size before that."""
        QTimer.singleShot(0, self, lambda: self._restore_shares(layout))

    def _restore_shares(self, layout: dict[str, Any]) -> None:
        trees = layout["tree"], self.current_layout()["tree"]
        now, wanted = (layout_outline(tree, self._specs) for tree in trees)
        if self._window.isVisible() and now == wanted:
            self.sizes.apply_layout_shares(layout)

    def _preset_panels(self, preset: str) -> tuple[str, ...]:
        """Return the panels that the preset would show now."""
        specs = self._specs.items()
        compares = preset == COMPARE and self._compared is not None
        known = {name for name, spec in specs if not spec.compares or compares}
        if preset == OVERVIEW:
            return tuple(n for n, spec in specs if n in known and spec.opened)
        columns = PRESETS[preset].columns
        preset_panels = {name for _, groups in columns for group in groups for name in group}
        if compares:
            preset_panels |= {name for name, spec in specs if spec.compares}
        return tuple(
            n for n in self._specs if n in known and (n in preset_panels or self.is_open(n))
        )

    def docks_height(self) -> float:
        """Return the height available to docked panels, in pixels."""
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
        layout, specs = self.current_layout(), self._specs.items()
        compares = self._preset == COMPARE and self._compared is not None
        preset_panels = {name for name, spec in specs if not spec.compares or compares}
        same = layout_outline(layout["tree"], self._specs) == layout_outline(
            self._tree, preset_panels
        )
        return same and not layout["floating"]

    def _refit_preset(self) -> None:
        """Arrange the same preset again if the window's new size asks for another tree."""
        if self._large.name or not self._preset:
            return
        panels = self._preset_panels(self._preset)
        if self._adopting and self._visible():  # the panels have their geometry only now
            self._adopting, preset = False, PRESETS[self._preset]
            self._tree = (
                find_matching_tree(self.current_layout()["tree"], preset, self._specs, panels)
                or self._tree
            )
        tree = preset_tree(PRESETS[self._preset], self._specs, panels, self.docks_height())
        if (
            layout_outline(tree, panels) == layout_outline(self._tree, panels)
            or not self._is_preset()
        ):
            return
        self._arrange_tree(self._preset)


class PanelDocks(QObject):
    """The docks of all panels, by panel id.

    `changed` is emitted when a panel is opened, closed, or hidden by another tab. `arrangement`
    manages their layout.
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
            window,
            self._docks,
            self._specs,
            self.visible_panels,
            self.front_panel,
            self._batch_changes,
        )
        self.arrangement.restored.connect(lambda name: self._titles[name].show_maximised(False))
        for name, spec in specs.items():
            self._add_panel(name, spec, theme)
        callbacks = {
            QEvent.Type.Resize: self.arrangement.schedule_refit,
            QEvent.Type.WindowActivate: self._raise_floating,
        }
        EventFilter(self, callbacks, window)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus)

    def _add_panel(self, name: str, spec: PanelSpec, theme: Theme) -> None:
        dock = PanelFrame(spec.title, self.window)
        dock.setObjectName(f"panel.{name}")
        linked, steps, ages = self.linked, self.steps, self.ages
        host = PanelDock(name, spec, theme, linked=linked, steps=steps, ages=ages)
        dock.setWidget(host)
        title = DockTitle(dock)
        dock.setTitleBarWidget(title)
        title.pressed.connect(lambda: self.set_front_panel(name))
        host.age.changed.connect(title.show_age)
        host.age.became_stale.connect(lambda words: self._announce_stale(name, words))
        title.maximised.connect(lambda: self.toggle_maximised(name))
        self._titles[name] = title
        dock.closing.connect(self.arrangement.sizes.remember_sizes)
        dock.visibilityChanged.connect(lambda seen, name=name: self._on_visibility(name, seen))
        self.hosts[name] = host
        self._docks[name] = dock

    def dock_frames(self) -> tuple[PanelFrame, ...]:
        """Return the dock widgets, for observers of their geometry."""
        return tuple(self._docks.values())

    # Visibility

    def visible_panels(self) -> tuple[str, ...]:
        """Return the panels that are open and not hidden by another tab."""
        return tuple(name for name in self.hosts if name in self._seen)

    def toggle_panel(self, name: str) -> None:
        """Close a visible panel, or bring it to the front if it is hidden."""
        dock = self._docks[name]
        covered = dock.isFloating() and not dock.isActiveWindow()
        if name in self._seen and not covered and not self.arrangement.maximised_name:
            dock.close()
        else:
            self.show_panel(name)

    def show_panel(self, name: str) -> None:
        self.arrangement.open_panel(name)
        self.set_front_panel(name)

    def front_panel(self) -> str:
        """Return the panel that commands apply to.

        This is the one last clicked or focused, or else the first visible one.
        """
        visible_names = self.visible_panels()
        return self._front if self._front in visible_names else next(iter(visible_names), "")

    def set_front_panel(self, name: str) -> None:
        """Apply commands to this panel from now on, and mark its title."""
        self._front = name
        self._mark_front()

    def make_visible_panels(self) -> None:
        """Create the widgets of the visible panels, except their charts."""
        for name in self.visible_panels():
            _ = self.hosts[name].parts

    def make_scene_views(self) -> None:
        """Create the charts of the visible panels; importing pyqtgraph for it is slow."""
        for name in self.visible_panels():
            _ = self.hosts[name].charts.view

    def go_to_step(self, step: int) -> bool:
        """Show a step on all visible time axes; return False if there are none."""
        scenes = [self.hosts[name].charts.view for name in self.visible_panels()]
        results = [scene.steps.go_to(step, step, back=False) for scene in scenes]
        return any(results)

    def toggle_maximised(self, name: str = "") -> None:
        """Maximise a panel (by default the front one), or restore the layout before."""
        name = name or self.front_panel()
        if self.arrangement.maximised_name or not name:
            self.arrangement.restore_panels()
            return
        self.arrangement.maximise_panel(name)
        self.set_front_panel(name)
        self._titles[name].show_maximised(True)

    def set_theme(self, theme: Theme) -> None:
        for host in self.hosts.values():
            host.set_theme(theme)
        for title in self._titles.values():
            title.set_theme(theme)
        for dock in self._docks.values():
            dock.set_theme(theme)

    # Private

    def _raise_floating(self, _event: object = None) -> None:
        """Keep floating panels above the window when it is activated."""
        for dock in self._docks.values():
            if dock.isFloating() and dock.isVisible():
                dock.raise_()

    @contextmanager
    def _batch_changes(self) -> Iterator[None]:
        """Emit `changed` only once for everything that happens in this context."""
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
        if seen == (name in self._seen) or not self._is_alive():
            return
        (self._seen.add if seen else self._seen.discard)(name)
        if self._settling:
            return
        if (
            name == self.arrangement.maximised_name and self._docks[name].isHidden()
        ):  # it was closed
            self.arrangement.restore_panels()
            self._docks[name].hide()
        self._mark_front()
        self.changed.emit()

    def _on_focus(self, _before: QWidget | None, now: QWidget | None) -> None:
        if (name := self._panel_of(now)) and self._is_alive():
            self.set_front_panel(name)

    def _announce_stale(self, name: str, words: str) -> None:
        if name == self.front_panel():
            announce_text(self.hosts[name], f"{self._specs[name].title}: {words}", urgent=False)

    def _is_alive(self) -> bool:
        """Return False while the window is deleted, when panels also hide and lose focus."""
        return isValid(self.window) and all(map(isValid, self._titles.values()))

    def _mark_front(self) -> None:
        front = self.front_panel()
        for name, title in self._titles.items():
            title.mark_front(name == front)

    def _panel_of(self, widget: QWidget | None) -> str:
        while widget is not None:
            if isinstance(widget, PanelDock):
                return next((name for name, host in self.hosts.items() if host is widget), "")
            widget = widget.parentWidget()
        return ""
