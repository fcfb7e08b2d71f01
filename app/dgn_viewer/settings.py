"""The user's settings file: theme, layout, folders; a broken file keeps its good keys."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths

THEMES = ("light", "dark", "system")
_REMEMBERED = 200
LAYOUT_VERSION = 1  # raised when the docks change so much that an old layout is of no use


def default_path() -> Path:
    """The settings file in the user's configuration folder."""
    kind = QStandardPaths.StandardLocation.GenericConfigLocation
    return Path(QStandardPaths.writableLocation(kind)) / "dgn-viewer" / "settings.ini"


class Settings:
    """Typed access to an INI file; what cannot be read is as if it had never been set."""

    def __init__(self, path: Path) -> None:
        self._store = QSettings(str(path), QSettings.Format.IniFormat)
        self._store.setFallbacksEnabled(False)

    @property
    def theme(self) -> str:
        """'light', 'dark' or 'system'."""
        name = self._text("window/theme")
        return name if name in THEMES else "system"

    @theme.setter
    def theme(self, name: str) -> None:
        self._store.setValue("window/theme", name)

    @property
    def geometry(self) -> QByteArray | None:
        """As `QWidget.saveGeometry` gave it, or None."""
        return self._bytes("window/geometry")

    @geometry.setter
    def geometry(self, state: QByteArray) -> None:
        self._store.setValue("window/geometry", state)

    @property
    def layout(self) -> QByteArray | None:
        """As `QMainWindow.saveState` gave it, or None."""
        return self._bytes("window/layout")

    @layout.setter
    def layout(self, state: QByteArray) -> None:
        self._store.setValue("window/layout", state)

    @property
    def export_folder(self) -> str:
        """Where the last export went, if that folder still exists; else empty."""
        folder = self._text("export/folder")
        return folder if folder and Path(folder).is_dir() else ""

    @export_folder.setter
    def export_folder(self, folder: str) -> None:
        self._store.setValue("export/folder", folder)

    @property
    def dismissed(self) -> tuple[str, ...]:
        """Names of interrupted runs that are not offered any more."""
        return tuple(name for name in self._text("runs/dismissed").split("/") if name)

    @dismissed.setter
    def dismissed(self, names: tuple[str, ...]) -> None:
        self._store.setValue("runs/dismissed", "/".join(names[-_REMEMBERED:]))

    def save(self) -> bool:
        """Write to disk; whether that was possible."""
        self._store.sync()
        return self._store.status() != QSettings.Status.AccessError

    def _text(self, key: str) -> str:
        value = self._store.value(key)
        return value if isinstance(value, str) else ""

    def _bytes(self, key: str) -> QByteArray | None:
        value = self._store.value(key)
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None
