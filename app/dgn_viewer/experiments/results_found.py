"""Which experiments have a result among the user's, and of which day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dgn_engine.experiments.report.result_layout import RESULTS
from dgn_engine.storage.regular_files import read_text

_SCALES = ("quick", "full")
_MADE = re.compile(r'"made": "(\d{4}-\d{2}-\d{2})')


def results_found(root: Path, names: Iterable[str]) -> Mapping[str, str]:
    """The day of the newest result of each experiment that has one ('2026-11-02'), by its name.

    Of a result only its day is read; what is no sound file is passed over.
    """
    known = sorted(names, key=len, reverse=True)
    found: dict[str, str] = {}
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        name = next(
            (
                one
                for one in known
                for scale in _SCALES
                if folder.name == f"{one}-{scale}" or folder.name.startswith(f"{one}-{scale}-")
            ),
            "",
        )
        day = _day(folder / RESULTS) if name else ""
        if day > found.get(name, ""):
            found[name] = day
    return found


def _day(path: Path) -> str:
    try:
        made = _MADE.search(read_text(path))
    except (OSError, ValueError):
        return ""
    return made[1] if made is not None else ""
