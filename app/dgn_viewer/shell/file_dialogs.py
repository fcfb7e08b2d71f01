"""Actions of the window that ask for a file or folder; none of them is modal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.files import SaveWeights
from dgn_engine.protocol.training import StartRun
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.config_file import read_config
from dgn_engine.views.event_notices import Notice
from dgn_viewer.shell.file_drops import DropTarget
from dgn_viewer.shell.open_dialog import OpenDialog
from dgn_viewer.shell.opened_paths import PathOpener
from dgn_viewer.shell.recent_files import RecentFiles
from dgn_viewer.shell.start_ways import run_on_images
from dgn_viewer.shell.window_context import WindowContext

CHECKPOINTS = (
    "Checkpoints (*.pt *.pth *.bin *.ckpt *.safetensors *.npz *.npy *.index.json);;All files (*)"
)
WEIGHTS = "Weights (*.safetensors)"
CONFIGURATIONS = "Configurations (*.toml)"


def ask_file(
    context: WindowContext, title: str, kinds: str, chosen: Callable[[str], object]
) -> QFileDialog:
    """Open a dialog for an existing file; `chosen` receives its path."""
    dialog = QFileDialog(context.window, title, context.settings.export_folder, kinds)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    return _open_dialog(dialog, chosen)


def ask_folder(
    parent: QWidget, title: str, folder: str, chosen: Callable[[str], object]
) -> QFileDialog:
    """Open a dialog for an existing folder; `chosen` receives its path."""
    dialog = QFileDialog(parent, title, folder)
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly)
    return _open_dialog(dialog, chosen)


def ask_new_file(
    context: WindowContext,
    title: str,
    kinds: str,
    name: str,
    chosen: Callable[[str], object],
    parent: QWidget | None = None,
) -> QFileDialog:
    """Open a dialog for a new file, initially called `name`.

    `parent`: replaces the window as parent of the dialog.
    """
    folder = context.settings.export_folder
    dialog = QFileDialog(parent or context.window, title, folder, kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(Path(name).suffix.removeprefix("."))
    dialog.selectFile(name)
    return _open_dialog(dialog, chosen)


def _open_dialog(dialog: QFileDialog, chosen: Callable[[str], object]) -> QFileDialog:
    dialog.fileSelected.connect(chosen)
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


class FileDialogs(QObject):
    """Asks for files and folders, and acts when one is chosen.

    `opener` opens them, whatever they are; `recent`: recently opened items; `drops`: files dropped
    on the window. `images_chosen`: a run on a folder or archive of images was requested.
    """

    images_chosen = Signal()

    def __init__(self, context: WindowContext) -> None:
        super().__init__(context.window)
        self._context = context
        self.opener = PathOpener(context, self.start_configuration)
        self.recent = RecentFiles(context, self.opener.open_path)
        self.opener.result_wanted.connect(lambda path: self.recent.add_item("result", str(path)))
        self.opener.images_wanted.connect(lambda path: self.recent.add_item("images", str(path)))
        self.opener.images_wanted.connect(self.start_on_images)
        self.drops = DropTarget(context, self.opener.open_path)

    def open_any(self) -> None:
        """Ask for a file or folder, and open whatever it is."""
        folder = self.recent.last_folder() or self._context.settings.export_folder
        OpenDialog(
            self._context.window, folder, lambda path: self.opener.open_path(Path(path))
        ).open()

    def start_on_images(self, path: Path) -> None:
        """Start a run on a folder or archive of images, and tell what was chosen for it."""
        config = run_on_images(str(path))
        self._context.send(StartRun(config))
        self.images_chosen.emit()
        size = config.data.image_size
        self._context.notify(
            Notice(
                "info",
                f"{path.name}: images resized to {size}×{size}, four convolutions, "
                f"{config.gating.regime}. New run… ▸ All settings… changes this.",
                listed=False,
            )
        )

    def start_configuration(self, path: Path) -> None:
        """Start a run from a configuration; refuse an invalid file."""
        try:
            config = read_config(path)
        except UserError as refusal:
            self._context.notify_refusal(str(refusal))
            return
        self.recent.add_item("configuration", str(path))
        self._context.send(StartRun(config))

    def compare_run(self) -> None:
        title, folder = "Compare with a recorded run", self._context.settings.export_folder
        ask_folder(
            self._context.window, title, folder, lambda path: self._context.send(CompareRun(path))
        )

    def save_configuration(self) -> None:
        """Ask for a file and save the current configuration of the run as TOML."""
        config = self._context.run_state().current_config()
        if config is not None:
            text = config.to_toml()
            ask_new_file(
                self._context,
                "Save configuration",
                CONFIGURATIONS,
                "run.toml",
                lambda path: self._write_configuration(Path(path), text),
            )

    def save_weights(self) -> None:
        """Ask for a file; the engine writes both networks there between two steps."""
        ask_new_file(
            self._context,
            "Save weights",
            WEIGHTS,
            "weights.safetensors",
            lambda path: self._context.send(SaveWeights(path)),
        )

    def _write_configuration(self, path: Path, configuration: str) -> None:
        try:
            write_file(path, configuration.encode())
        except OSError as error:
            reason = error.strerror or str(error)
            self._context.notify_refusal(f"Cannot write {path}: {reason}. Choose another folder.")
            return
        self._context.settings.export_folder = str(path.parent)
        self._context.notify(Notice("info", f"Configuration saved as {path}."))
