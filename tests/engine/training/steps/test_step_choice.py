"""Which way a step is taken: by the table, and by the trainer that asks it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    GlobalAveragePool,
    MaxPool,
    Node,
)
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.steps.choice import TABLE, StepCase, Way, choose_way
from dgn_engine.training.steps.dense_step import DenseStep
from dgn_engine.training.steps.network_step import is_chain_of_convolutions
from dgn_engine.training.trainer import Trainer
from tests.engine.training.chains import trainer

CASE = StepCase(RunConfig(), find_regime("DL"), dense=True)
BF16 = replace(RunConfig(), training=replace(RunConfig().training, precision="bf16"))


@pytest.mark.parametrize(
    ("case", "way", "words"),
    [
        (CASE, "dense", "closed-form backward pass"),
        (replace(CASE, dense=False), "autograd", "hand-written convolution"),
        (replace(CASE, compared=True), "autograd", "for comparison"),
        (replace(CASE, config=BF16), "autograd", "bf16"),
        (replace(CASE, regime=find_regime("FRG")), "autograd", "drawn gates"),
    ],
)
def test_gradients_are_written_by_hand_where_both_networks_are_dense_chains(
    case: StepCase, way: Way, words: str
) -> None:
    row = choose_way("gradients", case)
    assert row.way == way
    assert words in row.reason_for(case)


def test_only_a_cuda_card_launches_graphs() -> None:
    ways = [choose_way("launch", replace(CASE, device=name)).way for name in ("cpu", "mps", "cuda")]
    assert ways == ["eager", "eager", "graph"]


def test_every_question_has_an_answer_for_what_no_other_row_is_about() -> None:
    for rows in TABLE.values():
        assert rows[-1].applies(replace(CASE, config=BF16))


def test_a_trainer_asks_again_after_a_swap_and_after_new_feature_biases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[DenseStep] = []  # held, so that no two have one id
    call = DenseStep.__call__

    def noted(step: DenseStep, x: torch.Tensor, y: torch.Tensor) -> object:
        asked.append(step)
        return call(step, x, y)

    monkeypatch.setattr(DenseStep, "__call__", noted)
    made = trainer("DL")
    for regime in ("FRG", "FR-II"):
        made.step()
        made.control.enter_regime(find_regime(regime), restart_value=False)
    assert len(asked) == 1
    made.step()
    assert len(set(map(id, asked))) == 1  # its buffers are those of before
    made.control.take_gates([torch.ones(6, 5).double()], [torch.ones(6).double()])
    made.network.double()
    made.step()
    assert len(asked) == 3
    assert len(set(map(id, asked))) == 2
    made.network_step.use_autograd()
    made.step()
    assert len(asked) == 3


CONVOLUTIONS = (Conv(1, 2), Conv(2, 3))
HEAD = (GlobalAveragePool(), Dense(3, 2, gated=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_cpu_convolves_float32_channels_last_and_the_weights_stay_where_they_were(
    dtype: torch.dtype,
) -> None:
    x = torch.rand((8, 1, 5, 4), generator=torch.Generator().manual_seed(0)).to(dtype)
    y = torch.arange(8) % 2
    shape = Architecture((1, 5, 4), (*CONVOLUTIONS, *HEAD))
    data, regime = DeviceData(x, y, x, y), find_regime("DL")
    made = Trainer(RunConfig(), shape, data, regime, torch.device("cpu"))
    strides: list[tuple[int, ...]] = []
    made.network.register_forward_pre_hook(lambda _, given: strides.append(given[0].stride()))
    made.step()
    assert strides == [(20, 1, 4, 1) if dtype == torch.float32 else (20, 20, 4, 1)]
    assert all(weight.is_contiguous() for weight in made.network.parameters())


def test_only_chains_of_plain_convolutions_are_taken_in_another_order() -> None:
    def plain(*convolutions: Node) -> bool:
        return is_chain_of_convolutions(Architecture((1, 5, 4), (*convolutions, *HEAD)))

    assert plain(*CONVOLUTIONS)
    assert not plain(CONVOLUTIONS[0], Conv(2, 3, circular=True))
    assert not plain(CONVOLUTIONS[0], Conv(2, 3, normal=True))
    assert not plain(CONVOLUTIONS[0], MaxPool(), CONVOLUTIONS[1])
    assert not is_chain_of_convolutions(Architecture((5,), (Dense(5, 3), Dense(3, 2, gated=False))))
