"""Limits on the size of recorded runs: one for each run's folder, one for all runs together.

They are stored in `limits.toml` in the user's folder of runs and apply to `dgn` and the window.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders, write_file
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs.folder_layout import LIMITS
from dgn_engine.text.byte_counts import binary_size_in_words

SMALLEST_RUN = 16 << 20  # bytes
LARGEST = 1 << 58
_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(MiB|GiB|TiB)")


@dataclass(frozen=True)
class StorageLimits:
    """Limits in bytes. `run`: for one run's folder; `all`: for a folder of runs."""

    run: int = 512 << 20
    all: int = 20 << 30

    def __post_init__(self) -> None:
        if not SMALLEST_RUN <= self.run <= LARGEST:
            raise UserError(
                f"the limit of a run is {binary_size_in_words(self.run)}; it must be "
                f"{binary_size_in_words(SMALLEST_RUN)} or more.",
                kind="out-of-bounds",
                value=self.run,
            )
        if not self.run <= self.all <= LARGEST:
            raise UserError(
                f"the limit of all runs is {binary_size_in_words(self.all)}; it must be at least "
                f"that of one run, {binary_size_in_words(self.run)}.",
                kind="out-of-bounds",
                value=self.all,
            )


def read_limits(root: Path) -> StorageLimits:
    """Return the limits of a folder of runs, or the defaults; raises `UserError` if damaged."""
    path = root / LIMITS
    try:
        tree = tomllib.loads(read_regular(path).decode("utf-8"))
        unknown = set(tree) - {"run", "all"}
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]!r} is unknown")
        return StorageLimits(**{name: parse_size(str(size)) for name, size in tree.items()})
    except FileNotFoundError:
        return StorageLimits()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError, UserError) as error:
        raise UserError(
            f"{path} is damaged ({str(error).rstrip('.')}); 'dgn runs limits' with --run or --all "
            "replaces it.",
            kind="damaged",
            value=path,
        ) from None


def effective_limits(root: Path) -> StorageLimits:
    """Like `read_limits`, but with the defaults for a damaged file: runs are recorded anyway."""
    try:
        return read_limits(root)
    except UserError:
        return StorageLimits()


def write_limits(root: Path, limits: StorageLimits) -> None:
    """Write the limits; raises `UserError` if they cannot be written."""
    text = f'run = "{_exact_size(limits.run)}"\nall = "{_exact_size(limits.all)}"\n'
    try:
        make_folders(root)
        write_file(root / LIMITS, text.encode())
    except OSError as error:
        raise UserError(f"{root / LIMITS} cannot be written: {error.strerror}.") from None


def _exact_size(amount: int) -> str:
    """Format a size for `parse_size`, exact to a byte where possible."""
    unit = "GiB" if amount % _UNITS["GiB"] == 0 else "MiB" if amount < 1 << 50 else "TiB"
    return f"{amount / _UNITS[unit]:.6f}".rstrip("0").rstrip(".") + f" {unit}"


def parse_size(text: str) -> int:
    """Parse '512 MiB' or '1.5 GiB' into bytes; raises `UserError`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UserError(
            f"'{text}' is not a size; write it as 512 MiB, 1.5 GiB or 2 TiB.",
            kind="no-size",
            value=text,
        )
    return int(float(match[1]) * _UNITS[match[2]])
