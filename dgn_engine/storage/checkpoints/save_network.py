"""Writes checkpoints as safetensors, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.inner_path import FilePath


def save_network(path: FilePath, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and notes as safetensors; raises `UserError` as `save_file` does."""
    # A copy, because tied tensors share a storage, which the format cannot express.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}
    save_file(path, save(tensors, metadata=dict(metadata)))
