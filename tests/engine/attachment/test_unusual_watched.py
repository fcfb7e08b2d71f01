"""Modules that torch or their own form make difficult are watched: K is that of autograd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

from dgn_engine.model.adapt.module_outputs import output_tensor
from dgn_engine.protocol.frames import Reading
from tests.daily import nightly
from tests.engine.attachment.loops import last_reading, watch_closely
from tests.engine.kernels.unusual_modules import (
    ENDS,
    UNUSUAL,
    Ended,
    ModelOutput,
    dense,
    in_double,
    make_unusual,
    pruned,
    real_jacobian,
    spiking,
    unusual_examples,
)

STEPS, N = 2, 4


def probe(name: str) -> tuple[Tensor, Tensor]:
    x = unusual_examples(name, N)
    return (x.float() if x.is_floating_point() else x), torch.arange(N) // 2  # sorted


def watched(
    module: nn.Module,
    out: Path,
    name: str = "",
    before_last: Callable[[nn.Module], object] = lambda module: None,
) -> Reading:
    """Train a module for some steps; K after the last of them."""
    x, y = probe(name)
    optimiser = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], 0.05)
    with watch_closely(module, out, probe=(x, y)) as w:
        for step in range(STEPS):
            if step == STEPS - 1:
                before_last(module)
            logits = output_tensor(module(x))
            assert logits is not None
            optimiser.zero_grad()
            F.cross_entropy(logits, y).backward()
            optimiser.step()
            w.step()
    assert w.trouble == ""
    return last_reading(out, STEPS)


def check_kernel(
    reading: Reading, module: nn.Module, name: str = "", body: nn.Module | None = None
) -> None:
    """Against a backward pass for each row, in float64."""
    for part in module.modules():  # in which weights that hooks compute have no graph
        for key, held in vars(part).items():
            if isinstance(held, Tensor):
                setattr(part, key, held.detach())
    x = unusual_examples(name, N)
    found = reading.arrays["value"]
    rows = torch.linspace(0, N - 1, len(found)).round().long()
    J = real_jacobian(in_double(module), x[rows], body)
    kernel = torch.einsum("scp,tcp->st", J, J).numpy() / J.shape[1]
    np.testing.assert_allclose(found, kernel, rtol=1e-4, atol=1e-4 * np.abs(kernel).max())


SLOW = {"GRU", "LSTM both ways"}  # of the kind of LSTM


@pytest.mark.parametrize("name", [*sorted(UNUSUAL.keys() - SLOW), *nightly(*sorted(SLOW))])
def test_k_of_an_unusual_module_is_recorded(name: str, tmp_path: Path) -> None:
    module = make_unusual(name)
    hooks = [list(part._forward_pre_hooks.values()) for part in module.modules()]
    with pytest.warns(RuntimeWarning):
        reading = watched(module, tmp_path / "run", name)
    assert hooks == [list(part._forward_pre_hooks.values()) for part in module.modules()]
    assert module.training
    check_kernel(reading, module, name)


def test_what_is_pruned_while_it_is_watched_counts_as_pruned(tmp_path: Path) -> None:
    def prune_more(module: nn.Module) -> None:
        layer = module.get_submodule("2")
        prune.random_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]

    torch.manual_seed(0)
    module = pruned()
    with pytest.warns(RuntimeWarning):
        reading = watched(module, tmp_path / "run", before_last=prune_more)
    check_kernel(reading, module)


@pytest.mark.wide
@pytest.mark.parametrize("name", list(ENDS))
@pytest.mark.parametrize("act", [nn.GELU, nn.ReLU])
def test_a_softmax_at_the_end_is_left_out_and_said(
    name: str, act: type[nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = Ended(dense(act), lambda z: ModelOutput(ENDS[name](z)))
    with pytest.warns(RuntimeWarning, match="oftmax"):
        reading = watched(module, tmp_path / "run")
    check_kernel(reading, module, body=module.body)


def test_a_buffer_that_changes_its_shape_leaves_the_scores(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = spiking(torch.zeros(0))
    with pytest.warns(RuntimeWarning, match=r"buffer 1\.mem"):
        reading = watched(module, tmp_path / "run")
    assert "1.mem" in reading.absent
    assert not reading.arrays


def test_a_buffer_of_another_shape_that_matters_to_no_output_is_followed(tmp_path: Path) -> None:
    class Noting(nn.Linear):
        """Keeps how many examples it was given."""

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.seen = torch.zeros(len(x))
            return super().forward(x)

    torch.manual_seed(0)
    module = nn.Sequential(Noting(6, 5), nn.ReLU(), nn.Linear(5, 3))
    module[0].register_buffer("seen", torch.zeros(0))
    reading = watched(module, tmp_path / "run")
    check_kernel(reading, module)


def test_a_network_that_becomes_one_without_gates_is_watched_no_more(tmp_path: Path) -> None:
    x, y = probe("")
    net = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.BatchNorm1d(5), nn.Linear(5, 3))
    w = watch_closely(net, tmp_path / "run", probe=(x, y)).start()
    w.step()
    assert w.trouble == ""
    net[1] = nn.Tanh()
    with pytest.warns(RuntimeWarning, match="no longer the network"):
        w.close()


def test_forward_hooks_that_are_left_out_are_named_beside_the_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = dense(nn.ReLU)
    net[0].register_forward_hook(lambda part, given, output: output * 5)
    with pytest.warns(RuntimeWarning, match="hooks on 0"):
        reading = watched(net, tmp_path / "run")
    assert reading.remark.endswith("hooks on 0")
