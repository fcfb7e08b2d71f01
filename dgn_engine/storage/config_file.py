"""Read TOML files: regular files of bounded size, with bounded content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.text.toml import MOST, TomlError, parse_toml


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Return the content of a TOML file; a `UserError` names it as `what`.

    Anything but a regular file (a FIFO, a device, a folder) is refused without blocking.
    """
    try:
        return parse_toml(read_regular(path, MOST).decode("utf-8"))
    except OSError as error:
        raise UserError(
            f"Cannot read the {what} {path}: {error.strerror}.", kind="unreadable", value=what
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"Cannot read the {what} {path}: it is not UTF-8 text.", kind="no-text", value=what
        ) from None
    except TomlError as error:
        raise UserError(f"{path} {error}.", kind=error.kind) from None


def read_config(path: Path) -> RunConfig:
    """Return the run configuration in a TOML file; a `UserError` names the file."""
    tree = read_toml(path, "configuration")
    try:
        return RunConfig.from_dict(tree)
    except UserError as refusal:
        raise UserError(f"{path}: {refusal}", kind=refusal.kind, value=refusal.value) from None
