"""Training loops of users whose state lies where a copy of the module does not reach."""

from __future__ import annotations

import functools
import logging
import multiprocessing
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Flag
from queue import Empty, Queue, SimpleQueue
from threading import Thread
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrizations
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

Forward = Callable[[Any, Tensor], Tensor]


@dataclass
class UserLoop:
    """A module and one step of its training, which returns the loss.

    `scale` multiplies the loss, so that state outside of the weights reaches them; `around` is
    active during the loop and `reporting` while a step is reported to the watcher.
    """

    module: nn.Module
    scale: Callable[[], Any] = lambda: 1.0
    after: Callable[[], object] = lambda: None
    data: Callable[[], Tensor] | None = None
    around: AbstractContextManager[Any] = field(default_factory=nullcontext)
    reporting: Callable[[], AbstractContextManager[Any]] = nullcontext
    every: int = 1  # batches whose gradients are added up

    def __post_init__(self) -> None:
        trained = [p for p in self.module.parameters() if p.requires_grad]
        self.optimiser = torch.optim.SGD(trained, lr=0.1, momentum=0.5)
        self.batches = 0

    def step(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.batches)
        x = torch.randn(8, 6, generator=generator, dtype=torch.get_default_dtype())
        y = torch.randint(0, 3, (8,), generator=generator)
        if self.data is not None:
            x = x + 0.1 * self.data()
        loss = F.cross_entropy(self.module(x), y) * self.scale()
        loss.backward()
        self.batches += 1
        if self.batches % self.every == 0:
            self.optimiser.step()
            self.optimiser.zero_grad()
        self.after()
        return loss.detach()


LOOPS: dict[str, tuple[Callable[[], UserLoop], str]] = {}


def loop(trouble: str = "") -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a loop; `trouble`: a word of the sentence with which watching ends, or ''."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        LOOPS[make.__name__] = make, trouble
        return make

    return add


class Net(nn.Module):
    """A small network around one function of its hidden layer."""

    def __init__(self, hidden: Forward = lambda net, h: h, act: Any = None) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.act = nn.ReLU() if act is None else act
        self.hidden = hidden

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.hidden(self, self.act(self.first(x))))


def layers(*between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), *between, nn.ReLU(), nn.Linear(8, 3))


def hidden(
    trouble: str = "",
    count: Callable[[], Any] | None = None,
    after: Callable[[], object] = lambda: None,
    act: Callable[[], nn.Module] = nn.ReLU,
    reset: Callable[[], object] = lambda: None,
) -> Callable[[Forward], Forward]:
    """Register the loop of a module around this function of its hidden layer."""

    def add(forward: Forward) -> Forward:
        def make() -> UserLoop:
            reset()
            scale = (lambda: 1.0) if count is None else (lambda: 1 + 0.1 * count())
            return UserLoop(Net(forward, act()), scale, after)

        LOOPS[forward.__name__] = make, trouble
        return forward

    return add


def touching(
    touch: Callable[[Tensor], object],
    count: Callable[[], Any] = lambda: 0,
    after: Callable[[], object] = lambda: None,
    act: Any = None,
) -> UserLoop:
    """A pass of its module touches state elsewhere, by which the loss is scaled."""

    def hidden(net: Any, h: Tensor) -> Tensor:
        touch(h)
        return h

    return UserLoop(Net(hidden, act), lambda: 1 + 0.1 * count(), after)


def noting(h: Tensor, calls: list[Any]) -> Tensor:
    calls.append(1)
    return h * (1 + 0.1 * len(calls))


# What is part of the module

