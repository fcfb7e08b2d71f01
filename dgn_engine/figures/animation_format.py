"""File names that an animation can be written to."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.confinement.start_folder import find_program
from dgn_engine.errors import UserError

FORMATS = (".gif", ".mp4")
REST = 1.5  # minimum time of the last page in seconds


def frame_durations(pages: int, per_second: float) -> list[int]:
    """Return the milliseconds for which each page is shown."""
    duration = round(1000.0 / per_second)
    return [duration] * (pages - 1) + [max(duration, round(1000.0 * REST))]


def check_format(path: Path) -> None:
    """Raise `UserError` if no animation can be written to this name."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        message = f"{path.name} is not an animation; use a name ending in .gif or .mp4."
        raise UserError(message, kind="unknown-format", value=path.name)
    if ending == ".mp4" and find_program("ffmpeg") is None:
        raise UserError(
            f"{path.name} needs ffmpeg, which is not installed; install it, or use a name ending "
            "in .gif.",
            kind="no-program",
            value="ffmpeg",
        )
