"""Whatever of a module changes while it is watched, K is that of autograd of the module by then."""

from __future__ import annotations

import functools
import os
import types
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.attachment.tangent_alone import TangentAlone
from dgn_engine.attachment.watcher import Watcher
from dgn_engine.kernels import empirical_ntk
from dgn_engine.protocol.frames import Reading
from tests.daily import nightly
from tests.engine.attachment.loops import assert_kernel, last_reading, watch_closely

STEPS, N = 12, 8
Body = Callable[[Any, Tensor], Tensor]


class Net(nn.Module):
    """Two layers around a function of the hidden one, which the watcher does not know."""

    factor = 1.0

    def __init__(self, act: Callable[[Tensor], Tensor], body: Body) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.act, self.body = act, body

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.body(self, self.act(self.first(x))))
        return logits


class Slotted:
    __slots__ = ("t",)

    def __init__(self) -> None:
        self.t = 1.0


@dataclass
class Settings:
    t: float = 1.0
    nested: list[dict[str, tuple[float, ...]]] = field(default_factory=lambda: [{"t": (1.0,)}])


@dataclass(frozen=True)
class Change:
    """What `forward` does, what it needs, and what changes before the last steps."""

    body: Body
    prepare: Callable[[Any], object] = lambda net: None
    change: Callable[[Any], object] = lambda net: None


def scaled_by(read: Callable[[Any], Any], first: Any, change: Callable[[Any], object]) -> Change:
    return Change(
        lambda net, h: h * read(net), lambda net: setattr(net, "c", deepcopy(first)), change
    )


def grow_public(net: Any, h: Tensor) -> Tensor:
    net.n += 1
    return h * (3.0 if net.n > 30 else 1.0)


def grow_in_dict(net: Any, h: Tensor) -> Tensor:
    net.c["n"] += 1
    return h * (3.0 if net.c["n"] > 30 else 1.0)


def warm_buffer(net: Any, h: Tensor) -> Tensor:
    if net.training:
        net.n += 1
    return h * min(1.0, float(net.n) / 8)


def warm_private(net: Any, h: Tensor) -> Tensor:
    if net.training:
        net._n += 1
    return h * min(1.0, net._n / 8)


def exchange_forward(net: Any) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        logits: Tensor = 3.0 * self.last(self.act(self.first(x)))
        return logits

    net.forward = types.MethodType(forward, net)


FACTOR = {"t": 1.0}  # of this module: it is read by name
CHANGES = {
    "private number": Change(
        lambda net, h: h * net._t,
        lambda net: setattr(net, "_t", 1.0),
        lambda net: setattr(net, "_t", 3.0),
    ),
    "number": scaled_by(lambda n: n.c, 1.0, lambda n: setattr(n, "c", 3.0)),
    "dict": scaled_by(lambda n: n.c["t"], {"t": 1.0}, lambda n: n.c.update(t=3.0)),
    "list": scaled_by(lambda n: n.c[0], [1.0], lambda n: n.c.__setitem__(0, 3.0)),
    "tuple": scaled_by(lambda n: n.c[0], (1.0,), lambda n: setattr(n, "c", (3.0,))),
    "namespace": scaled_by(
        lambda n: n.c.t, types.SimpleNamespace(t=1.0), lambda n: setattr(n.c, "t", 3.0)
    ),
    "slots": scaled_by(lambda n: n.c.t, Slotted(), lambda n: setattr(n.c, "t", 3.0)),
    "nested": scaled_by(
        lambda n: n.c.nested[0]["t"][0],
        Settings(),
        lambda n: n.c.nested[0].update(t=(3.0,)),
    ),
    "scalar of numpy": scaled_by(
        lambda n: float(n.c), np.float32(1.0), lambda n: setattr(n, "c", np.float32(3.0))
    ),
    "array": scaled_by(
        lambda n: torch.from_numpy(n.c), np.ones(8, np.float32), lambda n: n.c.fill(3.0)
    ),
    "tensor": scaled_by(lambda n: n.c, torch.ones(8), lambda n: n.c.fill_(3.0)),
    "tensor in a list": scaled_by(lambda n: n.c[0], [torch.ones(8)], lambda n: n.c[0].fill_(3.0)),
    "no tensor any more": scaled_by(
        lambda n: 3.0 if n.c is None else n.c, torch.ones(8), lambda n: setattr(n, "c", None)
    ),
    "attribute deleted": scaled_by(
        lambda n: getattr(n, "c", 3.0), torch.ones(8), lambda n: delattr(n, "c")
    ),
    "class attribute": Change(
        lambda net, h: h * net.factor, change=lambda net: setattr(Net, "factor", 3.0)
    ),
    "by name": Change(lambda net, h: h * FACTOR["t"], change=lambda net: FACTOR.update(t=3.0)),
    "environment": Change(
        lambda net, h: h * float(os.environ.get("DGN_TEST_FACTOR", "1")),
        change=lambda net: os.environ.update(DGN_TEST_FACTOR="3"),
    ),
    "partial": Change(
        lambda net, h: net.c(h),
        lambda net: setattr(net, "c", functools.partial(torch.mul, other=1.0)),
        lambda net: setattr(net, "c", functools.partial(torch.mul, other=3.0)),
    ),
    "buffer": Change(
        lambda net, h: h * net.c,
        lambda net: net.register_buffer("c", torch.ones(8)),
        lambda net: net.c.fill_(3.0),
    ),
    "buffer as a number": Change(
        warm_buffer, lambda net: net.register_buffer("n", torch.zeros((), dtype=torch.long))
    ),
    "private counter": Change(warm_private, lambda net: setattr(net, "_n", 0)),
    "counter of passes": Change(grow_public, lambda net: setattr(net, "n", 0)),
    "counter in a dict": Change(grow_in_dict, lambda net: setattr(net, "c", {"n": 0})),
    "layer beside the module": Change(
        lambda net, h: net.t(h),
        lambda net: object.__setattr__(net, "t", nn.Linear(8, 8)),
        lambda net: net.t.weight.data.mul_(3.0),
    ),
    "layer in a container": Change(
        lambda net, h: net.c["t"](h),
        lambda net: setattr(net, "c", {"t": nn.Linear(8, 8)}),
        lambda net: net.c["t"].weight.data.mul_(3.0),
    ),
    "forward": Change(lambda net, h: h, change=exchange_forward),
    "body": Change(
        lambda net, h: h, change=lambda net: setattr(net, "body", lambda net, h: 3.0 * h)
    ),
    # what leaves the logits as they are
    "frozen": Change(lambda net, h: h, change=lambda net: net.first.requires_grad_(False)),
    "gradient stopped": Change(
        lambda net, h: h.detach() if net._stops else h,
        lambda net: setattr(net, "_stops", False),
        lambda net: setattr(net, "_stops", True),
    ),
}

