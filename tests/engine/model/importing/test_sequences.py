"""Saved and numbered sequences: logits and gates are those of the real module."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dgn_engine.cli import main
from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.model.importing.from_file import ImportedNetwork, network_of
from dgn_engine.storage.checkpoints import reader_child, stated_layers
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.engine.model.importing.torch_networks import arrays_of, found_in, holds, in_use

SHAPE = (3, 14, 12)


def listed(saved: object) -> CheckpointContents:
    """What the reading process says of a file, here without the process."""
    content = io.BytesIO()
    torch.save(saved, content)
    found = reader_child.tidy(reader_child.read(content.getvalue()))
    return CheckpointContents(
        "net.pt", found.arrays, found.dtypes, found.ignored, layers=found.layers
    )


def shown(saved: object, shape: tuple[int, ...] = SHAPE) -> ImportedNetwork:
    return network_of(listed(saved), shape, None, torch.float64)


def any_sequence(seed: int) -> nn.Sequential:
    """Convolutions of every kind that is understood, pooling, dense layers; partly nested."""
    coin = random.Random(seed)
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    channels = 3
    for _ in range(coin.randint(1, 3)):
        kernel, width = coin.choice((1, 3, 5)), coin.randint(2, 5)
        block: list[nn.Module] = [
            nn.Conv2d(channels, width, kernel, coin.choice((1, 1, 2)),
                      coin.choice((0, kernel // 2)), bias=coin.random() < 0.5,
                      padding_mode=coin.choice(("zeros", "circular")))
            if coin.random() < 0.8 else nn.Conv2d(channels, width, 3, padding="same")
        ]  # fmt: skip
        if coin.random() < 0.5:
            block.append(nn.BatchNorm2d(width, eps=10.0 ** -coin.randint(1, 5),
                                        affine=coin.random() < 0.5))  # fmt: skip
        if coin.random() < 0.8:
            block.append(nn.ReLU())
        if coin.random() < 0.4:
            block.append(coin.choice((nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1), nn.Dropout2d())))
        parts += [nn.Sequential(*block)] if coin.random() < 0.4 else block
        channels = width
    parts += [
        coin.choice((nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d((1, 1)), nn.Identity())),
        nn.Flatten(),
    ]
    features = nn.Sequential(*parts)(torch.randn(2, *SHAPE)).shape[1]
    parts += [nn.Linear(features, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 4)]
    network = in_use(nn.Sequential(*parts), seed)
    assert isinstance(network, nn.Sequential)
    return network


def fitting(build: Callable[[int], nn.Sequential], count: int) -> list[nn.Sequential]:
    """The first of them whose maps do not vanish."""
    found: list[nn.Sequential] = []
    seed = 0
    while len(found) < count:
        seed += 1
        try:
            found.append(build(seed))
        except RuntimeError:  # torch: the map is smaller than the window
            continue
    return found


def test_a_saved_sequential_has_the_logits_and_gates_of_the_module() -> None:
    for number, network in enumerate(fitting(any_sequence, 30)):
        x = torch.randn((5, *SHAPE), dtype=torch.float64)
        saved = (network, nn.DataParallel(network, device_ids=[]), {"model": network})[number % 3]
        holds(network, shown(saved), x)


def usual(seed: int) -> nn.Sequential:
    """As most are written: one padding and one stride, ReLU, sometimes pooling and Dropout."""
    coin = random.Random(seed)
    torch.manual_seed(seed)
    kernel, stride, bias = coin.choice((3, 5)), coin.choice((1, 1, 2)), coin.random() < 0.8
    padding = coin.choice((0, kernel // 2))
    parts: list[nn.Module] = []
    channels = 3
    for place in range(coin.randint(1, 3)):
        width = coin.randint(2, 5)
        parts.append(nn.Conv2d(channels, width, kernel, stride, padding, bias=bias))
        parts += [nn.BatchNorm2d(width)] if coin.random() < 0.5 else []
        parts.append(nn.ReLU())
        parts += [nn.MaxPool2d(2)] if place % 2 == 0 and stride == 1 else []
        channels = width
    parts.append(nn.Flatten())
    features = nn.Sequential(*parts)(torch.randn(2, *SHAPE)).shape[1]
    parts += [nn.Linear(features, 6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 4)]
    network = in_use(nn.Sequential(*parts), seed)
    assert isinstance(network, nn.Sequential)
    return network


def test_numbered_keys_have_the_logits_and_gates_of_the_module_or_are_refused() -> None:
    accepted = 0
    for network in fitting(usual, 40):
        x = torch.randn((5, *SHAPE), dtype=torch.float64)
        try:
            found = found_in(arrays_of(network), SHAPE)
        except UserError:
            with pytest.raises(UserError, match="more than one usual padding"):
                found_in(arrays_of(network), SHAPE)
            continue
        holds(network, found, x)
        assert "The file does not say padding" in found.remarks[0]
        accepted += 1
    assert accepted >= 30


def lenet() -> nn.Module:
    return in_use(
        nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 12), nn.ReLU(), nn.Linear(12, 10),
        )
    )  # fmt: skip


def test_lenet_is_the_only_usual_one_that_fits_its_keys() -> None:
    network = lenet()
    found = found_in(arrays_of(network), (1, 28, 28))
    holds(network, found, torch.randn((5, 1, 28, 28), dtype=torch.float64))
    assert found.remarks == (
        "The file does not say padding, stride and pooling; assumed is what is usual and leads "
        "from 1×28×28 to the 400 inputs of layer 7: padding 2, 0; stride 1; 2×2 max pooling behind "
        "0 and 3. Average pooling would have the same shapes.",
    )


def test_blocks_in_a_sequence_are_read_by_the_numbers_of_both() -> None:
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
        )

    network = in_use(nn.Sequential(block(3, 4), block(4, 5), nn.Flatten(), nn.Linear(840, 10)))
    found = found_in({f"net.{n}": a for n, a in arrays_of(network).items()}, SHAPE)
    holds(network, found, torch.randn((5, *SHAPE), dtype=torch.float64))


def test_dense_layers_without_a_number_between_them_have_no_gate_between_them() -> None:
    network = in_use(nn.Sequential(nn.Linear(64, 7), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3)))
    found = found_in(arrays_of(network), (64,))
    holds(network, found, torch.randn((5, 64), dtype=torch.float64))
    assert found.remarks == ("No number is left for an activation between 0 and 1.",)


def pooled(*more: nn.Module, inputs: int = 5) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, padding=1), nn.ReLU(),
        *more, nn.Flatten(), nn.Linear(inputs, 2),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("network", "shape", "said"),
    [
        (pooled(nn.AdaptiveAvgPool2d(1)), SHAPE, "more than one usual padding"),
        (pooled(nn.AvgPool2d(7, 3), inputs=55), SHAPE, "no usual padding"),
        (pooled(nn.AvgPool2d(2), inputs=210), (42,), "takes images, but these examples are vec"),
        (pooled(nn.AvgPool2d(2), inputs=210), (1, 14, 12), "with 3 channels, but these have 1"),
        (
            nn.Sequential(nn.Linear(9, 5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 2)),
            (9,),
            "BatchNorm 2 does not stand right behind",
        ),
        (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 5, 3), nn.Linear(5, 2)),
            SHAPE,
            "--net",  # a list of layers: its program adds what stands between
        ),
    ],
)
def test_numbers_that_tell_too_little_are_refused_in_a_sentence(
    network: nn.Module, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(UserError, match=said) as refusal:
        found_in(arrays_of(in_use(network)), shape)
    assert str(refusal.value).count("\n") == 0


def test_a_network_that_is_named_and_does_not_fit_says_what_it_wants() -> None:
    network = in_use(pooled(nn.AdaptiveAvgPool2d(1)))
    arrays = arrays_of(network)
    listing = CheckpointContents("net.pth", arrays, dict.fromkeys(arrays, "float64"))
    net = NetConfig(name="cnn4", options=(("channels", 4),))
    with pytest.raises(UserError, match=r"cnn4 on these examples wants 4×3×3×3, 4×4×3×3"):
        network_of(listing, SHAPE, net)
    with pytest.raises(UserError, match="name it with --net"):
        network_of(listing, SHAPE, None, otherwise=net)  # nobody named it: the first verdict stands


class Loud(nn.Module):
    """Not one of torch's: its forward would have to be run."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise AssertionError


