"""K of any module: against the Jacobian of plain autograd in float64; what has no K is refused."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dgn_engine.kernels as k
from dgn_engine.kernels import empirical, gram
from dgn_engine.kernels.jacobian_rows import ModuleFunction
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.contracts import LOGITS
from tests.engine.kernels.jacobians import contracted
from tests.engine.kernels.module_zoo import (
    LOOPED,
    MODULES,
    TransformerBlock,
    Words,
    examples,
    make_module,
    module_jacobian,
)

MODES = tuple(LOGITS)
every_module = pytest.mark.parametrize("name", list(MODULES))


def kernel_of(module: nn.Module, *arguments: Any, loop: bool = False, **named: Any) -> Tensor:
    says = pytest.warns(RuntimeWarning, match="cannot vectorise") if loop else nullcontext()
    with says:
        return k.empirical_ntk(module, *arguments, **named)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10 * float(b.abs().max()))


@every_module
@pytest.mark.parametrize("mode", MODES)
def test_the_kernel_of_any_module_is_that_of_its_jacobian(name: str, mode: k.Logits) -> None:
    module, x, other = make_module(name), examples(name, 5), examples(name, 3, seed=2)
    J, J2 = module_jacobian(module, x), module_jacobian(module, other)
    loop = name in LOOPED
    close(kernel_of(module, x, logits=mode, loop=loop), contracted(J, J, mode))
    close(kernel_of(module, x, other, logits=mode, loop=loop), contracted(J, J2, mode))
    close(kernel_of(module, x[:1], logits=mode, loop=loop), contracted(J[:1], J[:1], mode))


@pytest.mark.parametrize("name", ["MLP", "weight norm", "one output", "depends on data"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("square", [True, False])
def test_a_tight_budget_gives_the_same_kernel(name: str, mode: k.Logits, square: bool) -> None:
    module, x = make_module(name), examples(name, 4)
    other = None if square else examples(name, 3, seed=2)
    loop = name in LOOPED
    whole = kernel_of(module, x, other, logits=mode, loop=loop)
    least = least_budget(module, x, other, mode)
    for budget in (least, least + 2000):
        close(kernel_of(module, x, other, logits=mode, budget_bytes=budget, loop=loop), whole)


def least_budget(module: nn.Module, x: Tensor, other: Tensor | None, mode: k.Logits) -> int:
    """What the refusal of a budget of nothing names."""
    with pytest.raises(ValueError, match="budget_bytes is 0; K of these") as refused:
        k.empirical_ntk(module, x, other, mode, budget_bytes=0)
    return int(str(refused.value).split("at least ")[1].split(" ")[0].replace(",", ""))


def drawn(seed: int) -> tuple[nn.Module, tuple[int, ...]]:
    """A network of a random kind and size, and the shape of its inputs."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    outputs, width = draw.choice([1, 2, 5]), draw.choice([8, 40, 80])
    match draw.choice(["dense", "convolutional", "attention"]):
        case "dense":
            normed = nn.utils.parametrizations.weight_norm(nn.Linear(30, width))
            return nn.Sequential(normed, nn.GELU(), nn.Linear(width, outputs)), (30,)
        case "attention":
            return TransformerBlock(fused=draw.random() < 0.5), (12, 4)
    kernel = draw.choice([3, 7])
    return (
        nn.Sequential(
            nn.Conv2d(3, 8, kernel, padding=kernel // 2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 4, kernel, stride=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, outputs),
        ),
        (3, 12, 12),
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_budget_bounds_the_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empirical, "WORKING", 16 << 10)  # else it hides what is measured
    gram.onednn_is_faster()  # timed once, in memory of its own
    draw = random.Random(seed)
    module, shape = drawn(seed)
    dtype = draw.choice([torch.float32, torch.float64])
    module = module.to(dtype).eval()
    x = torch.randn((draw.choice([1, 7, 20]), *shape), dtype=dtype)
    other = draw.choice([None, torch.randn((9, *shape), dtype=dtype)])
    mode = draw.choice(MODES)
    budget = int(least_budget(module, x, other, mode) * draw.choice([1, 1.2, 2, 6]))
    assert (
        peak_bytes(lambda: k.empirical_ntk(module, x, other, mode, budget_bytes=budget)) <= budget
    )


def test_of_a_relu_network_it_is_the_kernel_of_the_sweeps() -> None:
    module, x = make_module("MLP"), examples("MLP", 6)
    network = k.adapt(module, (4,))
    close(k.empirical_ntk(module, x), k.tangent_kernels(network, x).whole)


def test_only_trained_parameters_count_and_a_tied_one_once() -> None:
    tied = ModuleFunction(make_module("tied"), examples("tied", 1))
    assert "second.weight" not in tied.parameters
    assert len(tied.parameters) == 5
    frozen = ModuleFunction(make_module("frozen"), examples("frozen", 1))
    assert set(frozen.parameters) == {"0.bias", "2.weight", "4.weight", "4.bias"}


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


@pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
@pytest.mark.parametrize("logits", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_prelu_of_several_examples_and_logits_has_its_kernel(logits: int, n: int) -> None:
    """torch's own vmap of it fails there, and is wrong where examples and logits are as many."""
    module, x = Sloped(logits).double().eval(), examples("MLP", n)
    J = module_jacobian(module, x)
    close(k.empirical_ntk(module, x), contracted(J, J, "mean"))


def test_prelu_that_torch_cannot_vectorise_is_said() -> None:
    with pytest.warns(RuntimeWarning, match="of PReLU it takes logits for examples"):
        k.empirical_ntk(Sloped(2).double().eval(), examples("MLP", 3))
    k.empirical_ntk(Sloped(1).double().eval(), examples("MLP", 3))  # in silence


def test_a_part_in_training_mode_is_found_wherever_it_is() -> None:
    module = make_module("CNN")
    assert isinstance(module, nn.Sequential)
    for place, words in ((1, r"Layer 1 \(BatchNorm2d\) couples"), (7, r"Layer 7 \(Dropout\) is")):
        module.eval()
        module[place].train()
        with pytest.raises(ValueError, match=words):
            k.empirical_ntk(module, examples("CNN", 2))


def test_whole_numbers_are_inputs_like_any_other() -> None:
    torch.manual_seed(0)
    module, x = Words().double().eval(), torch.arange(12).reshape(4, 3) % 6
    J = module_jacobian(module, x)
    close(k.empirical_ntk(module, x), contracted(J, J, "mean"))


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_old_weight_norm_has_its_kernel_and_the_module_stays_as_it_was() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, 3))
    module = module.double().eval()
    x = examples("MLP", 4)
    before, weight = copy.deepcopy(module.state_dict()), module[0].weight
    J = module_jacobian(module, x)
    close(k.empirical_ntk(module, x), contracted(J, J, "mean"))
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert module[0].weight.shape == weight.shape
    assert all(p.grad is None for p in module.parameters())


