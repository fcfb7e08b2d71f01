"""Writing our own checkpoints: safetensors, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_file


def save_network(path: Path, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and notes as safetensors; the file at `path` is the old or the new one.

    Raises `UserError` where the folder is full, read-only or gone; then nothing is left behind.
    """
    # A copy, because tied tensors share a storage, which the format cannot say.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}
    write_atomically(path, save(tensors, metadata=dict(metadata)))


def write_atomically(path: Path, content: bytes) -> None:
    """`write_file` into a folder that is made if need be; raises `UserError` where it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None
