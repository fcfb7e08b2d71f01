from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.model.gates import Gate

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
def test_an_adapted_network_computes_what_the_module_computes(name: str) -> None:
    module, x, shape = built(name)
    torch.testing.assert_close(k.adapt(module, shape)(x), module(x))


@pytest.mark.parametrize("name", [name for name in MODULES if name != "normed"])
def test_the_kernel_of_an_adapted_network_is_the_modules_own(name: str) -> None:
    module, x, shape = built(name)
    parameters = {key: p.detach() for key, p in module.named_parameters()}
    tree = jacrev(lambda p: functional_call(module, p, (x,)))(parameters)
    J = torch.cat([leaf.flatten(2) for leaf in tree.values()], dim=2)
    expected = torch.einsum("nkp,mkp->nm", J, J) / J.shape[1]
    torch.testing.assert_close(k.tangent_kernels(k.adapt(module, shape), x).whole, expected)


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
    with pytest.raises(UserError, match="another architecture"):
        k.adapt(value, shape, gates_from=nn.Sequential(nn.Flatten(), nn.Linear(60, 2)).double())


def test_padded_max_pooling_and_a_bias_in_some_layers_only_are_as_in_torch() -> None:
    torch.manual_seed(0)
    layers = (nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), nn.Conv2d(3, 2, 1))
    tail = (nn.ReLU(), nn.Flatten(), nn.Linear(18, 2, bias=False))
    module = nn.Sequential(*layers, *tail).double()
    x = torch.randn(4, 2, 7, 7, dtype=torch.float64)
    network = k.adapt(module, (2, 7, 7))
    torch.testing.assert_close(network(x), module(x), rtol=1e-12, atol=1e-12)
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    tree = jacrev(lambda p: functional_call(module, p, (x,)))(parameters)
    J = torch.cat([leaf.flatten(2) for leaf in tree.values()], dim=2)
    expected = torch.einsum("nkp,mkp->nm", J, J) / 2
    torch.testing.assert_close(k.tangent_kernels(network, x).whole, expected)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), r"1 \(Tanh\)"),
        (nn.Sequential(nn.Linear(4, 3), nn.Dropout(), nn.Linear(3, 1)), r"Dropout.*eval"),
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)), "couples"),
        (nn.Sequential(nn.BatchNorm1d(4).eval(), nn.Linear(4, 1)), "does not follow"),
        (nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1)), "gated layers"),
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 1)), "does not follow"),
        (nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(2, 1)), "takes 2 inputs"),
        (nn.Sequential(nn.Conv2d(1, 1, (3, 2)), nn.ReLU()), "square"),
        (nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.ReLU()), "groups"),
        (nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")), "reflect"),
        (nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU(), nn.AvgPool2d(2, padding=1)), "padding of"),
        (nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2)), "Adaptive"),
    ],
)
def test_what_has_no_kernel_here_is_refused_by_name(module: nn.Sequential, words: str) -> None:
    with pytest.raises(UserError, match=words):
        k.adapt(module, (4,))
