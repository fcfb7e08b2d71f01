"""K of modules that torch or their own form make difficult, against plain autograd."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.kernels.empirical import module_kernel
from tests.engine.kernels.contracts import LOGITS
from tests.engine.kernels.jacobians import contracted
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

pytestmark = pytest.mark.filterwarnings("ignore:torch.func cannot vectorise")
MODES = tuple(LOGITS)


def close(one: Tensor, two: Tensor, rtol: float = 1e-12) -> None:
    torch.testing.assert_close(
        one, two.to(one.dtype), rtol=rtol, atol=rtol * float(two.abs().max())
    )


def least_budget(module: nn.Module, x: Tensor, other: Tensor | None, mode: k.Logits) -> int:
    with pytest.raises(ValueError, match="budget_bytes is 0; K of these") as refused:
        k.empirical_ntk(module, x, other, mode, budget_bytes=0)
    return int(str(refused.value).split("at least ")[1].split(" ")[0].replace(",", ""))


@pytest.mark.parametrize("name", list(UNUSUAL))
@pytest.mark.parametrize("mode", MODES)
def test_the_kernel_of_an_unusual_module_is_that_of_autograd(name: str, mode: k.Logits) -> None:
    module = in_double(make_unusual(name))
    x, other = unusual_examples(name, 5), unusual_examples(name, 2, seed=2)
    J, J2 = real_jacobian(module, x), real_jacobian(module, other)
    square, block = contracted(J, J, mode), contracted(J, J2, mode)
    close(k.empirical_ntk(module, x, logits=mode), square)
    close(k.empirical_ntk(module, x, other, mode), block)
    for left, right, kernel in ((x, None, square), (x, other, block)):
        budget = least_budget(module, left, right, mode)
        close(k.empirical_ntk(module, left, right, mode, budget_bytes=budget), kernel)


@pytest.mark.parametrize("name", list(UNUSUAL))
def test_in_the_dtype_that_torch_makes_them_in_it_is_the_same_up_to_rounding(name: str) -> None:
    module, x = make_unusual(name).eval(), unusual_examples(name, 5)
    J = real_jacobian(in_double(copy.deepcopy(without_graph(module))), x)
    kernel = k.empirical_ntk(module, x.float() if x.is_floating_point() else x)
    assert kernel.dtype == torch.float32
    close(kernel, contracted(J, J, "mean"), 2e-5)


def without_graph(module: nn.Module) -> nn.Module:
    """A weight that a hook computes is a tensor with a graph, which torch refuses to copy."""
    for part in module.modules():
        for name, held in vars(part).items():
            if isinstance(held, Tensor):
                setattr(part, name, held.detach())
    return module


@pytest.mark.parametrize("name", list(UNUSUAL))
def test_the_module_stays_as_it_was(name: str) -> None:
    module = in_double(make_unusual(name))
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    hooks = [list(part._forward_pre_hooks.values()) for part in module.modules()]
    held = [list(vars(part)) for part in module.modules()]
    k.empirical_ntk(module, unusual_examples(name, 3))
    assert all(torch.equal(tensor, state[name]) for name, tensor in module.state_dict().items())
    assert hooks == [list(part._forward_pre_hooks.values()) for part in module.modules()]
    assert held == [list(vars(part)) for part in module.modules()]
    assert all(p.grad is None for p in module.parameters())


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
        close(k.empirical_ntk(module, x, budget_bytes=budget), contracted(J, J, "mean"))


@pytest.mark.parametrize("empty", [torch.zeros(0), None, torch.zeros(1, 5)])
def test_a_buffer_that_changes_its_shape_is_named_and_put_back(empty: Tensor | None) -> None:
    module, x = spiking(empty).double().eval(), unusual_examples("", 3)
    before = module[1].mem  # type: ignore[index]
    with pytest.raises(ValueError, match=r"its buffer 1\.mem while it computes, after eval"):
        k.empirical_ntk(module, x)
    assert module[1].mem is before  # type: ignore[index]
    assert empty is None or before.shape == empty.shape
    with pytest.raises(ValueError, match=r"its buffer 1\.mem .*; call eval\(\) first"):
        k.empirical_ntk(module.train(), x)


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
    with pytest.raises(ValueError, match="its buffer seen"):
        k.empirical_ntk(module, unusual_examples("", 3))
    assert module.get_buffer("seen").tolist() == [1.0, 1.0, 1.0]
    assert not module.get_buffer("seen").requires_grad


def ended(end: Callable[[Tensor], object], act: type[nn.Module]) -> Ended:
    torch.manual_seed(0)
    return Ended(dense(act), end).double().eval()


@pytest.mark.parametrize("name", list(ENDS))
@pytest.mark.parametrize("act", [nn.GELU, nn.ReLU])
def test_k_is_of_the_outputs_or_of_the_logits_as_asked(name: str, act: type[nn.Module]) -> None:
    module, x = ended(ENDS[name], act), unusual_examples("", 5)
    outputs, logits = real_jacobian(module, x), real_jacobian(module, x, module.body)
    close(k.empirical_ntk(module, x), contracted(outputs, outputs, "mean"))
    for mode in MODES:
        made = module_kernel(module, x, None, mode, 1 << 30, before_softmax=True)
        close(made.kernel, contracted(logits, logits, mode))
        assert made.outputs.endswith("oftmax at its end is left out: logits are shown.")


def test_a_softmax_is_left_out_in_a_loop_of_backward_passes_too() -> None:
    torch.manual_seed(0)
    module = Ended(in_double(make_unusual("GRU")), ENDS["F.log_softmax"]).eval()
    x = unusual_examples("", 4)
    made = module_kernel(module, x, None, "mean", 1 << 30, before_softmax=True)
    J = real_jacobian(module, x, module.body)
    close(made.kernel, contracted(J, J, "mean"))
    assert "cannot vectorise" in made.remark


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda z: torch.exp(z) / torch.exp(z).sum(1, keepdim=True), "are probabilities"),
        (lambda z: z - z.logsumexp(1, keepdim=True), "are logarithms of probabilities"),
        (lambda z: torch.softmax(z, 1).log(), "are logarithms of probabilities"),
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
    close(made.kernel, contracted(J, J, "mean"))
    assert bool(made.outputs) == bool(kind)
    assert kind in made.outputs
