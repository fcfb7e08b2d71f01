"""Parse the words of `--geometry`: stride, padding and pooling of each convolution.

One word per convolution in order, each followed by one per pooling:

    s2p1        a convolution with stride 2 and padding 1; s1 for neither
    p2d2g4      padding 2, dilation 2, 4 groups; p1x0: different sides; psame
    p1circular  padding mode (circular, reflect, replicate)
    max2 avg3s2p1          2×2 pooling, 3×3 pooling with stride 2 and padding 1
    max2ceil avg3s2p1bare  ceil_mode; padding not counted in the mean
    adaptivemax1 adaptiveavg6x5
    skip                   a layer that does nothing in evaluation (Dropout, Identity, Flatten)
    dense                  a dense layer; if one has its word, all need one
    act bn                 positions of activations and BatchNorms, if not the usual ones

Without `act` and `bn` there is an activation right after every layer but the last, before the
pooling. With them every layer needs its word, both go exactly where they are written, and each `bn`
is the next BatchNorm of the file. Everything but layers may also come before the first layer.
Flatten between maps and a dense layer needs no word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dgn_engine.errors import Hint, UserError, Where
from dgn_engine.storage.checkpoints.contents import StatedLayer, Value

SKIP = "skip"
PLACES = ("act", "bn")
_SILENT = (*PLACES, SKIP)
_MODES = ("circular", "reflect", "replicate")
_SIDES = r"(\d{1,4}(?:x\d{1,4})?)"
IN_DOCS = Hint(" (dgn docs guide/files)")  # omitted in the window
_CONVOLUTION = re.compile(rf"(?:[spd]{_SIDES}|psame|g\d{{1,6}}|{'|'.join(_MODES)})+")
_PART = re.compile(rf"([spdg])(\d+(?:x\d+)?|same)|({'|'.join(_MODES)})")
_POOL = re.compile(rf"(max|avg){_SIDES}(?:s{_SIDES})?(?:p{_SIDES})?(?:d{_SIDES})?(ceil)?(bare)?")
_ADAPTIVE = re.compile(rf"adaptive(max|avg){_SIDES}")
_MOST = 2000  # words


@dataclass(frozen=True)
class ConvolutionNumbers:
    """Stride, padding and so on of a convolution; its tensors give kernel, channels and bias."""

    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] | str = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    padding_mode: str = "zeros"


@dataclass
class LayerWords:
    """The words of one layer.

    `convolution` is None for a dense layer; `behind` lists its pooling as StatedLayer, and 'act',
    'bn' and 'skip', in order.
    """

    convolution: ConvolutionNumbers | None
    behind: list[StatedLayer | str] = field(default_factory=list)


@dataclass(frozen=True)
class Geometry:
    """The words of `--geometry`, layer by layer.

    `places`: whether they give all positions; `front`: what comes before the first layer.
    """

    layers: tuple[LayerWords, ...]
    places: bool
    front: tuple[StatedLayer | str, ...] = ()


def parse_geometry(text: str) -> Geometry:
    """Parse words separated by commas or spaces; a `UserError` names the first unknown word."""
    words = [word for word in re.split(r"[,\s]+", text.strip().lower()) if word]
    if len(words) > _MOST:
        raise UserError(
            Where("--geometry") + f" has {len(words):,} words; the limit is {_MOST:,}.",
            kind="bad-words",
        )
    layers: list[LayerWords] = []
    front: list[StatedLayer | str] = []
    for word in words:
        if word == "dense":
            layers.append(LayerWords(None))
        elif _CONVOLUTION.fullmatch(word):
            layers.append(LayerWords(_parse_convolution(word)))
        else:
            behind = layers[-1].behind if layers else front
            behind.append(word if word in _SILENT else _parse_pooling(word))
    if not layers:
        raise UserError(
            Where("--geometry")
            + " has no layer: give a word for each convolution, like p1 or s2p1 (s1 for "
            "neither stride nor padding).",
            kind="bad-words",
        )
    return Geometry(tuple(layers), any(word in PLACES for word in words), tuple(front))


def convolution_word(numbers: ConvolutionNumbers) -> str:
    """Return 's2p1' for stride 2 and padding 1, 's1' for neither."""
    word = ""
    if numbers.stride != (1, 1):
        word += f"s{_sides_text(numbers.stride)}"
    if isinstance(numbers.padding, str):
        word += "psame" if numbers.padding == "same" else ""
    elif numbers.padding != (0, 0):
        word += f"p{_sides_text(numbers.padding)}"
    if numbers.dilation != (1, 1):
        word += f"d{_sides_text(numbers.dilation)}"
    if numbers.groups != 1:
        word += f"g{numbers.groups}"
    if numbers.padding_mode != "zeros":
        word += numbers.padding_mode
    return word or "s1"


def pooling_word(layer: StatedLayer) -> str:
    """Return 'max2', 'avg3s2p1' or 'adaptiveavg1'."""
    n = layer.numbers
    kind = "max" if "Max" in layer.kind else "avg"
    if "output_size" in n:
        return f"adaptive{kind}{_sides_text(n['output_size'])}"
    word = f"{kind}{_sides_text(n['kernel_size'])}"
    if n["stride"] != n["kernel_size"]:
        word += f"s{_sides_text(n['stride'])}"
    if n["padding"] != (0, 0):
        word += f"p{_sides_text(n['padding'])}"
    if n.get("dilation", (1, 1)) != (1, 1):
        word += f"d{_sides_text(n['dilation'])}"
    word += "ceil" * bool(n["ceil_mode"])
    return word + "bare" * (n.get("count_include_pad", True) is False)


def _parse_convolution(word: str) -> ConvolutionNumbers:
    numbers: dict[str, tuple[int, int] | str] = {}
    mode = "zeros"
    for letter, number, padded in _PART.findall(word):
        if letter in numbers or (padded and mode != "zeros"):
            raise UserError(
                Where("--geometry") + f" repeats '{letter or padded}' for one layer: '{word}'.",
                kind="named-twice",
            )
        if padded:
            mode = padded
        else:
            numbers[letter] = number if number == "same" else _parse_sides(number)
    groups = numbers.get("g", (1, 1))[0]
    if 0 in (*numbers.get("s", ()), *numbers.get("d", ()), groups):
        raise UserError(
            Where("--geometry") + f" has a stride, dilation or number of groups of 0: '{word}'.",
            kind="bad-words",
        )
    return ConvolutionNumbers(
        stride=numbers.get("s", (1, 1)),  # type: ignore[arg-type]  # only padding may be a word
        padding=numbers.get("p", (0, 0)),
        dilation=numbers.get("d", (1, 1)),  # type: ignore[arg-type]
        groups=int(groups),
        padding_mode=mode,
    )


def _parse_pooling(word: str) -> StatedLayer:
    if parts := _ADAPTIVE.fullmatch(word):
        kind, size = parts.groups()
        return StatedLayer(
            word, f"Adaptive{kind.title()}Pool2d", {"output_size": _parse_window(size)}
        )
    parts = _POOL.fullmatch(word)
    if parts is None:
        raise UserError(
            Where("--geometry")
            + f" has an unknown word '{word}'; s2p1 is a convolution, max2 a pooling"
            + IN_DOCS
            + ".",
            kind="bad-words",
        )
    kind, kernel, stride, padding, dilation, up, bare = parts.groups()
    numbers: dict[str, Value] = {
        "kernel_size": _parse_window(kernel),
        "stride": _parse_window(stride or kernel),
        "padding": _parse_sides(padding or "0"),
        "ceil_mode": bool(up),
    }
    if kind == "max":
        numbers["dilation"] = _parse_window(dilation or "1")
    else:
        numbers |= {"count_include_pad": not bare, "divisor_override": None}
    if (kind == "avg" and dilation) or (kind == "max" and bare):
        raise UserError(
            Where("--geometry") + f" has an unknown word '{word}': no such pooling exists.",
            kind="bad-words",
        )
    return StatedLayer(word, f"{kind.title()}Pool2d", numbers)


def _parse_window(text: str) -> tuple[int, int]:
    sides = _parse_sides(text)
    if 0 in sides:
        raise UserError(Where("--geometry") + " has a window or stride of 0.", kind="bad-words")
    return sides


def _parse_sides(text: str) -> tuple[int, int]:
    high, _, wide = text.partition("x")
    return int(high), int(wide or high)


def _sides_text(sides: object) -> str:
    high, wide = sides if isinstance(sides, tuple) else (sides, sides)
    return str(high) if high == wide else f"{high}x{wide}"
