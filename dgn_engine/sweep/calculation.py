"""Run calculations and store their call, result and duration in a folder."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folders, write_file
from dgn_engine.storage.inner_path import InnerPath, inner_folder
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.regular_files import read_regular, read_text
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.unit import Calculation, CalculationInputs, unit_folder, unit_to_plain

RESULT = "result.json"  # the returned value
UNIT = "unit.json"  # the call, with its duration in seconds and the digest of the result
PACKAGE = "dgn_engine."
_SECONDS, _DIGEST = "seconds", "sha256"  # missing in files of older versions


def is_calculated(unit: Calculation, folder: Path) -> bool:
    """Return whether the folder has an intact result of this calculation.

    Raises:
        UserError: the folder has another calculation.
    """
    written, result = _read_unit(folder), _read_bytes(inner_folder(folder) / RESULT)
    if written is None or result is None:
        return False
    digest = written.pop(_DIGEST, None)
    written.pop(_SECONDS, None)
    if written != unit_to_plain(unit):
        raise UserError(
            f"{folder} contains a different calculation; choose another folder with --out.",
            kind="other-run",
            value=str(folder),
        )
    if digest is not None:
        return bool(digest == _sha256_hex(result))
    try:
        json.loads(result)
    except (ValueError, RecursionError):
        return False
    return True


def run_calculation(unit: Calculation, root: Path) -> None:
    """Run a calculation, unless another process has finished it in the meantime."""
    module, _, name = unit.function.partition(":")
    if not module.startswith(PACKAGE):
        raise UserError(
            f"The unit '{unit.id}' calls {unit.function}, which is not part of dgn.",
            kind="not-ours",
            value=unit.function,
        )
    function: Callable[[CalculationInputs], Any] = getattr(importlib.import_module(module), name)
    folder = unit_folder(root, unit.id)
    make_folders(folder)
    within = inner_folder(folder)
    lock = Lock(within / LOCK)
    lock.acquire()
    try:
        if is_calculated(unit, folder):
            return
        needs = {need: unit_folder(root, need) for need in unit.needs}
        began = time.monotonic()
        result = json.dumps(function(CalculationInputs(unit.arguments, folder, needs))).encode()
        took = round(time.monotonic() - began, 6)
        written = {**unit_to_plain(unit), _SECONDS: took, _DIGEST: _sha256_hex(result)}
        write_file(within / UNIT, json.dumps(written).encode())
        write_file(within / RESULT, result)  # last: it marks the calculation as done
    finally:
        lock.release()


def read_result(folder: Path) -> Any:
    """Read the JSON value of a calculation.

    Raises:
        UserError: it cannot be read. Looking up a key that an older version of the calculation
            did not write raises `UserError`, too.
    """
    path = inner_folder(folder) / RESULT

    def wrap_object(tree: dict[str, Any]) -> _Named:
        return _Named(tree, folder)

    try:
        return json.loads(read_text(path), object_hook=wrap_object)
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"Cannot read {path}: {error}; run the same command to calculate it again.",
            kind="damaged",
            value=str(path),
        ) from None


def seconds_taken(folder: Path) -> float:
    """Return the duration in seconds; NaN if an older version did not store it."""
    written = (_read_unit(folder) or {}).get(_SECONDS)
    return float(written) if isinstance(written, (int, float)) else math.nan


class _Named(dict[str, Any]):
    """A JSON object that names its file when a key is missing."""

    def __init__(self, tree: dict[str, Any], folder: Path) -> None:
        super().__init__(tree)
        self._folder = folder

    def __missing__(self, key: str) -> Any:
        raise UserError(
            f"{self._folder / RESULT} has no '{key}': another version wrote it; delete the "
            f"folder {self._folder} and run the command again.",
            kind="not-recorded",
            value=key,
        )


def _read_unit(folder: Path) -> dict[str, Any] | None:
    content = _read_bytes(inner_folder(folder) / UNIT)
    try:
        tree = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _read_bytes(path: InnerPath) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _sha256_hex(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
