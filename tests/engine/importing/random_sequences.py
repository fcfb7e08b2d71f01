"""Random `nn.Sequential`s of all that torch puts into one, and how a user says what they are.

The words are written here from the modules, apart from the code that is tested.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any

import torch
from torch import nn

from dgn_engine.protocol.file_reading import FileReading
from tests.engine.importing.torch_networks import with_trained_statistics

WORDS: dict[str, tuple[str, float]] = {  # class → word, and the number that may follow it
    "ReLU": ("relu", 0),
    "LeakyReLU": ("leaky_relu", 0.229166667),
    "ELU": ("elu", 0.7),
    "CELU": ("celu", 1.3),
    "SELU": ("selu", 0),
    "GELU": ("gelu", 0),
    "SiLU": ("silu", 0),
    "Mish": ("mish", 0),
    "ReLU6": ("relu6", 0),
    "Tanh": ("tanh", 0),
    "Sigmoid": ("sigmoid", 0),
    "Softplus": ("softplus", 2.5),
    "Softsign": ("softsign", 0),
    "Hardtanh": ("hardtanh", 0),
    "Hardswish": ("hardswish", 0),
}
UNSAID = (nn.GELU("tanh"), nn.Hardtanh(-2.0, 1.0), nn.Softplus(1.0, 1.0), nn.PReLU())
SILENT = (nn.Dropout, nn.Dropout2d, nn.Identity, nn.Flatten, nn.Softmax, nn.LogSoftmax)
WEIGHTED = (nn.Linear, nn.Conv2d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d)


@dataclass(frozen=True)
class Saying:
    """What a user can say of a sequence in words: all of it where it is `whole`; otherwise nothing
    that is said is false, but something is missing."""

    reading: FileReading
    whole: bool


class _Drawing:
    """A sequence as it grows: a layer that does not fit what comes before it is left out."""

    def __init__(self, seed: int) -> None:
        self.coin = random.Random(seed)
        torch.manual_seed(seed)
        self.layers: list[nn.Module] = []
        coin = self.coin
        images = coin.random() < 0.75
        sides = (coin.randint(6, 11), coin.randint(6, 11))
        self.shape = (coin.randint(1, 4), *sides) if images else (coin.randint(3, 9),)
        self.passed = torch.randn(2, *self.shape)
        self.mixed = coin.random() < 0.15
        self.eps = coin.choice((1e-5, 1e-5, 1e-3, 0.123456789))
        self.activation = self.any_activation()
        self.style = coin.choice(("before", "before", "after", "any"))

    def add(self, layer: nn.Module) -> bool:
        try:
            with torch.no_grad():
                passed = layer.eval()(self.passed)
        except (
            RuntimeError,
            ValueError,
            IndexError,
        ):  # no map, or the map is smaller than the window
            return False
        if not passed.numel():
            return False
        self.layers.append(layer)
        self.passed = passed
        return True

    def chance(self, share: float) -> bool:
        return self.coin.random() < share

    def sides(self, *choices: int) -> tuple[int, int]:
        one = self.coin.choice(choices)
        return (one, self.coin.choice(choices)) if self.chance(0.3) else (one, one)

    def any_activation(self) -> nn.Module:
        if self.chance(0.4):
            return nn.ReLU()
        if self.chance(0.06):
            return self.coin.choice(UNSAID)
        kind = self.coin.choice(sorted(WORDS))
        number = WORDS[kind][1]
        made: nn.Module = getattr(nn, kind)(*([number] if number and self.chance(0.6) else []))
        return made

    def activate(self) -> None:
        if self.mixed:
            self.add(self.any_activation())
        elif type(self.activation) is nn.ReLU or not self.chance(0.03):
            arguments = _numbers(self.activation)
            self.add(type(self.activation)(*arguments))

    def normalise(self) -> None:
        width = self.passed.shape[1]
        kind = nn.BatchNorm2d if self.passed.ndim == 4 else nn.BatchNorm1d
        eps = 1e-2 if self.chance(0.03) else self.eps
        self.add(kind(width, eps=eps, affine=self.chance(0.8)))

    def pool(self) -> None:
        kernel, coin = self.sides(1, 2, 2, 3), self.coin
        stride = coin.choice((kernel, kernel, (1, 1), (2, 2), self.sides(1, 2, 3)))
        padding = (coin.randint(0, kernel[0] // 2), coin.randint(0, kernel[1] // 2))
        padding = padding if self.chance(0.4) else (0, 0)
        sides: Any = self.sides(1, 1, 2, 3) if self.chance(0.95) else (2, None)
        match coin.randrange(6):
            case 0 | 1:
                dilation = self.sides(1, 2) if self.chance(0.2) else (1, 1)
                self.add(nn.MaxPool2d(kernel, stride, padding, dilation, False, self.chance(0.3)))
            case 2 | 3:
                by = 3 if self.chance(0.05) else None
                flags = self.chance(0.3), self.chance(0.6)
                self.add(nn.AvgPool2d(kernel, stride, padding, *flags, by))
            case 4:
                self.add(nn.AdaptiveMaxPool2d(sides))
            case 5:
                self.add(nn.AdaptiveAvgPool2d(sides))

    def convolve(self) -> None:
        inputs, coin = self.passed.shape[1], self.coin
        kernel, outputs = self.sides(1, 2, 3, 3, 4, 5), coin.randint(2, 6)
        groups = 1
        if self.chance(0.2):
            groups = coin.choice((inputs, gcd(inputs, 2)))
            outputs = groups * coin.randint(1, 2)
        stride: tuple[int, int] = self.sides(1, 1, 2)
        padding: Any = coin.choice(((0, 0), tuple(k // 2 for k in kernel), self.sides(0, 1, 2, 3)))
        if self.chance(0.1):
            stride, padding = (1, 1), coin.choice(("same", "valid"))
        self.add(
            nn.Conv2d(
                *(inputs, outputs, kernel, stride, padding),
                self.sides(1, 2) if self.chance(0.2) else 1,
                groups,
                self.chance(0.7),
                coin.choice(("zeros", "zeros", "zeros", "circular", "reflect", "replicate")),
            )
        )

    def behind(self, last: bool = False) -> None:
        """What follows a layer with weights."""
        place = self.coin.choice(("before", "after")) if self.style == "any" else self.style
        norm, maps = self.chance(0.4), self.passed.ndim == 4
        early = maps and self.chance(0.1)
        if early:
            self.pool()
        if norm and place == "before":
            self.normalise()
        if self.chance(0.04 if last else 0.9):
            self.activate()
        if self.chance(0.1):
            self.add(nn.Dropout())
        if norm and place == "after":
            self.normalise()
        if maps and not early and self.chance(0.4):
            self.pool()
        if self.chance(0.03):
            self.activate() if self.chance(0.5) else self.normalise()
        if self.chance(0.2):
            self.add(self.coin.choice((nn.Identity(), nn.Dropout2d() if maps else nn.Dropout())))


def draw(seed: int) -> tuple[nn.Sequential, tuple[int, ...]]:
    """Return a sequence in evaluation and float64, partly nested, and the shape of its inputs."""
    drawing = _Drawing(seed)
    coin = drawing.coin
    if drawing.chance(0.1):
        coin.choice((drawing.normalise, drawing.activate, *[drawing.pool] * 2))()
    if len(drawing.shape) == 3 and drawing.chance(0.93):
        for _ in range(coin.randint(1, 3)):
            drawing.convolve()
            drawing.behind()
    if drawing.passed.ndim == 4:
        if drawing.chance(0.2):
            drawing.add(coin.choice((nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1))))
        if drawing.chance(0.03):
            drawing.add(nn.Linear(drawing.passed.shape[3], 2))  # along the rows of its maps
        drawing.add(nn.Flatten())
    count = coin.randint(2, 3) if len(drawing.shape) == 1 else coin.randint(0 + 1, 3)
    if drawing.chance(0.04):
        count = 0  # convolutions alone
    for place in range(count):
        outputs = coin.choice((4, coin.randint(2, 6)))
        drawing.add(nn.Linear(drawing.passed.shape[1], outputs, drawing.chance(0.8)))
        drawing.behind(last=place + 1 == count)
    if drawing.chance(0.1):
        drawing.add(coin.choice((nn.Softmax(1), nn.LogSoftmax(1))))
    network = with_trained_statistics(nn.Sequential(*_nested(drawing.layers, coin)), seed)
    assert isinstance(network, nn.Sequential)
    return network, drawing.shape


def _nested(layers: list[nn.Module], coin: random.Random) -> Iterator[nn.Module]:
    """Some neighbours in a sequence of their own."""
    nests, start = coin.random() < 0.25, 0
    while start < len(layers):
        end = start + (coin.randint(1, 4) if nests else 1)
        alone = end == start + 1 and coin.random() < 0.5
        yield layers[start] if alone or not nests else nn.Sequential(*layers[start:end])
        start = end


def flat(network: nn.Sequential) -> list[nn.Module]:
    """Return the layers without the sequences that hold them."""
    return [part for part in network.modules() if not isinstance(part, nn.Sequential)]


def _numbers(activation: nn.Module) -> list[Any]:
    if isinstance(activation, nn.ReLU6):  # to torch a Hardtanh
        return []
    names = ("negative_slope", "alpha", "beta", "threshold", "min_val", "max_val", "approximate")
    return [vars(activation)[name] for name in names if name in vars(activation)]


def said_of(
    layers: Sequence[nn.Module],
    coin: random.Random,
    numbered: bool,
    ignored: Sequence[str] = (),
    whole: bool = False,
) -> Saying | None:
    """Return how a user says what these layers are; None where no words are true.

    `numbered`: the numbers of the layers show where nothing can stand between two of them;
    `whole`: the user says where everything stands.
    """
    starts = [place for place, layer in enumerate(layers) if isinstance(layer, WEIGHTED)]
    if not starts:
        return None
    acts = {_activation_word(layer) for layer in layers if _is_activation(layer)}
    norms = [layer for layer in layers if isinstance(layer, NORMS)]
    pools = [_pool_word(layer) for layer in layers if isinstance(layer, POOLS)]
    if len(acts) > 1 or "" in acts or len({n.eps for n in norms}) > 1 or "" in pools:
        return None
    weighted = [layers[start] for start in starts]
    front = [_token(layer) for layer in layers[: starts[0]]]
    behind = []
    for start, end in pairwise([*starts, len(layers)]):
        words = [_token(layer) for layer in layers[start + 1 : end]]
        kinds = [type(layer) for layer in layers[start : end + 1]]
        if kinds[0] is nn.Conv2d and kinds[-1] is nn.Linear and nn.Flatten in kinds:  # no word
            del words[kinds.index(nn.Flatten) - 1]
        behind.append(words)
    while behind[-1][-1:] == ["skip"]:
        behind[-1].pop()
    places = {place for words in behind[:-1] if (place := _place(words))}
    shown_in_front = [word for word in front if word != "skip"]
    usual = (
        all(map(_is_usual, behind[:-1], _touching(layers, numbered)))
        and "act" not in behind[-1]
        and len(places) < 2
        and shown_in_front in ([], ["bn"], pools[: len(shown_in_front)])
    )
    spelt = (whole or not usual) and bool(acts or norms)
    every = spelt or whole or bool(pools and shown_in_front) or coin.random() < 0.3
    left_out = ("act", "bn") if not spelt else ()
    left_out = left_out if every else (*left_out, "skip")
    geometry = [word for word in front if word not in left_out]
    for layer, words in zip(weighted, behind, strict=True):
        if isinstance(layer, nn.Conv2d):
            geometry.append(_convolution_word(layer, coin))
        elif every:
            geometry.append("dense")
        geometry += [word for word in words if word not in left_out]
    says_all = (
        len(weighted) > 1
        and isinstance(weighted[-1], nn.Linear)
        and all(words.count("bn") < 2 for words in (front, *behind))
        and not _flattens_oddly(layers)
        and not (
            "bn" in front
            and isinstance(weighted[0], nn.Linear)
            and isinstance(norms[0], nn.BatchNorm2d)
        )
        and not any(map(_pads_much, layers))
    )
    reading = FileReading(
        activation=next(iter(acts), "none"),
        geometry=coin.choice((",", " ")).join(geometry),
        batchnorm="" if spelt else next(iter(places), ""),  # type: ignore[arg-type]
        norm_eps=norms[0].eps if norms else None,
        ignored=tuple(ignored),
    )
    return Saying(reading, says_all)


def _touching(layers: Sequence[nn.Module], numbered: bool) -> list[bool]:
    """Of each layer with weights whether by the numbers the next one stands right behind it; to a
    list without any skip its program may add what stands between."""
    stated = [place for place, layer in enumerate(layers) if layer.state_dict()]
    skips = numbered and any(after - before > 1 for before, after in pairwise(stated))
    return [
        skips and isinstance(one, WEIGHTED) and isinstance(two, WEIGHTED)
        for one, two in pairwise(layers)
        if isinstance(one, WEIGHTED)
    ]


def _pads_much(layer: nn.Module) -> bool:
    """Whether a convolution pads more than it sees, which is refused."""
    if not isinstance(layer, nn.Conv2d) or isinstance(layer.padding, str):
        return False
    numbers = zip(layer.padding, layer.kernel_size, layer.dilation, strict=True)
    return any(padding > kernel * dilation for padding, kernel, dilation in numbers)


def _is_activation(layer: nn.Module) -> bool:
    return not isinstance(layer, (*SILENT, *WEIGHTED, *NORMS, *POOLS))


def _flattens_oddly(layers: Sequence[nn.Module]) -> bool:
    """Whether a dense layer goes along the rows of maps."""
    kinds = [type(layer) for layer in layers]
    maps = [p for p, kind in enumerate(kinds) if issubclass(kind, (nn.Conv2d, *POOLS[:2]))]
    dense = next((p for p, kind in enumerate(kinds) if kind is nn.Linear), len(kinds))
    return nn.Flatten not in kinds[max(maps, default=0) : dense] and (
        bool(maps) or nn.Flatten in kinds
    )


def _is_usual(words: Sequence[str], touching: bool) -> bool:
    """Whether an activation stands right behind the layer but for a BatchNorm, and pooling last."""
    words = [word for word in words if word != "skip"]
    rest = [word for word in words if word != "bn"]
    if touching:
        return True
    return rest[:1] == ["act"] and "act" not in rest[1:] and "bn" not in words[2:]


def _place(words: Sequence[str]) -> str:
    if "bn" not in words or "act" not in words:
        return ""
    return "before" if words.index("bn") < words.index("act") else "after"


def _token(layer: nn.Module) -> str:
    if isinstance(layer, NORMS):
        return "bn"
    if isinstance(layer, SILENT):
        return "skip"
    return _pool_word(layer) if isinstance(layer, POOLS) else "act"


def _activation_word(layer: nn.Module) -> str:
    """The word of an activation with its number; '' where it has another number, or no word."""
    word, _ = WORDS.get(type(layer).__name__, ("", 0))
    usual = {"Hardtanh": [-1.0, 1.0], "GELU": ["none"]}.get(type(layer).__name__)
    numbers = _numbers(layer)
    if usual is not None:
        return word if numbers == usual else ""
    if isinstance(layer, nn.Softplus):
        word, numbers = (word if numbers[1] == 20.0 else ""), numbers[:1]
    return f"{word}:{numbers[0]!r}" if numbers and word else word


def _sides(value: Any) -> str:
    high, wide = value if isinstance(value, tuple) else (value, value)
    return f"{high}" if high == wide else f"{high}x{wide}"


def _convolution_word(layer: nn.Conv2d, coin: random.Random) -> str:
    padding = layer.padding if isinstance(layer.padding, str) else _sides(layer.padding)
    parts = [
        f"s{_sides(layer.stride)}",
        f"p{padding}".replace("valid", "0"),
        f"d{_sides(layer.dilation)}",
        f"g{layer.groups}",
        layer.padding_mode.replace("zeros", ""),
    ]
    if coin.random() < 0.8:
        parts = [part for part in parts if part not in ("s1", "p0", "d1", "g1")]
    coin.shuffle(parts)
    return "".join(parts) or "s1"


def _pool_word(layer: nn.Module) -> str:
    """The word of a pooling; '' where there is none."""
    kind = "max" if "Max" in type(layer).__name__ else "avg"
    if isinstance(layer, (nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d)):
        size: Any = layer.output_size
        known = isinstance(size, int) or None not in size
        return f"adaptive{kind}{_sides(size)}" if known else ""
    assert isinstance(layer, (nn.MaxPool2d, nn.AvgPool2d))
    word = f"{kind}{_sides(layer.kernel_size)}s{_sides(layer.stride)}p{_sides(layer.padding)}"
    if isinstance(layer, nn.MaxPool2d):
        return f"{word}d{_sides(layer.dilation)}" + "ceil" * layer.ceil_mode
    word += "ceil" * layer.ceil_mode + "bare" * (not layer.count_include_pad)
    return "" if layer.divisor_override else word
