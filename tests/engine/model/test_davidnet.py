"""DavidNet: the published network with BatchNorm, and the pair whose gates alone are normalised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.kernels import SharedKernels, tangent_kernels
from dgn_engine.model.gates import HARD
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack, run_chain
from dgn_engine.training.run import Run
from dgn_engine.training.weight_keeper import save_trainer
from tests.refusals import refused

TINY = RunConfig(
    data=DataConfig(train_limit=96, test_limit=20),
    net=NetConfig("davidnet", (("width", 2),)),
    training=TrainingConfig(batch=32, epochs=3, optimiser="sgd", learning_rate=0.1),
    probe_examples=10,
)
Make = Callable[..., Run]


class Published(nn.Module):
    """The obvious twin, of torch's own layers; the same order of weights."""

    def __init__(self, w: int, channels: int, classes: int) -> None:
        super().__init__()
        sizes = [(channels, w), (w, 2 * w), (2 * w, 2 * w), (2 * w, 2 * w), (2 * w, 4 * w)]
        sizes += [(4 * w, 8 * w), (8 * w, 8 * w), (8 * w, 8 * w)]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b in sizes)
        self.head = nn.Linear(8 * w, classes, bias=False)

    def layer(self, number: int, x: Tensor) -> Tensor:
        y: Tensor = F.relu(self.norms[number](self.convs[number](x)))
        return y

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.layer(1, self.layer(0, x)), 2)
        x = x + self.layer(3, self.layer(2, x))
        x = F.max_pool2d(self.layer(4, x), 2)
        x = F.max_pool2d(self.layer(5, x), 2)
        x = x + self.layer(7, self.layer(6, x))
        logits: Tensor = 0.125 * self.head(x.amax(dim=(2, 3)))
        return logits


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def pair(double: None) -> tuple[GatedNetwork, Published, Tensor]:
    """Our network, its twin with the same weights, and images (12, 3, 16, 16)."""
    generator = torch.Generator().manual_seed(0)
    net = NetConfig("davidnet", (("width", 2),))
    network = GatedNetwork(build_architecture(net, (3, 16, 16), 5))
    for stack in (network.value, network.feature):
        stack.init_weights("kaiming", generator)
        unsettle(stack, generator)
    twin = Published(2, 3, 5)
    weights = [conv.weight for conv in twin.convs] + [twin.head.weight]
    for ours, theirs in zip(network.value.weights, weights, strict=True):
        theirs.data.copy_(ours)
    normal = network.value.normalisation
    assert normal is not None
    for place, norm in enumerate(twin.norms):
        norm.weight.data.copy_(normal.scales[place])
        norm.bias.data.copy_(normal.shifts[place])
        norm.running_mean.copy_(normal.get_buffer(f"mean_{place}"))
        norm.running_var.copy_(normal.get_buffer(f"variance_{place}"))
    return network, twin, torch.rand(12, 3, 16, 16, generator=generator)


def unsettle(stack: Stack, generator: torch.Generator) -> None:
    """A normalisation that has learnt and gathered something."""
    assert stack.normalisation is not None
    for name, tensor in stack.normalisation.state_dict().items():
        tensor.add_(0.3 * torch.rand(tensor.shape, generator=generator) * (1 + ("var" in name)))


def buffers(stack: Stack) -> list[Tensor]:
    assert stack.normalisation is not None
    return [buffer.clone() for buffer in stack.normalisation.buffers()]