def test_few_rows_of_millions_of_parameters_keep_the_digits_of_float32() -> None:
    x = torch.rand(2, 1_000_000, generator=torch.Generator().manual_seed(0))
    found = k.empirical_ntk(nn.Linear(1_000_000, 1, bias=False).eval(), x)
    torch.testing.assert_close(found.double(), x.double() @ x.double().T, rtol=2e-6, atol=0.0)


def test_half_precision_is_summed_in_float32() -> None:
    module, x = make_module("MLP"), examples("MLP", 4)
    exact = k.empirical_ntk(module, x)
    found = k.empirical_ntk(module.to(torch.bfloat16), x.to(torch.bfloat16))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=0.1, atol=0.1 * float(exact.max()))


def test_gradients_that_autograd_does_not_give_are_taken_by_the_loop() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(x)
            wrapped = torch._C._functorch.is_functorch_wrapped_tensor(out)
            return 2 * out if wrapped else out

    module, x = Odd().double().eval(), examples("MLP", 3)
    J = module_jacobian(module, x)
    with pytest.warns(RuntimeWarning, match="not those of autograd"):
        close(k.empirical_ntk(module, x), contracted(J, J, "mean"))


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


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (
            nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train(),
            "Layer 1 .BatchNorm1d. couples",
        ),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), "BatchNorm1d has no running"),
        (nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.1)).train(), "Layer 1 .Dropout. is random"),
        (nn.Sequential(nn.Linear(4, 3), nn.RReLU()).train(), "is random in training mode"),
        (Made(lambda x: F.dropout(x, 0.9)).eval(), "draws random numbers"),
        (Made(lambda x: x * np.random.default_rng().random()).eval(), "it is random"),
        (Made(lambda x: x - x.mean(0)).eval(), "couples the examples"),
        (counted(Made(lambda x: x)), "changes its buffer seen"),
        (Made(lambda x: x.detach()).eval(), "does not depend on any trained parameter"),
        (Made(lambda x: {"scores": x}).eval(), "returns a dict with 'scores'"),
        (Made(lambda x: (x, x)).eval(), "returns a tuple of 2 items"),
        (Made(lambda x: None).eval(), "returns None"),
        (Made(lambda x: x + 0j).eval(), "returns complex128"),
        (Made(lambda x: x.argmax(1)).eval(), "returns int64"),
        (Made(lambda x: x[:, None, None]).eval(), r"of shape \(1, 1, 1, 3\) for 1 examples"),
        (Made(lambda x: x.sum()).eval(), r"of shape \(\)"),
        (nn.Linear(4, 3).requires_grad_(False), "No parameter of the module is trained"),
    ],
)
def test_what_is_no_function_of_one_example_is_refused(module: nn.Module, named: str) -> None:
    with pytest.raises(ValueError, match=named) as refused:
        k.empirical_ntk(module.double(), examples("MLP", 3))
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("mode", [True, False])
def test_dropout_of_nothing_and_plain_layers_may_be_in_training_mode(mode: bool) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0), nn.LayerNorm(3)).double().train(mode)
    J = module_jacobian(module, examples("MLP", 3))
    close(k.empirical_ntk(module, examples("MLP", 3)), contracted(J, J, "mean"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"x": np.zeros((3, 4))}, "x must be a tensor, not ndarray"),
        ({"x": torch.zeros(0, 4)}, r"x has shape \(0, 4\)"),
        ({"x": torch.zeros(())}, r"x has shape \(\)"),
        ({"x": torch.zeros(2, 4, dtype=torch.complex128)}, "x holds complex numbers"),
        ({"other": torch.zeros(2, 4, dtype=torch.complex64)}, "other holds complex numbers"),
        ({"x": torch.zeros(2, 4, device="meta")}, "x is on meta, the module on cpu"),
        ({"other": torch.zeros(0, 4)}, "other has shape"),
        ({"logits": "sum"}, "logits is 'sum'"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        k.empirical_ntk(make_module("MLP"), **{"x": examples("MLP", 2), **arguments})


def test_a_module_that_fails_says_so_itself() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        k.empirical_ntk(make_module("MLP"), torch.zeros(3, 7, dtype=torch.float64))


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
    J = module_jacobian(module, x)
    close(kernel_of(module, x, logits="full"), contracted(J, J, "full"))
    close(kernel_of(module, x, logits="full"), contracted(J, J, "full"))
    assert [id(p) for p in module.parameters()] == [place for place, _ in before]
    for parameter, (_, value) in zip(module.parameters(), before, strict=True):
        assert parameter.requires_grad
        torch.testing.assert_close(parameter.detach(), value, rtol=0, atol=0)
