"""The button below a picture: what stands beside the run was held too expensive to be read."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton

from dgn_viewer.docks.panel_text import in_seconds
from dgn_viewer.scene.panel_spec import PanelSpec, View


class ComparisonButton(QPushButton):
    """'Compute B anyway', for as long as the same B stands beside the run."""

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__()
        self.setObjectName("compute_beside")
        self.setProperty("role", "small")
        self._spec = spec
        self._name = ""
        self.wanted = False  # the costly reading of B was asked for
        self.setVisible(False)

    def show_view(self, view: View, picture: bool) -> None:
        """`picture`: A is shown; else the panel's message speaks of what A costs."""
        name = view.beside.name if view.beside is not None else ""
        if name != self._name:
            self._name, self.wanted = name, False
        expected = expected_beside(self._spec, view)
        self.setText("Computing B…" if self.wanted else "Compute B anyway")
        self.setToolTip(f"About {in_seconds(expected)} a reading of {name}; training waits for it.")
        self.setEnabled(not self.wanted)
        self.setVisible(picture and expected > 0)


def expected_beside(spec: PanelSpec, view: View) -> float:
    """Seconds that a reading of B would take that is held too expensive; 0 where none is."""
    known = view.beside.readings if view.beside is not None else {}
    found = (known.get(probe) for probe in spec.probes)
    return max((reading.too_expensive for reading in found if reading is not None), default=0.0)
