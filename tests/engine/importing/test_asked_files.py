"""Kinds of files as people save them: what each leaves open, and that the right words do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.importing.foreign_keys import UnknownGates
from dgn_engine.importing.from_file import network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from tests.engine.importing.autograd_comparison import Truth, list_file
from tests.engine.importing.torch_networks import (
    narrow_alexnet,
    narrow_resnet,
    narrow_vgg,
    with_trained_statistics,
)

SHAPE = (3, 12, 12)


def chain(*layers: nn.Module, inputs: int = 0) -> nn.Module:
    """With a dense layer at the end; `inputs` of it, behind maps."""
    torch.manual_seed(0)
    end = [nn.Flatten(), nn.Linear(inputs, 4)] if inputs else []
    return with_trained_statistics(nn.Sequential(*layers, *end))


def dense(*between: nn.Module) -> nn.Module:
    return chain(
        nn.Linear(6, 5), *(between or (nn.ReLU(),)), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3)
    )


def convolutional(pool: nn.Module, inputs: int, **numbers: Any) -> nn.Module:
    return chain(nn.Conv2d(3, 4, 3, **numbers), nn.ReLU(), pool, inputs=inputs)


def norms_after() -> nn.Module:
    return chain(
        nn.Linear(6, 5),
        nn.ReLU(),
        nn.BatchNorm1d(5),
        nn.Linear(5, 5),
        nn.ReLU(),
        nn.BatchNorm1d(5),
        nn.Linear(5, 3),
    )


def square() -> nn.Module:
    return chain(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))


def small_resnet() -> nn.Module:
    network = narrow_resnet("BasicBlock", (1, 1, 1))
    network.conv1 = nn.Conv2d(3, 4, 3, padding=1, bias=False).double().eval()
    network.maxpool = nn.Identity()
    return network


class OwnClass(nn.Module):
    """A class of one's own: its children are in the file, its `forward` is not."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        for place, layer in enumerate(layers):
            self.add_module(f"layer{place}", layer)


def renamed(*names: str, **more: torch.Tensor) -> Callable[[nn.Module], Any]:
    """The state dict with these names for its layers in their order, and tensors in front."""

    def save(network: nn.Module) -> dict[str, torch.Tensor]:
        states = [part.state_dict() for part in network.children() if part.state_dict()]
        given = names or [name for name, part in network.named_children() if part.state_dict()]
        return more | {
            f"{name}.{word}": value
            for name, state in zip(given, states, strict=True)
            for word, value in state.items()
        }

    return save


def state(network: nn.Module) -> Any:
    return network.state_dict()


def whole(network: nn.Module) -> Any:
    return network


def own_class(network: nn.Module) -> Any:
    return OwnClass(*network.children())


def twice(network: nn.Module) -> Any:
    both = {"q_net": network, "q_net_target": network}
    return {f"{n}.{k}": v.clone() for n, part in both.items() for k, v in part.state_dict().items()}


RELU = FileReading(activation="relu")
NORMED = replace(RELU, norm_eps=1e-5)


@dataclass(frozen=True)
class Kind:
    """A file: the network that it is of, how it is saved, the fields of `FileReading` that it
    leaves open, separated by spaces (or what refuses it), and a reading that says the truth."""

    network: Callable[[], nn.Module]
    saved: Callable[[nn.Module], Any]
    verdict: str | type[UserError]
    truth: FileReading | None = None
    shape: tuple[int, ...] = (6,)


def conv(words: str, said: FileReading = RELU) -> FileReading:
    return replace(said, geometry=words)


