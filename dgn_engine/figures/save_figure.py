"""Figures of panels, or scripts that draw them, saved by the suffix of the file name."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.figures.export_values import FORMATS as NUMBERS
from dgn_engine.figures.export_values import save_numbers, write_export
from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import MOST_PIXELS, FigureStyle
from dgn_engine.figures.paper import WHITE, print_style
from dgn_engine.figures.pgf_file import pgf_files
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.figures.redraw_script import script_files
from dgn_engine.scene.elements import Empty, Shown
from dgn_engine.text.written_numbers import format_number

FORMATS = (".png", ".svg", ".pdf", ".pgf", ".py")
_BESIDE = {"pgf": pgf_files, "py": script_files}  # kinds with more files beside them


def save_figure(
    shown: Shown, path: Path, context: Provenance, style: FigureStyle | None = None
) -> Path:
    """Draw one panel and write it.

    Raises:
        UserError: There is nothing to draw, or the file cannot be written.
    """
    if isinstance(shown, Empty):
        message = f"{context.title} has nothing to export: {shown.reason}"
        raise UserError(message, kind="empty", value=shown.reason)
    save_page([FigurePanel(path.stem, shown, context)], path, style or FigureStyle())
    return path


def save_panels(panels: Sequence[FigurePanel], path: Path, style: FigureStyle) -> tuple[Path, ...]:
    """Write panels as one page, or the numbers of each to its own files (`NAME-PANEL.csv`)."""
    if path.suffix.lower() not in NUMBERS:
        return save_page(panels, path, style)
    names = {panel.name: f"{path.stem}-{panel.name}{path.suffix}" for panel in panels}
    return tuple(
        file
        for panel in panels
        for file in save_numbers(
            panel.scene,
            path.with_name(names[panel.name]) if len(panels) > 1 else path,
            panel.context,
        )
    )


def save_page(panels: Sequence[FigurePanel], path: Path, style: FigureStyle) -> tuple[Path, ...]:
    """Draw panels on one page and write it; return the files, the figure first."""
    kind = path.suffix.lower().removeprefix(".")
    if f".{kind}" not in FORMATS:
        message = f"{path.name} is not a figure; use a name ending in {', '.join(FORMATS)}."
        raise UserError(message, kind="unknown-format", value=path.name)
    if kind in _BESIDE:
        named_files = _BESIDE[kind](panels, style, path.stem)
        files = {path.with_name(name): content for name, content in named_files}
    else:
        files = {path: page_bytes(panels, kind, style)}
    for file, content in files.items():
        write_export(file, content)
    return tuple(files)


def page_bytes(
    panels: Sequence[FigurePanel], kind: str, style: FigureStyle, dpi: float = 0.0
) -> bytes:
    """Return the page as 'png', 'svg' or 'pdf'; `dpi` overrides that of the style."""
    content = io.BytesIO()
    with print_style():
        figure = draw_page(panels, style)
        dots = dpi or style.dpi
        wide, high = figure.get_size_inches()
        if kind == "png" and wide * high * dots**2 > MOST_PIXELS:
            raise UserError(
                f"{format_number(wide, 3)} × {format_number(high, 3)} in at "
                f"{format_number(dots)} dpi is too many "
                "pixels; use a lower dpi, or PDF, which needs none."
            )
        figure.savefig(
            content, format=kind, dpi=dots, facecolor=WHITE, metadata=_file_metadata(kind, panels)
        )
    return content.getvalue()


def _file_metadata(kind: str, panels: Sequence[FigurePanel]) -> dict[str, str | None]:
    """Return the origin of the data, without a date, so that equal data make equal files."""
    title = "; ".join(panel.context.caption for panel in panels)
    origins = [panel.context.as_dict() for panel in panels]
    about = json.dumps(origins[0] if len(origins) == 1 else origins, ensure_ascii=False)
    match kind:
        case "png":
            return {"Title": title, "Description": about, "Software": "dgn-viewer"}
        case "svg":
            return {"Title": title, "Description": about, "Date": None}
        case _:
            return {"Title": title, "Subject": about, "CreationDate": None}
