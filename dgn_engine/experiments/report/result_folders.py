"""Where results lie, and what lies there."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.experiments import Request
from dgn_engine.experiments.report import document, progress
from dgn_engine.experiments.report.result_layout import folder_name
from dgn_engine.storage.runs.folder_layout import results_root


def default_folder(name: str, request: Request) -> Path:
    """NAME-SCALE among the user's results, with what else decides its report."""
    return results_root() / folder_name(name, request)


def status(folder: Path) -> str:
    """'none', 'interrupted, 40 % done', 'done 2026-11-21', in words for a list."""
    try:
        now = progress.read(folder)
    except UserError:
        return "none"
    if now.state == "done":
        try:
            return f"done {document.read(folder).made[:10]}"
        except UserError:
            return "damaged"
    state = "interrupted" if now.state == "running" else now.state
    return f"{state}, {now.fraction:.0%} done"
