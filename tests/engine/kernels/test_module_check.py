"""Modules that do something else at another pass, or are changed after `adapt`, are refused."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from tests.engine.kernels.module_grammar import CLASSES, tangent_kernel
from tests.refusals import refused

Step = Callable[["Two", Tensor], Tensor]


class Two(nn.Module):
    """Two dense layers and what a function makes of them; `count`: of its calls."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(5, 6), nn.Linear(6, 3)
        self.step, self.count = step, 0
        self.last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.step(self, x)


def plain(net: Two, x: Tensor) -> Tensor:
    logits: Tensor = net.two(F.relu(net.one(x)))
    return logits


def adding_its_last(net: Two, x: Tensor) -> Tensor:
    hidden = F.relu(net.one(x))
    before, net.last = net.last, hidden
    logits: Tensor = net.two(hidden if before is None else hidden + before)
    return logits


def bounding_its_weights(net: Two, x: Tensor) -> Tensor:
    with torch.no_grad():
        net.one.weight.clamp_(min=0.0)
    return plain(net, x)


def dropping_a_layer(net: Two, x: Tensor) -> Tensor:
    hidden = net.one(x)
    logits: Tensor = net.two(F.relu(hidden) if torch.rand(()) < 0.999 else hidden)
    return logits


def dropping_by_python(net: Two, x: Tensor) -> Tensor:
    hidden = net.one(x)
    logits: Tensor = net.two(F.relu(hidden) if random.random() < 0.999 else hidden)
    return logits


def alone_another(net: Two, x: Tensor) -> Tensor:
    return plain(net, x) * (2 if len(x) == 1 else 1)


def in_double_only(net: Two, x: Tensor) -> Tensor:
    hidden = net.one(x)
    logits: Tensor = net.two(F.relu(hidden) if x.dtype == torch.float64 else hidden)
    return logits


def for_two_examples(net: Two, x: Tensor) -> Tensor:
    return plain(net, x.view(2, -1))


def fibonacci(net: Two, x: Tensor) -> Tensor:
    one = two = F.relu(net.one(x))
    for _ in range(60):
        one, two = two, one + two
    logits: Tensor = net.two(two)
    return logits


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (adding_its_last, "couples-examples"),
        (bounding_its_weights, "changes-state"),
        (dropping_a_layer, "random"),
        (dropping_by_python, "random"),
        (alone_another, "couples-examples"),
        (for_two_examples, "cannot-run"),
        (fibonacci, "not-supported"),
    ],
)
def test_what_may_be_another_function_next_time_is_refused(step: Step, kind: str) -> None:
    module = Two(step).double()
    state = random.getstate(), torch.get_rng_state()
    with pytest.raises(UserError) as refusal:
        k.adapt(module, (5,))
    assert refusal.value.kind in (kind, "")  # what draws is refused without one
    assert random.getstate() == state[0]
    assert torch.equal(torch.get_rng_state(), state[1])


def test_what_is_read_in_float64_is_what_runs_in_float32() -> None:
    with refused("other-function"):
        k.adapt(Two(in_double_only), (5,))
    x = torch.randn(4, 5)
    module = Two(plain)
    torch.testing.assert_close(k.adapt(module, (5,))(x), module(x))


def test_a_margin_that_is_cut_off_is_refused() -> None:
    module = nn.Sequential(nn.ZeroPad2d(-1), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten())
    module.append(nn.Linear(18, 2))
    with refused("not-supported"):
        k.adapt(module, (1, 7, 7))


def test_branches_within_branches_without_end_are_refused() -> None:
    class Ensemble(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(1100))
            self.head = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            total = self.parts[0](x)
            for part in self.parts[1:]:
                total = total + F.relu(part(x))
            logits: Tensor = self.head(total)
            return logits

    with refused("not-supported"):
        k.adapt(Ensemble(), (2,))


