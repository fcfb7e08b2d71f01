"""Modules that torch or their own form make difficult are watched: K is that of autograd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

import dgn_engine as dgn
from dgn_engine.attachment import watcher as watcher_module
from dgn_engine.errors import UserError
from dgn_engine.model.adapt.module_outputs import output_tensor
from dgn_engine.protocol.frames import Reading
from dgn_engine.storage.runs.run_reader import RunReader
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

STEPS, N = 2, 6


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks, notes and frames do not wait for the clock."""
    for name in ("LOOK_EVERY", "NOTE_EVERY", "FRAME_EVERY"):
        monkeypatch.setattr(watcher_module, name, 0.0)


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
    with dgn.watch(module, probe=(x, y), out=out) as w:
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
    frame = RunReader(out).latest_frame(STEPS)
    assert frame is not None
    assert frame.step == STEPS
    return frame.readings["ntk"]


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


@pytest.mark.parametrize("name", list(UNUSUAL))
def test_k_of_an_unusual_module_is_recorded(name: str, tmp_path: Path) -> None:
    module = make_unusual(name)
    hooks = [list(part._forward_pre_hooks.values()) for part in module.modules()]
    with pytest.warns(RuntimeWarning, match="no gates and no path kernels .* only K is computed"):
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
    with pytest.warns(RuntimeWarning, match="only K is computed"):
        reading = watched(module, tmp_path / "run", before_last=prune_more)
    check_kernel(reading, module)


@pytest.mark.parametrize("name", list(ENDS))
@pytest.mark.parametrize("act", [nn.GELU, nn.ReLU])
def test_a_softmax_at_the_end_is_left_out_and_said(
    name: str, act: type[nn.Module], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = Ended(dense(act), lambda z: ModelOutput(ENDS[name](z)))
    with pytest.warns(RuntimeWarning, match="oftmax at its end is left out: logits are shown"):
        reading = watched(module, tmp_path / "run")
    check_kernel(reading, module, body=module.body)


def test_a_buffer_that_changes_its_shape_leaves_the_scores(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = spiking(torch.zeros(0))
    said = r"only scores are recorded\..* changes its buffer 1\.mem while it computes"
    with pytest.warns(RuntimeWarning, match=said):
        reading = watched(module, tmp_path / "run")
    assert "its buffer 1.mem" in reading.absent
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


def test_complex_examples_are_refused(tmp_path: Path) -> None:
    x, y = probe("")
    with pytest.raises(UserError, match="complex"):
        dgn.watch(dense(), probe=(x + 0j, y), out=tmp_path / "run")


class Scaled(nn.Module):
    """What it computes depends on more than parameters and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.listed = dense(nn.GELU), [nn.Linear(3, 3)]
        self.scale, self.act, self.mask = 1.0, torch.sin, torch.ones(3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.act(self.listed[0](self.body(x))) * self.mask * self.scale
        return out


def change_all(module: Any) -> None:
    module.scale, module.act = 3.0, torch.tanh
    module.mask[0] = 0.0
    with torch.no_grad():
        module.listed[0].weight.mul_(2.0)


def test_attributes_that_decide_the_numbers_are_followed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Scaled()
    with pytest.warns(RuntimeWarning, match="only K is computed"):
        reading = watched(module, tmp_path / "run", before_last=change_all)
    module.listed[0].double()
    check_kernel(reading, module)


def test_a_network_that_becomes_one_without_gates_is_watched_no_more(tmp_path: Path) -> None:
    x, y = probe("")
    net = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.BatchNorm1d(5), nn.Linear(5, 3))
    w = dgn.watch(net, probe=(x, y), out=tmp_path / "run").start()
    w.step()
    assert w.trouble == ""
    net[1] = nn.Tanh()
    with pytest.warns(RuntimeWarning, match="when it was first watched"):
        w.close()


def test_a_function_over_the_module_itself_is_not_read(tmp_path: Path) -> None:
    x, y = probe("")
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    original = net.forward
    net.forward = lambda *given: original(*given) * 2  # type: ignore[method-assign]
    with (
        pytest.warns(RuntimeWarning, match="original"),
        dgn.watch(net, probe=(x, y), out=tmp_path / "run") as w,
    ):
        assert w.trouble


def test_forward_hooks_that_are_left_out_are_named_beside_the_numbers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = dense(nn.ReLU)
    net[0].register_forward_hook(lambda part, given, output: output * 5)
    with pytest.warns(RuntimeWarning, match="without your forward hooks of 0"):
        reading = watched(net, tmp_path / "run")
    assert reading.remark.endswith("without your forward hooks of 0")
