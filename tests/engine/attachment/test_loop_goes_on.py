"""What a user's objects raise ends the watching, never the loop; the user can still end it."""

from __future__ import annotations

import cProfile
import os
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

import dgn_engine as dgn
from dgn_engine.attachment.isolation import OtherThreadReadsError, is_interrupt, isolate_computation
from dgn_engine.errors import UserError
from dgn_engine.model.adapt import module_draws
from dgn_engine.model.adapt.module_draws import (
    ModuleCommunicatesError,
    ModuleDrawsError,
    refuse_draws,
)
from dgn_engine.storage.lock import Lock
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.attachment.loops import (
    examples,
    mlp,
    smooth,
    stand_in_packages,
    watch_closely,
)
from tests.refusals import refused

RAISED = [ZeroDivisionError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Raising:
    """A score that fails in every way in which it can be asked."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __float__(self) -> float:
        raise self.kind("theirs")

    def __repr__(self) -> str:
        raise self.kind("theirs")

    def __getattr__(self, name: str) -> Any:
        raise self.kind("theirs")


class Word(str):
    def strip(self, *_: object) -> str:
        raise ValueError


class WordyError(Exception):
    def __str__(self) -> str:
        return Word("theirs")


class Nameless(type):
    @property
    def __name__(cls) -> str:
        raise ValueError


class NamelessError(Exception, metaclass=Nameless):
    pass


class NotedError(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise ValueError


UNUSUAL = [*RAISED, WordyError, NamelessError, NotedError]


@pytest.mark.wide
@pytest.mark.parametrize("kind", UNUSUAL, ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize("method", ["step", "log", "test"])
def test_a_score_that_raises_ends_the_watching_alone(
    kind: type[BaseException], method: str, tmp_path: Path
) -> None:
    """Also where the error itself cannot be said."""
    with watch_closely(mlp(), tmp_path / "run") as w:
        getattr(w, method)(loss=Raising(kind))
        w.step(loss=1.0)
    assert w.trouble
    assert kind not in RAISED or "theirs" in w.trouble
    assert RunReader(tmp_path / "run").status == "failed"
    assert not any(each.name == "dgn-recorder" for each in threading.enumerate())


def test_a_step_deep_in_a_recursion_raises_nothing(tmp_path: Path) -> None:
    def step_below(depth: int) -> None:
        if depth:
            step_below(depth - 1)
        else:
            reached.append(depth)
            w.step(loss=1.0)

    reached: list[int] = []
    raised_in_ours = []
    with watch_closely(mlp(), tmp_path / "run") as w:
        for depth in range(sys.getrecursionlimit() - 120, sys.getrecursionlimit()):
            reached.clear()
            try:
                step_below(depth)
            except RecursionError:
                raised_in_ours.append(bool(reached))
                if not reached:
                    break
    # a step that cannot be called at all is the user's own; one that began raises nothing
    assert sum(raised_in_ours) <= 2


class RaisingNet(nn.Module):
    """Fails in one of its methods, once it is watched."""

    def __init__(self, method: str, kind: type[BaseException]) -> None:
        super().__init__()
        self.body, self.method, self.kind = mlp(), method, kind

    def fail(self, method: str) -> None:
        if vars(self)["method"] == method:
            raise vars(self)["kind"]("theirs")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.fail("forward")
        out: torch.Tensor = self.body(x)
        return out

    def __deepcopy__(self, memo: object) -> RaisingNet:
        self.fail("__deepcopy__")
        return RaisingNet(self.method, self.kind)

    def train(self, mode: bool = True) -> RaisingNet:
        self.fail("train")
        return super().train(mode)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        self.fail("named_parameters")
        return super().named_parameters(*args, **kwargs)


@pytest.mark.wide
@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("method", ["forward", "__deepcopy__", "train", "named_parameters"])
def test_a_module_that_raises_is_refused_or_not_watched_or_not_asked(
    kind: type[BaseException], method: str, tmp_path: Path
) -> None:
    model = RaisingNet(method, kind)
    is_refused = False
    try:
        w = watch_closely(model, tmp_path / "run").start()
    except UserError:  # before the first step
        is_refused = True
    else:
        asked = method in ("forward", "named_parameters")  # torch.func asks the copy for these
        assert bool(w.trouble) == asked
        w.step(loss=1.0)
        w.close()
    assert is_refused == (kind is ZeroDivisionError and method == "forward")


def test_a_way_to_show_warnings_that_raises_ends_no_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(*_: object, **__: object) -> None:
        raise SystemExit("theirs")

    warnings.simplefilter("always")
    monkeypatch.setattr(warnings, "showwarning", show)
    with watch_closely(mlp(), tmp_path / "run") as w:
        w.step(loss=Raising(ZeroDivisionError))
    assert w.trouble


class Alarm:
    """A handler that is an object."""

    def __call__(self, *_: object) -> None:
        raise TimeoutError("theirs")


def raise_exit(*_: object) -> None:
    raise SystemExit(3)


def fail(number: int, frame: object) -> None:
    raise RuntimeError("theirs")


class Signalling:
    """A score that is asked while a signal arrives."""

    def __float__(self) -> float:
        os.kill(os.getpid(), signal.SIGUSR1)
        return 1.0


@contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (Alarm(), TimeoutError),
        (raise_exit, SystemExit),
        (fail, RuntimeError),
        (signal.default_int_handler, KeyboardInterrupt),
    ],
)
def test_what_a_handler_of_a_signal_raises_reaches_the_user(
    handler: Any, kind: type[BaseException], tmp_path: Path
) -> None:
    """Also where a score that raises the like would be left out."""
    with handled_by(handler):
        w = watch_closely(mlp(), tmp_path / "run").start()
        with pytest.raises(kind) as raised:
            w.step(loss=Signalling())  # type: ignore[arg-type]
        w.close(raised.value)
    assert w.trouble == ""
    ended = "failed" if issubclass(kind, Exception) else "stopped"
    assert RunReader(tmp_path / "run").status == ended


def reset_and_interrupt(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise KeyboardInterrupt


class Catching(nn.Module):
    """Is signalled while there is a handler, and catches what comes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = smooth()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if callable(signal.getsignal(signal.SIGUSR1)):
            with suppress(BaseException):
                os.kill(os.getpid(), signal.SIGUSR1)
        out: torch.Tensor = self.body(x)
        return out


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (Alarm(), TimeoutError),
        (raise_exit, SystemExit),
        (reset_and_interrupt, KeyboardInterrupt),
        (signal.default_int_handler, KeyboardInterrupt),
    ],
)
def test_what_a_handler_raises_in_a_pass_is_not_caught_by_it(
    handler: Any, kind: type[BaseException], tmp_path: Path
) -> None:
    with handled_by(handler):
        with pytest.raises(kind):
            watch_closely(Catching(), tmp_path / "run").start()
        assert signal.getsignal(signal.SIGUSR1) in (handler, signal.SIG_DFL)
    ended = "failed" if issubclass(kind, Exception) else "stopped"
    assert RunReader(tmp_path / "run").status == ended
    assert not any(each.name == "dgn-recorder" for each in threading.enumerate())


