"""The least work of the benchmarks, against twins that do it number by number and are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.case import Amounts, Case, Measured, Method
from benchmarks.floors import (
    add_floors,
    compute_floor,
    count_path_work,
    count_tangent_work,
    count_training_work,
)
from benchmarks.networks import (
    convolutional_architecture,
    draw_examples,
    draw_hard_gates,
    make_network,
    make_plain_module,
)
from benchmarks.rates import make_bit_counter
from benchmarks.report import Row, encode_row, format_case, format_row
from benchmarks.training_epochs import GatedModule
from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.kernels import neural_path_kernel, tangent_kernels
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork
from dgn_engine.plugins import discover_plugins
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer

CPU = torch.device("cpu")
CLASSES = 3
ARCHITECTURES = {
    "dense": Architecture((5,), (Dense(5, 4), Dense(4, 6), Dense(6, CLASSES, gated=False))),
    "convolutions": convolutional_architecture(4, 5, CLASSES),
}
RATES = {"float32": 1e9, "float64": 5e8, "copy": 1e9, "popcount": 1e9}


def _forward(z: Tensor, weight: Tensor) -> Tensor:
    return F.conv2d(z, weight, padding=1) if weight.dim() == 4 else z @ weight.T


def _backward(delta: Tensor, weight: Tensor) -> Tensor:
    """Return dL/dz for q = Wz."""
    if weight.dim() == 4:
        return F.conv_transpose2d(delta, weight, padding=1)
    return delta @ weight


def _gram(vectors: list[Tensor]) -> Tensor:
    """Return the Gram matrix, of which each pair is multiplied once."""
    gram = torch.zeros(len(vectors), len(vectors))
    for s, t in combinations_with_replacement(range(len(vectors)), 2):
        product = vectors[s].reshape(1, -1) @ vectors[t].reshape(-1, 1)
        gram[s, t] = gram[t, s] = float(product)
    return gram


class SlowTangent:
    """The tangent kernels of a chain, example by example, logit by logit and pair by pair."""

    def __init__(self, network: GatedNetwork, x: Tensor, full: bool) -> None:
        self._network, self._full, self._n = network, full, len(x)
        self._value = [weight.detach() for weight in network.value.folded_tensors()[0]]
        self._feature = [weight.detach() for weight in network.feature.folded_tensors()[0]]
        self._both = not network.own_gates
        # By network and layer: the inputs of each example, and the deltas of each of its logits.
        self._z: dict[tuple[str, int], list[Tensor]] = {}
        self._deltas: dict[tuple[str, int], list[list[Tensor]]] = {}
        for example in x.split(1):
            self._sweep(example)
        self.kernel = self._contract()

    def _sweep(self, x: Tensor) -> None:
        depth = len(self._value) - 1
        z = feature_z = x
        value_q, feature_q, gates = [], [], []
        for layer in range(depth):
            self._z.setdefault(("value", layer), []).append(z)
            value_q.append(_forward(z, self._value[layer]))
            if self._both:
                self._z.setdefault(("feature", layer), []).append(feature_z)
                feature_q.append(_forward(feature_z, self._feature[layer]))
                gates.append(self._network.gate(feature_q[-1]))
                feature_z = F.relu(feature_q[-1])
            else:
                gates.append((value_q[-1] > 0).float())
            z = value_q[-1] * gates[-1]
        pooled = z.mean(dim=(2, 3)) if z.dim() == 4 else z
        self._z.setdefault(("value", depth), []).append(pooled)
        deltas: dict[tuple[str, int], list[Tensor]] = {}
        for row in self._value[-1]:
            dz = row.reshape(1, -1)
            if z.dim() == 4:
                dz = (dz / z[0, 0].numel())[:, :, None, None].expand_as(z)
            below: Tensor | None = None  # dL/dz of the feature network
            for layer in reversed(range(depth)):
                if self._both:
                    slope = self._network.gate.slope_from_gate(gates[layer])
                    delta = dz * value_q[layer] * slope
                    if below is not None:
                        delta = delta + below * (feature_q[layer] > 0)
                    deltas.setdefault(("feature", layer), []).append(delta)
                    below = _backward(delta, self._feature[layer]) if layer else None
                delta = dz * gates[layer]
                deltas.setdefault(("value", layer), []).append(delta)
                if layer:
                    dz = _backward(delta, self._value[layer])
        for key, by_logit in deltas.items():
            self._deltas.setdefault(key, []).append(by_logit)

    def _contract(self) -> Tensor:
        n, total = self._n, torch.zeros(self._n, CLASSES, self._n, CLASSES)
        mean = torch.zeros(n, n)
        for key, by_example in self._deltas.items():
            weight = (self._value if key[0] == "value" else self._feature)[key[1]]
            inputs = self._z[key]
            if weight.dim() == 4:
                by_example = [
                    [conv2d_weight(z, list(weight.shape), delta, padding=1) for delta in by_logit]
                    for z, by_logit in zip(inputs, by_example, strict=True)
                ]
                of_inputs = torch.ones(n, n)
            else:
                of_inputs = _gram(inputs)
            if self._full:
                gram = _gram([delta for by_logit in by_example for delta in by_logit])
                pairs = gram.reshape(n, CLASSES, n, CLASSES)
                total += pairs * of_inputs[:, None, :, None]
            else:
                stacked = [torch.cat(by_logit) for by_logit in by_example]
                mean += _gram(stacked) * of_inputs / CLASSES
        last = _gram(self._z["value", len(self._value) - 1])
        total += last[:, None, :, None] * torch.eye(CLASSES)[None, :, None, :]
        return total if self._full else mean + last


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("feature", [False, True])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_tangent_kernel_is_counted_by_the_products_of_a_slow_one(
    name: str, feature: bool, full: bool
) -> None:
    architecture, n = ARCHITECTURES[name], 3
    network = make_network(architecture, CPU, gated=feature)
    x = draw_examples(architecture, n, CPU)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        slow = SlowTangent(network, x, full)
    kernel = tangent_kernels(network, x, "full" if full else "mean").total_kernel
    torch.testing.assert_close(slow.kernel, kernel)
    amounts = count_tangent_work(architecture, n, full=full, feature=feature)
    assert amounts.flops == counter.get_total_flops()
    weights = sum(weight.numel() for weight in network.value.weights)
    if feature:  # its last layer changes nothing
        weights += sum(weight.numel() for weight in list(network.feature.weights)[:-1])
    assert amounts.bytes == 4 * (weights + x.numel() + (1 + feature) * kernel.numel())


def count_slow_paths(gates: list[Tensor], x: Tensor, bits: bool) -> tuple[Tensor, Counter[str]]:
    """Return H of a chain of 3×3 convolutions or of dense layers, and the counted operations."""
    counts: Counter[str] = Counter()
    n, side = len(x), x.shape[-1] if x.dim() == 4 else 1
    maps = [layer.reshape(n, -1, side, side).numpy() for layer in (x, *gates)]
    places = range(side)

    def multiply(one: Any, two: Any) -> float:
        counts["flops"] += 2 * len(one)
        return float(one @ two)

    def count_bits(one: Any, two: Any) -> float:
        words = [
            tuple(int("".join(str(int(g)) for g in side[i : i + 64]), 2) for side in (one, two))
            for i in range(0, len(one), 64)
        ]
        counts["words"] += len(words)
        return float(sum((a & b).bit_count() for a, b in words))

    def grams(s: int, t: int, layer: int) -> Any:
        pair = count_bits if bits and layer else multiply
        one, two = maps[layer][s], maps[layer][t]
        return np.array([[pair(one[:, y, x], two[:, v, u]) for v in places for u in places]
                         for y in places for x in places]).reshape((side,) * 4)  # fmt: skip

    def add_window(kernel: Any) -> Any:
        for axes in ((0, 2), (1, 3)):
            padded = np.pad(kernel, [(1, 1) if axis in axes else (0, 0) for axis in range(4)])
            kernel = np.zeros_like(kernel)
            for r in range(3):
                part = padded
                for axis in axes:
                    part = np.take(part, range(r, r + side), axis)
                counts["flops"] += kernel.size if r else 0
                kernel += part
        return kernel

    result = torch.zeros(n, n, dtype=torch.float64)
    for s, t in combinations_with_replacement(range(n), 2):
        kernel = grams(s, t, 0)
        for layer in range(1, len(maps)):
            kernel = add_window(kernel) if side > 1 else kernel
            kernel = kernel * grams(s, t, layer)
            counts["flops"] += kernel.size
        counts["flops"] += kernel.size if side > 1 else 0
        result[s, t] = result[t, s] = float(kernel.sum())
    return result, counts


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize(
    "architecture",
    [
        Architecture((5,), (Dense(5, 70), Dense(70, 3), Dense(3, 2, gated=False))),
        convolutional_architecture(66, 3, 2),
    ],
)
def test_a_path_kernel_is_counted_by_the_operations_of_a_slow_one(
    architecture: Architecture, bits: bool
) -> None:
    n = 2
    x, gates = draw_examples(architecture, n, CPU), draw_hard_gates(architecture, n, CPU)
    slow, counts = count_slow_paths(gates, x, bits)
    kernel = neural_path_kernel(architecture, gates, x)
    torch.testing.assert_close(slow, kernel, rtol=1e-5, atol=1e-3)
    amounts = count_path_work(architecture, n, bits)
    assert (amounts.flops, amounts.words) == (counts["flops"], counts["words"])
    given = x.numel() + sum(layer.numel() for layer in gates)
    assert amounts.bytes == 4 * given + kernel.nbytes


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("regime", ["ReLU", "DL"])
def test_a_training_step_is_counted_by_the_products_of_autograd(name: str, regime: str) -> None:
    architecture, n = ARCHITECTURES[name], 4
    x, y = draw_examples(architecture, n, CPU), torch.arange(n) % CLASSES
    config = RunConfig(training=TrainingConfig(batch=n), gating=GatingConfig(regime=regime))
    data = DeviceData(x, y, x, y)
    module: torch.nn.Module = make_plain_module(architecture, CPU)
    if regime == "DL":
        trainer = Trainer(config, architecture, data, find_regime(regime), CPU)
        maps = x.dim() == 4
        module = GatedModule(
            trainer, _forward, lambda value: value.mean(dim=(2, 3)) if maps else value
        )
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(module(x), y).backward()  # type: ignore[no-untyped-call]  # torch's own
    amounts = count_training_work(config, architecture, n, 1)
    assert amounts.flops == counter.get_total_flops()
    numbers = sum(weight.numel() for weight in module.parameters())
    assert amounts.bytes == 4 * (numbers * 2 * (1 + 2) + x.numel())  # Adam has two moments


def test_every_case_of_a_cpu_has_a_limit_or_says_why_not() -> None:
    for package in ("benchmarks.cases", "benchmarks.peer_cases"):
        for case in discover_plugins(package, "CASE", Case).values():
            assert (case.floor is None) == bool(case.no_floor), case.title
            if case.floor is not None:
                assert case.floor(case.quick).flops > 0.0


def test_the_largest_of_the_times_is_the_limit() -> None:
    work = {"arithmetic": (3e9, 1e9, 2e9), "memory": (1e9, 3e9, 2e9), "popcount": (1e9, 2e9, 3e9)}
    for bound, amounts in work.items():
        assert compute_floor(Amounts(*amounts), "float32", RATES) == (3.0, bound)
    assert compute_floor(Amounts(3e9, 1e9), "float64", RATES) == (6.0, "arithmetic")
    assert compute_floor(Amounts(3e9, 1e9), "tf32", RATES) == (3.0, "arithmetic")


def test_a_row_has_its_limit_and_what_is_reached_of_it() -> None:
    method = Method("ours", lambda *_: lambda: torch.zeros(1))
    case = Case("A case", 8, 2, (method,), (), floor=lambda n: Amounts(n * 1e9, 1.0, n * 2e9))
    measured = Measured(method, (31.0, 32.0, 33.0), (1.0, 1.0, 1.0))
    row = encode_row(Row("a", case, 8, [measured], 0.0, 0.5))
    assert row["methods"][0]["needs"] == asdict(Amounts(8e9, 1.0, 16e9))
    add_floors(row, {key: rate for key, rate in RATES.items() if key != "popcount"})
    assert "reached" not in row["methods"][0]  # a card: its rate of counting bits is not known
    add_floors(row, RATES)
    (found,) = row["methods"]
    assert (found["floor_seconds"], found["bound"], found["reached"]) == (16.0, "popcount", 0.5)
    assert ", limit 16 s (popcount), 0.5 reached" in format_row(row)
    assert "| ours | 32 s | 31.5 s – 32.5 s | 16 s (popcount) | 0.5 |" in format_case(row)
    unknown = Case("A case", 8, 2, (method,), (), no_floor="nobody knows")
    row = encode_row(Row("a", unknown, 8, [measured], 0.0, 0.5))
    add_floors(row, RATES)
    assert "limit not known: nobody knows" in format_row(row)
    assert "- limit not known: nobody knows" in format_case(row)


def test_the_rate_of_counting_bits_is_of_a_loop_that_counts_them() -> None:
    draw = np.random.default_rng(0)
    one, two = (draw.integers(0, 1 << 63, size, dtype=np.uint64) for size in (9, 7))
    passes = 5
    expected = sum(
        (int(one[step + offset]) & int(word)).bit_count()
        for step in range(passes)
        for offset in range(4)
        for word in two
    )
    assert make_bit_counter()(one, two, passes) == expected
