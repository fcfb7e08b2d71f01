"""Saves what panels show, as figures or as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.provenance import FigurePanel, make_provenance
from dgn_engine.scene.elements import Scene
from dgn_engine.views.history import History
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.animation_export import AnimationExport
from dgn_viewer.shell.export_dialog import ExportDialog
from dgn_viewer.shell.figure_thread import FigureThread
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.timeline.step_cursor import StepCursor


class Exports:
    """Opens the dialogs for saving figures, data and animations.

    Figures are drawn in a thread, `animations` in a separate process.
    """

    def __init__(
        self, context: WindowContext, docks: PanelDocks, history: History, cursor: StepCursor
    ) -> None:
        self._context, self._docks = context, docks
        self._thread = FigureThread(context.window)
        self.animations = AnimationExport(context, docks, history, cursor)
        for host in docks.hosts.values():
            host.export_requested.connect(self.save_panel)
            host.animation_requested.connect(self.animations.open)

    def save_front_panel(self) -> None:
        self.save_panel(self._docks.front_panel())

    def save_panel(self, name: str) -> None:
        """Open the dialog with this panel selected; '': no panel."""
        if not name:
            return
        hosts = [self._docks.hosts[other] for other in self._docks.visible_panels()]
        host = self._docks.hosts[name]
        self._open_dialog([host, *(other for other in hosts if other is not host)], (name,))

    def save_visible_panels(self) -> None:
        names = self._docks.visible_panels()
        self._open_dialog([self._docks.hosts[name] for name in names], names)

    def close(self) -> None:
        """Finish drawing and writing, because the window closes."""
        self._thread.close()
        self.animations.close()

    def _open_dialog(self, hosts: Sequence[PanelDock], chosen: Sequence[str]) -> None:
        first = next((host for host in hosts if host.panel_id in chosen), None)
        if len(chosen) == 1 and first is not None and (why := _why_empty(first)):
            self._context.notify_refusal(why, "empty")
            return
        try:
            capture_panels(hosts)
        except UserError as refusal:
            self._context.notify_refusal(str(refusal), refusal.kind)
            return
        for before in self._context.window.findChildren(ExportDialog):
            before.close()
        empty = [host.spec.title for host in hosts if not isinstance(host.shown_content(), Scene)]
        dialog = ExportDialog(
            self._context, lambda: capture_panels(hosts), chosen, write_panels, self._thread, empty
        )
        dialog.show()


def capture_panels(hosts: Sequence[PanelDock]) -> tuple[FigurePanel, ...]:
    """Return what the panels show at this moment, without empty panels.

    A page shows a single run: panels that still show the previous run are left out.

    Raises:
        UserError: No panel shows anything.
    """
    panels = []
    runs = [0 if (run := host.drawn.view.run) is None else run.run for host in hosts]
    for host, run_number in zip(hosts, runs, strict=True):
        shown = host.shown_content()
        if isinstance(shown, Scene) and run_number == max(runs):
            context = make_provenance(host.drawn.view, host.spec, shown)
            panels.append(FigurePanel(host.panel_id, shown, context))
    if not panels:
        message = "The open panels are still empty; export after the first frame."
        raise UserError(message, kind="no-frame")
    return tuple(panels)


def _why_empty(host: PanelDock) -> str:
    shown = host.shown_content()
    if isinstance(shown, Scene):
        return ""
    why = "it failed; see its details." if shown is None else shown.reason
    return f"{host.spec.title} has nothing to export: {why}"


def write_panels(
    panels: Sequence[FigurePanel], path: Path, style: FigureStyle, apart: bool
) -> tuple[Path, ...]:
    """Write panels on one page or, if `apart`, each to NAME-PANEL.SUFFIX next to `path`."""
    # Importing matplotlib takes a quarter of a second: do so only when needed.
    from dgn_engine.figures.save_figure import save_panels

    if not apart or len(panels) == 1:
        return save_panels(panels, path, style)
    return tuple(
        file
        for panel in panels
        for file in save_panels(
            [panel], path.with_name(f"{path.stem}-{panel.name}{path.suffix}"), style
        )
    )
