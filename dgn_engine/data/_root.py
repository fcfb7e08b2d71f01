"""Where data sets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from dgn_engine.errors import UserError


def user_cache() -> Path:
    """The user's cache folder for this program (it need not exist)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "dgn-viewer"


def data_root(chosen: str | Path | None = None) -> Path:
    """The chosen folder, else DGN_DATA_ROOT, else a folder in the user's cache."""
    named = str(chosen or "") or os.environ.get("DGN_DATA_ROOT", "")
    return Path(named).expanduser() if named else user_cache() / "data"


def missing(title: str, root: Path) -> UserError:
    """The one sentence about a data set that is not there."""
    return UserError(
        f"{title} is not in {root}; allow the download (--download), or name the folder "
        "that holds it (--data-root or DGN_DATA_ROOT)."
    )
