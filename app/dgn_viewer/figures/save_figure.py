"""Saves what a panel shows as a figure: PNG, SVG or PDF by the suffix of the name."""

from __future__ import annotations

import io
import json
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_viewer.figures.export_values import write_export
from dgn_viewer.figures.figure_charts import PAPER, draw_figure, print_style
from dgn_viewer.figures.provenance import Provenance
from dgn_viewer.scene.elements import Empty, Shown

FORMATS = (".png", ".svg", ".pdf")
DPI = 300


def save_figure(shown: Shown, path: Path, context: Provenance) -> Path:
    """Draw and write; raises `UserError` where there is nothing to draw or it cannot be written."""
    if isinstance(shown, Empty):
        raise UserError(f"{context.title} shows nothing to export: {shown.reason}")
    kind = path.suffix.lower().removeprefix(".")
    if f".{kind}" not in FORMATS:
        raise UserError(f"{path.name} is no figure; end its name in {', '.join(FORMATS)}.")
    content = io.BytesIO()
    with print_style():
        figure = draw_figure(shown, context)
        figure.savefig(
            content, format=kind, dpi=DPI, facecolor=PAPER, metadata=_metadata(kind, context)
        )  # fmt: skip
    write_export(path, content.getvalue())
    return path


def _metadata(kind: str, context: Provenance) -> dict[str, str | None]:
    """Where the data come from; no date, so that the same data make the same file."""
    about = json.dumps(context.as_dict(), ensure_ascii=False)
    match kind:
        case "png":
            return {"Title": context.caption, "Description": about, "Software": "dgn-viewer"}
        case "svg":
            return {"Title": context.caption, "Description": about, "Date": None}
        case _:
            return {"Title": context.caption, "Subject": about, "CreationDate": None}