OTHER_LAYERS = {"body", "gradient stopped"}  # which no network with the same gates does


def train(
    net: nn.Module, out: Path, change: Callable[[Any], object] = lambda net: None
) -> tuple[Reading, Watcher]:
    """Train with the change before the last third of the steps; K after the last step."""
    x, y = examples()
    optimiser = torch.optim.SGD(net.parameters(), 0.05)
    with (
        warnings.catch_warnings(),
        watch_closely(net, out, probe=(x, y), probes=("gates", "ntk"), share=0.9) as w,
    ):
        warnings.simplefilter("ignore")
        for step in range(STEPS):
            if step == STEPS * 2 // 3:
                change(net)
            optimiser.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimiser.step()
            w.step()
    return last_reading(out, w.steps if w.trouble == "" else 0), w


def examples() -> tuple[Tensor, Tensor]:
    return torch.randn(N, 6, generator=torch.Generator().manual_seed(5)), torch.arange(N) // 3


@pytest.mark.wide
@pytest.mark.parametrize("act", [F.relu, F.gelu], ids=["relu", "gelu"])
@pytest.mark.parametrize("name", CHANGES)
def test_k_is_that_of_the_module_by_then(
    name: str, act: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Net, "factor", 1.0)
    monkeypatch.setitem(FACTOR, "t", 1.0)
    monkeypatch.setenv("DGN_TEST_FACTOR", "1")
    case = CHANGES[name]
    torch.manual_seed(0)
    net = Net(act, case.body)
    case.prepare(net)
    reading, w = train(net, tmp_path / "run", case.change)
    if act is F.relu and name in OTHER_LAYERS:
        assert w.trouble
        return
    assert w.trouble == ""
    assert reading.step == STEPS
    assert_kernel(reading, net, examples()[0], 2e-6)


@pytest.mark.parametrize(
    "limit", [*range(1, 16, 3), *nightly(*set(range(16)) - {0, 1, 4, 7, 10, 13})]
)
def test_k_is_never_that_of_passes_which_differ(limit: int, tmp_path: Path) -> None:
    """A counter of passes reaches its limit while K is being computed, or before, or after."""

    def body(net: Any, h: Tensor) -> Tensor:
        net.c["n"] += 1
        return h * (3.0 if net.c["n"] > limit else 1.0)

    torch.manual_seed(0)
    net: Any = Net(F.gelu, body)
    net.c = {"n": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = tmp_path / "run"
        watch_closely(net, out, probe=examples(), probes=("ntk",)).start().close()
    reading = last_reading(out, 0)
    if not reading.absent:
        assert_kernel(reading, net, examples()[0], 2e-6)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("act", [F.relu, F.gelu], ids=["relu", "gelu"])
def test_a_training_that_diverges_is_watched_on(act: Any, value: float, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Net(act, lambda net, h: h)
    _, w = train(net, tmp_path / "run", lambda net: net.first.weight.data[0].fill_(value))
    assert w.trouble == ""


def test_weights_that_autocast_keeps_in_half_precision_are_not_read(tmp_path: Path) -> None:
    class Half(Net):
        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(x).float()

    torch.manual_seed(0)
    net = Half(F.gelu, lambda net, h: h)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        reading, w = train(net, tmp_path / "run", lambda net: net.last.weight.data.mul_(3.0))
    assert w.trouble == ""
    assert_kernel(reading, net, examples()[0], tolerance=0.02)


def test_examples_are_those_meant_where_bfloat16_is_the_default(tmp_path: Path) -> None:
    n = 300
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(5))
    net = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 3))
    alone = TangentAlone(x, torch.zeros(n, dtype=torch.long))
    alone._count = n
    alone._began = True
    torch.set_default_dtype(torch.bfloat16)
    try:
        reading = alone.read_kernel(net.eval(), 0)
    finally:
        torch.set_default_dtype(torch.float32)
    assert reading.arrays["value"].shape == (n, n)
    wanted = empirical_ntk(net, x).numpy()
    np.testing.assert_allclose(reading.arrays["value"], wanted, rtol=1e-4, atol=1e-4)


def test_a_step_that_is_compiled_is_counted(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 3))
    x, y = examples()
    with (
        warnings.catch_warnings(),
        watch_closely(net, tmp_path / "run", probe=(x, y), probes=("ntk",)) as w,
    ):
        warnings.simplefilter("ignore")

        def step() -> Tensor:
            loss = F.cross_entropy(net(x), y)
            w.step(loss=loss)
            w.test(loss=loss)
            return loss

        compiled = torch.compile(step, backend="eager")
        for _ in range(3):
            compiled()
    assert w.trouble == ""
    assert w.steps == 3
