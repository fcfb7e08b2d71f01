"""The tangent kernel of weights and gates of two steps, against Jacobians by autograd."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import dgn_engine.kernels as k
from dgn_engine.kernels.kernel_motion import KernelState, mixed_kernel, split_motion
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import run_chain
from tests.engine.kernels.jacobians import contract_jacobians, jacobian
from tests.engine.kernels.normalised import NORMALISED, learnt
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, every_architecture, make_network
from tests.refusals import refused

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
KINDS = ("relu", "soft-relu", "hard pair", "soft pair", "ones")


def build(name: str, kind: str, bias: bool = False) -> GatedNetwork:
    own = "relu" in kind
    soft = kind in ("soft-relu", "soft pair", "ones")
    if name in NORMALISED:
        return learnt(name, bias=bias, own=own, soft=soft)
    value_input = "ones" if kind == "ones" else "image"
    return make_network(ARCHITECTURES[name], bias=bias, own=own, soft=soft, value_input=value_input)


def moved(network: GatedNetwork, size: float = 0.3, seed: int = 11) -> GatedNetwork:
    """The network after a random step of all its parameters, statistics of BatchNorm included."""
    generator = torch.Generator().manual_seed(seed)
    later = copy.deepcopy(network)
    with torch.no_grad():
        for parameter in later.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator).to(parameter)
        for stack in (later.value, later.feature):
            if stack.normalisation is not None:
                for buffer in stack.normalisation.buffers():
                    buffer.mul_(1.25)
    return later


def kernel_by_autograd(weights: GatedNetwork, gates: GatedNetwork, x: Tensor) -> Tensor:
    """K(Θ, G) from the rows of a Jacobian; of a pair it is that of the pair of both networks."""
    if not gates.own_gates:
        pair = copy.deepcopy(weights)
        pair.feature = copy.deepcopy(gates.feature)
        parts = [jacobian(pair, "value", x, frozen_gates=False)]
        if gates.gate.soft:
            parts.append(jacobian(pair, "feature", x, frozen_gates=False))
        rows = torch.cat(parts, dim=2)
        return contract_jacobians(rows, rows, "mean")
    trace = gates.trace(x)
    slopes = [gates.gate.derivative(q) for q in trace.gate_pre]

    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = weights.value

        def forward(self, x: Tensor) -> Tensor:
            def gate(layer: int, q: Tensor) -> Tensor:  # of value G and slope D, wherever q is
                return trace.value.gates[layer] + slopes[layer] * (q - q.detach())

            folded, biases = self.value.folded_tensors()
            masks = trace.value.masks
            return run_chain(weights.architecture, folded, biases, x, gate, masks).output

    module = Given()
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    tree = jacrev(lambda p: functional_call(module, p, (x,)))(parameters)
    rows = torch.cat([leaf.flatten(2) for leaf in tree.values()], dim=2).detach()
    return contract_jacobians(rows, rows, "mean")


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [False, True])
def test_a_kernel_of_two_steps_is_that_of_a_jacobian(name: str, kind: str, bias: bool) -> None:
    _check_mixed_kernels(build(name, kind, bias))


@pytest.mark.wide
@pytest.mark.parametrize("name", list(NORMALISED))
@pytest.mark.parametrize("kind", ["relu", "soft-relu", "soft pair"])
def test_parameters_behind_the_weights_count_as_weights(name: str, kind: str) -> None:
    _check_mixed_kernels(build(name, kind))


def _check_mixed_kernels(network: GatedNetwork) -> None:
    later, x = moved(network), draw_images(network.architecture, 3)
    before, now = KernelState.from_network(network, x), KernelState.from_network(later, x)
    for one, weights in ((before, network), (now, later)):
        own = k.tangent_kernels(weights, x).total_kernel
        torch.testing.assert_close(mixed_kernel(one, one), own, **TIGHT)
    torch.testing.assert_close(
        mixed_kernel(now, before), kernel_by_autograd(later, network, x), **TIGHT
    )
    torch.testing.assert_close(
        mixed_kernel(before, now), kernel_by_autograd(network, later, x), **TIGHT
    )
    motion = split_motion(before, now)
    whole = mixed_kernel(now, now) - mixed_kernel(before, before)
    torch.testing.assert_close(motion.weights + motion.gates, whole, **TIGHT)
    orders = [
        kernel_by_autograd(later, network, x) - kernel_by_autograd(network, network, x),
        kernel_by_autograd(later, later, x) - kernel_by_autograd(network, later, x),
    ]
    torch.testing.assert_close(motion.weights, sum(orders) / 2, **TIGHT)
    share = float((motion.gates * whole).sum() / whole.square().sum())  # NaN if both are dead
    assert motion.gates_share == pytest.approx(share, nan_ok=True)
    given = split_motion(before, now, mixed_kernel(before, before))
    torch.testing.assert_close(given.gates, motion.gates, **TIGHT)


@pytest.mark.parametrize("name", ["fc-deep", "max-overlapping", "residual-dense"])
def test_the_weights_part_of_a_small_step_is_that_of_the_tangent_hierarchy(name: str) -> None:
    """dK(x, x')/dt = -Σ_β K^(3)(x, x', x_β) e_β, with K^(3)(x, x', z) = ⟨∇K(x, x'), ∇ŷ(z)⟩."""
    network = make_network(ARCHITECTURES[name])
    x = draw_images(network.architecture, 3)
    error = torch.linspace(-1.0, 1.0, 3 * network.architecture.classes).reshape(3, -1).to(x)

    def outputs(parameters: dict[str, Tensor]) -> Tensor:
        output: Tensor = functional_call(network, parameters, (x,))
        return output

    parameters = {
        name: p.detach() for name, p in network.named_parameters() if name.startswith("value")
    }
    rows = jacrev(outputs)(parameters)
    downhill = {name: -torch.einsum("nc,nc...->...", error, row) for name, row in rows.items()}

    def kernel(at: dict[str, Tensor]) -> Tensor:
        flat = torch.cat([row.flatten(2) for row in jacrev(outputs)(at).values()], dim=2)
        return contract_jacobians(flat, flat, "mean")

    slopes = jacrev(kernel)(parameters)  # ∇K(x, x'), (n, n, *shape)
    speed = sum(
        torch.einsum("nm...,...->nm", slope, downhill[name]) for name, slope in slopes.items()
    ).detach()
    assert float(speed.norm()) > 0.1
    before, remainders = KernelState.from_network(network, x), []
    for rate in (1e-5, 5e-6):
        later = copy.deepcopy(network)
        with torch.no_grad():
            for key, parameter in later.named_parameters():
                if key in downhill:
                    parameter += rate * downhill[key]
        motion = split_motion(before, KernelState.from_network(later, x))
        assert not bool(motion.gates.any())  # no gate has switched
        assert motion.gates_share == 0.0
        remainders.append(float((motion.weights / rate - speed).norm() / speed.norm()))
    assert remainders[0] < 1e-2
    assert remainders[1] == pytest.approx(remainders[0] / 2, rel=0.02)  # of first order in the rate


def test_gates_that_move_alone_are_the_whole_motion() -> None:
    network = build("fc-deep", "soft pair")
    later = copy.deepcopy(network)
    later.feature = moved(network).feature
    x = draw_images(network.architecture, 4)
    motion = split_motion(KernelState.from_network(network, x), KernelState.from_network(later, x))
    assert not bool(motion.weights.any())
    assert motion.gates_share == 1.0
    still = split_motion(KernelState.from_network(network, x), KernelState.from_network(network, x))
    assert still.gates_share != still.gates_share  # nothing moved: no share


def test_a_state_is_a_copy_that_later_steps_do_not_change() -> None:
    network = build("basic-blocks", "soft pair", bias=True)
    x = draw_images(network.architecture, 3)
    state = KernelState.from_network(network, x)
    kernel = mixed_kernel(state, state)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        x.zero_()
    assert torch.equal(mixed_kernel(state, state), kernel)


def test_float32_networks_are_compared_in_float64() -> None:
    network = build("fc-deep", "soft-relu").float()
    x = draw_images(network.architecture, 3).float()
    state = KernelState.from_network(network, x)
    assert mixed_kernel(state, state).dtype == torch.float64
    wide = k.tangent_kernels(copy.deepcopy(network).double(), x.double()).total_kernel
    torch.testing.assert_close(mixed_kernel(state, state), wide, rtol=1e-5, atol=1e-6)


def test_states_of_other_inputs_or_networks_do_not_mix() -> None:
    network = build("fc-deep", "ones")
    x = draw_images(network.architecture, 3)
    state = KernelState.from_network(network, x)
    others = [
        KernelState.from_network(
            network, draw_images(network.architecture, 3, seed=5)
        ),  # x^v is equal
        KernelState.from_network(network, x[:2]),
        KernelState.from_network(build("fc-deep", "relu"), x),
        KernelState.from_network(build("residual-dense", "ones"), x),
    ]
    rewired = build("fc-deep", "ones")
    rewired.wiring = (1, 0, 2)
    others.append(KernelState.from_network(rewired, x))
    for other in others:
        with refused("other-network"):
            mixed_kernel(state, other)


def test_a_layer_that_is_unfrozen_is_no_motion_of_the_weights() -> None:
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    module[0].requires_grad_(False)
    frozen = k.KernelState.from_network(k.adapt(module, (4,)), x)
    module[0].requires_grad_(True)
    with refused("other-network"):
        split_motion(frozen, k.KernelState.from_network(k.adapt(module, (4,)), x))


def test_slopes_that_train_are_neither_weights_nor_gates() -> None:
    module = nn.Sequential(nn.Linear(4, 5), nn.PReLU(), nn.Linear(5, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    with refused("not-supported"):
        KernelState.from_network(k.adapt(module, (4,)), x)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    with refused("frozen"):
        KernelState.from_network(k.adapt(module, (4,)), x)


@pytest.mark.parametrize("act", [nn.ReLU(), nn.LeakyReLU(0.3)])
def test_the_kernel_of_a_module_of_the_user_is_divided_too(act: nn.Module) -> None:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))
    module = module.double()
    x = torch.randn(5, 4, dtype=torch.float64)
    network = k.adapt(module, (4,))
    before = KernelState.from_network(network, x)
    first = k.tangent_kernels(network, x).total_kernel
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    motion = split_motion(before, KernelState.from_network(network, x))
    now = k.tangent_kernels(network, x).total_kernel
    torch.testing.assert_close(motion.weights + motion.gates, now - first, **TIGHT)
    assert bool(motion.gates.any())
