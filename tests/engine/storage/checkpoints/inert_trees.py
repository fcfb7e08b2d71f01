"""Trees of a pickle as the parser makes them, without a pickle; and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.pickle_file import InertDict, InertObject
from dgn_engine.storage.checkpoints.pickled_tensors import StridedTensor, TensorStorage, Unsupported
from dgn_engine.storage.checkpoints.tensor_tree import parsed_tree

NUMBERS = np.arange(12, dtype="<f4")


def records(_: TensorStorage) -> tuple[memoryview, str]:
    return memoryview(NUMBERS.tobytes()), "<"


def tensor(*shape: int, offset: int = 0, strides: Any = None, **given: Any) -> StridedTensor:
    steps = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    store = TensorStorage("0", given.pop("stored", "float32"), 12, **given)
    return StridedTensor(store, offset, shape, steps if strides is None else strides, "float32")


def table(**pairs: Any) -> InertDict:
    return InertDict(list(pairs.items()))


def tree_of(tree: Any, most: int = 1 << 20) -> Any:
    return parsed_tree(tree, records, most, "made up")


@contextmanager
def unreadable(kind: str, value: object = None) -> Iterator[None]:
    """Assert that a file is refused for a reason of this kind."""
    with pytest.raises(UnreadableFile) as refused:
        yield
    assert refused.value.kind == kind, refused.value
    assert value in (None, refused.value.value)


def reason_not_read(found: Any) -> str:
    """Why a tensor is not read."""
    assert isinstance(found, Unsupported)
    return found.reason


def layer(kind: str, **numbers: Any) -> InertObject:
    """A module of `torch.nn.modules`, such as 'linear.Linear'."""
    return InertObject(f"torch.nn.modules.{kind}", (), state=table(**numbers))


def sequence(*children: tuple[str, Any], **more: Any) -> InertObject:
    """An `nn.Sequential` with these children."""
    return layer("container.Sequential", _modules=InertDict(list(children)), **more)