def test_a_layer_of_another_kind_is_named_and_none_of_it_runs() -> None:
    for layer, named in ((nn.GELU(), "GELU"), (Loud(), "Loud"), (nn.LeakyReLU(), "LeakyReLU")):
        listing = listed(in_use(pooled(layer)))
        assert any(each.kind.endswith(named) for each in listing.layers)
        with pytest.raises(UserError, match=rf"layer 4 \({named}\) is not supported"):
            network_of(listing, SHAPE, None)


def changed(**attributes: object) -> nn.Module:
    network = pooled(nn.AdaptiveAvgPool2d(1))
    vars(network[0]).update(attributes)  # type: ignore[index] # it is a Sequential
    return network


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"stride": (0, 0)}, "stride is none that is known"),
        ({"padding": (4, 4)}, "padding larger than its kernel"),
        ({"in_channels": 7}, "images with 7 channels"),
        ({"out_channels": 1 << 20}, "is not what layer 0 states"),
        ({"kernel_size": (1 << 12, 1 << 12)}, "is not what layer 0 states"),
        ({"groups": 0}, "do not fit each other"),
        ({"dilation": (2, 2)}, "groups or dilation"),
        ({"padding_mode": "reflect"}, "padding mode 'reflect'"),
        ({"stride": (1 << 40, 1)}, "stride is none that is known"),
        ({"padding": [1, 2, 3]}, "padding is none that is known"),
        ({"forward": print}, "with hooks"),
        ({"_forward_hooks": {0: print}}, "with hooks"),
    ],
)
def test_a_layer_that_states_nonsense_is_refused(attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        shown(changed(**attributes))


def test_what_the_reading_process_tells_of_layers_is_checked_anew() -> None:
    layers = listed(lenet()).layers
    told = stated_layers.as_json(layers)
    assert stated_layers.received(told) == layers
    convolution = next(each for each in told if each["kind"] == "Conv2d")
    for lie in ({"stride": "1"}, {"stride": -1}, {"groups": True}, {"kernel_size": [1, 2, 3]}):
        with pytest.raises((ValueError, TypeError)):
            stated_layers.received([{**convolution, "numbers": {**convolution["numbers"], **lie}}])
    for other in ({}, [None], [{**convolution, "numbers": {}}], told * stated_layers.LAYERS):
        with pytest.raises((ValueError, TypeError)):
            stated_layers.received(other)


def test_sequences_in_each_other_without_end_are_cut_and_not_followed() -> None:
    inner = nn.Sequential(nn.ReLU())
    for _ in range(30):
        inner = nn.Sequential(inner, inner)  # 2^30 layers, if they were followed
    layers = listed(nn.Sequential(nn.Linear(4, 3), inner, nn.Linear(3, 2))).layers
    assert len(layers) <= stated_layers.LAYERS


def test_inspect_lists_the_layers_and_shows_their_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)
    )
    path = tmp_path / "whole.pt"
    torch.save(network, path)
    assert main(["inspect", str(path)]) == 0
    told = capsys.readouterr().out
    assert "understood as a saved nn.Sequential, a chain of 1 convolution and 1 dense layer" in told
    assert "  0  Conv2d 1 → 4, 3×3, stride 1, padding 1\n" in told
    assert main(["inspect", str(path), "--data", "digits", "--examples", "4"]) == 0
    assert "conv 1" in capsys.readouterr().out
    torch.save(network.state_dict(), path)
    assert read_tensors(path).layers == ()
    assert main(["inspect", str(path), "--data", "digits", "--examples", "4"]) == 0
    told = capsys.readouterr().out
    assert "padding 1; stride 1; 2×2 max pooling behind 0" in told


