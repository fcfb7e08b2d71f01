from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import dgn_engine.kernels as k
from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.kernels.trained_weights import trained_weights
from dgn_engine.model.gates import Gate
from tests.engine.kernels.module_grammar import tangent_kernel
from tests.engine.kernels.module_zoo import refusal_of
from tests.refusals import refused
from tests.snapshots import Recorded

MODULES: dict[str, tuple[Callable[[], nn.Sequential], tuple[int, ...]]] = {
    "dense": (
        lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU(),
                              nn.Linear(3, 2)),
        (4,),
    ),
    "flatten-first": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4, bias=False), nn.ReLU(),
                              nn.Dropout(0.5), nn.Linear(4, 2, bias=False)),
        (3, 2, 2),
    ),
    "nested-pooled": (
        lambda: nn.Sequential(
            nn.Sequential(nn.Conv2d(2, 3, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, padding_mode="circular"), nn.Identity(),
                          nn.ReLU()),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)),
        (2, 6, 5),
    ),
    "pool-then-relu": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.MaxPool2d(2, 1),
                              nn.ReLU(), nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(2, 3)),
        (1, 5, 5),
    ),
    "global-max": (
        lambda: nn.Sequential(nn.Conv2d(1, 3, 2), nn.AdaptiveMaxPool2d(1), nn.ReLU(),
                              nn.Flatten(), nn.Linear(3, 2)),
        (1, 4, 3),
    ),
    "normed": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.ReLU(),
                              nn.Flatten(), nn.Linear(8, 3), nn.BatchNorm1d(3, affine=False),
                              nn.ReLU(), nn.Linear(3, 2)),
        (1, 4, 4),
    ),
    "a ReLU used again": (
        lambda: nn.Sequential(nn.Linear(4, 5), (relu := nn.ReLU()), nn.Linear(5, 5), relu,
                              nn.Linear(5, 2)),
        (4,),
    ),
    "padded maximum, some biases": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1),
                              nn.Conv2d(3, 2, 1), nn.ReLU(), nn.Flatten(),
                              nn.Linear(18, 2, bias=False)),
        (2, 7, 7),
    ),
    "branching": (lambda: nn.Sequential(Branching()), (2, 8, 8)),
}  # fmt: skip
every_module = pytest.mark.parametrize("name", list(MODULES))


def built(name: str, seed: int = 0) -> tuple[nn.Sequential, Tensor, tuple[int, ...]]:
    make, shape = MODULES[name]
    generator = torch.Generator().manual_seed(seed)
    module = make().double().eval()
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
        for part in module.modules():
            if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
                assert part.running_var is not None
                part.running_var.square_().add_(0.5)
    return module, torch.randn((4, *shape), generator=generator, dtype=torch.float64), shape


