"""The page about the program: versions, papers, and licences."""

from __future__ import annotations

import platform

from PySide6.QtCore import qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from dgn_engine import __version__
from dgn_engine.experiments.report.papers import PAPERS, RELATED
from dgn_engine.scene.theme import Theme
from dgn_viewer.widgets.layouts import PlainLabel, make_column, make_row, plain_label, push_button

_PACKAGES = ("PySide6-Essentials", "pyqtgraph", "numpy", "scipy", "matplotlib", "safetensors")
_LICENCES = (
    "dgn-viewer: MIT. Qt and PySide6: LGPL 3. PyTorch: BSD. pyqtgraph: MIT. NumPy, SciPy, "
    "scikit-learn: BSD. Matplotlib: its own, like that of Python. safetensors: Apache 2.0. "
    "Pillow: MIT-CMU."
)


def version_lines(torch_version: str) -> tuple[str, ...]:
    """Return the versions for a bug report: 'dgn-viewer 0.2.0', 'torch 2.13.0', 'Qt 6.11.3', …"""
    return (
        f"dgn-viewer {__version__}",
        f"torch {torch_version or '(loading…)'}",
        f"Qt {qVersion()}",
        *(f"{name} {_package_version(name)}" for name in _PACKAGES),
        f"Python {platform.python_version()}",
        platform.platform(),
    )


class ProgramPage(QWidget):
    """The 'About' page."""

    title = "About dgn-viewer"

    def __init__(self, torch_version: str) -> None:
        super().__init__()
        lines = version_lines(torch_version)
        self.versions = plain_label("\n".join(lines), selectable=True)
        self.copy = push_button("Copy", self._copy_versions, about="Copy these versions")
        cited = {**PAPERS, **RELATED}.items()
        papers = "\n\n".join(f"[{key}] {paper.full_citation}" for key, paper in cited)
        make_column(
            plain_label("Train deep gated networks live and see what their gates know."),
            PlainLabel("Versions", role="heading"),
            self.versions,
            make_row(self.copy, 1),
            PlainLabel("Papers", role="heading"),
            plain_label(papers, selectable=True),
            PlainLabel("Licences", role="heading"),
            plain_label(_LICENCES, selectable=True),
            1,
            into=self,
            margins=(16, 4, 16, 16),
            spacing=8,
        )

    def set_theme(self, theme: Theme) -> None:
        """Do nothing: all colours come from the application."""

    def _copy_versions(self) -> None:
        QGuiApplication.clipboard().setText(self.versions.text())


def _package_version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # scans installed packages

    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
