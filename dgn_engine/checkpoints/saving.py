"""Writing our own checkpoints: safetensors, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from dgn_engine.refusal import Refusal


def save_network(path: Path, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and notes as safetensors; the file at `path` is the old or the new one.

    Raises `Refusal` where the folder is full, read-only or gone; then nothing is left behind.
    """
    # A copy, because tied tensors share a storage, which the format cannot say.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}
    write_atomically(path, save(tensors, metadata=dict(metadata)))


def write_atomically(path: Path, content: bytes) -> None:
    """Write, sync, rename, sync the folder: a kill at any byte leaves a whole file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            _sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise Refusal(f"Cannot write {path}: {error.strerror or error}.") from None


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and need not be
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
