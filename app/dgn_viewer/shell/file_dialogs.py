"""The questions of the window that need a file name; none of them stops the window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QMainWindow

from dgn_engine.config import RunConfig
from dgn_engine.protocol.commands import Command, CompareRun, OpenFile, SaveWeights
from dgn_viewer.notices import Notice
from dgn_viewer.settings import Settings

CHECKPOINTS = "Checkpoints (*.pt *.pth *.bin *.ckpt *.safetensors *.npz *.npy);;All files (*)"
WEIGHTS = "Weights (*.safetensors)"
CONFIGURATIONS = "Configurations (*.toml)"


class FileDialogs(QObject):
    """Opens a dialog and goes on; what was chosen is acted upon when it is."""

    def __init__(
        self,
        window: QMainWindow,
        send: Callable[[Command], None],
        settings: Settings,
        tell: Callable[[Notice], None],
    ) -> None:
        super().__init__(window)
        self._window = window
        self._send = send
        self._settings = settings
        self._tell = tell

    def open_checkpoint(self) -> None:
        """Ask for a checkpoint and have the engine list it."""
        dialog = self._dialog("Open checkpoint", CHECKPOINTS)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self._send(OpenFile(path)))
        dialog.open()

    def compare_run(self) -> None:
        """Ask for the folder of a recorded run and have it shown beside this one."""
        dialog = self._dialog("Compare with a recorded run", "")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(lambda path: self._send(CompareRun(path)))
        dialog.open()

    def save_configuration(self, config: RunConfig) -> None:
        """Ask for a file and write the configuration as TOML."""
        dialog = self._dialog("Save configuration", CONFIGURATIONS)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("toml")
        dialog.selectFile("run.toml")
        dialog.fileSelected.connect(lambda path: self._write(Path(path), config))
        dialog.open()

    def save_weights(self) -> None:
        """Ask for a file; the engine writes both networks there between two steps."""
        dialog = self._dialog("Save weights", WEIGHTS)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("safetensors")
        dialog.selectFile("weights.safetensors")
        dialog.fileSelected.connect(lambda path: self._send(SaveWeights(path)))
        dialog.open()

    def _dialog(self, title: str, kinds: str) -> QFileDialog:
        dialog = QFileDialog(self._window, title, self._settings.export_folder, kinds)
        dialog.finished.connect(dialog.deleteLater)
        return dialog

    def _write(self, path: Path, config: RunConfig) -> None:
        try:
            path.write_text(config.to_toml(), encoding="utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            self._tell(Notice("refused", f"Cannot write {path}: {reason}. Choose another folder."))
            return
        self._settings.export_folder = str(path.parent)
        self._tell(Notice("info", f"Configuration saved as {path}."))
