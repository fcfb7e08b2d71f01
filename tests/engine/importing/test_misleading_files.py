"""Files whose names, order or neighbours mislead: what is asked of each, or that it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.importing.fitting_readings import fitting_readings
from dgn_engine.importing.from_file import module_in, network_of, verdict_on
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.engine.importing.autograd_comparison import list_file
from tests.engine.importing.torch_networks import narrow_resnet, with_trained_statistics
from tests.refusals import refused

N = 6
RELU = FileReading(activation="relu")
NORMED = replace(RELU, norm_eps=1e-5)


def state(*layers: tuple[str, nn.Module]) -> dict[str, Tensor]:
    """Of named layers in this order."""
    return {f"{name}.{k}": v for name, part in layers for k, v in part.state_dict().items()}


def square() -> nn.Linear:
    return nn.Linear(N, N)


def norm() -> nn.BatchNorm1d:
    return nn.BatchNorm1d(N)


def sequence() -> dict[str, Tensor]:
    return nn.Sequential(square(), nn.ReLU(), nn.Linear(N, 3)).state_dict()


def gains() -> dict[str, Tensor]:
    return {"w1": torch.rand(5, N), "g1": torch.rand(5), "w2": torch.rand(3, 5)}


class WithNorm(nn.Module):
    """Its LayerNorm has no tensor in the file."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.act = square(), nn.LeakyReLU(0.3)
        self.plain = nn.LayerNorm(N, elementwise_affine=False)
        self.two = nn.Linear(N, 3)


