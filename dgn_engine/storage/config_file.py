"""Reads TOML files: regular files of a bounded size, their content held to bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.text.toml import MOST, TomlError, parse_toml


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a TOML file that is called `what`; raises `UserError` naming it.

    What is no regular file (a FIFO, a device, a folder) is refused without waiting for it.
    """
    try:
        return parse_toml(read_regular(path, MOST).decode("utf-8"))
    except OSError as error:
        raise UserError(
            f"Cannot read the {what} {path}: {error.strerror}.", kind="unreadable", value=what
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"Cannot read the {what} {path}: it is no text in UTF-8.", kind="no-text", value=what
        ) from None
    except TomlError as error:
        raise UserError(f"{path} {error}.", kind=error.kind) from None


def read_config(path: Path) -> RunConfig:
    """The configuration of a run in a TOML file; raises `UserError` naming the file."""
    tree = read_toml(path, "configuration")
    try:
        return RunConfig.from_dict(tree)
    except UserError as refusal:
        raise UserError(f"{path}: {refusal}", kind=refusal.kind, value=refusal.value) from None