OWN: dict[str, Callable[[], UserLoop]] = {
    "plain": lambda: UserLoop(layers()),
    "without_gates": lambda: UserLoop(layers(nn.GELU())),
    "dropout": lambda: UserLoop(layers(nn.Dropout(0.5))),
    "dropout_function": lambda: UserLoop(Net(lambda net, h: F.dropout(h, 0.5, net.training))),
    "batchnorm": lambda: UserLoop(layers(nn.BatchNorm1d(8))),
    "batchnorm_without_statistics": lambda: UserLoop(
        layers(nn.BatchNorm1d(8, track_running_stats=False))
    ),
    "spectral_norm_by_hook": lambda: UserLoop(layers(nn.utils.spectral_norm(nn.Linear(8, 8)))),
    "spectral_norm": lambda: UserLoop(layers(parametrizations.spectral_norm(nn.Linear(8, 8)))),
    "weight_norm": lambda: UserLoop(layers(parametrizations.weight_norm(nn.Linear(8, 8)))),
    "dropout_always": lambda: UserLoop(Net(lambda net, h: F.dropout(h))),
    "draws_of_torch": lambda: UserLoop(Net(lambda net, h: h + torch.randn(8))),
    "draws_of_numpy": lambda: UserLoop(Net(lambda net, h: h * float(np.random.rand()))),
    "draws_of_python": lambda: UserLoop(Net(lambda net, h: h * random.choice([1.0, 2.0]))),
    "normal_numbers_of_python": lambda: UserLoop(
        Net(lambda net, h: h * random.gauss(1.0, 0.1)), lambda: random.gauss(1, 0.1)
    ),
    "anomalies_detected": lambda: UserLoop(
        layers(), around=torch.autograd.set_detect_anomaly(True)
    ),
    "autocast": lambda: UserLoop(layers(nn.GELU()), around=torch.autocast("cpu", torch.bfloat16)),
    "reported_in_inference_mode": lambda: UserLoop(layers(), reporting=torch.inference_mode),
    "reported_without_gradients": lambda: UserLoop(layers(nn.GELU()), reporting=torch.no_grad),
    "gradients_added_up": lambda: UserLoop(layers(), every=2),
    "table_made_when_it_is_read": lambda: lazy_table(Lazy()),
}
LOOPS |= {name: (make, "") for name, make in OWN.items()}


@loop()
def hidden_state_on_the_module() -> UserLoop:
    class Recurrent(Net):
        def forward(self, x: Tensor) -> Tensor:
            before = getattr(self, "state", torch.zeros(()))
            h = torch.tanh(self.first(x) + before)
            self.state = h.detach().mean()
            return self.last(h)

    return UserLoop(Recurrent())


@loop()
def gru() -> UserLoop:
    net = Net()
    net.first = nn.Sequential(_Last(nn.GRU(6, 6, batch_first=True)), nn.Linear(6, 8))
    return UserLoop(net)


