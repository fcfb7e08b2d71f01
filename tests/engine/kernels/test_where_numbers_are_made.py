"""What a function makes on its way has the device and the type of its inputs, not torch's defaults.

The default device is one without numbers, as 'cuda' would be another than that of the inputs; the
default type one in which the results would differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from tests.engine.kernels.working_calls import CALLS, tensors


def with_tensors(call: Any) -> bool:
    if isinstance(call, dict):
        return any(with_tensors(value) for value in call.values())
    return isinstance(call, (Tensor, torch.nn.Module, k.PathInputs))


FUNCTIONS = [
    name
    for name, make in CALLS.items()
    if inspect.isfunction(getattr(k, name)) and with_tensors(make()) and name != "adapt"
]

# Computed in float64 on the CPU wherever the inputs lie, or drawn there by a generator.
ON_THE_CPU = {
    "cut_distances",
    "convolutional_limit",
    "estimate_overlap",
    "estimate_path_kernel",
    "gated_limit",
    "gradient_descent",
    "gradient_flow",
    "kernel_regression",
    "kernel_svm",
    "leading_spectrum",
    "network_limit",
    "soft_relu_limit",
    "tangent_operator",
}
DRAWN = {"estimate_path_kernel"}  # signs of numbers of the default type


@contextmanager
def another_default(kind: str) -> Iterator[None]:
    if kind == "device":
        with torch.device("meta"):
            yield
        return
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "device") for name in FUNCTIONS if name not in ON_THE_CPU]
    + [(name, "type") for name in FUNCTIONS if name not in DRAWN],
)
def test_defaults_of_torch_change_no_result(name: str, kind: str) -> None:
    function = getattr(k, name)
    torch.manual_seed(0)
    expected = list(tensors(function(**CALLS[name]())))
    torch.manual_seed(0)
    call = CALLS[name]()
    with another_default(kind):
        result = function(**call)
    found = list(tensors(result))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.device == other.device
        assert one.dtype == other.dtype
        assert torch.equal(one.nan_to_num(), other.nan_to_num())
