"""Under which names an animation can be written here."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.confinement.start_folder import find_program
from dgn_engine.errors import UserError

FORMATS = (".gif", ".mp4")
REST = 1.5  # seconds for which the last page stands, at least


def waits(pages: int, per_second: float) -> list[int]:
    """For how many milliseconds each page of a film stands."""
    each = round(1000.0 / per_second)
    return [each] * (pages - 1) + [max(each, round(1000.0 * REST))]


def check_format(path: Path) -> None:
    """Raise `UserError` where no animation can be written under this name."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        words = f"{path.name} is no animation; end its name in .gif or .mp4."
        raise UserError(words, kind="unknown-format", value=path.name)
    if ending == ".mp4" and find_program("ffmpeg") is None:
        raise UserError(
            f"{path.name} needs the program ffmpeg, which is not installed; install it or end the "
            "name in .gif.",
            kind="no-program",
            value="ffmpeg",
        )