def unchanged(before: list[Tensor], after: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.fixture
def tiny(make_run: Make) -> Make:
    return lambda regime, **gating: make_run(regime, TINY, **gating)


def test_the_relu_regime_is_the_published_network(
    pair: tuple[GatedNetwork, Published, Tensor],
) -> None:
    network, twin, x = pair
    for part in (x[:6], x[6:]):  # training: each batch by its own statistics
        network.gather_statistics(True)
        assert torch.allclose(network(part), twin(part), atol=1e-12)
        network.gather_statistics(False)
    twin.eval()
    assert torch.allclose(network(x), twin(x), atol=1e-12)


def test_statistics_and_gradients_are_those_of_torch(
    pair: tuple[GatedNetwork, Published, Tensor],
) -> None:
    network, twin, x = pair
    network.gather_statistics(True)
    network(x).square().sum().backward()
    network.gather_statistics(False)
    twin(x).square().sum().backward()
    normal = network.value.normalisation
    assert normal is not None
    for place, norm in enumerate(twin.norms):
        assert torch.allclose(normal.get_buffer(f"mean_{place}"), norm.running_mean)
        assert torch.allclose(normal.get_buffer(f"variance_{place}"), norm.running_var)
        assert torch.allclose(normal.scales[place].grad, norm.weight.grad)
        assert torch.allclose(normal.shifts[place].grad, norm.bias.grad)
        assert torch.allclose(network.value.weights[place].grad, twin.convs[place].weight.grad)
    assert torch.allclose(network.value.weights[8].grad, twin.head.weight.grad)
    twin.eval()
    assert torch.allclose(network(x), twin(x), atol=1e-12)


def test_the_value_network_of_a_pair_has_no_batch_norm_but_a_gamma(
    pair: tuple[GatedNetwork, Published, Tensor],
) -> None:
    network, _, x = pair
    network.own_gates = False
    assert network.value.normalisation is not None
    network.value.normalisation.active = False
    trace = network.trace(x)
    doubled = network.value.run(2 * x, lambda layer, _: trace.value.gates[layer], trace.value.masks)
    assert torch.allclose(doubled.output, 2 * trace.value.output)  # linear, given the gates
    trace.value.output.square().sum().backward()
    normal = network.value.normalisation
    assert all(scale.grad is not None and scale.grad.abs().sum() > 0 for scale in normal.scales)
    assert all(shift.grad is None for shift in normal.shifts)
    first = normal.scales[0][:, None, None] * F.conv2d(x, network.value.weights[0], padding=1)
    assert torch.allclose(trace.value.pre[0], first)


def test_gates_come_from_normalised_pre_activations_and_pooling_from_the_features(
    pair: tuple[GatedNetwork, Published, Tensor],
) -> None:
    network, twin, x = pair
    network.feature.load_state_dict(network.value.state_dict())
    network.own_gates = False
    twin.eval()
    seen: list[Tensor] = []
    for norm in twin.norms:
        norm.register_forward_hook(lambda _m, _i, output: seen.append(output))
    twin(x)
    trace = network.trace(x)
    for ours, theirs in zip(trace.value.gates, seen, strict=True):
        assert torch.equal(ours, (theirs > 0).to(ours.dtype))
    assert trace.feature is not None
    for ours, theirs in zip(trace.value.masks, trace.feature.masks, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("regime", "value_moves", "feature_moves"),
    [
        ("ReLU", True, False),
        ("DLN", True, False),
        ("DL", False, True),
        ("gates-only", False, True),
        ("FR-II", False, False),
        ("FR-DI", False, False),
    ],
)
def test_statistics_are_gathered_only_where_gates_are_trained(
    tiny: Make, regime: str, value_moves: bool, feature_moves: bool
) -> None:
    run = tiny(regime)
    network = run.trainer.network
    before = [buffers(stack) for stack in (network.value, network.feature)]
    run.step()
    run.probed.probe_context().kernels.npk  # noqa: B018 - looking gathers nothing
    assert unchanged(before[0], buffers(network.value)) is not value_moves
    assert unchanged(before[1], buffers(network.feature)) is not feature_moves


def test_fl_freezes_the_gates_of_the_network_that_was_trained(tiny: Make) -> None:
    run = tiny("FL", pretrain_epochs=1)
    network = run.trainer.network
    for _ in range(run.control.pretrain_steps):
        run.step()
    x = run.probed.probe_context().x
    learnt = [q > 0 for q in network.trace(x).value.pre]
    gathered = buffers(network.value)
    run.step()
    assert run.trainer.regime.name == "FL"
    assert unchanged(gathered, buffers(network.feature))
    gates = network.trace(x).value.gates
    assert all(torch.equal(a, b > 0) for a, b in zip(learnt, gates, strict=True))
    run.step()
    assert unchanged(gathered, buffers(network.feature))


@pytest.mark.usefixtures("no_reader_child")
def test_gates_and_weights_of_a_checkpoint_are_taken_with_their_normalisation(
    tiny: Make, make_run: Make, tmp_path: Path
) -> None:
    first = tiny("ReLU")
    for _ in range(4):
        first.step()
    file = tmp_path / "net.safetensors"
    save_trainer(file, first.trainer)
    x = first.probed.probe_context().x
    pre = first.trainer.network.trace(x).value.pre
    gated = tiny("FL", gates_from=str(file)).trainer.network.trace(x)
    for q, gate in zip(pre, gated.value.gates, strict=True):
        sure = q.abs() > 1e-5 * q.abs().max()  # folding rounds
        assert torch.equal((q > 0)[sure], (gate > 0)[sure])
    training = replace(TINY.training, weights_from=str(file))
    begun = make_run("ReLU", replace(TINY, training=training)).trainer.network
    assert torch.allclose(begun(x), first.trainer.network(x), atol=1e-5)


def kernel_of(logits: Callable[[Tensor], Tensor], x: Tensor, parameters: list[Tensor]) -> Tensor:
    """K by autograd, an example and a logit at a time."""
    rows = []
    for example in x:
        for logit in logits(example[None])[0]:
            found = torch.autograd.grad(logit, parameters, retain_graph=True)
            rows.append(torch.cat([g.flatten() for g in found]))
    J = torch.stack(rows).reshape(len(x), 5, -1)
    return torch.einsum("skp,tkp->st", J, J) / 5


def test_the_tangent_kernel_is_that_of_what_is_trained(
    pair: tuple[GatedNetwork, Published, Tensor],
) -> None:
    network, twin, x = pair
    K = kernel_of(twin.eval(), x[:3], list(twin.parameters()))
    assert torch.allclose(SharedKernels(network, x[:3]).tangent.total_kernel, K)
    before = buffers(network.value)
    network.gather_statistics(
        True
    )  # as within a step: by the statistics of a batch there is no kernel
    for ask in (SharedKernels, tangent_kernels):
        with refused("couples-examples"):
            ask(network, x[:3])
    assert unchanged(before, buffers(network.value))
    network.gather_statistics(False)
    assert torch.allclose(tangent_kernels(network, x[:3]).total_kernel, K)


def test_the_tangent_kernel_of_the_folded_weights_is_given_when_asked_for(
    pair: tuple[GatedNetwork, Published, Tensor],
) -> None:
    network, _, x = pair
    weights, biases = network.value.folded_tensors()
    free = [t.detach().requires_grad_() for t in [*weights, *(b for b in biases if b is not None)]]

    def logits(example: Tensor) -> Tensor:
        shifts = [*free[len(weights) :], None]
        nodes = network.value.architecture
        return run_chain(nodes, free[: len(weights)], shifts, example, lambda _, q: HARD(q)).output

    K = kernel_of(logits, x[:3], free)
    assert torch.allclose(SharedKernels(network, x[:3], folded=True).tangent.total_kernel, K)


def test_images_that_are_too_small_are_refused() -> None:
    with refused("too-small"):
        build_architecture(NetConfig("davidnet"), (3, 7, 7), 10)
