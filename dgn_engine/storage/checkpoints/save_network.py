"""Writes checkpoints as safetensors, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.inner_path import FilePath

_NOTES = "__metadata__"  # the key of a safetensors header


def save_network(path: FilePath, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and notes as safetensors; the same ones give the same bytes.

    Raises `UserError` as `save_file` does.
    """
    # A copy, because tied tensors share a storage, which the format cannot express.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}
    save_file(path, _sort_notes(save(tensors, metadata=dict(metadata))))


def _sort_notes(content: bytes) -> bytes:
    """Return a file with its notes in the order of their names.

    The library writes them in an order that changes from call to call: weights that were saved
    twice had another digest than the inventory of their run.
    """
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if len(header.get(_NOTES, ())) < 2:
        return content
    header[_NOTES] = dict(sorted(header[_NOTES].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return b"".join((len(text).to_bytes(8, "little"), text, memoryview(content)[8 + size :]))
