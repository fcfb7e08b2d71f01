"""TF32 and bf16 are for steps that ask for them; kernels never meet them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dgn_engine import kernels
from dgn_engine.config import Precision, RunConfig
from dgn_engine.kernels import precision
from dgn_engine.kernels.precision import float32_products, use_full_products
from dgn_engine.model.network import GatedNetwork
from dgn_engine.training import devices
from dgn_engine.training.batched.stack_groups import pack_key, reason_not_packed
from dgn_engine.training.run import Run
from dgn_engine.training.steps.network_step import step_precision
from dgn_engine.training.trial_starts import TrialStarts
from tests.engine.conftest import SMALL
from tests.engine.kernels.tiny import ARCHITECTURES
from tests.engine.training.cuda.tiny_trainers import chain_trainer
from tests.gpu.trainers import trainer_on
from tests.refusals import refused

CUDA = torch.device("cuda")
Make = Callable[..., Run]


class Recurrent(nn.Module):
    """An LSTM over (m, 4, 2), and a layer on its last output."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.recurrent(x)[0][:, -1])
        return logits


def switches() -> tuple[str, str]:
    backends = torch.backends
    return backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision


@pytest.fixture(autouse=True)
def as_with_a_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(precision, "_has_card", lambda: True)
    before = switches()
    yield
    assert switches() == before


@contextmanager
def switches_put_back() -> Iterator[None]:
    before = switches()
    try:
        yield
    finally:
        precision._set_switches(*before)


def test_a_step_has_the_products_that_it_asks_for_and_leaves_what_was_there() -> None:
    with step_precision("tf32", CUDA):
        assert switches() == ("tf32", "tf32")
        with float32_products("ieee"):
            assert switches() == ("ieee", "ieee")
        assert switches() == ("tf32", "tf32")
    with switches_put_back():
        use_full_products()  # as a trainer on a card does; cuDNN's own choice would be TF32
        with step_precision("float32", CUDA):
            assert switches() == ("ieee", "ieee")


def test_every_kernel_of_a_network_is_computed_in_full_float32(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[str, str]] = set()
    trace = GatedNetwork.trace

    def watched(network: GatedNetwork, x: Tensor) -> object:
        seen.add(switches())
        return trace(network, x)

    monkeypatch.setattr(GatedNetwork, "trace", watched)
    run = make_run()
    network, x = run.trainer.network, run.trainer.data.train_x[:6]
    with float32_products("tf32"):  # as whoever calls may have it
        shared = kernels.SharedKernels(network, x)
        for found in (shared.tangent.total_kernel, shared.npk(), shared.overlap()):
            assert found.shape == (6, 6)
        kernels.tangent_kernels(network, x)
    assert seen == {("ieee", "ieee")}


def test_probes_read_in_full_float32_while_a_step_elsewhere_waits() -> None:
    inside, order = threading.Event(), []

    def step() -> None:
        inside.wait(10.0)
        with step_precision("tf32", CUDA):
            order.append(switches())

    thread = threading.Thread(target=step)
    thread.start()
    with float32_products("ieee"):
        inside.set()
        thread.join(0.05)
        order.append(switches())
    thread.join(10.0)
    assert order == [("ieee", "ieee"), ("tf32", "tf32")]


def test_readings_of_several_threads_do_not_wait_for_each_other() -> None:
    def read() -> None:
        with float32_products("ieee"):
            entered.append(switches())

    entered: list[tuple[str, str]] = []
    thread = threading.Thread(target=read)
    with float32_products("ieee"):
        thread.start()
        thread.join(10.0)
        assert entered == [("ieee", "ieee")]
        assert switches() == ("ieee", "ieee")


def test_the_kernel_of_recurrent_layers_is_computed_in_the_process_of_a_card() -> None:
    """torch refuses `cudnn.flags` where convolutions alone were switched to full products."""
    torch.manual_seed(0)
    module, x = Recurrent(), torch.randn(3, 4, 2)
    expected = kernels.empirical_ntk(module, x)
    with switches_put_back():
        use_full_products()
        torch.testing.assert_close(kernels.empirical_ntk(module, x), expected)
        assert torch.backends.cudnn.enabled


