"""K of any module: against the Jacobian of plain autograd in float64; what has no K is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dgn_engine.kernels as k
from dgn_engine.kernels import gram
from dgn_engine.kernels.empirical import module_kernel
from tests.daily import nightly
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.jacobians import MODES, contract_jacobians
from tests.engine.kernels.module_zoo import MODULES, examples, make_module
from tests.engine.kernels.unusual_modules import (
    ENDS,
    UNUSUAL,
    Ended,
    dense,
    in_double,
    make_unusual,
    real_jacobian,
    spiking,
    unusual_examples,
)
from tests.refusals import refused


def close(one: Tensor, two: Tensor, rtol: float = 1e-10) -> None:
    torch.testing.assert_close(
        one, two.to(one.dtype), rtol=rtol, atol=rtol * float(two.abs().max())
    )


def least_budget(module: nn.Module, x: Tensor, other: Tensor | None, mode: k.Logits) -> int:
    """What the refusal of a budget of nothing names."""
    with refused("too-large", place="budget_bytes", value=0) as refusal:
        k.empirical_ntk(module, x, other, mode, budget_bytes=0)
    return int(str(refusal.error).split("at least ")[1].split(" ")[0].replace(",", ""))


def zoo(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A module, plain or unusual, five examples and three others."""
    if name in MODULES:
        return make_module(name), examples(name, 5), examples(name, 3, seed=2)
    x, other = unusual_examples(name, 5), unusual_examples(name, 3, seed=2)
    return in_double(make_unusual(name)), x, other


every_module = pytest.mark.parametrize("name", [*MODULES, *UNUSUAL])


@pytest.mark.wide
@every_module
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
def test_the_kernel_of_any_module_is_that_of_its_jacobian(
    name: str, mode: k.Logits, tight: bool
) -> None:
    module, x, other = zoo(name)
    J, J2 = real_jacobian(module, x), real_jacobian(module, other)
    for left, right, kernel in (
        (x, None, contract_jacobians(J, J, mode)),
        (x, other, contract_jacobians(J, J2, mode)),
        (x[:1], None, contract_jacobians(J[:1], J[:1], mode)),
    ):
        budget = least_budget(module, left, right, mode) if tight else 1 << 30
        close(k.empirical_ntk(module, left, right, mode, budget_bytes=budget), kernel)


@every_module
@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
def test_a_module_is_as_it_was_after_a_kernel_and_after_a_refusal(name: str) -> None:
    """Values, buffers, mode, what trains, hooks, attributes, and torch's own settings."""
    module, x, _ = zoo(name)
    before = everything_of(module)
    first = k.empirical_ntk(module, x)
    assert everything_of(module) == before
    with refused("too-large"):
        k.empirical_ntk(module, x, budget_bytes=1)
    wrong = x[..., :0] if x.is_floating_point() else x + 100
    with pytest.raises((RuntimeError, ValueError, IndexError)):  # as the module says
        k.empirical_ntk(module, wrong)
    assert everything_of(module) == before
    close(k.empirical_ntk(module, x), first)


def everything_of(module: nn.Module) -> list[object]:
    """What a kernel could leave behind, to be compared."""
    found: list[object] = [torch.is_grad_enabled(), torch.get_default_dtype()]
    found += [torch.get_rng_state().tolist(), torch.get_float32_matmul_precision()]
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        found.append((name, values.tolist(), tensor.requires_grad, tensor.grad, id(tensor)))
    for part in module.modules():
        hooks = [list(vars(part)[name].values()) for name in vars(part) if "hooks" in name]
        found.append((part.training, sorted(vars(part)), hooks, list(part._parameters)))
    return found


@pytest.mark.parametrize("name", ["MLP", "CNN", "weight norm", *nightly("attention", "LSTM")])
@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise:RuntimeWarning")  # an LSTM
def test_the_budget_bounds_the_memory(name: str, take: Take) -> None:
    take("nothing hidden")
    gram.onednn_is_faster()  # timed once, in memory of its own
    for place, (module, x, other) in enumerate([zoo(name)] * 2):
        x = torch.cat([x] * 4)
        many, mode = other if place else None, MODES[len(name) % 4]
        for factor in (1, 2):
            budget = factor * least_budget(module, x, many, mode)
            ask = partial(k.empirical_ntk, module, x, many, mode, budget_bytes=budget)
            assert peak_bytes(ask) <= budget