def test_watchers_of_two_threads_take_turns_and_leave_the_hooks() -> None:
    def hook(*_: object) -> None:
        pass

    def enter_too() -> None:
        try:
            with isolate_computation(patience=0.0):
                refused.append(False)
        except OtherThreadReadsError:
            refused.append(True)

    refused: list[bool] = []
    handle = torch_module.register_module_forward_hook(hook)
    try:
        with isolate_computation():
            assert hook not in torch_module._global_forward_hooks.values()
            for _ in range(2):
                thread = threading.Thread(target=enter_too)
                thread.start()
                thread.join()
        assert refused == [True, True]
        assert hook in torch_module._global_forward_hooks.values()
    finally:
        handle.remove()


@pytest.mark.parametrize("code", ["raise KeyboardInterrupt", "import sys; sys.exit(1)", "1 / 0"])
def test_an_interrupt_that_code_raises_is_none(code: str) -> None:
    with pytest.raises(BaseException) as raised:  # noqa: PT011
        exec(code)
    assert not is_interrupt(raised.value)


class BrokenTrainer(types.SimpleNamespace):
    is_global_zero, sanity_checking, global_step = True, False, 0

    @property
    def callback_metrics(self) -> Any:
        raise SystemExit("theirs")


def test_a_trainer_that_raises_ends_the_watching_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_packages(monkeypatch)
    callback = dgn.lightning_callback(probe=examples(), out=tmp_path / "one")
    callback.on_train_start(BrokenTrainer(), mlp())
    callback.on_validation_end(BrokenTrainer(), None)
    callback.on_train_end(BrokenTrainer(), None)
    assert RunReader(tmp_path / "one").status == "failed"
    state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)
    other = dgn.hugging_face_callback(probe=examples(), out=tmp_path / "two")
    other.on_train_begin(None, state, None, model=mlp())
    other.on_log(None, state, None, logs=Raising(KeyboardInterrupt))
    assert RunReader(tmp_path / "two").status == "failed"