def test_what_holds_outside_is_not_undone_by_a_reading_that_began_before() -> None:
    with switches_put_back():
        with float32_products("tf32"):
            use_full_products()
            assert switches() == ("tf32", "tf32")
        assert switches() == ("ieee", "ieee")


@pytest.fixture
def any_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this processor take steps in bf16, whether or not it multiplies them in hardware."""
    monkeypatch.setattr(devices, "multiplies_bf16", lambda: True)


def test_bf16_is_refused_by_a_processor_without_it_and_the_device_is_named_with_it(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, named in (("float32", "cpu"), ("tf32", "cpu"), ("bf16", "cpu, bf16")):
        config = replace(SMALL, training=replace(SMALL.training, precision=kind))
        for hardware in (True, False):
            monkeypatch.setattr(devices, "multiplies_bf16", lambda there=hardware: there)
            if kind == "bf16" and not hardware:
                with refused("not-supported", place="training.precision", value="bf16"):
                    make_run("DL", config)
                with refused("not-supported", place="training.precision", value="bf16"):
                    TrialStarts().begin_trial(config, False)
            else:
                assert make_run("DL", config).started_event(True).device == named


@pytest.mark.usefixtures("any_cpu")
def test_a_resumed_run_in_bf16_takes_the_steps_of_one_that_never_stopped(make_run: Make) -> None:
    """Also over the smaller last batch of an epoch; weights, moments and scores are float32."""
    config = replace(SMALL, training=replace(SMALL.training, precision="bf16", batch=7))
    whole, first, second = (make_run("DL", config).trainer for _ in range(3))
    for _ in range(whole.steps_per_epoch + 2):
        whole.step()
    for _ in range(3):
        first.step()
    second.restore_state(
        {name: tensor.clone() for name, tensor in first.tensors().items()}, first.counters()
    )
    for _ in range(whole.steps_per_epoch - 1):
        second.step()
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name
        assert tensor.dtype == torch.float32
    assert whole.counters() == second.counters()
    assert whole.test_score() == second.test_score()


@pytest.mark.usefixtures("any_cpu")
def test_steps_in_bf16_are_near_those_in_float32_and_not_the_same(make_run: Make) -> None:
    moved = []
    for kind in ("float32", "bf16"):
        training = replace(SMALL.training, precision=kind, optimiser="sgd", learning_rate=0.1)
        trainer = make_run("DL", replace(SMALL, training=training)).trainer
        before = trainer.network.value.weights[0].detach().clone()
        trainer.step()
        moved.append(trainer.network.value.weights[0].detach() - before)
    off = float((moved[1] - moved[0]).norm() / moved[0].norm())
    assert 1e-4 < off < 0.05


def test_a_pack_has_one_precision_and_not_bf16() -> None:
    def config(kind: Precision) -> RunConfig:
        return replace(SMALL, training=replace(SMALL.training, precision=kind))

    assert pack_key(config("tf32")) != pack_key(config("float32"))
    assert reason_not_packed(config("tf32")) == ""
    assert reason_not_packed(config("bf16")).startswith("bf16 steps")


def test_by_hand_or_not_a_chain_in_float64_takes_no_notice() -> None:
    made = chain_trainer("DL", training={"precision": "tf32"})
    other = chain_trainer("DL")
    made.step()
    other.step()
    assert torch.equal(made.network.value.weights[0], other.network.value.weights[0])


class _Maps(TorchDispatchMode):
    """Collects what convolutions are fed on the way forwards."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "convolution" in str(func) and "backward" not in str(func):
            self.found.append(args[0])
        return func(*args, **(kwargs or {}))


def test_maps_in_bf16_lie_as_what_multiplies_them_takes_them() -> None:
    made = trainer_on(torch.device("cpu"), "DL", ARCHITECTURES["cnn4"], precision="bf16")
    with _Maps() as maps:
        made.step()
    assert len(maps.found) == 8  # of both networks; what comes back begins at the pooling
    for one in maps.found:
        assert one.dtype == torch.bfloat16
        assert one.is_contiguous(memory_format=torch.channels_last)
