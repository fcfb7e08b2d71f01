"""Writes checkpoints as safetensors, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_file


def save_network(path: Path, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and notes as safetensors; raises `UserError` as `write_atomically` does."""
    # A copy, because tied tensors share a storage, which the format cannot express.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}
    write_atomically(path, save(tensors, metadata=dict(metadata)))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file, and its folder where there is none; `path` holds the old or the new file.

    Raises `UserError` where the disk is full, read-only or gone; then nothing is left behind.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None
