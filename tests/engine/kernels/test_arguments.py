"""Every public function of `dgn_engine.kernels` says what is wrong with each of its arguments.

Functions are found by `__all__` and their arguments by their signatures: a new one needs a call
that works in CALLS, a new argument its bad values in BAD, and the checks that refuse them.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.kernels import arguments
from dgn_engine.model.feature_layers import parallel_features
from tests.engine.kernels.routed import FC
from tests.engine.kernels.tiny import (
    draw_images,
    make_network,
    random_gates,
)
from tests.engine.kernels.working_calls import (
    CALLS,
    DENSE,
    N,
    a_kernel,
    a_module,
    a_target,
    tensors,
)
from tests.refusals import refused
from tests.snapshots import Recorded

Bad = Iterator[tuple[str, Any]]


def _no_floats(tensor: Tensor) -> Bad:
    """What is no tensor of floating numbers."""
    yield "numpy", tensor.numpy()
    yield "a list", tensor.tolist()
    for dtype in (torch.uint8, torch.bool, torch.int64, torch.float16, torch.complex64):
        yield str(dtype), tensor.abs().to(dtype)
    yield "no axis", torch.tensor(1.0, dtype=tensor.dtype)
    yield "empty", tensor[:0]
    yield "on another device", tensor.to("meta")
    yield "sparse", tensor.to_sparse()
    yield "a word", "image"


def _inputs(tensor: Tensor) -> Bad:
    yield from _no_floats(tensor)
    yield "no width", tensor[..., :0]
    yield "one axis", torch.ones(N, dtype=tensor.dtype)


def _examples(tensor: Tensor) -> Bad:
    bad = dict(_no_floats(tensor))
    for label in ("numpy", "a list", "empty", "a word", "no axis", "on another device"):
        yield label, bad[label]


def _of_the_network(tensor: Tensor) -> Bad:
    yield from _inputs(tensor)
    yield "nothing", None
    yield "another width", torch.cat([tensor, tensor[..., :1]], dim=-1)
    yield "one axis more", tensor[..., None]
    yield "a single example", tensor[0]


def _first_of(tensors: Any, bad: Callable[[Tensor], Bad]) -> Bad:
    for label, one in bad(tensors[0]):
        yield f"{label}, layer 0", [one, *tensors[1:]]


def _layers(tensors: Any) -> Bad:
    yield from _first_of(tensors, _of_the_network)
    last = tensors[-1]
    yield "numpy, last layer", [*tensors[:-1], last.numpy()]
    yield "uint8, last layer", [*tensors[:-1], last.to(torch.uint8)]
    yield "an example more", [*tensors[:-1], torch.cat([last, last[:1]])]
    yield "a layer more", [*tensors, last]
    yield "a layer less", list(tensors[:-1])
    yield "none", []
    yield "nothing", None
    yield "a number", 3
    yield "words", "gates"


def _masks(tensors: Any) -> Bad:
    if not tensors:
        yield "one too many", [torch.zeros(N, 1, 1, 1, dtype=torch.int64)]
        return
    yield "none", []
    yield "too many", [*tensors, tensors[0]]
    yield "nothing", None
    for label, one in (
        ("numpy", tensors[0].numpy()),
        ("floats", tensors[0].double()),
        ("an example less", tensors[0][:-1]),
        ("a position less", tensors[0][..., :-1]),
        ("negative", tensors[0] - 100),
        ("beyond the map", tensors[0] + 10_000),
    ):
        yield label, [one, *tensors[1:]]


def _kernels(kernel: Tensor) -> Bad:
    yield from _inputs(kernel)
    yield "not square", kernel[:, :-1]
    yield "three axes", kernel[None]


def _targets_of(targets: Tensor) -> Bad:
    yield "class numbers", torch.arange(N)
    yield "one too few", targets[:-1]
    yield "three axes", targets[:, None, None]
    yield "not a number", targets * math.nan
    yield from _no_floats(targets)


def _targets_that_count(targets: Tensor) -> Bad:
    """What is divided by the size of the targets needs some."""
    yield "all zero", targets * 0
    yield "as good as zero", targets * 1e-200
    yield "too large", targets * 1e200
    yield from _targets_of(targets)


def _outputs_at_start(outputs: Tensor) -> Bad:
    yield from _no_floats(outputs)
    yield "one too few", outputs[:-1]
    yield "two columns", torch.stack([outputs, outputs], dim=1)
    yield "not a number", outputs * math.nan


def _indices(indices: Tensor) -> Bad:
    yield "numpy", indices.numpy()
    yield "a list", indices.tolist()
    yield "floats", indices.double()
    yield "a mask", torch.tensor([True, True, False, False])
    yield "negative", indices - N
    yield "the last but named −1", torch.cat([indices[:1], torch.tensor([-1])])
    yield "beyond the kernel", indices + N
    yield "twice the same", torch.cat([indices, indices])
    yield "empty", indices[:0]
    yield "two axes", indices[None]


def _labels(labels: Tensor) -> Bad:
    yield "between classes", labels.double() - 0.5
    yield "floats", labels.double()
    yield "bool", labels > 0
    yield "numpy", labels.numpy()
    yield "empty", labels[:0]
    yield "two axes", labels[:, None]


def _counts(_: Any) -> Bad:
    yield from (("zero", 0), ("negative", -1), ("half", 1.5), ("bool", True), ("a word", "3"))


def _positive(_: Any) -> Bad:
    yield from (("negative", -0.1), ("not a number", math.nan), ("infinite", math.inf))
    yield from (("a word", "0.1"), ("bool", True), ("nothing", None))


def _other_sets(other: k.PathInputs) -> Bad:
    yield "a tensor", other.gates[0]
    yield "a tuple", (other.gates, other.x_value)
    for label, gates in _layers(other.gates):
        yield f"gates: {label}", replace(other, gates=gates)
    for label, masks in _masks(other.masks):
        yield f"masks: {label}", replace(other, masks=masks)
    assert other.x_value is not None
    for label, x_value in _of_the_network(other.x_value):
        if x_value is not None:
            yield f"x_value: {label}", replace(other, x_value=x_value)


def _words(_: Any) -> Bad:
    yield from (("unknown", "middle"), ("a number", 3), ("nothing", None))
    yield from (("an array", np.ones((2, 2))), ("a tensor", torch.ones(2)), ("a list", ["mean"]))


def _flags(_: Any) -> Bad:
    yield from (("a word", "no"), ("a number", 1), ("nothing", None))


def _networks(network: Any) -> Bad:
    yield "a module", a_module()
    yield "nothing", None
    yield "half precision", make_network(DENSE).half()
    for label, wiring in (("too short", (0, 1)), ("negative", (0, 1, -1)), ("beyond", (0, 1, 3))):
        turned = make_network(DENSE, own=False, soft=True)
        turned.wiring = wiring
        yield f"wiring {label}", turned
    routed = make_network(DENSE, own=False, soft=True)
    routed.routes = routed.routes[:-1]
    yield "a route missing", routed


def _given(network: Any) -> Bad:
    yield from _networks(network)
    yield "another precision", make_network(DENSE, own=False, soft=True).float()
    for label, count in (("one", 1), ("many", N + 1)):
        given = make_network(DENSE, own=False)
        yield f"gates of {label}", given.with_gates(tuple(random_gates(DENSE, count, hard=True)))


def _deviations(found: Any) -> Bad:
    yield "negative", -0.5
    yield "infinite", math.inf
    yield "not a number", math.nan
    yield "a word", "1"
    yield "too many", [1.0] * 9
    yield "one negative", [-1.0, 1.0, 1.0]
    yield "one of words", ["1", 1.0, 1.0]


def _path_weights(found: k.PathWeights) -> Bad:
    yield from (("nothing", None), ("a list", list(found.weights)))
    yield "another network", replace(found, architecture=DENSE)
    for label, tensor in _no_floats(found.weights[0]):
        yield f"weights: {label}", replace(found, weights=(tensor, *found.weights[1:]))
    yield "weights: a layer less", replace(found, weights=found.weights[:-1])
    yield "biases: none", replace(found, biases=())
    yield "biases: not a number", replace(found, biases=(found.biases[0] * math.nan,))


def _states(_: Any) -> Bad:
    yield from (("nothing", None), ("a kernel", a_kernel()))
    network, x = make_network(DENSE, own=False, soft=True), draw_images(DENSE, N)
    yield "of other inputs", k.KernelState.from_network(network, 2.0 * x)
    yield "of another kind", k.KernelState.from_network(make_network(DENSE), x)


def _but_nothing(bad: Bad) -> Bad:
    return (pair for pair in bad if pair[1] is not None)


BAD: dict[str, Callable[[Any], Bad]] = {
    "after": _layers,
    "architecture": lambda _: iter(
        [
            ("nothing", None),
            ("a list", [1]),
            ("a module", a_module()),
            ("a feature network", parallel_features(FC)),
        ]
    ),
    "as_printed": _flags,
    "before": _layers,
    "beta": _positive,
    "block": lambda block: iter([*_inputs(block), ("transposed", block.T)]),
    "budget_bytes": _counts,
    "most": _counts,
    "others": _counts,
    "classes": lambda _: iter([*_counts(_), ("a billion", 10**9), ("10^5000", 10**5000)]),
    "count": _counts,
    "cuts": _inputs,
    "depth": _counts,
    "directions": _of_the_network,
    "draws": lambda _: iter([*_counts(_), ("one", 1)]),
    "epsilon": _positive,
    "example": lambda example: _but_nothing(_of_the_network(example)),
    "folded": _flags,
    "gate": lambda _: iter([("nothing", None), ("a number", 4.0)]),
    "gates": lambda gates: _layers(gates) if isinstance(gates, list) else _inputs(gates),
    "gates_from": lambda _: iter([("a list", [1]), ("a word", "gates")]),
    "generator": lambda _: iter([("nothing", None), ("a seed", 3)]),
    "initial": _outputs_at_start,
    "initial_test": _outputs_at_start,
    "hyperplanes": _inputs,
    "inputs": lambda inputs: iter([("nothing", None), *_other_sets(inputs)]),
    "input_shape": lambda _: iter([
        ("nothing", None), ("zero", (0,)), ("none", ()), ("half", (1.5,)), ("words", "3"),
    ]),
    "iterations": _counts,
    "linear_features": _flags,
    "parallel_features": _flags,
    "kept": lambda _: iter([("beyond", (5,)), ("negative", (-1,)), ("half", (0.5,))]),
    "kernel": _kernels,
    "kernel_before": lambda kernel: _but_nothing(
        iter([*_kernels(kernel), ("an example less", kernel[:-1, :-1])])
    ),
    "labels": _labels,
    "logits": _words,
    "loss": _words,
    "masks": _masks,
    "module": lambda _: iter([("nothing", None), ("a list", [1]), ("a tensor", torch.ones(3))]),
    "n": _counts,
    "network": _networks,
    "normalise": _words,
    "now": _states,
    "other": lambda other: _other_sets(other) if isinstance(other, k.PathInputs) else (
        _but_nothing(_of_the_network(other))
    ),
    "other_trace": lambda _: iter([
        ("of others", make_network(DENSE).trace(draw_images(DENSE, N + 1))),
        ("a tensor", torch.ones(N)),
    ]),
    "p": lambda _: iter([*_positive(_), ("zero", 0.0), ("beyond", 1.1)]),
    "penalty": lambda _: iter([*_positive(_), ("zero", 0.0)]),
    "radius": lambda _: iter([*_positive(_), ("zero", 0.0)]),
    "rate": lambda _: iter([*_positive(_), ("zero", 0.0)]),
    "ridge": _positive,
    "seed": lambda _: ((label, bad) for label, bad in _counts(_) if bad != 0),
    "shape": lambda _: iter([
        ("nothing", None), ("none", ()), ("zero", (0,)), ("half", (1.5,)), ("words", "3"),
    ]),
    "sensitivities": lambda found: _layers(found) if isinstance(found, list) else _inputs(found),
    "sigmas": lambda sigmas: iter([
        ("too few", sigmas[:-1]), ("zero", [0.0, *sigmas[1:]]), ("negative", [-0.5, *sigmas[1:]]),
        ("not a number", [math.nan, *sigmas[1:]]), ("a number", 0.5), ("nothing", None),
    ]),
    "sigma_b": _deviations,
    "sigma_w": _deviations,
    "steps": lambda _: iter([
        ("none", ()), ("negative", (-1,)), ("half", (1.5,)), ("bool", (True,)), ("words", "3"),
        ("a number", 3), ("nothing", None),
    ]),
    "targets": _targets_of,
    "test": _indices,
    "tolerance": lambda _: iter([*_positive(_), ("zero", 0.0)]),
    "times": lambda _: iter([
        ("none", ()), ("negative", (-1.0,)), ("infinite", (math.inf,)), ("words", "3"),
        ("not a number", (math.nan,)), ("a number", 3.0), ("nothing", None),
    ]),
    "trace": lambda _: iter([
        ("of others", make_network(DENSE).trace(draw_images(DENSE, N + 1))),
        ("a tensor", torch.ones(N)),
    ]),
    "train": _indices,
    "trains": lambda _: iter([
        ("a word", "value"), ("unknown", ("gates",)), ("empty", ()), ("a number", 3),
        ("an array", np.ones(2)), ("lists", ([],)), ("tensors", [torch.ones(2)]),
    ]),
    "value_input": _words,
    "weights": lambda weights: _first_of(weights, _no_floats),
    "x": _inputs,
    "x_value": _of_the_network,
}  # fmt: skip
# Of some functions more is bad than of others.
MORE: dict[tuple[str, str], Callable[[Any], Bad]] = {
    ("local_complexity", "x"): _of_the_network,
    ("mixed_kernel", "gates"): _states,
    ("mixed_kernel", "weights"): _states,
    ("path_value_distance", "other"): _path_weights,
    ("path_value_distance", "weights"): _path_weights,
    ("split_motion", "before"): _states,
    ("SharedKernels", "network"): _given,
    ("SharedKernels", "x"): _of_the_network,
    ("class_targets", "labels"): lambda labels: iter(
        [*_labels(labels), ("negative", labels - 1), ("too many", labels + 1)]
    ),
    # Hard gates have no β; without σ it is that of the weights.
    ("gated_limit", "beta"): lambda beta: _but_nothing(_positive(beta)),
    ("expected_feature_kernel", "sigmas"): lambda sigmas: _but_nothing(BAD["sigmas"](sigmas)),
    ("contradictory_examples", "labels"): lambda labels: iter(
        [*_labels(labels), ("one too few", labels[:-1])]
    ),
    ("convolutional_limit", "x"): _of_the_network,
    # A module of one's own may take whole numbers, and any shape: what it cannot take it refuses.
    ("empirical_ntk", "other"): lambda x: _examples(x),
    ("empirical_ntk", "x"): lambda x: _examples(x),
    ("kernel_regression", "ridge"): lambda _: iter([*_positive(_), ("zero", 0.0)]),
    ("kernel_regression", "targets"): _targets_that_count,
    ("kernel_svm", "targets"): _targets_that_count,
    ("convex_optimum", "targets"): _targets_that_count,
    ("fit_path_features", "targets"): _targets_that_count,
    ("nu", "targets"): _targets_that_count,
    ("spectrum", "targets"): _targets_that_count,
    ("leading_spectrum", "count"): lambda _: iter([*_counts(_), ("more than n", N + 1)]),
    ("path_value_norms", "weights"): _path_weights,
    ("soft_relu_limit", "beta"): lambda _: iter([*_positive(_), ("zero", 0.0)]),
    ("sub_network_kernel", "kept"): BAD["kept"],
    ("tangent_diagonal", "x"): _of_the_network,
    ("tangent_kernels", "network"): _given,
    ("tangent_kernels", "x"): _of_the_network,
    ("tangent_operator", "x"): _of_the_network,
}
# Words that only end a sentence.
FREE = {"more"}


def _public() -> list[str]:
    """Every function of the package, and the class that is called like one."""
    functions = [name for name in k.__all__ if inspect.isfunction(getattr(k, name))]
    return sorted([*functions, "SharedKernels"])


def _cases() -> Iterator[Any]:
    for function in _public():
        for name in inspect.signature(getattr(k, function)).parameters:
            if name not in FREE:
                yield pytest.param(function, name, id=f"{function}-{name}")


@pytest.mark.parametrize("function", _public())
def test_a_call_that_works_gives_the_shapes_that_are_recorded(
    function: str, recorded: Recorded
) -> None:
    """Of 4 examples and 3 others: which axis is which is seen in the snapshot."""
    assert function in CALLS, f"{function} is public: add a call that works to CALLS"
    found = getattr(k, function)(**CALLS[function]())
    recorded([list(tensor.shape) for tensor in tensors(found)])


@pytest.mark.parametrize(("function", "name"), list(_cases()))
def test_a_bad_argument_is_refused_by_its_name(function: str, name: str) -> None:
    call = CALLS[function]()
    assert name in call, f"the call of {function} in CALLS leaves {name} out"
    assert name in BAD, f"{name} is an argument of {function}: say in BAD what is wrong of it"
    make = MORE.get((function, name), BAD[name])
    accepted, unclear = [], []
    for label, bad in make(call[name]):
        try:
            getattr(k, function)(**{**CALLS[function](), name: bad})
        except ValueError as refused:
            part = label.split(":")[0]  # of PathInputs the part is named
            if name not in str(refused) and part not in str(refused):
                unclear.append((label, str(refused)))
        except Exception as other:  # whatever else it is, it is listed
            accepted.append((label, repr(other)))
        else:
            accepted.append((label, "no word"))
    assert (accepted, unclear) == ([], [])


def test_a_single_test_example_has_an_accuracy_and_no_r2() -> None:
    found = k.kernel_regression(a_kernel(), a_target(), torch.tensor([0, 1, 3]), torch.tensor([2]))
    assert found.accuracy in (0.0, 1.0)
    assert math.isnan(found.r2)
    assert isinstance(found.predictions, np.ndarray)


def test_what_makes_path_inputs_is_checked_as_elsewhere() -> None:
    network, x = make_network(DENSE, own=True), draw_images(DENSE, N)
    for wrong, what in ((None, "network"), (x, "network")):
        with pytest.raises(ValueError, match=what):
            k.PathInputs.from_network(wrong, x)  # type: ignore[arg-type]
    for bad in (x.numpy(), x[:, :-1], x.float(), x[:0]):
        with pytest.raises(ValueError, match=r"x (is|has)"):
            k.PathInputs.from_network(network, bad)


@pytest.mark.parametrize("kept", [None, 0, "a", [[0]], (0.5,), torch.zeros(2)])
def test_blocks_that_are_kept_are_numbers(kept: Any) -> None:
    gates, x = random_gates(DENSE, N, hard=True), draw_images(DENSE, N)
    with pytest.raises(ValueError, match="kept"):
        k.sub_network(DENSE, kept)
    with pytest.raises(ValueError, match="kept"):
        k.sub_network_kernel(DENSE, gates, x, kept)


def _finite_arguments() -> Iterator[Any]:
    """Every argument that holds numbers of examples."""
    for function in _public():
        for name, value in CALLS[function]().items():
            names = ("x", "other", "x_value", "gates", "sensitivities", "before", "inputs")
            if name in names and not isinstance(value, (k.KernelState, k.PathWeights)):
                yield pytest.param(function, name, value, id=f"{function}-{name}")


@pytest.mark.wide
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("function", "name", "value"), list(_finite_arguments()))
def test_examples_that_are_not_finite_are_refused_with_the_first_of_them(
    function: str, name: str, value: Any, bad: float
) -> None:
    def spoilt(tensor: Tensor) -> Tensor:
        found = tensor.clone()
        found[1:].view(-1)[0] = bad
        return found

    if isinstance(value, Tensor):
        wrong: Any = spoilt(value)
    elif isinstance(value, k.PathInputs):
        wrong = replace(value, gates=[spoilt(value.gates[0]), *value.gates[1:]])
    else:
        wrong = [spoilt(value[0]), *value[1:]]
    with refused("not-finite") as refusal:
        getattr(k, function)(**{**CALLS[function](), name: wrong})
    assert re.search(r"example 1\b", str(refusal.error))


def test_large_numbers_whose_sum_overflows_are_finite() -> None:
    x = torch.full((N, 3), 3e38)
    assert k.layer_overlap(torch.ones(N, 3)).shape == (N, N)
    arguments.check_tensor("x", x)


@pytest.mark.parametrize("limit", [k.linear_limit, k.relu_limit])
def test_a_limit_deeper_than_any_network_is_refused(limit: Any) -> None:
    for depth in (10_001, 10**9, 10**5000):
        with refused("out-of-bounds"):
            limit(draw_images(DENSE, N), depth)
    assert bool(torch.isfinite(k.relu_limit(draw_images(DENSE, N), 2000).tangent).all())
    with refused("overflow"):
        k.linear_limit(draw_images(DENSE, N), 2000)


def test_no_refusal_prints_a_tensor() -> None:
    network, x = make_network(DENSE, own=True), draw_images(DENSE, N)
    long = torch.arange(100_000.0)
    for wrong in (long, long.numpy(), [long, long], {"a": long}, "a" * 10_000):
        for name in ("logits", "trains", "folded", "budget_bytes"):
            with pytest.raises(ValueError, match=f"{name} is") as refusal:
                k.SharedKernels(network, x, **{name: wrong})  # type: ignore[arg-type]
            assert len(str(refusal.value)) < 300
