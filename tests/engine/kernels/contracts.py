"""The shapes that the docstrings of `dgn_engine.kernels` promise, checked at every call in tests.

A contract names axes: `n n` is a square matrix, `...` any further axes, a number that very size,
`=` whatever the shape is. One name means one size within a call, result included. Sequences of
tensors are checked each by each; None and what is left out are not checked.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

import dgn_engine.kernels as k

Contract = tuple[dict[str, str], dict[str, str]]  # arguments, fields of the result ('' is itself)

PATHS = {"gates": "n ...", "sensitivities": "n ...", "masks": "n ...", "x_value": "n ..."}
GATES = PATHS | {"other": "m ..."}
TRAJECTORY = {"times": "t", "train": "t n c", "test": "t m c"}
BLOCK = {"tangent": "n m", "covariance": "n m"}

CONTRACTS: dict[str, Contract] = {
    "class_targets": ({"labels": "n"}, {"": "n c"}),
    "contradictory_examples": ({"x": "n ...", "labels": "n"}, {"": "k"}),
    "convolutional_limit": ({"x": "n c h w", "other": "m c h w"}, BLOCK),
    "estimate_path_kernel": (GATES, {"kernel": "n m", "error": "n m"}),
    "gated_limit": (
        {"x": "n ...", "other": "m ..."},
        {**BLOCK, "value": "n m", "feature": "n m"},
    ),
    "gradient_descent": ({"kernel": "n ...", "targets": "n ...", "block": "m ..."}, TRAJECTORY),
    "gradient_flow": ({"kernel": "n ...", "targets": "n ...", "block": "m ..."}, TRAJECTORY),
    "input_gram": ({"x": "n ...", "other": "m ..."}, {"": "n m"}),
    "kernel_regression": (
        {"kernel": "n n", "targets": "n ...", "train": "a", "test": "b"},
        {},
    ),
    "layer_overlap": ({"gates": "n ...", "other": "m ..."}, {"": "n m"}),
    "layer_sensitivity": ({"sensitivities": "n ...", "other": "m ..."}, {"": "n m"}),
    "leading_spectrum": (
        {"kernel": "n n"},
        {"eigenvalues": "k", "vectors": "n k", "cumulative": "k"},
    ),
    "linear_limit": ({"x": "n ...", "other": "m ..."}, BLOCK),
    "network_limit": ({"x": "n ...", "other": "m ..."}, BLOCK),
    "neural_path_kernel": (GATES, {"": "n m"}),
    "nu": ({"kernel": "n n", "targets": "n ..."}, {}),
    "overlap": (GATES, {"": "n m"}),
    "expected_feature_kernel": ({"x": "n ...", "other": "m ..."}, {"": "n m"}),
    "expected_value_kernel": (GATES, {"": "n m"}),
    "path_diagonal": ({}, {"": "n"}),
    "random_gating_eigenvalues": ({}, {"": "n"}),
    "random_gating_kernel": ({}, {"": "n n"}),
    "relu_limit": ({"x": "n ...", "other": "m ..."}, BLOCK),
    "sensitive_overlap": (GATES, {"": "n m"}),
    "soft_relu_limit": (
        {"x": "n ...", "other": "m ..."},
        {**BLOCK, "value": "n m", "feature": "n m", "cross": "n m"},
    ),
    "spectrum": (
        {"kernel": "n n", "targets": "n ..."},
        {"eigenvalues": "n", "cumulative": "n", "alignment": "n"},
    ),
    "sub_network_kernel": (GATES, {"": "n m"}),
    "sub_network_shares": (PATHS, {}),
    "tangent_diagonal": ({}, {"": "n"}),
    "unit_diagonal": ({"kernel": "n n"}, {"": "n n"}),
}
# The modes of tangent kernels: the shape of each part for blocks of n and m examples.
LOGITS = {"mean": "n m", "sumlogit": "n m", "perclass": "c n m", "full": "n c m c"}
TANGENTS = ("tangent_kernels", "empirical_ntk")
# Numbers, names and modules in, no tensors out.
WITHOUT_SHAPES = {
    "adapt",
    "check_budget",
    "estimate_overlap",
    "gate_churn",
    "kernel_bytes",
    "npk_cost",
    "ntk_cost",
    "pair_bytes",
    "path_operator",
    "residual_blocks",
    "sub_network",
    "tangent_operator",
    "value_kernel_constant",
    "weight_sigmas",
}


def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its contract: a broken promise of the result is an assertion."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*positional: Any, **named: Any) -> Any:
        result = function(*positional, **named)
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        check(name, bound.arguments, result)
        return result

    return wrapper


def check(name: str, arguments: Mapping[str, Any], result: Any) -> None:
    """Hold one call against its contract; arguments that were refused never come here."""
    taken, given = _contract(name, arguments)
    sizes: dict[str, int] = {}
    symmetric = arguments.get("other") is None and "other" in taken
    for argument, axes in taken.items():
        _fit(f"{name}: {argument}", axes, arguments.get(argument), sizes)
    if symmetric and "n" in sizes:
        sizes.setdefault("m", sizes["n"])
    for field, axes in given.items():
        part = getattr(result, field) if field else result
        _fit(f"{name}: result {field}".rstrip(), axes, part, sizes)


def _contract(name: str, arguments: Mapping[str, Any]) -> Contract:
    if name not in TANGENTS:
        return CONTRACTS[name]
    axes = LOGITS[arguments["logits"]]
    if name == "empirical_ntk":
        return {"x": "n ...", "other": "m ..."}, {"": axes}
    parts = dict.fromkeys(("value", "feature", "cross", "whole"), axes)
    return {"x": "n ...", "other": "m ..."}, parts


def _fit(what: str, axes: str, value: Any, sizes: dict[str, int]) -> None:
    if isinstance(value, k.PathInputs):
        value = [*value.gates, *value.masks, *([] if value.x_value is None else [value.x_value])]
    if isinstance(value, Sequence):
        for one in value:
            _fit(what, axes, one, sizes)
    elif isinstance(value, Tensor):
        names = axes.split()
        rest = names[-1] == "..."
        names = names[:-1] if rest else names
        shape = tuple(value.shape)
        enough = len(shape) >= len(names) if rest else len(shape) == len(names)
        same = all(sizes.setdefault(a, s) == s for a, s in zip(names, shape, strict=False))
        assert (enough, same) == (True, True), (
            f"{what} has shape {shape}; '{axes}' with {sizes} is promised"
        )


def switch_on() -> None:
    """Check every public function of `dgn_engine.kernels` from now on."""
    for name in (*CONTRACTS, *TANGENTS):
        function = getattr(k, name)
        if not hasattr(function, "__wrapped__"):
            setattr(k, name, checked(name, function))