@every_module
def test_an_adapted_network_has_the_outputs_and_the_kernel_of_the_module(name: str) -> None:
    module, x, shape = built(name)
    network = k.adapt(module, shape)
    torch.testing.assert_close(network(x), module(x), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(
        k.tangent_kernels(network, x).total_kernel, tangent_kernel(module, x)
    )
    assert bool((k.SharedKernels(network, x).npk().diagonal() >= 0).all())
    module.train()  # which is how a loop leaves it: read as in evaluation, and left as it is
    statistics = [buffer.clone() for buffer in module.buffers()]
    expected = tangent_kernel(module.eval(), x)
    module.train()
    torch.testing.assert_close(k.tangent_kernels(network, x).total_kernel, expected)
    assert all(part.training for part in module.modules())
    assert all(torch.equal(a, b) for a, b in zip(statistics, module.buffers(), strict=True))


def test_an_adapted_network_follows_the_modules_training() -> None:
    module, x, shape = built("dense")
    network = k.adapt(module, shape)
    module(x).square().sum().backward()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    torch.testing.assert_close(network(x), module(x))


def test_two_modules_make_a_deep_gated_network() -> None:
    value, x, shape = built("nested-pooled", seed=0)
    feature = built("nested-pooled", seed=1)[0]
    network = k.adapt(value, shape, gates_from=feature, gate=Gate(soft=True))
    kernels = k.tangent_kernels(network, x)
    assert kernels.feature is not None
    trace = network.trace(x)
    H = k.neural_path_kernel(network.architecture, trace.value.gates, x, masks=trace.value.masks)
    assert bool((H.diagonal() > 0).all())
    with refused("not-supported"):
        k.adapt(value, shape, gates_from=nn.Sequential(nn.Flatten(), nn.Linear(60, 2)).double())


class Branching(nn.Module):
    """A ResNet in small: a ReLU used again, changes in place, a projected and an identity skip."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 3, 3, padding=1, bias=False)
        self.inner = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 4, 3, 2, 1)])
        self.outer = nn.ModuleList([nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(4, 4, 3, 1, 1)])
        self.projection = nn.Conv2d(3, 4, 1, 2)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        for block, (inner, outer) in enumerate(zip(self.inner, self.outer, strict=True)):
            found = outer(self.act(inner(x)))
            if block == 0:
                found += x
            else:
                found = torch.add(self.projection(x), found, alpha=0.5)
            x = self.act(found)
        return self.head(x.mean((2, 3), keepdim=True).view(x.size(0), -1))


class Head(nn.Module):
    """A layer with a head; `pass_on` says what lies between them."""

    def __init__(self, pass_on: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.pass_on = pass_on

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.pass_on(self, x)))  # type: ignore[no-any-return]


class PreActivation(nn.Module):
    """He et al. 2016: BatchNorm and ReLU before each convolution, the skip taken before them, or
    behind the first where it is projected."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(x))
        shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
        out = self.conv1(out)
        out = self.conv2(F.relu(self.bn2(out)))
        out += shortcut
        return out


class Pooled(nn.Module):
    """As timm's pooling: which of them is an option."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1) if kind == "avg" else nn.AdaptiveMaxPool2d(1)
        self.flatten = nn.Flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.flatten(self.pool(x))  # type: ignore[no-any-return]


def pre_activation_network() -> nn.Module:
    torch.manual_seed(0)
    blocks = (PreActivation(3, 3, 1), PreActivation(3, 4, 2))
    end = (nn.BatchNorm2d(4), nn.ReLU(inplace=True), Pooled("avg"), nn.Dropout(), nn.Linear(4, 2))
    module = nn.Sequential(nn.Conv2d(2, 3, 3, 1, 1, bias=False), *blocks, *end).double().eval()
    with torch.no_grad():
        for norm in (part for part in module.modules() if isinstance(part, nn.BatchNorm2d)):
            for tensor in (norm.weight, norm.bias, norm.running_mean):
                assert tensor is not None
                tensor.normal_()
            assert norm.running_var is not None
            norm.running_var.uniform_(0.5, 2.0)
    return module


def test_a_pre_activation_network_has_its_outputs_and_its_kernel() -> None:
    module = pre_activation_network()
    network = k.adapt(module, (2, 6, 6))
    x = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(network(x), module(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        k.tangent_kernels(network, x).total_kernel, tangent_kernel(module, x)
    )
    estimate = k.estimate_path_kernel(
        network.architecture,
        network.trace(x).value.gates,
        x,
        draws=400,
        generator=torch.Generator().manual_seed(0),
        normalise="width",
    )
    exact = k.SharedKernels(network, x).npk("width")
    assert float((estimate.kernel - exact).norm() / exact.norm()) < 5 * estimate.relative
    with pytest.raises(ValueError, match="βH"):
        k.SharedKernels(network, x).expected_value()


def test_torchvisions_resnet_is_followed_as_it_is() -> None:
    import_torchvision()
    models = import_module("torchvision.models.resnet")
    torch.manual_seed(0)
    module = models.ResNet(models.BasicBlock, [1, 1, 1, 1], num_classes=3).eval()
    network = k.adapt(module, (3, 32, 32))
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(network(x), module(x), rtol=1e-4, atol=1e-4)
    assert len(network.architecture.gated_shapes) == 9


def test_a_folded_batchnorm_is_the_modules_own_at_every_pass() -> None:
    module, x, shape = built("normed")
    network = k.adapt(module, shape)
    for norm in (part for part in module.modules() if isinstance(part, nn.BatchNorm2d)):
        assert norm.running_mean is not None
        norm.running_mean += 1.0
        norm.weight.data *= 2.0
    torch.testing.assert_close(network(x), module(x), rtol=1e-12, atol=1e-12)


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, 2 * self.weight, self.bias)


class Shifted(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x.detach()


def tied() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    module[2].weight = module[0].weight  # type: ignore[union-attr]
    return module


def hooked(hook: Callable[..., object]) -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    module[0].register_forward_hook(hook)
    return module


def backward_hooked() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    module[0].register_full_backward_hook(lambda _, grad_input, grad_output: (2 * grad_input[0],))
    module.insert(0, nn.Linear(4, 4))
    return module


def pruned() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    prune.l1_unstructured(module[0], "weight", amount=3)
    return module


def silently(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = module.first(x)  # type: ignore[operator]
    return found


class Pair(nn.Sequential):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return super().forward(x), x


def chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), *layers)


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "tied": tied,
    "pruned": pruned,
    "a hook that calls tanh": lambda: hooked(lambda _, x, y: y.tanh()),
    "a hook that detaches": lambda: hooked(lambda _, x, y: y.detach()),
    "a hook that leaves autograd": lambda: hooked(
        lambda _, x, y: torch.from_numpy(y.detach().numpy())
    ),
    "a hook of gradients": backward_hooked,
    "a forward of its own": lambda: nn.Sequential(Doubled(4, 4), nn.ReLU(), nn.Linear(4, 2)),
    "a detached skip": lambda: Shifted(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)),
    "weight_norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 2))),
    "spectral_norm": lambda: nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 2))),
    "a sum of its inputs": lambda: Head(lambda m, x: m.first(x) * (x.sum() > 0)),
    "a choice by value": lambda: Head(lambda m, x: m.first(x) if bool(x[0, 0] > 0) else x),
    "concatenated": lambda: Head(lambda m, x: torch.cat([m.first(x)[:, :2], x[:, 2:]], 1)),
    "a constant": lambda: Head(lambda m, x: m.first(x) + torch.ones(4).double()),
    "the mean of the batch": lambda: Head(lambda m, x: m.first(x) - m.first(x).mean(0)),
    "another precision": lambda: Head(lambda m, x: m.first(x).to(torch.float32)),
    "random": lambda: Head(lambda m, x: F.dropout(m.first(x))),
    "times a parameter": lambda: Head(lambda m, x: m.first(x) * m.head.bias[0]),
    "reshaped examples": lambda: Head(lambda m, x: m.first(x.reshape(len(x) // 2, -1)[:, :4])),
    "weights that it changes": lambda: Head(
        lambda m, x: (m.first(x), m.first.weight.data.mul_(1.1))[0]
    ),
    "without gradients": lambda: Head(silently),
    "a pair": lambda: Pair(nn.Linear(4, 2)),
    "Tanh": lambda: chain(nn.Tanh(), nn.Linear(3, 1)),
    "Dropout in training": lambda: chain(nn.Dropout(), nn.Linear(3, 1)),
    "BatchNorm in training": lambda: chain(nn.BatchNorm1d(3), nn.Linear(3, 1)),
    "BatchNorm first": lambda: nn.Sequential(nn.BatchNorm1d(4).eval(), nn.Linear(4, 1)),
    "ReLU first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 1)),
    "no activation": lambda: chain(nn.Linear(3, 1)),
    "activation last": lambda: chain(nn.ReLU()),
    "no layer": lambda: nn.Sequential(nn.Flatten()),
    "sizes that do not fit": lambda: chain(nn.ReLU(), nn.Linear(2, 1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_module_that_does_something_else_is_refused(name: str, recorded: Recorded) -> None:
    recorded(refusal_of(OTHERS[name](), (4,)))


def test_a_tangent_kernel_is_over_what_trains_now() -> None:
    module = pre_activation_network()
    network = k.adapt(module, (2, 6, 6))
    x = torch.randn(3, 2, 6, 6, dtype=torch.float64)
    whole = trained_weights(network)
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.requires_grad_(bool(torch.rand(1, generator=generator) < 0.5))
    which = [parameter.requires_grad for parameter in module.parameters()]
    expected = tangent_kernel(module, x)
    torch.testing.assert_close(k.tangent_kernels(network, x).total_kernel, expected)
    full = k.tangent_kernels(network, x, logits="full").total_kernel
    torch.testing.assert_close(torch.einsum("nkmk->nm", full) / 2, expected)
    assert trained_weights(network) != whole, "some are frozen"
    for ask in (
        lambda: k.tangent_kernels(network, x, folded=True),
        k.SharedKernels(network, x).expected_value,
    ):
        with refused("frozen"):
            ask()
    assert which == [parameter.requires_grad for parameter in module.parameters()]
    module.requires_grad_(False)
    with refused("frozen"):
        k.tangent_kernels(network, x)
    assert bool((k.SharedKernels(network, x).npk().diagonal() > 0).all()), "paths need no training"
