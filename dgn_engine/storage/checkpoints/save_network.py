"""Write checkpoints as safetensors, completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.inner_path import FilePath

_NOTES = "__metadata__"  # the key of a safetensors header


def save_network(path: FilePath, state: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and notes as safetensors; equal content gives equal bytes.

    Raises `UserError` as `save_file` does.
    """
    # A copy, because tied tensors share a storage, which the format cannot express.
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}
    save_file(path, _sort_notes(save(tensors, metadata=dict(metadata))))


def _sort_notes(content: bytes) -> bytes:
    """Return the file with its notes sorted by name.

    The library's order changes from call to call, so weights saved twice would not match the
    digest in the inventory of their run.
    """
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if len(header.get(_NOTES, ())) < 2:
        return content
    header[_NOTES] = dict(sorted(header[_NOTES].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
    return b"".join((len(text).to_bytes(8, "little"), text, memoryview(content)[8 + size :]))
