"""Whether what was read is what was saved, and whether a verdict is one that may be given."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from tests.faults.hostile_files import Hostile
from tests.faults.sandbox import Verdict

WIDENED = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
MEMORY = 200 << 20  # bytes that a small file may take
SECONDS = 20.0


def differences(found: Mapping[str, Array], wanted: Mapping[str, Array | Tensor]) -> list[str]:
    """The names that are missing, too many, or have other numbers."""
    names = [name for name in (*found, *wanted) if (name in found) != (name in wanted)]
    for name in found.keys() & wanted.keys():
        value = wanted[name]
        if isinstance(value, Tensor):
            value = value.detach()
            value = (value.float() if value.dtype in WIDENED else value).numpy()
        if found[name].shape != value.shape or not np.array_equal(found[name], value):
            names.append(name)
    return names


def misjudged(kind: Hostile, contents: CheckpointContents | None, sentence: str) -> str:
    """What is wrong with the verdict on a hostile file; or ''."""
    if kind.refused:
        return "" if re.search(kind.refused, sentence) else sentence or "it was taken"
    if contents is None:
        return sentence
    if set(contents.arrays) != set(kind.shown):
        return f"shown: {sorted(contents.arrays)}"
    if not any(re.search(kind.ignored, line) for line in (*contents.ignored, "")):
        return f"ignored: {contents.ignored}"
    return ""


def unsound(content: bytes, verdict: Verdict) -> str:
    """What no file whatever may bring about; or ''."""
    if verdict.contents is not None:
        arrays = verdict.contents.arrays
        size = sum(array.nbytes for array in arrays.values())
        if not arrays or size > limits.expansion_limit(len(content)):
            return f"{len(arrays)} arrays of {size} bytes"
    for wrong in ("ended or stopped its reader", "made its reader do", "cannot be read ("):
        if wrong in verdict.sentence:
            return verdict.sentence
    if "\n" in verdict.sentence or len(verdict.sentence) > 700:
        return "a sentence that is none"
    if verdict.grown > MEMORY + 8 * len(content):
        return f"{verdict.grown >> 20} MB"
    return f"{verdict.seconds:.0f} s" if verdict.seconds > SECONDS else ""
