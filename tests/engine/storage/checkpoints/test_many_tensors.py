"""State dicts and lists that pickle writes in several parts, of 1,000 members each."""

from __future__ import annotations

import io

import pytest
import torch

from dgn_engine.storage.checkpoints.reader_child import read


@pytest.mark.parametrize("count", [999, 1000, 1001, 2001])
@pytest.mark.parametrize("legacy", [False, True])
def test_every_tensor_of_a_large_state_dict_is_read(count: int, legacy: bool) -> None:
    """1,001 leave one over, which pickle writes with another instruction."""
    file = io.BytesIO()
    tensors = {f"layers.{n}.weight": torch.full((1, 2), float(n)) for n in range(count)}
    torch.save(tensors, file, _use_new_zipfile_serialization=not legacy)
    found = read(file.getvalue()).arrays
    assert list(found) == list(tensors)
    assert all((array == float(n)).all() for n, array in enumerate(found.values()))


@pytest.mark.parametrize("count", [1001, 2000])
def test_every_tensor_of_a_long_list_is_read(count: int) -> None:
    file = io.BytesIO()
    torch.save([torch.full((2, 1), float(n)) for n in range(count)], file)
    found = read(file.getvalue()).arrays
    assert sorted(float(array[0, 0]) for array in found.values()) == [
        float(n) for n in range(count)
    ]
