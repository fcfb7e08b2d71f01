"""What is said of the memory that kernels take is an upper bound, and no wild one."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import dgn_engine.kernels as k
from dgn_engine.kernels import gram, peak_memory
from dgn_engine.kernels.jacobian_rows import ModuleFunction
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.feature_layers import parallel_features
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from tests.daily import nightly
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.drawn_networks import DrawnNetwork, drawn_network

LIBRARIES = 1 << 20  # of a product of few rows, say, and of what is made once
PESSIMISM = 4.0  # at most so many times what is taken


def everything(drawn: DrawnNetwork) -> list[object]:
    """All that `kernel_bytes` counts, held at once."""
    network, x = drawn.network, drawn.x
    if drawn.other is None:
        settings = KernelSettings(drawn.logits, memory_bytes=1 << 40, folded=drawn.folded)
        return [kernel_arrays(network, x, None, settings)]
    shared = k.SharedKernels(
        network, x, other=drawn.other, logits=drawn.logits, folded=drawn.folded
    )
    found: list[object] = [shared.gram, shared.overlap(), shared.sensitive_overlap(), shared.npk()]
    found += [shared.layer_overlap(layer) for layer in range(len(shared.gates))]
    return [*found, shared.tangent, shared.tangent.total_kernel]


@pytest.mark.parametrize("seed", [*range(6), *nightly(*range(6, 24))])
def test_what_is_said_is_at_least_what_is_taken_and_no_wild_guess(seed: int, take: Take) -> None:
    take("nothing hidden")
    gram.onednn_is_faster()  # timed once, in memory of its own
    drawn = drawn_network(seed)
    others = None if drawn.other is None else len(drawn.other)
    said = k.kernel_bytes(drawn.network, len(drawn.x), drawn.logits, others)
    taken = peak_bytes(lambda: everything(drawn))
    assert taken <= said
    assert said - LIBRARIES <= PESSIMISM * taken


@pytest.mark.parametrize("seed", [*range(3), *nightly(*range(3, 10))])
def test_a_product_with_a_kernel_that_is_never_held_keeps_to_its_budget(seed: int) -> None:
    gram.onednn_is_faster()
    drawn, room = drawn_network(seed), 8 << 20
    network, x = drawn.network, drawn.x
    logits = "full" if drawn.logits == "full" else "mean"
    operator = k.tangent_operator(network, x, drawn.other, logits=logits, budget_bytes=room)
    vector = np.ones(operator.shape[1])
    assert peak_bytes(lambda: operator @ vector) <= room
    paths = k.path_operator(
        network.architecture, k.PathInputs.from_network(network, x), budget_bytes=room
    )
    assert peak_bytes(lambda: paths @ np.ones(len(x))) <= room


def convolutional(dtype: torch.dtype = torch.float64) -> GatedNetwork:
    nodes = (
        Conv(3, 64),
        Conv(64, 64),
        GlobalAveragePool(),
        Dense(64, 10, gated=False),
    )
    return GatedNetwork(Architecture((3, 6, 6), nodes)).to(dtype)


def test_per_example_gradients_of_convolutions_are_counted() -> None:
    network, n = convolutional(), 32
    gradients = n * 10 * 64 * 64 * 9 * 8  # of the larger layer, every logit at once
    assert k.kernel_bytes(network, n, "full") > 2 * gradients
    assert k.kernel_bytes(network, n, "full") > k.kernel_bytes(network, n, "mean") + gradients


def test_a_block_takes_its_own_pairs_not_those_of_both_sets_together() -> None:
    network = GatedNetwork(Architecture((9,), (Dense(9, 20), Dense(20, 2, gated=False))))
    square = k.kernel_bytes(network, 2000) - peak_memory.WORKING
    block = k.kernel_bytes(network, 1000, others=1000) - peak_memory.WORKING
    assert block < 0.5 * square


@pytest.mark.parametrize("logits", ["mean", "full"])
def test_the_bound_holds_for_parallel_features_of_many_inputs(logits: k.Logits, take: Take) -> None:
    take("nothing hidden")
    inputs, n = 20_000, 40
    hidden = (Dense(inputs, 8), *(Dense(8, 8),) * 5)
    chain = Architecture((inputs,), (*hidden, Dense(8, 3, gated=False)))
    network = GatedNetwork(chain, True, parallel_features(chain))
    network.own_gates, network.gate = False, Gate(soft=True)
    network.value = Stack(chain)
    for parameter in network.parameters():
        parameter.data.normal_(std=0.1)
    x = torch.randn(n, inputs)
    for quantity in ("ntk", "delta"):
        settings = KernelSettings(logits, memory_bytes=1 << 40, only=(quantity,))
        taken = peak_bytes(partial(kernel_arrays, network, x, None, settings))
        needed = peak_memory.PeakMemory(network, logits, n, None).bytes_of({quantity})
        assert taken <= LIBRARIES + needed
        assert needed <= PESSIMISM * taken


@pytest.mark.parametrize("logits", ["mean", "full", "perclass"])
def test_the_bound_holds_for_a_module_with_trained_slopes_and_normalisations(
    logits: k.Logits, take: Take
) -> None:
    take("nothing hidden")
    gram.onednn_is_faster()
    torch.manual_seed(0)
    maps = (
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.PReLU(16),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(144, 5),
    )
    vectors = (
        nn.Linear(50, 200),
        nn.BatchNorm1d(200),
        nn.PReLU(),
        nn.Linear(200, 200),
        nn.LeakyReLU(),
        nn.Linear(200, 10),
    )
    settings = KernelSettings(logits, memory_bytes=1 << 40)
    for layers, n, shape in ((maps, 8, (3, 6, 6)), (vectors, 80, (50,))):
        network = k.adapt(nn.Sequential(*layers).double().eval(), shape)
        x = torch.randn((n, *shape), dtype=torch.float64)
        assert not k.SharedKernels(network, x).sensitive_overlap().requires_grad
        taken = peak_bytes(partial(kernel_arrays, network, x, None, settings))
        assert taken <= k.kernel_bytes(network, n, logits)


CHILD = """
import sys, torch
torch.set_num_threads(1)
sys.path.insert(0, {root!r})
import dgn_engine.kernels as k
from dgn_engine.kernels import gram
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from tests.engine.kernels.test_memory_budget import convolutional, resident
network, n = convolutional(), 40
def take(count):
    return kernel_arrays(network, torch.randn(count, 3, 6, 6).double(), None,
                         KernelSettings({logits!r}, memory_bytes=1 << 40))
take(2)
open("/proc/self/clear_refs", "w").write("5")
before = resident("VmRSS")
kept = take(n)
print(resident("VmHWM") - before, k.kernel_bytes(network, n, {logits!r}))
"""


def test_rows_of_several_logits_share_what_an_example_takes_and_one_logit_shares_nothing() -> None:
    x = torch.randn(2, 40)
    fixed = []
    for logits in (1, 3):
        module = nn.Sequential(nn.Linear(40, 30), nn.ReLU(), nn.Linear(30, logits))
        fixed.append(ModuleFunction(module, x).measure_cost(x).fixed)
    assert fixed[0] == 0 < fixed[1]


def resident(field: str) -> int:
    """Bytes of this process as Linux counts them."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux counts it")
@pytest.mark.parametrize("logits", ["mean", *nightly("full")])
def test_the_resident_set_of_a_process_keeps_to_what_is_said(logits: str) -> None:
    root = str(Path(__file__).parents[3])
    code = CHILD.format(root=root, logits=logits)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    taken, said = map(int, result.stdout.split()[-2:])
    assert taken <= said