def test_a_generator_that_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    model = mlp()
    model.numbers = (n for n in range(3))
    with refused("not-copied"):
        watch_closely(model, tmp_path / "run").start()
    assert next(model.numbers) == 0


def test_workers_that_live_on_do_not_keep_the_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    w = watch_closely(mlp(), out).start()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(*examples()),
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    batches = iter(loader)
    next(batches)
    w.step(loss=1.0)
    w.close()
    again = Lock(out / "lock")
    again.acquire()
    again.release()
    del batches, loader


def test_a_forked_child_records_nothing(tmp_path: Path) -> None:
    with watch_closely(mlp(), tmp_path / "run") as w:
        child = os.fork()
        if not child:
            with suppress(BaseException):
                w.step(loss=9.0)
                w.close()
            os._exit(0)
        os.waitpid(child, 0)
        w.step(loss=1.0)
    reader = RunReader(tmp_path / "run")
    assert (reader.status, [one.train_loss for one in reader.measured_events]) == (
        "finished",
        [1.0],
    )


@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize(
    "draw", [lambda: torch.rand(1), lambda: np.random.rand(), lambda: torch.manual_seed(1)]
)
def test_a_draw_is_refused_and_leaves_no_trace(
    draw: Any, caught: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs the tests may have threads; beside them a draw of numpy is not noticed.
    monkeypatch.setattr(module_draws, "_is_alone", lambda: True)
    before = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["pos"]
    with (
        pytest.raises(ModuleDrawsError),
        refuse_draws(),
        suppress(Exception) if caught else nullcontext(),
    ):
        draw()
    after = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]["pos"]
    assert torch.equal(before[0], after[0])
    assert before[1] == after[1]


def test_a_profiler_of_the_user_goes_on_and_what_draws_nothing_runs() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    with refuse_draws():
        torch.nn.functional.dropout(torch.ones(3), training=False)
        torch.rand(1, generator=torch.Generator())
    is_on = sys.getprofile() is not None or sys.version_info >= (3, 12)
    profiler.disable()
    assert is_on


@pytest.mark.parametrize(
    "start",
    [
        lambda: threading.Thread(target=int).start(),
        lambda: ThreadPoolExecutor(1).submit(int),
        lambda: os.system("exit 0"),
        lambda: os.fork() or os._exit(0),
    ],
)
def test_a_start_of_a_thread_or_process_is_refused(start: Any) -> None:
    with pytest.raises(ModuleCommunicatesError), refuse_draws():
        start()


def test_beside_other_threads_numpy_is_left_as_they_leave_it() -> None:
    begun: list[bool] = []
    drawn: list[float] = []

    def draw() -> None:
        while not begun:
            time.sleep(0.001)
        drawn.append(np.random.rand())

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    before = np.random.get_state(legacy=False)["state"]["pos"]
    with refuse_draws():
        begun.append(True)
        while not drawn:
            time.sleep(0.001)
    thread.join()
    assert np.random.get_state(legacy=False)["state"]["pos"] != before


def test_a_module_that_names_numpy_is_not_run_beside_other_threads() -> None:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, daemon=True)
    thread.start()
    ran = False
    try:
        with pytest.raises(ModuleDrawsError), refuse_draws(draws_of_numpy=True):
            ran = True
    finally:
        ended.set()
        thread.join()
    assert not ran


def test_a_message_to_other_processes_is_refused(tmp_path: Path) -> None:
    dist = torch.distributed
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(ModuleCommunicatesError), refuse_draws():
            dist.all_reduce(torch.ones(1))
    finally:
        dist.destroy_process_group()
