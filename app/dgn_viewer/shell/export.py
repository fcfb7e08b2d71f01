"""Saves what panels show: as figures or as numbers, by the name that the user chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from PySide6.QtWidgets import QFileDialog, QWidget

from dgn_engine.errors import UserError
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.figures.provenance import Provenance, context_of
from dgn_viewer.notices import Notice
from dgn_viewer.scene.elements import Empty, Scene

_KINDS = {
    ".pdf": "PDF figure (*.pdf)",
    ".svg": "SVG figure (*.svg)",
    ".png": "PNG figure, 300 dpi (*.png)",
    ".npz": "NumPy arrays (*.npz)",
    ".csv": "CSV, one file for each chart (*.csv)",
}
_NUMBERS = (".npz", ".csv")


class ExportSettings(Protocol):
    """What is remembered from one export to the next."""

    export_folder: str


class PanelExport:
    """Exports panels of the window: asks for a name, then writes."""

    def __init__(
        self,
        window: QWidget,
        docks: PanelDocks,
        settings: ExportSettings,
        tell: Callable[[Notice], None],
    ) -> None:
        self._window = window
        self._docks = docks
        self._settings = settings
        self._tell = tell

    def panel(self, name: str) -> None:
        """Export this panel; '' where there is none."""
        if name:
            export_panel(self._window, self._docks.hosts[name], self._settings, self._tell)

    def visible_panels(self) -> None:
        """Export every panel that can be seen."""
        hosts = [self._docks.hosts[name] for name in self._docks.visible()]
        export_all(self._window, hosts, self._settings, self._tell)


def write_panel(host: PanelDock, path: Path) -> tuple[Path, ...]:
    """Write what a panel shows in the format of the suffix; raises `UserError`."""
    suffix = path.suffix.lower()
    if suffix not in _KINDS:
        known = ", ".join(_KINDS)
        raise UserError(f"Cannot tell the format of {path.name}; end its name in one of {known}.")
    shown = host.shown() or Empty("it failed; see its details.")
    # matplotlib costs a quarter of a second: it is loaded when a figure is asked for.
    if suffix in _NUMBERS:
        from dgn_viewer.figures.export_values import save_numbers

        return save_numbers(shown, path, _context(host))
    from dgn_viewer.figures.save_figure import save_figure

    return (save_figure(shown, path, _context(host)),)


def write_panels(hosts: Sequence[PanelDock], path: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Write each panel next to `path` as NAME-PANEL.SUFFIX; those that show nothing are skipped.

    Returns the files and the titles that were skipped; raises `UserError` where all of them are.
    """
    full = [host for host in hosts if isinstance(host.shown(), Scene)]
    if not full:
        raise UserError("No open panel shows anything yet; export after the first frame.")
    written: list[Path] = []
    for host in full:
        file = path.with_name(f"{path.stem}-{host.panel_id}{path.suffix}")
        written.extend(write_panel(host, file))
    return tuple(written), [host.spec.title for host in hosts if host not in full]


def export_panel(
    parent: QWidget, host: PanelDock, settings: ExportSettings, tell: Callable[[Notice], None]
) -> QFileDialog:
    """Ask for a name, without stopping the window, and write the panel; `tell` gets the outcome."""

    def write(path: Path) -> str:
        return _saved(write_panel(host, path), [])

    name = f"{host.panel_id}-step{_step(host)}"
    return _ask(parent, f"Export {host.spec.title}", name, write, settings, tell)


def export_all(
    parent: QWidget,
    hosts: Sequence[PanelDock],
    settings: ExportSettings,
    tell: Callable[[Notice], None],
) -> QFileDialog:
    """Ask for one name for all panels and write each next to it."""

    def write(path: Path) -> str:
        return _saved(*write_panels(hosts, path))

    name = f"dgn-step{max((_step(host) for host in hosts), default=0)}"
    return _ask(parent, "Export all panels", name, write, settings, tell)


def _ask(
    parent: QWidget,
    title: str,
    name: str,
    write: Callable[[Path], str],
    settings: ExportSettings,
    tell: Callable[[Notice], None],
) -> QFileDialog:
    dialog = QFileDialog(parent, title, settings.export_folder)
    dialog.setObjectName("export_dialog")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters(list(_KINDS.values()))
    dialog.setDefaultSuffix("pdf")
    suffixes = {words: suffix for suffix, words in _KINDS.items()}
    dialog.filterSelected.connect(
        lambda words: dialog.setDefaultSuffix(suffixes[words].removeprefix("."))
    )
    dialog.selectFile(name)

    def save(chosen: str) -> None:
        path = Path(chosen)
        try:
            words = write(path)
        except UserError as refusal:
            tell(Notice("refused", str(refusal)))
            return
        settings.export_folder = str(path.parent)
        tell(Notice("info", words))

    dialog.fileSelected.connect(save)
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


def _saved(files: tuple[Path, ...], skipped: list[str]) -> str:
    folder = files[0].parent
    if len(files) == 1:
        words = f"{files[0].name} saved in {folder}."
    else:
        words = f"{len(files)} files saved in {folder}: {files[0].name} and others."
    return f"{words} Nothing to show in {', '.join(skipped)}." if skipped else words


def _context(host: PanelDock) -> Provenance:
    return context_of(host.view(), host.spec.title, _step(host))


def _step(host: PanelDock) -> int:
    shown = host.shown()
    return shown.step if isinstance(shown, Scene) else host.view().step