def test_a_squeezed_axis_of_a_single_example_is_no_other_network() -> None:
    module = Two(lambda net, x: plain(net, x).squeeze()).double()
    x = torch.randn(4, 5, dtype=torch.float64)
    torch.testing.assert_close(k.adapt(module, (5,))(x), module(x))


def built() -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(5, 6),
        nn.BatchNorm1d(6),
        nn.ReLU(),
        nn.Linear(6, 6),
        nn.LeakyReLU(0.1),
        nn.Linear(6, 6),
        nn.PReLU(),
        nn.Linear(6, CLASSES),
    )
    return module.double().eval(), torch.randn(4, 5, dtype=torch.float64)


def tie(module: nn.Sequential) -> None:
    first = module[3]
    assert isinstance(first, nn.Linear)
    module[5].weight = first.weight


def double_outputs(module: nn.Module, given: object, output: Tensor) -> Tensor:
    return 2 * output


CHANGES: dict[str, tuple[Callable[[nn.Sequential], object], str]] = {  # and what is named
    "slope": (lambda m: setattr(m[4], "negative_slope", 0.7), "negative_slope"),
    "epsilon": (lambda m: setattr(m[1], "eps", 1.0), "eps"),
    "activation": (lambda m: m.__setitem__(4, nn.Tanh()), "kind"),
    "bias": (lambda m: m.__setitem__(3, nn.Linear(6, 6, bias=False)), "parameters"),
    "width": (lambda m: m.__setitem__(3, nn.Linear(6, 9)), "out_features"),
    "layer more": (lambda m: m.append(nn.Linear(3, 3)), "8"),
    "layer less": (lambda m: m.__delitem__(1), "1"),
    "hook": (lambda m: m[0].register_forward_hook(double_outputs), "hooks"),
    "forward": (lambda m: setattr(m[0], "forward", lambda x: x), "forward"),
    "weight_norm": (lambda m: parametrizations.weight_norm(m[0]), "kind"),
    "pruned": (lambda m: prune.l1_unstructured(m[0], "weight", 0.5), "hooks"),
    "tied": (tie, "parameters"),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_module_that_was_changed_is_to_be_adapted_again(name: str) -> None:
    module, x = built()
    network = k.adapt(module, (5,))
    shared = k.SharedKernels(network, x)
    change, named = CHANGES[name]
    change(module)
    for ask in (
        lambda: network(x),
        lambda: shared.tangent,
        lambda: k.SharedKernels(network, x),
        lambda: k.tangent_operator(network, x) @ torch.zeros(4).numpy(),
    ):
        with refused("changed") as refusal:
            ask()
        assert named in str(refusal.error)


def test_what_follows_the_module_still_does() -> None:
    module, x = built()
    network = k.adapt(module, (5,))
    module.train()
    module(x)
    module[1].reset_running_stats()
    module[3] = nn.Linear(6, 6).double()
    module[5].weight = nn.Parameter(torch.randn(6, 6, dtype=torch.float64))
    module[5].requires_grad_(False)
    module.load_state_dict({n: 1.1 * t for n, t in module.state_dict().items()}, assign=True)
    module.eval()
    torch.testing.assert_close(network(x), module(x))
    for one in (network, copy.deepcopy(network)):
        kernel = k.SharedKernels(one, x).tangent.total_kernel
        torch.testing.assert_close(kernel, tangent_kernel(module, x))


def test_weights_are_drawn_into_the_parameters_that_the_module_has_now() -> None:
    module, x = built()
    network = k.adapt(module, (5,))
    module.load_state_dict(copy.deepcopy(module.state_dict()), assign=True)
    before = module(x)
    network.value.init_weights("kaiming", torch.Generator().manual_seed(0))
    assert not torch.allclose(module(x), before)
    torch.testing.assert_close(network(x), module(x))


def test_a_count_of_its_own_calls_is_no_change_of_a_module() -> None:
    module, x = Two(plain).double(), torch.randn(4, 5, dtype=torch.float64)
    network = k.adapt(module, (5,))
    module(x)
    torch.testing.assert_close(network(x), module(x))