class WithSlope(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.act, self.two = square(), nn.LeakyReLU(0.3), nn.Linear(N, 3)


ASKED: dict[str, tuple[Callable[[], Any], FileReading, set[str]]] = {
    "gains right behind weights": (gains, RELU, {"ignored"}),
    "statistics beside the network": (
        lambda: {"model": sequence(), "mean": torch.zeros(N)}, RELU, {"ignored"},
    ),
    "a mean without a variance": (
        lambda: sequence() | {"0.running_mean": torch.zeros(N)}, RELU, {"ignored"},
    ),
    "a BatchNorm of the inputs": (
        lambda: state(("bn1", norm()), ("fc1", square()), ("fc2", square()), ("fc3", square())),
        NORMED, {"geometry"},
    ),
    "layers that count down": (
        lambda: state(("fc2", square()), ("fc1", square()), ("fc3", nn.Linear(N, 3))),
        RELU, {"order"},
    ),
    "normalised layers that count down": (
        lambda: state(("fc2", square()), ("bn2", norm()), ("fc1", square()), ("bn1", norm()),
                      ("fc3", nn.Linear(N, 3))),
        NORMED, {"order", "batchnorm"},
    ),
    "layers in the order of the alphabet": (
        lambda: dict(sorted(
            state(("body", square()), ("head", nn.Linear(N, 3)), ("stem", square())).items()
        )),
        RELU, {"order"},
    ),
    "a number left for a layer that may do something": (
        lambda: nn.Sequential(square(), nn.ReLU(), nn.LayerNorm(N, elementwise_affine=False),
                              nn.Linear(N, 3)).state_dict(),
        RELU, {"geometry"},
    ),
    "a number left in front": (
        lambda: nn.Sequential(nn.Identity(), square(), nn.ReLU(), nn.Linear(N, 3)).state_dict(),
        RELU, {"geometry"},
    ),
}  # fmt: skip


def read(content: Any, reading: FileReading) -> CheckpointContents:
    return replace(list_file(content), reading=reading)


@pytest.mark.parametrize("kind", ASKED)
def test_what_misleads_is_asked_about(kind: str) -> None:
    make, reading, about = ASKED[kind]
    with pytest.raises(OpenQuestions) as refusal:
        network_of(read(make(), reading), (N,))
    for questions in (refusal.value.questions, verdict_on(read(make(), reading)).questions):
        assert {question.about for question in questions} == about


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "another network beside it": (
        lambda: {"state_dict": sequence(), "best_state_dict": sequence()},
        "--part best_state_dict",
    ),
    "two folds": (
        lambda: {"fold0": sequence(), "fold1": {k: v + 1 for k, v in sequence().items()}},
        "--part fold0",
    ),
    "blocks of a ResNet": (
        lambda: state(("stem", square()), ("res1", square()), ("head", nn.Linear(N, 3))),
        "--model",
    ),
    "a child that is no layer here": (WithNorm, "--model"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_chain_is_refused_with_a_way_out(kind: str) -> None:
    make, way = REFUSED[kind]
    with pytest.raises(UserError, match=way) as refusal:
        network_of(read(make(), RELU), (N,))
    assert not isinstance(refusal.value, OpenQuestions)


def test_what_is_left_out_by_name_is_no_question_any_more() -> None:
    content = {"model": sequence(), "mean": torch.zeros(N)}
    reading = replace(RELU, ignored=("mean",))
    assert network_of(read(content, reading), (N,)).said == "--activation relu --ignore mean"
    with refused("missing"):
        network_of(read(content, replace(RELU, ignored=("other",))), (N,))


def test_the_slope_that_a_saved_module_states_comes_first() -> None:
    (asked,) = verdict_on(list_file(WithSlope())).questions
    assert asked.option == "--activation leaky_relu:0.3"
    (fitting,) = fitting_readings(list_file(WithSlope()), (N,))
    assert fitting.reading.activation == "leaky_relu:0.3"


def test_readings_are_tried_on_examples_from_all_over() -> None:
    """Sorted by class, the first of them would be of one."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(N, 9), nn.ReLU(), nn.Linear(9, 4))
    x = torch.randn(3000, N)
    y = network(x).argmax(1)
    order = y.argsort()
    found = fitting_readings(list_file(network.state_dict()), (N,), x[order], y[order])
    best = {fitting.reading.activation: fitting for fitting in found}
    assert best["relu"].accuracy == 1.0
    tanh = nn.Sequential(network[0], nn.Tanh(), network[2])
    rows = torch.arange(500) * 3000 // 500
    with torch.no_grad():
        share = float((tanh(x[order][rows]).argmax(1) == y[order][rows]).float().mean())
    assert best["tanh"].accuracy == pytest.approx(share)
    named = replace(list_file(network.state_dict()), said=(("activation", "tanh"),))
    found = fitting_readings(named, (N,), x, y)
    assert found[0].reading.activation == "relu"  # the best, whatever the file itself names
    assert "tanh" in [fitting.reading.activation for fitting in found]


def test_a_resnet_that_is_saved_whole_fits_as_its_own_first_convolution_says() -> None:
    """Those of its blocks, `layer1.0.conv1`, are called alike and go otherwise."""
    network = narrow_resnet("BasicBlock", (1, 1, 1, 1))
    found = fitting_readings(list_file(network), (3, 32, 32))
    assert "torchvision" in [fitting.reading.geometry for fitting in found]
    cast(nn.Conv2d, network.conv1).stride = (1, 1)
    network.maxpool = nn.Identity()
    (fitting,) = fitting_readings(list_file(network), (3, 32, 32))
    assert fitting.reading.geometry == "resnet,s1p3"
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    said = replace(list_file(network), reading=fitting.reading)
    with torch.no_grad():
        made = network_of(said, (3, 32, 32), torch.float64).network(x)
        torch.testing.assert_close(made, network(x))


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_a_batchnorm_beside_a_layer_along_rows_is_folded_into_neither(first: bool) -> None:
    """As many rows as channels: by their sizes they would fit each other."""
    torch.manual_seed(0)
    norm, rows = nn.BatchNorm2d(4), nn.Linear(4, 4)
    pair = (norm, rows) if first else (rows, norm)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), *pair, nn.Flatten(), nn.Linear(64, 3))
    with_trained_statistics(network)
    x = torch.randn(3, 1, 6, 6, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(module_in(list_file(network), (1, 6, 6)).module(x), network(x))