class _Last(nn.Module):
    """The output of a recurrent layer for sequences of one."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Tensor) -> Tensor:
        return self.part(x[:, None])[0][:, 0]


@hidden(act=nn.GELU)
def attention_with_dropout(net: Any, h: Tensor) -> Tensor:
    h = h[:, None].view(len(h), 2, 4)
    rate = 0.5 if net.training else 0.0
    return F.scaled_dot_product_attention(h, h, h, dropout_p=rate).flatten(1)


@hidden()
def lazy_buffer(net: Any, h: Tensor) -> Tensor:
    if not hasattr(net, "shift"):
        net.register_buffer("shift", torch.rand(8))  # drawn at the first pass
    return h + net.shift


@loop()
def counter_of_calls() -> UserLoop:
    class Counting(Net):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x)

    net = Counting()
    return UserLoop(net, lambda: 1 + 0.1 * net.calls)


def hooked(*between: nn.Module) -> UserLoop:
    """With a hook of each kind on the module and on one of its layers."""
    net, calls = layers(*between), []

    def count(*_: object) -> None:
        calls.append(1)

    for part in (net, net[0]):
        part.register_forward_pre_hook(count)
        part.register_forward_hook(count)
        part.register_full_backward_pre_hook(count)
        part.register_full_backward_hook(count)
        part.register_state_dict_pre_hook(count)
    net[0].weight.register_hook(count)
    return UserLoop(net, lambda: 1 + 0.01 * len(calls))


@loop()
def hooks_of_the_module() -> UserLoop:
    return hooked()


@loop()
def hooks_of_a_module_without_gates() -> UserLoop:
    return hooked(nn.GELU())


@loop("calls")
def hooks_registered_in_forward() -> UserLoop:
    calls: list[int] = []

    def count(*_: object) -> None:
        calls.append(1)

    def hidden(net: Any, h: Tensor) -> Tensor:
        if len(net.last._forward_hooks) < 3:
            net.last.register_forward_hook(count)
        return h

    return UserLoop(Net(hidden), lambda: 1 + 0.01 * len(calls))


@loop()
def call_overridden() -> UserLoop:
    class Called(Net):
        passes = 0

        def __call__(self, *args: Any) -> Any:
            self.passes += 1
            return super().__call__(*args) * (1 + 0.01 * self.passes)

    return UserLoop(Called())


# What draws


@loop()
def seed_in_forward() -> UserLoop:
    def hidden(net: Any, h: Tensor) -> Tensor:
        torch.manual_seed(int(torch.initial_seed()) + 1)
        return h

    return UserLoop(Net(hidden), lambda: torch.rand(()))


@hidden()
def draws_caught_by_the_module(net: Any, h: Tensor) -> Tensor:
    try:
        return h + torch.randn(8)
    except Exception:
        return h


@hidden(act=nn.GELU)
def checkpointed(net: Any, h: Tensor) -> Any:
    return checkpoint(lambda t: F.dropout(t, 0.3, net.training), h, use_reentrant=False)


@loop()
def own_generator() -> UserLoop:
    net = Net(lambda net, h: h + torch.randn(8, generator=net.generator))
    net.generator = torch.Generator().manual_seed(1)
    return UserLoop(net)


@loop("stream")
def generator_of_torch_in_a_closure() -> UserLoop:
    stream = torch.Generator().manual_seed(1)
    return UserLoop(Net(lambda net, h: h + torch.randn(8, generator=stream)))


@loop("stream")
def generator_of_numpy_in_a_closure() -> UserLoop:
    stream = np.random.default_rng(1)
    return UserLoop(Net(lambda net, h: h * float(stream.random())))


@loop("stream")
def generator_of_python_in_a_closure() -> UserLoop:
    stream = random.Random(1)
    return UserLoop(Net(lambda net, h: h * stream.random()))


@loop("sobol")
def quasirandom_numbers() -> UserLoop:
    sobol = torch.quasirandom.SobolEngine(8)
    return UserLoop(Net(lambda net, h: h + 0.1 * sobol.draw(1)))


@loop("seeds")
def children_of_a_seed() -> UserLoop:
    seeds = np.random.SeedSequence(0)

    def hidden(net: Any, h: Tensor) -> Tensor:
        return h * (1.0 + 0.1 * float(seeds.spawn(1)[0].generate_state(1)[0] % 7))

    return UserLoop(Net(hidden))


# What functions reach by name

AUX: list[Tensor] = []
CACHE: dict[int, Tensor] = {}
CALLS = 0
COUNTS = np.zeros(2)
SEEN: set[int] = set()
LAST: deque[float] = deque(maxlen=3)
NAMED: Counter[str] = Counter()
GROUPS: defaultdict[str, list[int]] = defaultdict(list)
NUMBERS: Iterator[int] = iter(())
RUNNING = torch.zeros(8)
BANK = torch.zeros(2, 8)
NAMESPACE = SimpleNamespace(seen=[])
SEEN_IN_BACKWARD: list[int] = []
PUSHED: list[int] = []
push = PUSHED.append
COUNT = iter(range(10_000))
MODES: list[bool] = []
SPREAD = {"value": 1.0}
MEANS = torch.zeros(8)
ROUTED: list[Tensor] = []


@loop("AUX")
def list_of_a_module() -> UserLoop:
    AUX.clear()
    return touching(lambda h: AUX.append(h.pow(2).mean()), lambda: sum(AUX), AUX.clear)


@loop("CALLS")
def counter_of_a_module() -> UserLoop:
    global CALLS
    CALLS = 0

    def hidden(net: Any, h: Tensor) -> Tensor:
        global CALLS
        CALLS += 1
        return h

    return UserLoop(Net(hidden), lambda: 1 + 0.1 * CALLS)


@loop("BEGUN")
def name_that_is_made() -> UserLoop:
    globals().pop("BEGUN", None)

    def hidden(net: Any, h: Tensor) -> Tensor:
        global BEGUN
        BEGUN = globals().get("BEGUN", 0) + 1
        return h

    return UserLoop(Net(hidden), lambda: 1 + 0.1 * globals()["BEGUN"])


@hidden("CACHE", reset=CACHE.clear, after=CACHE.clear)
def cache_by_address(net: Any, h: Tensor) -> Tensor:
    CACHE.setdefault(h.data_ptr(), torch.ones(8) * (1 + 0.1 * len(CACHE)))
    return h * (1 + 0.1 * len(CACHE))


@loop("COUNTS")
def array_of_a_module() -> UserLoop:
    COUNTS[:] = 0

    def hidden(net: Any, h: Tensor) -> Tensor:
        COUNTS[0] += 1
        return h

    return UserLoop(Net(hidden), lambda: 1 + 0.1 * COUNTS[0])


@loop("RUNNING")
def tensor_of_a_module() -> UserLoop:
    RUNNING.zero_()
    return touching(lambda h: RUNNING.mul_(0.9).add_(h.detach().mean(0)), RUNNING.mean)


@loop("outside itself")
def other_containers() -> UserLoop:
    for each in (SEEN, LAST, NAMED, GROUPS):
        each.clear()

    def touch(h: Tensor) -> None:
        SEEN.add(len(SEEN))
        LAST.append(len(SEEN))
        NAMED["passes"] += 1
        GROUPS["a"].append(1)

    return touching(touch, lambda: len(SEEN) + sum(LAST) + NAMED["passes"] + len(GROUPS["a"]))


@loop("NUMBERS")
def iterator_of_a_module() -> UserLoop:
    global NUMBERS
    NUMBERS = (n for n in range(1000))
    return UserLoop(Net(lambda net, h: h * (1 + 0.1 * next(NUMBERS))))


@loop("passes")
def attribute_of_a_class() -> UserLoop:
    class Counting(Net):
        passes: ClassVar[int] = 0

        def forward(self, x: Tensor) -> Tensor:
            type(self).passes += 1
            return super().forward(x)

    return UserLoop(Counting(), lambda: 1 + 0.1 * Counting.passes)


@loop("attributes of")
def attribute_that_a_class_gets() -> UserLoop:
    class Marking(Net):
        def forward(self, x: Tensor) -> Tensor:
            Marking.met = getattr(Marking, "met", 0) + 1
            return super().forward(x)

    return UserLoop(Marking(), lambda: 1 + 0.1 * Marking.met)


@loop("losses")
def list_of_a_class_in_a_method() -> UserLoop:
    class Routing(Net):
        losses: ClassVar[list[Tensor]] = []

        def note(self, h: Tensor) -> Tensor:
            self.losses.append(h.mean())
            return h

        def forward(self, x: Tensor) -> Tensor:
            return self.note(super().forward(x))

    return UserLoop(Routing(), lambda: 1 + sum(Routing.losses), Routing.losses.clear)


@loop("calls")
def closure_that_counts() -> UserLoop:
    calls = 0

    def hidden(net: Any, h: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return h

    return UserLoop(Net(hidden), lambda: 1 + 0.1 * calls)


@hidden("default", reset=lambda: default_argument.__defaults__[0].clear())
def default_argument(net: Any, h: Tensor, met: list[int] = []) -> Tensor:  # noqa: B006
    return noting(h, met)


@hidden("attributes of", reset=lambda: vars(attribute_of_a_function).clear())
def attribute_of_a_function(net: Any, h: Tensor) -> Tensor:
    vars(attribute_of_a_function)["met"] = vars(attribute_of_a_function).get("met", 0) + 1
    return h * (1 + 0.1 * vars(attribute_of_a_function)["met"])


class Slotted:
    __slots__ = ("met",)

    def __init__(self) -> None:
        self.met = 0


@loop("records")
def object_in_a_closure() -> UserLoop:
    records = Slotted()

    def hidden(net: Any, h: Tensor) -> Tensor:
        records.met += 1
        return h * (1 + 0.1 * records.met)

    return UserLoop(Net(hidden))


@loop("Kept.met")
def object_that_is_its_own_copy() -> UserLoop:
    class Kept:
        def __init__(self) -> None:
            self.met: list[int] = []

        def __deepcopy__(self, memo: object) -> Kept:
            return self

    net = Net(lambda net, h: noting(h, net.kept.met))
    net.kept = Kept()
    return UserLoop(net)


@loop("original")
def forward_that_closes_over_its_module() -> UserLoop:
    net = layers(nn.BatchNorm1d(8, momentum=0.5))
    whole, original = nn.Sequential(net), net.forward
    net.forward = lambda x: original(x)
    return UserLoop(whole, lambda: 1 + net[1].running_mean.mean())


@loop("teacher")
def module_that_is_no_part() -> UserLoop:
    teacher = [nn.BatchNorm1d(8, momentum=0.5)]
    return UserLoop(
        Net(lambda net, h: h + teacher[0](h)), lambda: 1 + teacher[0].running_mean.mean()
    )


@loop()
def function_with_a_cache() -> UserLoop:
    @functools.lru_cache
    def positions(size: int) -> Tensor:
        return torch.linspace(0, 1, size)

    return UserLoop(Net(lambda net, h: h + positions(h.shape[1])))


@loop("met")
def autograd_function_that_counts() -> UserLoop:
    met = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, h: Tensor) -> Tensor:
            met.append(1)
            return 2 * h

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            met.append(1)
            return 2 * grad * (1 + 0.01 * len(met))

    return UserLoop(Net(lambda net, h: Twice.apply(h)))


class Noting(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        return h * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        SEEN_IN_BACKWARD.append(1)
        return grad


@loop("SEEN_IN_BACKWARD")
def function_whose_backward_counts() -> UserLoop:
    SEEN_IN_BACKWARD.clear()
    net = Net(lambda net, h: Noting.apply(h), nn.GELU())
    return UserLoop(net, lambda: 1 + 0.01 * len(SEEN_IN_BACKWARD))


@loop("gradients")
def hook_on_a_tensor_in_forward() -> UserLoop:
    gradients: list[Tensor] = []

    def touch(h: Tensor) -> None:
        if h.requires_grad:
            h.register_hook(gradients.append)

    return touching(touch, lambda: len(gradients), act=nn.GELU())


@loop("default dtype")
def default_dtype_set_in_forward() -> UserLoop:
    made = touching(
        lambda h: torch.set_default_dtype(torch.float64),
        lambda: torch.ones(()).element_size(),
        lambda: torch.set_default_dtype(torch.float32),
    )
    made.around = put_back(torch.set_default_dtype, torch.float32)
    return made


class Counted(nn.Parameter):
    """A parameter that counts what is done with it."""

    calls: ClassVar[int] = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Counted.calls += getattr(func, "__name__", "") == "linear"
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


@loop("calls")
def parameter_of_an_own_class() -> UserLoop:
    Counted.calls, net = 0, layers()
    net[0].weight = Counted(net[0].weight.detach())
    return UserLoop(net, lambda: 1 + 0.1 * Counted.calls)


@loop("BANK")
def bank_that_grows() -> UserLoop:
    BANK.data = torch.zeros(2, 8)

    def hidden(net: Any, h: Tensor) -> Tensor:
        BANK.data = torch.cat([BANK.data, h.detach()])
        return h * (1 + 0.01 * len(BANK))

    return UserLoop(Net(hidden, nn.GELU()))


@loop()
def own_bank_that_grows() -> UserLoop:
    def hidden(net: Any, h: Tensor) -> Tensor:
        net.bank.data = torch.cat([net.bank.data, h.detach()])
        return h * (1 + 0.01 * len(net.bank))

    net = Net(hidden, nn.GELU())
    net.bank = torch.zeros(2, 8)
    return UserLoop(net)


@loop("NAMESPACE")
def namespace_that_is_filled() -> UserLoop:
    NAMESPACE.seen.clear()

    def touch(h: Tensor) -> None:
        NAMESPACE.seen = [*NAMESPACE.seen, 1]

    return touching(touch, lambda: len(NAMESPACE.seen), act=nn.GELU())


@loop("push")
def bound_method_of_a_list() -> UserLoop:
    PUSHED.clear()
    return touching(lambda h: push(1), lambda: len(PUSHED), act=nn.GELU())


@loop("COUNT")
def iterator_of_a_range() -> UserLoop:
    return touching(lambda h: next(COUNT))


@loop("SPREAD")
def number_that_becomes_nan() -> UserLoop:
    SPREAD["value"] = 1.0

    def hidden(net: Any, h: Tensor) -> Tensor:
        if not net.training:
            SPREAD["value"] = float(h[h[:, 0] > 1e9].mean())
        return h

    return UserLoop(Net(hidden), lambda: SPREAD["value"])


@loop("MEANS")
def tensor_that_becomes_nan() -> UserLoop:
    MEANS.zero_()

    def hidden(net: Any, h: Tensor) -> Tensor:
        if not net.training:
            MEANS.copy_(h[h[:, 0] > 1e9].mean(0).detach())
        return h

    return UserLoop(Net(hidden), lambda: 1 + MEANS.sum())


class Router:
    def route(self, h: Tensor) -> Tensor:
        ROUTED.append(h.pow(2).mean())
        return h


@loop("ROUTED")
def object_that_is_handed_over() -> UserLoop:
    ROUTED.clear()
    net = Net(lambda net, h: net.router.route(h), nn.GELU())
    net.router = Router()
    return UserLoop(net, lambda: 1 + sum(ROUTED), ROUTED.clear)


@loop("seen")
def list_of_a_module_imported_in_forward() -> UserLoop:
    names = ("import_package", "import_package.import_state")
    package, state = (sys.modules.setdefault(name, ModuleType(name)) for name in names)
    package.__path__, package.import_state, state.seen = [], state, []
    space: dict[str, Any] = {"__package__": names[0], "__name__": names[0]}
    exec("def hidden(net, h):\n from .import_state import seen\n seen.append(1)\n return h", space)
    return UserLoop(Net(space["hidden"]), lambda: 1 + 0.1 * len(state.seen))


@dataclass(frozen=True, slots=True)
class Frozen:
    count: int = 0


@loop("frozen.count")
def frozen_object_that_counts() -> UserLoop:
    frozen = Frozen()

    def hidden(net: Any, h: Tensor) -> Tensor:
        object.__setattr__(frozen, "count", frozen.count + 1)
        return h

    return UserLoop(Net(hidden), lambda: 1 + 0.1 * frozen.count)


class Lazy:
    __slots__ = ("table",)

    def __getattr__(self, name: str) -> Tensor:
        if name != "table":
            raise AttributeError(name)
        self.table = torch.randn(8)
        return self.table


def lazy_table(prior: Lazy) -> UserLoop:
    return UserLoop(Net(lambda net, h: h + prior.table if net.training else h))


# Hooks and modes of the process or of the thread


@contextmanager
def put_back(call: Callable[..., object], *given: object) -> Iterator[None]:
    try:
        yield
    finally:
        call(*given)


@contextmanager
def removed(*handles: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@loop()
def forward_hook_of_all_modules() -> UserLoop:
    stream = torch.Generator().manual_seed(3)

    def add(part: nn.Module, args: Any, output: Any) -> Any:
        return output + 0.1 * torch.randn(output.shape, generator=stream)

    handle = torch_module.register_module_forward_hook(add)
    return UserLoop(layers(), around=removed(handle))


def counted_by(*registrations: Callable[[Any], Any]) -> UserLoop:
    """What these hooks of the process are called for counts."""
    net, calls = layers(), []

    def count(*_: object) -> None:
        calls.append(1)

    handles = [register(count) for register in registrations]
    return UserLoop(net, lambda: 1 + 0.01 * len(calls), around=removed(*handles))


@loop()
def other_hooks_of_all_modules() -> UserLoop:
    return counted_by(
        torch_module.register_module_forward_pre_hook,
        torch_module.register_module_full_backward_hook,
        torch_module.register_module_full_backward_pre_hook,
    )


@loop()
def hooks_of_registrations() -> UserLoop:
    return counted_by(
        torch_module.register_module_parameter_registration_hook,
        torch_module.register_module_buffer_registration_hook,
        torch_module.register_module_module_registration_hook,
    )


class CountFunctions(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


class CountOperations(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def counted_in(mode: Any, *between: nn.Module) -> UserLoop:
    return UserLoop(layers(*between), lambda: 1 + 0.001 * mode.calls, around=mode)


@loop()
def mode_of_functions() -> UserLoop:
    return counted_in(CountFunctions())


@loop()
def mode_of_operations() -> UserLoop:
    return counted_in(CountOperations(), nn.GELU())


@loop()
def hooks_on_saved_tensors() -> UserLoop:
    saved: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(1)
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    return UserLoop(layers(nn.GELU()), lambda: 1 + 0.01 * len(saved), around=hooks)


@loop()
def deterministic_algorithms() -> UserLoop:
    @contextmanager
    def deterministic() -> Iterator[None]:
        torch.use_deterministic_algorithms(True)
        yield
        torch.use_deterministic_algorithms(False)

    return UserLoop(layers(), around=deterministic())


@loop()
def float64_by_default() -> UserLoop:
    torch.set_default_dtype(torch.float64)
    return UserLoop(layers(), around=put_back(torch.set_default_dtype, torch.float32))


# What a loop does besides


@loop()
def schedule_and_average() -> UserLoop:
    net = layers(nn.Dropout(0.2))
    average = deepcopy(net)

    def after() -> None:
        for group in made.optimiser.param_groups:
            group["lr"] *= 0.9
        with torch.no_grad():
            for mean, now in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(now, 0.1)

    made = UserLoop(net, lambda: 1 + next(average.parameters()).mean().detach(), after)
    return made


def prefetched(draw: Callable[[], Tensor]) -> UserLoop:
    """Batches that another thread draws while the loop trains."""
    queue: Queue[Tensor] = Queue(2)

    def fetch() -> None:
        for _ in range(40):
            queue.put(torch.stack([draw() for _ in range(50)])[:8].to(torch.float32))

    @contextmanager
    def fetching() -> Iterator[None]:
        thread = Thread(target=fetch)
        thread.start()
        yield
        while thread.is_alive():
            while not queue.empty():
                queue.get()
        thread.join()

    return UserLoop(layers(nn.GELU()), data=queue.get, around=fetching())


for _name, _draw in {
    "torch": lambda: torch.randn(6),
    "numpy": lambda: torch.from_numpy(np.random.randn(6)),
    "python": lambda: torch.tensor([random.gauss(0, 1) for _ in range(6)]),
}.items():
    LOOPS[f"prefetched_from_{_name}"] = functools.partial(prefetched, _draw), ""


# What a copy would share with its module


@loop()
def backbone_that_is_its_own_copy() -> UserLoop:
    class Backbone(nn.Sequential):
        def __deepcopy__(self, memo: object) -> Backbone:
            return self

    calls: list[int] = []
    backbone = Backbone(nn.Linear(6, 6), nn.Dropout(0.5))
    backbone[0].register_forward_hook(lambda *_: calls.append(1))
    net = nn.Sequential(backbone, nn.ReLU(), nn.Linear(6, 3))
    return UserLoop(net, lambda: 1 + 0.01 * len(calls) * (1 + backbone.training))


@loop("__del__")
def layer_that_counts_its_ends() -> UserLoop:
    class Ending(Net):
        live: ClassVar[int] = 1

        def __del__(self) -> None:
            Ending.live -= 1

    return UserLoop(Ending(), lambda: 1 + 0.1 * Ending.live)


# What cannot be compared, and code that is run unless one takes care


def reaching(make: Callable[[], Any]) -> UserLoop:
    shared = make()
    return touching(lambda h: str(shared))


for _name, _make in {
    "lock": threading.Lock,
    "lock_of_a_thread": threading.RLock,
    "semaphore": threading.Semaphore,
    "event": threading.Event,
    "result_of_a_thread": Future,
    "queue": Queue,
    "simple_queue": SimpleQueue,
    "queue_of_processes": multiprocessing.SimpleQueue,
    "event_of_processes": multiprocessing.Event,
    "method_of_a_lock": lambda: threading.Lock().acquire,
    "object_with_a_lock": lambda: SimpleNamespace(lock=threading.Lock()),
}.items():
    LOOPS[_name] = functools.partial(reaching, _make), "other threads"


for _name, _make in {
    "error_of_processes": multiprocessing.ProcessError,
    "error_of_work_that_is_given_away": CancelledError,
    "kind_of_error_of_a_queue": lambda: Empty,
    "module_of_threads": lambda: threading,
}.items():  # which belong to one thread as much as to another
    LOOPS[_name] = functools.partial(reaching, _make), ""


@loop("subprocess.run")
def process_that_is_started() -> UserLoop:
    return touching(lambda h: subprocess.run(["true"], check=True))


@loop()
def copy_that_is_made_anew() -> UserLoop:
    class Anew(Net):
        def __deepcopy__(self, memo: object) -> Anew:
            made = Anew()
            made.load_state_dict(self.state_dict())
            return made

    return UserLoop(Anew())


@loop()
def mode_that_is_noted() -> UserLoop:
    class NotingMode(Net):
        def train(self, mode: bool = True) -> NotingMode:
            MODES.append(mode)
            torch.randn(1)
            return super().train(mode)

    MODES.clear()
    return UserLoop(NotingMode(), lambda: 1 + 0.1 * len(MODES))


@loop("when it is copied")
def table_that_closes_before_it_is_copied() -> UserLoop:
    class Table:
        is_open = True

        def __getstate__(self) -> dict[str, Any]:
            self.is_open = False
            return vars(self)

    net = Net()
    net.table = Table()
    return UserLoop(net, lambda: 1 + 0.1 * net.table.is_open)


@loop("__del__")
def file_that_ends_with_its_object() -> UserLoop:
    ended: list[int] = []

    class Held:
        def __del__(self) -> None:
            ended.append(1)

    net = Net()
    net.held = [{"file": Held()}]
    return UserLoop(net, lambda: 1 + 0.1 * len(ended))


class Color(Flag):
    RED = 1
    BLUE = 2


@dataclass
class Config:
    width: float = 1.0
    color: Color = Color.RED


class Settings:
    scale = 1.0


LOGGER = logging.getLogger(__name__)


@loop()
def plain_objects_of_all_kinds() -> UserLoop:
    @functools.lru_cache
    def scaled(size: int, scale: float) -> float:
        return size * scale

    def hidden(net: Any, h: Tensor) -> Tensor:
        LOGGER.debug("a pass of %d", len(h))
        either = net.config.color | Color.BLUE
        return net.part(h) * scaled(1, net.settings.scale) * (1 if Color.BLUE in either else 2)

    net = Net(hidden)
    net.config, net.settings, net.part = Config(), Settings(), functools.partial(torch.mul, 1.5)
    net.logger = LOGGER
    return UserLoop(net)