class Sloped(nn.Module):
    """PReLU with ReLU behind it, whose mask has a batch of its own."""

    def __init__(self, logits: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.head = nn.Linear(4, 3), nn.Linear(3, logits)
        self.slope = nn.Parameter(torch.tensor([0.3]))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.relu(F.prelu(self.first(x), self.slope))
        return self.head(z)  # type: ignore[no-any-return]


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
@pytest.mark.parametrize("logits", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_prelu_of_several_examples_and_logits_has_its_kernel(logits: int, n: int) -> None:
    """torch's own vmap of it fails there, and is wrong where examples and logits are as many."""
    module, x = Sloped(logits).double().eval(), examples("MLP", n)
    J = real_jacobian(module, x)
    close(k.empirical_ntk(module, x), contract_jacobians(J, J, "mean"))


def test_prelu_that_torch_cannot_vectorise_is_said() -> None:
    with pytest.warns(RuntimeWarning, match="mixes up logits and examples"):
        k.empirical_ntk(Sloped(2).double().eval(), examples("MLP", 3))
    k.empirical_ntk(Sloped(1).double().eval(), examples("MLP", 3))  # in silence


def test_few_rows_of_millions_of_parameters_keep_the_digits_of_float32() -> None:
    x = torch.rand(2, 1_000_000, generator=torch.Generator().manual_seed(0))
    found = k.empirical_ntk(nn.Linear(1_000_000, 1, bias=False).eval(), x)
    torch.testing.assert_close(found.double(), x.double() @ x.double().T, rtol=2e-6, atol=0.0)


class Made(nn.Module):
    """A linear layer followed by any function of its output and its input."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.head, self.function = nn.Linear(4, 3), function
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        return self.function(self.head(x))


def counted(module: Made) -> Made:
    def count(x: Tensor) -> Tensor:
        module.get_buffer("seen").add_(1)
        return x

    module.function = count
    return module


NO_FUNCTION: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "BatchNorm in training": (lambda: layers(nn.BatchNorm1d(3)).train(), "couples-examples"),
    "BatchNorm without statistics": (
        lambda: layers(nn.BatchNorm1d(3, track_running_stats=False)), "missing",
    ),
    "Dropout in training": (lambda: layers(nn.Dropout(0.1)).train(), "random"),
    "RReLU in training": (lambda: layers(nn.RReLU()).train(), "random"),
    "dropout by a function": (lambda: Made(lambda x: F.dropout(x, 0.9)), "random"),
    "a coin": (lambda: Made(lambda x: x * np.random.default_rng().random()), "random"),
    "the mean of the batch": (lambda: Made(lambda x: x - x.mean(0)), "couples-examples"),
    "counting": (lambda: counted(Made(lambda x: x)), "changes-state"),
    "detached": (lambda: Made(lambda x: x.detach()), "frozen"),
    "frozen": (lambda: layers().requires_grad_(False), "frozen"),
    "a dict": (lambda: Made(lambda x: {"scores": x}), "no-logits"),
    "a pair": (lambda: Made(lambda x: (x, x)), "no-logits"),
    "nothing": (lambda: Made(lambda x: None), "no-logits"),
    "complex numbers": (lambda: Made(lambda x: x + 0j), "no-logits"),
    "classes": (lambda: Made(lambda x: x.argmax(1)), "no-logits"),
    "maps": (lambda: Made(lambda x: x[:, None, None]), "no-logits"),
    "one number": (lambda: Made(lambda x: x.sum()), "no-logits"),
}  # fmt: skip


def layers(*more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), *more).eval()


@pytest.mark.parametrize("name", NO_FUNCTION)
def test_what_is_no_function_of_one_example_is_refused(name: str) -> None:
    make, kind = NO_FUNCTION[name]
    module = make().double()
    before = everything_of(module)
    with refused(kind):
        k.empirical_ntk(module, examples("MLP", 3))
    assert everything_of(module)[2:] == before[2:]


@pytest.mark.parametrize(("place", "kind"), [(1, "couples-examples"), (7, "random")])
def test_a_part_in_training_mode_is_found_wherever_it_is(place: int, kind: str) -> None:
    module = make_module("CNN")
    assert isinstance(module, nn.Sequential)
    module[place].train()
    with refused(kind):
        k.empirical_ntk(module, examples("CNN", 2))
    assert [part.training for part in module] == [n == place for n in range(len(module))]


@pytest.mark.parametrize("mode", [True, False])
def test_dropout_of_nothing_and_plain_layers_may_be_in_training_mode(mode: bool) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0), nn.LayerNorm(3)).double().train(mode)
    J = real_jacobian(module, examples("MLP", 3))
    close(k.empirical_ntk(module, examples("MLP", 3)), contract_jacobians(J, J, "mean"))


def test_a_layer_under_two_names_counts_once_and_is_left_as_it_was() -> None:
    class Listed(nn.Module):
        """Its first layer is an attribute and an item of a list, and is used by both."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 5)
            self.layers = nn.ModuleList([self.first, nn.Linear(5, 3)])

        def forward(self, x: Tensor) -> Tensor:
            hidden = F.gelu(self.layers[0](F.gelu(self.first(x))))
            logits: Tensor = self.layers[1](hidden)
            return logits

    torch.manual_seed(0)
    module, x = Listed().double(), torch.randn(4, 5, dtype=torch.float64)
    before = [(id(p), p.detach().clone()) for p in module.parameters()]
    J = real_jacobian(module, x)
    close(k.empirical_ntk(module, x, logits="full"), contract_jacobians(J, J, "full"))
    close(k.empirical_ntk(module, x, logits="full"), contract_jacobians(J, J, "full"))
    assert [id(p) for p in module.parameters()] == [place for place, _ in before]
    for parameter, (_, value) in zip(module.parameters(), before, strict=True):
        assert parameter.requires_grad
        torch.testing.assert_close(parameter.detach(), value, rtol=0, atol=0)


@pytest.mark.parametrize("name", list(UNUSUAL))
@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
def test_in_the_dtype_that_torch_makes_them_in_it_is_the_same_up_to_rounding(name: str) -> None:
    module, x = make_unusual(name).eval(), unusual_examples(name, 5)
    J = real_jacobian(in_double(copy.deepcopy(without_graph(module))), x)
    kernel = k.empirical_ntk(module, x.float() if x.is_floating_point() else x)
    assert kernel.dtype == torch.float32
    close(kernel, contract_jacobians(J, J, "mean"), 2e-5)


def without_graph(module: nn.Module) -> nn.Module:
    """A weight that a hook computes is a tensor with a graph, which torch refuses to copy."""
    for part in module.modules():
        for name, held in vars(part).items():
            if isinstance(held, Tensor):
                setattr(part, name, held.detach())
    return module


def test_a_float32_lstm_is_vectorised(recwarn: pytest.WarningsRecorder) -> None:
    k.empirical_ntk(make_unusual("LSTM").eval(), unusual_examples("LSTM", 3).float())
    assert not list(recwarn)


@pytest.mark.parametrize("passes", [1, 2, 3, 5])
def test_torch_func_may_fail_at_any_pass(passes: int) -> None:
    """After the trial of one row: at two logits, at several examples, or at the last block."""
    left = [passes]

    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = dense()

        def forward(self, x: Tensor) -> Tensor:
            if torch._C._functorch.is_functorch_wrapped_tensor(x):
                left[0] -= 1
                if left[0] < 0:
                    raise RuntimeError("an operator without a rule for vmap")
            out: Tensor = self.body(x)
            return out

    torch.manual_seed(0)
    module, x = Failing().double().eval(), unusual_examples("", 7)
    J = real_jacobian(module.body, x)
    budget = least_budget(module.body, x, None, "mean") + 2000  # a few rows at a time
    with pytest.warns(RuntimeWarning, match="an operator without a rule for vmap"):
        close(k.empirical_ntk(module, x, budget_bytes=budget), contract_jacobians(J, J, "mean"))


@pytest.mark.parametrize("empty", [torch.zeros(0), None, torch.zeros(1, 5)])
def test_a_buffer_that_changes_its_shape_is_named_and_put_back(empty: Tensor | None) -> None:
    module, x = spiking(empty).double().eval(), unusual_examples("", 3)
    before = module[1].mem  # type: ignore[index]
    with refused("changes-state"):
        k.empirical_ntk(module, x)
    assert module[1].mem is before  # type: ignore[index]
    assert empty is None or before.shape == empty.shape
    with refused("changes-state") as refusal:
        k.empirical_ntk(module.train(), x)
    assert "1.mem" in str(refusal.error)


@pytest.mark.parametrize(
    "write",
    [
        lambda seen, out: seen.resize_(2, 2).fill_(5.0),
        lambda seen, out: seen.copy_(out[0]),
        lambda seen, out: seen.add_(float("nan")),
    ],
)
def test_a_buffer_that_is_changed_in_place_is_given_back_its_values(
    write: Callable[[Tensor, Tensor], object],
) -> None:
    class Writing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            write(self.get_buffer("seen"), out)
            return out

    module = Writing(6, 3).double().eval()
    module.register_buffer("seen", torch.ones(3, dtype=torch.float64))
    with refused("changes-state"):
        k.empirical_ntk(module, unusual_examples("", 3))
    assert module.get_buffer("seen").tolist() == [1.0, 1.0, 1.0]
    assert not module.get_buffer("seen").requires_grad


def ended(end: Callable[[Tensor], object], act: type[nn.Module]) -> Ended:
    torch.manual_seed(0)
    return Ended(dense(act), end).double().eval()


@pytest.mark.wide
@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
@pytest.mark.parametrize("name", list(ENDS))
@pytest.mark.parametrize("act", [nn.GELU, nn.ReLU])
def test_k_is_of_the_outputs_or_of_the_logits_as_asked(name: str, act: type[nn.Module]) -> None:
    module, x = ended(ENDS[name], act), unusual_examples("", 5)
    outputs, logits = real_jacobian(module, x), real_jacobian(module, x, module.body)
    close(k.empirical_ntk(module, x), contract_jacobians(outputs, outputs, "mean"))
    for mode in MODES:
        made = module_kernel(module, x, None, mode, 1 << 30, before_softmax=True)
        close(made.kernel, contract_jacobians(logits, logits, mode))
        assert "oftmax" in made.outputs


@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
def test_a_softmax_is_left_out_in_a_loop_of_backward_passes_too() -> None:
    torch.manual_seed(0)
    module = Ended(in_double(make_unusual("GRU")), ENDS["F.log_softmax"]).eval()
    x = unusual_examples("", 4)
    made = module_kernel(module, x, None, "mean", 1 << 30, before_softmax=True)
    J = real_jacobian(module, x, module.body)
    close(made.kernel, contract_jacobians(J, J, "mean"))
    assert "cannot vectorise" in made.remark


@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda z: torch.exp(z) / torch.exp(z).sum(1, keepdim=True), "are probabilities"),
        (lambda z: z - z.logsumexp(1, keepdim=True), "are log-probabilities"),
        (lambda z: torch.softmax(z, 1).log(), "are log-probabilities"),
        (lambda z: torch.softmax(z, 1) + 1, ""),
        (lambda z: z, ""),
    ],
)
def test_probabilities_made_in_another_way_are_said(
    end: Callable[[Tensor], Tensor], kind: str
) -> None:
    module, x = ended(end, nn.GELU), unusual_examples("", 4)
    made = module_kernel(module, x, None, "mean", 1 << 30, before_softmax=True)
    J = real_jacobian(module, x)
    close(made.kernel, contract_jacobians(J, J, "mean"))
    assert bool(made.outputs) == bool(kind)
    assert kind in made.outputs