def adaptive(layer: nn.Module, features: int) -> nn.Sequential:
    """On maps of 6×4, behind a convolution of 8×6."""
    torch.manual_seed(0)
    parts = (nn.Conv2d(3, 2, 3), nn.ReLU(), layer, nn.Flatten(), nn.Linear(features, 2))
    network = in_use(nn.Sequential(*parts))
    assert isinstance(network, nn.Sequential)
    return network


@pytest.mark.parametrize(
    ("layer", "features"),
    [
        (nn.AdaptiveAvgPool2d((3, 2)), 12),
        (nn.AdaptiveMaxPool2d((3, 2)), 12),
        (nn.AdaptiveAvgPool2d((6, 4)), 48),
        (nn.AdaptiveMaxPool2d((6, 4)), 48),
        (nn.AdaptiveAvgPool2d((1, 1)), 2),
        (nn.AdaptiveMaxPool2d(1), 2),
    ],
)
def test_adaptive_pooling_is_the_windows_that_it_comes_to(layer: nn.Module, features: int) -> None:
    network = adaptive(layer, features)
    x = torch.randn((5, 3, 8, 6), dtype=torch.float64)
    holds(network, shown(network, (3, 8, 6)), x)


@pytest.mark.parametrize(
    ("layer", "features"),
    [(nn.AdaptiveAvgPool2d((4, 2)), 16), (nn.AdaptiveAvgPool2d((2, 2)), 8)],
)
def test_adaptive_pooling_to_unequal_windows_is_refused(layer: nn.Module, features: int) -> None:
    with pytest.raises(UserError, match=r"no equal square windows|only square ones"):
        shown(adaptive(layer, features), (3, 8, 6))


@pytest.mark.parametrize(("scale", "shift"), [(True, False), (False, True), (False, False)])
def test_a_batchnorm_may_have_only_one_of_its_weights(scale: bool, shift: bool) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(5)
    network = in_use(nn.Sequential(nn.Linear(4, 5), norm, nn.ReLU(), nn.Linear(5, 2)))
    norm.weight = norm.weight if scale else None  # type: ignore[assignment]
    norm.bias = norm.bias if shift else None  # type: ignore[assignment]
    x = torch.randn((5, 4), dtype=torch.float64)
    holds(network, shown(network, (4,)), x)
