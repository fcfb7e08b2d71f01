"""Captured steps are the eager ones, bit for bit, whatever happens to the run; or there are none.

The card is a fake one (`fake_card`), which captures on the CPU what a CUDA graph would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.training.run import Run
from dgn_engine.training.steps.graphs import WARM_UP, GraphSteps
from dgn_engine.training.trainer import Trainer
from tests.engine.kernels.tiny import every_architecture
from tests.engine.training.chains import CHAIN_WEIGHTS, SETTINGS
from tests.engine.training.cuda.fake_card import CaptureError, FakeCard
from tests.engine.training.cuda.tiny_trainers import EPOCH, chain_trainer, of_architecture
from tests.plugins import each
from tests.refusals import refused

REGIMES = [regime.name for regime in all_regimes()]
Change = Callable[[Trainer], object]


def graphs(made: Trainer) -> GraphSteps:
    assert isinstance(made.steps, GraphSteps)
    return made.steps


def captured(made: Trainer) -> Trainer:
    """The same trainer, with steps as graphs of a fake card."""
    made.capture_steps(FakeCard())
    return made


def card_of(made: Trainer) -> FakeCard:
    card = graphs(made)._card
    assert isinstance(card, FakeCard)
    return card


def assert_same(one: Trainer, other: Trainer) -> None:
    for name, tensor in other.tensors().items():
        assert torch.equal(one.tensors()[name], tensor), name
    assert one.counters() == other.counters()


def step_both(one: Trainer, other: Trainer, steps: int) -> None:
    for _ in range(steps):
        one.step()
        other.step()
    assert_same(one, other)


@pytest.mark.wide
@pytest.mark.parametrize("optimiser", ["adam", "sgd", "rmsprop"])
@pytest.mark.parametrize("regime", each(REGIMES))
def test_captured_steps_of_every_regime_are_the_eager_ones_bit_for_bit(
    regime: str, optimiser: str
) -> None:
    parts = {"training": {"optimiser": optimiser, "momentum": 0.5}}
    ours, theirs = captured(chain_trainer(regime, **parts)), chain_trainer(regime, **parts)
    step_both(ours, theirs, (WARM_UP + 1) * EPOCH)
    assert graphs(ours).trouble == ""
    assert graphs(ours).exact
    assert len(card_of(ours).graphs) == 2  # of whole batches and of the last of an epoch


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name != "tiled"])
def test_captured_steps_follow_every_setting_of_gates_and_losses(setting: str) -> None:
    parts = SETTINGS[setting]
    ours, theirs = captured(chain_trainer("DL", **parts)), chain_trainer("DL", **parts)
    step_both(ours, theirs, 8)
    assert graphs(ours).trouble == ""


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("regime", ["ReLU", "DL", "FRG"])
def test_captured_steps_of_every_network_are_the_eager_ones(name: str, regime: str) -> None:
    ours, theirs = captured(of_architecture(name, regime)), of_architecture(name, regime)
    step_both(ours, theirs, 6)
    assert graphs(ours).trouble == ""
    assert graphs(ours).captures == 1


def test_what_is_captured_is_replayed_and_not_done_again() -> None:
    made = captured(chain_trainer("DL"))
    taken: list[Tensor] = []
    take = made.network_step.take_step
    made.network_step.take_step = lambda rows: (taken.append(rows), take(rows))[1]  # type: ignore[method-assign]
    for _ in range(3 * EPOCH):
        made.step()
    assert len(taken) == WARM_UP + 3 + WARM_UP  # captured and proved; the last batch warms up
    graph = card_of(made).graphs[0]
    assert graph.replays == 2 + 2 * 3 - WARM_UP  # the proof is two steps
    assert card_of(made).aside_count == 2 * WARM_UP


def gates(made: Trainer) -> None:
    generator = torch.Generator().manual_seed(8)
    weights = [torch.randn(w.shape, generator=generator) for w in CHAIN_WEIGHTS[:3]]
    made.control.take_gates(weights, [torch.full((6,), 0.1)] * 3)
    made.network.double()


CHANGES: dict[str, Change] = {
    "swap to FL": lambda made: made.control.enter_regime(find_regime("FL"), restart_value=False),
    "swap to FR-II": lambda made: made.control.enter_regime(
        find_regime("FR-II"), restart_value=True
    ),
    "swap to ReLU": lambda made: made.control.enter_regime(
        find_regime("ReLU"), restart_value=False
    ),
    "swap to FRG": lambda made: made.control.enter_regime(find_regime("FRG"), restart_value=False),
    "permute": lambda made: made.control.set_wiring((1, 2, 0)),
    "rotate": lambda made: made.control.set_routes((0, 2, 1), ()),
    "beta": lambda made: made.network.set_gate(beta=2.0, epsilon=0.3),
    "value input": lambda made: setattr(made.network, "value_input", "ones"),
    "imported gates": gates,
    "restored": lambda made: made.restore_state(
        {name: tensor.clone() for name, tensor in made.tensors().items()}, made.counters()
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at", [WARM_UP - 1, 6])
def test_a_change_is_seen_and_captured_anew(change: str, at: int) -> None:
    """Also while steps are still warmed up."""
    ours, theirs = captured(chain_trainer("DL")), chain_trainer("DL")
    step_both(ours, theirs, at)
    before = graphs(ours).captures
    CHANGES[change](ours)
    CHANGES[change](theirs)
    step_both(ours, theirs, 7)
    assert graphs(ours).captures > before
    assert graphs(ours).trouble == ""


@pytest.mark.parametrize(("optimiser", "more"), [("adam", 0), ("sgd", 0), ("rmsprop", 1)])
def test_the_learning_rate_is_read_by_the_graph_where_the_optimiser_allows_it(
    optimiser: str, more: int
) -> None:
    parts = {"training": {"optimiser": optimiser, "batch": 11}}
    ours, theirs = captured(chain_trainer("DL", **parts)), chain_trainer("DL", **parts)
    step_both(ours, theirs, 5)
    for made in (ours, theirs):
        made.optimizer.set_learning_rate(2.0**-4)
    step_both(ours, theirs, 5)
    assert graphs(ours).captures == 1 + more


def test_gates_that_are_drawn_by_another_seed_are_seen_by_the_graph() -> None:
    ours, theirs = captured(chain_trainer("FRG")), chain_trainer("FRG")
    step_both(ours, theirs, 6)
    for made in (ours, theirs):
        made.set_seed(9)
    step_both(ours, theirs, 7)
    assert graphs(ours).trouble == ""


def test_a_graph_that_does_something_else_is_found_and_steps_are_eager_from_then_on() -> None:
    ours, theirs = chain_trainer("DL"), chain_trainer("DL")
    said: list[str] = []
    ours.network_step.on_eager = said.append

    class Broken(FakeCard):
        def capture_graph(self, work: Callable[[], None]) -> Any:
            graph = super().capture_graph(work)
            graph.calls = graph.calls[: len(graph.calls) // 2]
            return graph

    ours.capture_steps(Broken())
    step_both(ours, theirs, 9)
    assert said == [graphs(ours).trouble]


class Unstable:
    """Steps on which a relative change of 2⁻¹¹ of the weights tells by some 10 % of the way."""

    def __init__(self, rounding: float) -> None:
        self.rounding, self.examples, self.said = rounding, 40, list[str]()
        self.weights = torch.linspace(1.0, 2.0, 50, dtype=torch.float64)

    def take_step(self, _: Tensor) -> None:
        self.weights.add_(torch.sin(self.weights * 100.0), alpha=0.01)

    def capture_key(self) -> str:
        return ""

    def changed_tensors(self) -> list[Tensor]:
        return [self.weights]

    def drop_gradients(self) -> None:
        pass

    def on_eager(self, reason: str) -> None:
        self.said.append(reason)


class Rounding(FakeCard):
    """Products of its graphs are rounded otherwise than those of eager steps."""

    def __init__(self, made: Unstable, share: float) -> None:
        super().__init__()
        self.made, self.share = made, share

    def capture_graph(self, work: Callable[[], None]) -> Any:
        graph = super().capture_graph(work)
        replay = graph.replay

        def rounded() -> None:
            replay()
            self.made.weights.mul_(1.0 + self.share)

        graph.replay = rounded
        return graph


@pytest.mark.parametrize(
    ("rounding", "share", "trusted"),
    [(2.0**-11, 2.0**-11, True), (2.0**-24, 2.0**-11, False), (2.0**-11, 2.0**-5, False)],
)
def test_a_graph_is_trusted_as_far_as_eager_steps_are_sure_of_themselves(
    rounding: float, share: float, trusted: bool
) -> None:
    made = Unstable(rounding)
    steps = GraphSteps(made, Rounding(made, share))
    before = torch.get_rng_state()
    for _ in range(WARM_UP + 1):
        steps.step(torch.arange(3))
    assert (steps.trouble == "") is trusted
    assert made.said == ([] if trusted else [steps.trouble])
    assert not steps.exact
    assert torch.equal(torch.get_rng_state(), before)


def test_a_capture_that_fails_is_said_once_and_costs_nothing() -> None:
    ours, theirs = chain_trainer("FR-II"), chain_trainer("FR-II")
    said: list[str] = []
    ours.network_step.on_eager = said.append

    class Failing(FakeCard):
        def capture_graph(self, work: Callable[[], None]) -> Any:
            def half() -> None:
                work()
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore.")

            return super().capture_graph(half)

    ours.capture_steps(Failing())
    step_both(ours, theirs, 9)
    ours.control.enter_regime(find_regime("DL"), restart_value=False)
    theirs.control.enter_regime(find_regime("DL"), restart_value=False)
    step_both(ours, theirs, 9)
    assert said == ["OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"]
    assert all(parameter.grad is None for parameter in ours.network.parameters())


def test_a_run_that_diverges_is_not_taken_for_a_graph_that_is_wrong() -> None:
    made = captured(chain_trainer("DL"))
    with torch.no_grad():
        made.network.value.weights[-1].fill_(math.inf)
    for _ in range(6):
        made.step()
    assert graphs(made).trouble == ""
    assert not made.train_sums.is_finite


def test_what_graphs_hold_is_given_back_when_asked_for() -> None:
    ours, theirs = captured(chain_trainer("DL")), chain_trainer("DL")
    step_both(ours, theirs, 5)
    ours.steps.drop_graphs()
    assert card_of(ours).waits == 1
    assert graphs(ours)._sizes == {}
    step_both(ours, theirs, 5)


WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "list": lambda x: x[[0, 1]],
    "random": lambda x: torch.rand_like(x),
    "synchronize": lambda _: torch.cuda.synchronize(),
    "empty cache": lambda _: torch.cuda.empty_cache(),
    "to without waiting": lambda x: x.to("cpu", non_blocking=True),
    "mask written": lambda x: x.__setitem__(x > 0, torch.ones(3)),
    "array": lambda x: x[np.array([0, 1])],
    "index of a tensor": lambda x: x[torch.ones((), dtype=torch.long)],
    "where": lambda x: torch.where(x > 0),
    "inverse": lambda _: torch.linalg.inv(torch.eye(3)),
}


@pytest.mark.parametrize("name", WAITS)
def test_the_fake_card_refuses_what_waits_for_a_card(name: str) -> None:
    x = torch.arange(4.0)
    with pytest.raises(CaptureError, match="not permitted when stream is capturing"):
        FakeCard().capture_graph(lambda: WAITS[name](x))


def test_the_fake_card_does_nothing_before_a_replay_and_keeps_its_numbers() -> None:
    x, rate = torch.ones(3), 2.0
    graph = FakeCard().capture_graph(lambda: x.mul_(rate).add_(x[1].clone()))
    assert x.tolist() == [1.0, 1.0, 1.0]
    rate = 5.0
    graph.replay()
    graph.replay()
    assert x.tolist() == [16.0, 16.0, 16.0]


def test_a_run_whose_graphs_leave_no_memory_ends_in_a_sentence_without_them(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    run.trainer.capture_steps(FakeCard())
    for _ in range(6):
        run.step()
    assert card_of(run.trainer).graphs

    def too_much(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(graphs(run.trainer), "step", too_much)
    with refused("no-memory", value=16):
        run.step()
    assert graphs(run.trainer)._sizes == {}
    monkeypatch.undo()
    run.step()  # a user may go on with less
    assert run.step_count == 7
