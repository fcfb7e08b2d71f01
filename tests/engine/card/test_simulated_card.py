"""The simulated card refuses what a card refuses, where it is asked, and forgets what is freed."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from dgn_engine.training import metrics
from dgn_engine.training.steps.losses import count_correct
from tests.engine.card.card_runs import begin_run, small_config
from tests.simulated_card import CardError, HostRead, SimulatedCard, is_on_card, simulated_card

HERE = "tests/engine/card/test_simulated_card.py"


def mix_devices(logits: Tensor) -> object:
    return logits + torch.ones(logits.shape)


def read_item(logits: Tensor) -> object:
    return logits.sum().item()


def draw_by_cpu_generator(logits: Tensor) -> object:
    return torch.rand(3, generator=torch.Generator(), device=logits.device)


def read_as_array(logits: Tensor) -> object:
    return logits.detach().numpy()


PLANTS: dict[Callable[[Tensor], object], str] = {
    mix_devices: "mix",
    read_item: "host read",
    draw_by_cpu_generator: "generator",
    read_as_array: "numpy",
}


@pytest.mark.wide
@pytest.mark.parametrize("regime", ["ReLU", "DL", "FRG"])
@pytest.mark.parametrize("plant", PLANTS)
def test_a_fault_that_is_planted_in_a_step_is_caught_at_its_line(
    plant: Callable[[Tensor], object], regime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(logits: Tensor, labels: Tensor) -> Tensor:
        plant(logits)
        return count_correct(logits, labels)

    monkeypatch.setattr(metrics, "count_correct", planted)
    with simulated_card() as card:
        run = begin_run(small_config(regime, "fc"), "cuda", [])
        with pytest.raises(CardError) as raised:
            run.step()
    error = raised.value
    line = inspect.getsourcelines(plant)[1] + 1
    assert (error.kind, error.file, error.line) == (PLANTS[plant], HERE, line)
    assert card.faults == [error]


def test_a_fault_in_a_backward_pass_is_caught(card: SimulatedCard) -> None:
    class Reading(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, slope: Tensor) -> Tensor:
            return slope * float(slope.sum())

    x = torch.ones(3, device="cuda", requires_grad=True)
    result = Reading.apply(x).sum()  # type: ignore[no-untyped-call]
    with card.no_host_reads(), pytest.raises(CardError) as raised:
        result.backward()
    assert (raised.value.kind, raised.value.file) == ("host read", HERE)
    card.faults.clear()


WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "copied to the host": lambda x: torch.zeros(4).copy_(x),
    "to the card": lambda _: torch.zeros(4).to("cuda"),
    "to the card, not pinned": lambda _: torch.zeros(4).to("cuda", non_blocking=True),
    "numbers": lambda _: torch.tensor([1.0], device="cuda"),
    "where": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "mask written": lambda x: x.__setitem__(x > 0, torch.ones(3, device="cuda")),
    "index of the host": lambda x: x[torch.tensor([0, 1])],
    "unique": lambda x: x.unique(),  # type: ignore[no-untyped-call]
    "equal": lambda x: torch.equal(x, x),
    "eigenvalues": lambda _: torch.linalg.eigh(torch.eye(3, device="cuda")),
}
QUICK: dict[str, Callable[[Tensor], object]] = {
    "number of the host": lambda x: x * torch.tensor(2.0),
    "masked fill": lambda x: x.__setitem__(x > 0, 0.0),
    "pinned": lambda _: torch.zeros(4).pin_memory().to("cuda", non_blocking=True),
    "pinned later": lambda x: torch.empty(4, pin_memory=True).copy_(x, non_blocking=True),
    "another type": lambda x: x.to(torch.float64),
    "where of two": lambda x: torch.where(x > 0, x, torch.tensor(0.0)),
}
REFUSED: dict[str, Callable[[Tensor], object]] = {
    "product": lambda x: x @ torch.ones(4),
    "out": lambda x: torch.add(x, 1.0, out=torch.empty(4)),
    "written": lambda x: torch.ones(()).add_(x[0]),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_for_a_card_is_counted_and_is_a_fault_where_none_may_wait(name: str) -> None:
    with simulated_card() as card:
        x = torch.arange(4.0, device="cuda")
        WAITS[name](x)
        assert {read.file for read in card.host_reads} == {HERE}
        assert card.faults == []
        with card.no_host_reads(), pytest.raises(CardError) as raised:
            WAITS[name](x)
    assert raised.value.kind == "host read"


@pytest.mark.parametrize("name", QUICK)
def test_what_a_card_does_by_itself_is_no_wait(name: str, card: SimulatedCard) -> None:
    x = torch.arange(4.0, device="cuda")
    with card.no_host_reads():
        QUICK[name](x)
    assert not card.host_reads


@pytest.mark.parametrize("name", REFUSED)
def test_operations_of_two_devices_are_refused(name: str) -> None:
    with simulated_card() as card:
        with pytest.raises(CardError) as raised:
            REFUSED[name](torch.arange(4.0, device="cuda"))
        assert card.faults == [raised.value]
    assert (raised.value.kind, raised.value.file) == ("mix", HERE)


def test_other_threads_are_watched(card: SimulatedCard) -> None:
    devices: list[torch.device] = []

    def work() -> None:
        x = torch.ones(2, device="cuda")
        devices.append(x.device)
        x.tolist()

    thread = threading.Thread(target=work)
    with card.no_host_reads():  # of this thread
        thread.start()
        thread.join()
    assert devices == [torch.device("cuda", 0)]
    assert [read.name for read in card.host_reads] == ["tolist"]


def test_what_is_made_of_a_card_tensor_lies_on_the_card(card: SimulatedCard) -> None:
    layer = torch.nn.Linear(3, 3).to("cuda")
    x = torch.ones(2, 3, device="cuda")
    made = [
        *layer.parameters(),
        *copy.deepcopy(layer).parameters(),
        copy.deepcopy(x),
        layer(x),
        x[0],
        x.T,
        torch.zeros_like(x),
        x.new_zeros(2),
        x.double(),
        torch.ones(2).to(x),
        x.detach(),
        torch.autograd.grad(layer(x).select(0, 1).sum(), layer.weight)[0],
        vmap(layer)(x),
    ]
    assert all(map(is_on_card, made))
    assert {tensor.device for tensor in made} == {torch.device("cuda", 0)}
    there = [x.cpu(), x.to("cpu"), x.new_zeros(2, device="cpu"), torch.zeros_like(x, device="cpu")]
    assert not any(map(is_on_card, there))


def test_torch_is_what_it_was_afterwards() -> None:
    before = torch.cuda.Stream, torch.autocast, threading.Thread.start, Tensor.record_stream
    precision, there = torch.backends.cuda.matmul.fp32_precision, torch.cuda.is_available()
    with simulated_card() as card:
        begin_run(small_config("DL", "fc"), "cuda", []).step()
        assert torch.cuda.is_available()
    after = torch.cuda.Stream, torch.autocast, threading.Thread.start, Tensor.record_stream
    assert before == after
    assert torch.cuda.is_available() == there
    assert torch.backends.cuda.matmul.fp32_precision == precision
    assert all(isinstance(read, HostRead) for read in card.host_reads)
