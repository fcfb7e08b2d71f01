"""Kernels in float32 on a device are those in float64 on the CPU, to 1e-4 in norm."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from dgn_engine import kernels
from dgn_engine.kernels.precision import float32_products
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training.probes import ProbeContext, all_probes
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images
from tests.gpu.trainers import trainer_on
from tests.plugins import each

N, TOLERANCE = 6, 1e-4
NAMES = ["fc-deep", "conv-gap", "max-gap", "residual-conv", "gated-sums", "basic-blocks"]


def drawn(name: str) -> GatedNetwork:
    network = GatedNetwork(ARCHITECTURES[name])
    generator = torch.Generator().manual_seed(4)
    network.value.init_weights("kaiming", generator)
    network.feature.init_weights("kaiming", generator)
    network.own_gates, network.gate = False, Gate(soft=True, beta=4.0)
    return network


def shares(found: Tensor, expected: Tensor) -> float:
    return float((found.cpu().double() - expected).norm() / expected.norm())


def every_kernel(network: GatedNetwork, x: Tensor) -> dict[str, Tensor]:
    shared = kernels.SharedKernels(network, x)
    tangent = shared.tangent
    found = {"K": tangent.total_kernel, "H": shared.npk(), "overlap": shared.overlap()}
    assert tangent.value is not None
    assert tangent.feature is not None
    return {**found, "K^V": tangent.value, "K^F": tangent.feature, "S": shared.sensitive_overlap()}


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_is_the_one_in_float64(name: str, device: torch.device) -> None:
    network, x = drawn(name), draw_images(ARCHITECTURES[name], N)
    expected = every_kernel(network.double(), x)
    with float32_products("tf32"):  # whatever was asked for elsewhere
        found = every_kernel(network.float().to(device), x.float().to(device))
    for kernel, tensor in found.items():
        assert tensor.device.type == device.type
        assert shares(tensor, expected[kernel]) < TOLERANCE, kernel


def test_products_and_convolutions_are_full_float32_inside_kernels(device: torch.device) -> None:
    """TF32 would be off by some 1e-3."""
    generator = torch.Generator().manual_seed(0)
    one, two = (torch.randn((64, 64), generator=generator, dtype=torch.float64) for _ in range(2))
    maps = torch.randn((4, 16, 8, 8), generator=generator, dtype=torch.float64)
    weights = torch.randn((16, 16, 3, 3), generator=generator, dtype=torch.float64)
    with float32_products("ieee"):
        product = one.float().to(device) @ two.float().to(device)
        convolved = torch.conv2d(maps.float().to(device), weights.float().to(device))
    assert shares(product, one @ two) < 2e-6
    assert shares(convolved, torch.conv2d(maps, weights)) < 2e-6


@pytest.mark.parametrize("probe", each(all_probes()))
def test_every_probe_reads_a_network_that_lies_on_the_device(
    probe: str, device: torch.device
) -> None:
    read = {}
    for place in (torch.device("cpu"), device):
        made = trainer_on(place)
        network = made.control.network_at(torch.arange(N, device=place))
        x, y = made.data.train_x[:N], made.data.train_y[:N]
        result = all_probes()[probe].read(ProbeContext(network, x, y, made.regime), {}, None)
        read[place.type] = result.arrays
    for name, array in read[device.type].items():
        theirs = read["cpu"][name]
        assert array.shape == theirs.shape
        if name in ("npk", "ntk", "overlap"):
            assert abs(array - theirs).max() <= 1e-3 * abs(theirs).max(), name


@pytest.mark.nightly  # processes that import torch; `make gpu` takes it on a card
def test_the_first_kernel_of_a_module_makes_torch_warn_of_no_context(device: torch.device) -> None:
    """In a process of its own: the first product of a backward pass warns where there is none."""
    work = (
        "import torch, dgn_engine.kernels as k; "
        f"x = torch.ones(2, 3, device={device.type!r}); "
        "print(k.empirical_ntk(torch.nn.Linear(3, 2).to(x.device), x).shape)"
    )
    command = [sys.executable, "-W", "error:Attempting to run cuBLAS:UserWarning", "-c", work]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "torch.Size([2, 2])\n"), done.stderr
