"""The options of the export dialog: panels, size, text and file type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget

from dgn_engine.errors import UserError
from dgn_engine.figures.figure_style import (
    COLUMN,
    LEAST_DPI,
    LEAST_FONT,
    LEAST_HEIGHT,
    LEAST_WIDTH,
    MOST_DPI,
    MOST_FONT,
    MOST_HEIGHT,
    MOST_WIDTH,
    TEXT,
    FigureStyle,
    curve_names,
)
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.text.written_numbers import format_number
from dgn_viewer.widgets.form_fields import PickBox, problem_in
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import make_column
from dgn_viewer.widgets.number_field import NumberField

KINDS = {
    "pdf": "PDF figure",
    "svg": "SVG figure",
    "png": "PNG figure",
    "pgf": "PGF for LaTeX",
    "py": "Python script with NPZ",
    "npz": "NumPy arrays",
    "csv": "CSV, one file per chart",
}
NUMBERS = ("npz", "csv")
_WIDTHS = (
    ("column", f"Column, {format_number(COLUMN)} in"),
    ("text", f"Page, {format_number(TEXT)} in"),
    ("free", "Free"),
)
_TOGETHER = (("page", "On one page"), ("apart", "Separate files"))
_FIXED = {"column": COLUMN, "text": TEXT}
_RUNGS = tuple(half / 2 for half in range(2, 20))
_MOST_NAMES = 64  # renamed curves to remember


class ExportForm(QWidget):
    """Options of one export. `changed`: the figure needs redrawing."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.panel_boxes: dict[str, QCheckBox] = {}
        self.names: dict[str, QLineEdit] = {}
        self._renamed: dict[str, str] = {}  # includes curves that are not shown now
        self._which = Section("Panels")
        self.apart_box = PickBox(_TOGETHER)
        size, text, file = Section("Size"), Section("Text"), Section("File")
        self._legend = Section("Curve names")
        self.width_box = PickBox(_WIDTHS)
        self.inches = NumberField(LEAST_WIDTH, MOST_WIDTH, rungs=_RUNGS, unit="in")
        self.height_box = NumberField(
            LEAST_HEIGHT, MOST_HEIGHT, rungs=_RUNGS, unit="in", no_limit="as needed"
        )
        self.font_size = NumberField(
            LEAST_FONT, MOST_FONT, rungs=_RUNGS, unit="pt", no_limit="Default"
        )
        self.caption, self.letters = QCheckBox("Caption"), QCheckBox("Letters")
        self.kind_box = PickBox(list(KINDS.items()))
        self.dpi = IntegerField(LEAST_DPI, MOST_DPI, unit="dpi")
        size.add_field("Width", self.width_box)
        size.add_field("Inches", self.inches, "Width of the whole figure on the page")
        size.add_field("Height", self.height_box, "'as needed': tall enough for charts and text")
        size.add_field(
            "Font", self.font_size, "Titles and labels. Default: 8 pt in a column, 9 pt on a page"
        )
        text.add_field("", self.caption, "Panel, step, data, network and seed; facts; notes")
        text.add_field(
            "", self.letters, "Label panels, or the charts of a single panel, (a), (b), …"
        )
        file.add_field("Kind", self.kind_box)
        file.add_field("Resolution", self.dpi, "Dots per inch of a PNG")
        parts = (self._which, size, text, self._legend, file)
        make_column(*parts, 1, into=self, margins=(0, 0, 8, 0), spacing=12)
        self._connect_fields()
        self.restore_choices({})

    def offer_panels(self, panels: Sequence[FigurePanel], chosen: Iterable[str]) -> None:
        together = self.apart_box.value()
        self._which.clear_rows()
        self.panel_boxes = {}
        for panel in panels:
            box = QCheckBox(panel.context.title)
            box.setChecked(panel.name in chosen)
            box.toggled.connect(self._on_panels)
            self._which.add_field("", box, f"At step {panel.context.step:,}")
            self.panel_boxes[panel.name] = box
        self.apart_box = PickBox(_TOGETHER)
        self.apart_box.pick_value(together)
        self.apart_box.currentIndexChanged.connect(self.changed)
        self._which.add_field("Layout", self.apart_box)
        self._which.show_row(self.apart_box, len(self.chosen_panels()) > 1)

    def offer_names(self, panels: Sequence[FigurePanel]) -> None:
        """Show a row for each named curve of the selected panels."""
        self._legend.clear_rows()
        self.names = {}
        for name in curve_names([panel.scene for panel in panels]):
            line = QLineEdit(self._renamed.get(name, name).replace(name, strip_markup(name)))
            line.setPlaceholderText("no name")
            line.setAccessibleName(f"Name of the curve {strip_markup(name)}")
            line.textEdited.connect(lambda text, name=name: self._rename_curve(name, text))
            self._legend.add_field(strip_markup(name), line, "Use $…$ for TeX math")
            self.names[name] = line
        self._legend.setVisible(bool(self.names))

    def chosen_panels(self) -> tuple[str, ...]:
        return tuple(name for name, box in self.panel_boxes.items() if box.isChecked())

    @property
    def kind(self) -> str:
        return self.kind_box.value()

    @property
    def in_separate_files(self) -> bool:
        return self.apart_box.value() == "apart"

    def figure_style(self) -> FigureStyle:
        """Return the style.

        Raises:
            UserError: A field is invalid.
        """
        if problem := problem_in(self):
            raise UserError(problem)
        return FigureStyle(
            width=_FIXED.get(self.width_box.value(), self.inches.value()),
            height=self.height_box.value(),
            font=self.font_size.value(),
            dpi=self.dpi.value(),
            caption=self.caption.isChecked(),
            letters=self.letters.isChecked(),
            legend=tuple(
                (name, self._renamed[name])
                for name in self.names
                if self._renamed.get(name, name) != name
            ),
        )

    def choices(self) -> dict[str, Any]:
        return {
            "width": self.width_box.value(),
            "inches": self.inches.value(),
            "height": self.height_box.value(),
            "font": self.font_size.value(),
            "dpi": self.dpi.value(),
            "caption": self.caption.isChecked(),
            "letters": self.letters.isChecked(),
            "kind": self.kind,
            "together": self.apart_box.value(),
            "names": dict(list(self._renamed.items())[-_MOST_NAMES:]),
        }

    def restore_choices(self, choices: Mapping[str, Any]) -> None:
        """Fill in earlier choices; invalid ones fall back to the default."""
        width, kind = str(choices.get("width")), str(choices.get("kind"))
        self.width_box.pick_value(width if width in dict(_WIDTHS) else "column")
        self.kind_box.pick_value(kind if kind in KINDS else "pdf")
        for name, field, default in (
            ("inches", self.inches, 5.5),
            ("height", self.height_box, 0.0),
            ("font", self.font_size, 0.0),
        ):
            value = choices.get(name, default)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            field.show_value(float(value) if is_number else default)
        dpi = choices.get("dpi", 300)
        self.dpi.setValue(dpi if isinstance(dpi, int) and 0 < dpi < 10_000 else 300)
        self.caption.setChecked(choices.get("caption", True) is not False)
        self.letters.setChecked(choices.get("letters") is True)
        self.apart_box.pick_value("apart" if choices.get("together") == "apart" else "page")
        names = choices.get("names")
        self._renamed = {
            str(name): text
            for name, text in (names.items() if isinstance(names, dict) else ())
            if isinstance(text, str)
        }
        self._show_rows()

    def require_panels(self) -> tuple[str, ...]:
        """Return the selected panels.

        Raises:
            UserError: None is selected.
        """
        names = self.chosen_panels()
        if not names:
            raise UserError("No panel is selected; tick at least one.")
        return names

    def _connect_fields(self) -> None:
        for field in (self.inches, self.height_box, self.font_size, self.dpi):
            field.valueChanged.connect(self.changed)
            field.refused.connect(self.changed)
        for box in (self.caption, self.letters):
            box.toggled.connect(self.changed)
        for pick in (self.width_box, self.kind_box):
            pick.currentIndexChanged.connect(self._show_rows)
            pick.currentIndexChanged.connect(self.changed)

    def _show_rows(self) -> None:
        """Show inches only for a free width, and resolution only for PNG and scripts."""
        size, file = self.inches.parentWidget(), self.dpi.parentWidget()
        if isinstance(size, Section):
            size.show_row(self.inches, self.width_box.value() == "free")
        if isinstance(file, Section):
            file.show_row(self.dpi, self.kind in ("png", "py"))

    def _on_panels(self) -> None:
        self._which.show_row(self.apart_box, len(self.chosen_panels()) > 1)
        self.changed.emit()

    def _rename_curve(self, name: str, text: str) -> None:
        """Rename a curve during typing; its plain name in the text is replaced by its TeX name."""
        self._renamed.pop(name, None)
        self._renamed[name] = text.replace(strip_markup(name), name)
        self.changed.emit()