KINDS = {
    "dense, numbered": Kind(dense, state, "activation", RELU),
    "dense, Tanh": Kind(lambda: dense(nn.Tanh()), whole, UnknownGates),
    "a list whose program adds ReLU": Kind(
        dense, renamed("layers.0", "layers.1", "layers.2"), "activation", RELU
    ),
    "names of one's own": Kind(dense, renamed("fc1", "fc2", "out"), "activation", RELU),
    "4×4 windows with stride 2 and padding 1": Kind(
        lambda: chain(nn.Conv2d(3, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 5, 4, 2, 1), nn.ReLU(),
                      inputs=45),
        state, "activation geometry", conv("s2p1,s2p1"), SHAPE,
    ),
    "BatchNorm behind ReLU, named": Kind(
        norms_after, renamed("fc1", "bn1", "fc2", "bn2", "fc3"),
        "activation batchnorm norm_eps", replace(NORMED, batchnorm="after"),
    ),
    "BatchNorm behind ReLU, numbered": Kind(
        norms_after, state, "activation norm_eps", NORMED
    ),
    "BatchNorm before ReLU, numbered": Kind(
        lambda: dense(nn.BatchNorm1d(5), nn.ReLU()), state, "activation norm_eps", NORMED
    ),
    "BatchNorm whose name and order disagree": Kind(
        lambda: chain(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5), nn.BatchNorm1d(5), nn.ReLU(),
                      nn.Linear(5, 3)),
        renamed("fc1", "fc2", "bn1", "fc3"), "activation geometry norm_eps",
        conv("dense,act,dense,bn,act,dense", NORMED),
    ),
    "average pooling": Kind(
        lambda: convolutional(nn.AvgPool2d(2), 144, padding=1),
        state, "activation geometry", conv("p1,avg2"), SHAPE,
    ),
    "maximum pooling": Kind(
        lambda: convolutional(nn.MaxPool2d(2), 144, padding=1),
        state, "activation geometry", conv("p1,max2"), SHAPE,
    ),
    "rounded up": Kind(
        lambda: convolutional(nn.MaxPool2d(3, 2, ceil_mode=True), 100),
        state, "activation geometry", conv("s1,max3s2ceil"), SHAPE,
    ),
    "dilation": Kind(
        lambda: convolutional(nn.Identity(), 256, dilation=2),
        state, "activation geometry", conv("d2,skip"), SHAPE,
    ),
    "adaptive maximum": Kind(
        lambda: convolutional(nn.AdaptiveMaxPool2d(1), 4),
        state, "activation geometry", conv("s1,adaptivemax1"), SHAPE,
    ),
    "mean and standard deviation of the inputs": Kind(
        dense, renamed(mean=torch.randn(6), std=torch.rand(6) + 0.5),
        "activation ignored", replace(RELU, ignored=("mean", "std")),
    ),
    "a temperature": Kind(
        dense, renamed(temperature=torch.tensor(2.0)),
        "activation ignored", replace(RELU, ignored=("temperature",)),
    ),
    "a mask": Kind(
        dense, renamed(mask=torch.rand(5, 6) > 0.5),
        "activation ignored", replace(RELU, ignored=("mask",)),
    ),
    "class weights of a loss": Kind(
        dense, renamed(**{"criterion.weight": torch.rand(3)}),
        "activation ignored", replace(RELU, ignored=("criterion",)),
    ),
    "slopes of a PReLU": Kind(lambda: dense(nn.PReLU()), state, "activation ignored"),
    "a whole class of one's own": Kind(
        lambda: chain(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), own_class, "activation", RELU
    ),
    "a whole class of one's own with Tanh": Kind(
        lambda: chain(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), own_class, "activation",
        FileReading(activation="tanh"),
    ),
    "a whole sequence": Kind(
        lambda: convolutional(nn.MaxPool2d(2), 144, padding=1), whole, "", FileReading(), SHAPE
    ),
    "a whole sequence that ends with a LogSoftmax": Kind(
        lambda: chain(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3), nn.LogSoftmax(1)),
        whole, "", FileReading(),
    ),
    "square matrices by names without numbers": Kind(
        square, renamed("head", "body", "stem"), "activation order",
        replace(RELU, order=("head.weight", "body.weight", "stem.weight")), (5,),
    ),
    "square matrices by numbers": Kind(
        square, renamed("fc1", "fc2", "fc3"), "activation", RELU, (5,)
    ),
    "a network and its target": Kind(dense, twice, UserError),
    "a layer that is used twice": Kind(
        lambda: chain(nn.Linear(5, 5), nn.ReLU(), (tied := nn.Linear(5, 5)), nn.ReLU(), tied,
                      nn.ReLU(), nn.Linear(5, 3)),
        state, UserError, shape=(5,),
    ),
    "a ResNet": Kind(
        lambda: narrow_resnet("BasicBlock", (1, 1, 1)), state, "activation geometry norm_eps",
        conv("resnet,s2p3,max3s2p1", NORMED), (3, 32, 32),
    ),
    "a ResNet of 3×3 windows": Kind(
        small_resnet, state, "activation geometry norm_eps", conv("resnet,s1p1", NORMED), SHAPE
    ),
    "a VGG": Kind(
        lambda: narrow_vgg(norm=True), state, "activation geometry norm_eps",
        FileReading(geometry="torchvision"), (3, 224, 224),
    ),
    "an AlexNet": Kind(
        narrow_alexnet, state, "activation geometry",
        FileReading(geometry="torchvision"), (3, 224, 224),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_asked_about_what_it_leaves_open_and_right_once_that_is_said(name: str) -> None:
    kind = KINDS[name]
    network = kind.network()
    listing = list_file(kind.saved(network))
    if not isinstance(kind.verdict, str):
        with pytest.raises(kind.verdict) as refusal:
            network_of(listing, kind.shape)
        assert not isinstance(refusal.value, OpenQuestions)
        return
    if kind.verdict:
        with pytest.raises(OpenQuestions) as asked:
            network_of(listing, kind.shape)
        about = [question.about for question in asked.value.questions]
        assert sorted(about) == sorted(kind.verdict.split())
    if kind.truth is not None:
        said = replace(listing, reading=kind.truth)
        assert Truth(network, kind.shape).of(said) == "equal"


def test_of_a_network_and_its_target_one_is_read_as_a_part(tmp_path: Path) -> None:
    network = dense()
    torch.save(twice(network), tmp_path / "net.pt")
    part = read_tensors(tmp_path / "net.pt", part="q_net")
    assert Truth(network, (6,)).of(replace(part, reading=RELU)) == "equal"
