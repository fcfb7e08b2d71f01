"""Plain-English descriptions of how a file's network is read, and of a reading's accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from dgn_engine.errors import UserError
from dgn_engine.importing.geometry_words import (
    ConvolutionNumbers,
    LayerWords,
    parse_geometry,
)
from dgn_engine.protocol.file_reading import (
    ACTIVATIONS,
    FileReading,
    FittingReading,
    in_list,
)
from dgn_engine.storage.checkpoints.contents import StatedLayer
from dgn_engine.text.written_numbers import format_percent

GEOMETRY_ABOUT = (
    "One word per convolution, each followed by one per pooling:\n"
    "s2p1 – stride 2 and padding 1; s1 for neither\n"
    "p2d2g4 – padding 2, dilation 2, 4 groups; psame; p1circular\n"
    "max2 – 2×2 pooling; avg3s2p1 – 3×3 with stride 2 and padding 1\n"
    "skip – a layer that does nothing in evaluation, such as Dropout\n"
    "adaptiveavg1 – any size down to 1×1\n"
    "act bn – their positions, if not right after the layer; dense layers then need a word too\n"
    "torchvision or resnet,s1p1 – a known network, with its first convolution"
)


def activation_title(name: str) -> str:
    """Return 'ReLU' for 'relu', 'LeakyReLU' for 'leaky_relu'."""
    return "nothing" if name == "none" else ACTIVATIONS[name][0]


def epsilon_text(epsilon: float) -> str:
    """Return '1e-5' or '0.001'."""
    return f"{epsilon:g}".replace("e-0", "e-")


def reading_in_words(reading: FileReading) -> str:
    """Return 'ReLU, padding 1, 2×2 max pooling after each convolution, ε 1e-5'."""
    parts = []
    if reading.net is not None:
        options = " ".join(f"{name} {value}" for name, value in reading.net.options)
        parts.append(f"the network of this run, {reading.net.display_name} {options}".rstrip())
    if reading.activation:
        name, _, number = reading.activation.partition(":")
        parts.append(f"{activation_title(name)} {number}".rstrip())
    if reading.geometry:
        parts.append(_geometry_in_words(reading.geometry))
    if reading.batchnorm:
        parts.append(f"BatchNorm {reading.batchnorm} the activation")
    if reading.norm_eps is not None:
        parts.append(f"ε {epsilon_text(reading.norm_eps)}")
    if reading.order:
        parts.append(f"layers in the order {', '.join(reading.order)}")
    if reading.ignored:
        parts.append(f"without {in_list(reading.ignored)}")
    return ", ".join(parts)


def fitting_in_words(fitting: FittingReading) -> str:
    """Return '97.0 %: ReLU, padding 1'; without the accuracy if it is unknown."""
    words = reading_in_words(fitting.reading)
    if fitting.accuracy is None:
        return words
    return f"{format_percent(fitting.accuracy)}: {words}"


def about_readings(readings: Sequence[FittingReading]) -> str:
    """Describe the list of readings, and whether the data single one out."""
    known = [reading for reading in readings if reading.accuracy is not None]
    if not readings:
        return (
            "None of the usual readings fits these data. Specify the network above, or choose "
            "other data."
        )
    if not known:
        return "Readings that fit these data (accuracy unknown, because the classes differ):"
    best = max(reading.accuracy or 0.0 for reading in known)
    words = f"Readings that fit, by accuracy on {known[0].examples:,} test examples"
    if sum(reading.accuracy == best for reading in known) > 1:
        return f"{words}; the data do not distinguish the first ones:"
    return f"{words}:"


def _geometry_in_words(geometry: str) -> str:
    family, _, stem = geometry.lower().partition(",")
    if family == "torchvision":
        return "as torchvision builds it"
    if family == "resnet":
        return f"ResNet with {_geometry_in_words(stem)} first"
    try:
        parsed = parse_geometry(geometry)
    except UserError:
        return geometry
    layers = [layer for layer in parsed.layers if layer.convolution is not None]
    ways = {_convolution_in_words(layer.convolution) for layer in layers if layer.convolution}
    if parsed.places or len(ways) != 1:
        return geometry.replace(",", " ")
    pooled = _pooling_in_words(layers)
    return ", ".join([ways.pop(), pooled] if pooled else ways)


def _convolution_in_words(numbers: ConvolutionNumbers) -> str:
    parts = []
    if numbers.stride != (1, 1):
        parts.append(f"stride {_sides_text(numbers.stride)}")
    if numbers.padding == (0, 0):
        parts.append("no padding")
    else:
        mode = "" if numbers.padding_mode == "zeros" else f"{numbers.padding_mode} "
        parts.append(f"{mode}padding {_sides_text(numbers.padding)}")
    if numbers.dilation != (1, 1):
        parts.append(f"dilation {_sides_text(numbers.dilation)}")
    if numbers.groups != 1:
        parts.append(f"{numbers.groups} groups")
    return ", ".join(parts)


def _pooling_in_words(layers: Sequence[LayerWords]) -> str:
    """Return '2×2 max pooling after each convolution'; several kinds each with its convolution."""
    convolutions_by_pool: dict[str, list[int]] = {}
    for number, layer in enumerate(layers, start=1):
        for pool in layer.behind:
            if isinstance(pool, StatedLayer):
                convolutions_by_pool.setdefault(_pool_in_words(pool), []).append(number)
    words = []
    for pool, numbers in convolutions_by_pool.items():
        if len(numbers) == len(layers):
            words.append(pool if len(layers) == 1 else f"{pool} after each convolution")
        elif numbers == [len(layers)]:
            words.append(f"{pool} after the last")
        else:
            words.append(f"{pool} after convolution {in_list([str(n) for n in numbers])}")
    return ", ".join(words)


def _pool_in_words(pool: StatedLayer) -> str:
    numbers = pool.numbers
    kind = "max" if "Max" in pool.kind else "average"
    if "output_size" in numbers:
        return f"{kind} pooling to {_window_text(numbers['output_size'])}"
    words = [f"{_window_text(numbers['kernel_size'])} {kind} pooling"]
    if numbers["stride"] != numbers["kernel_size"]:
        words.append(f"with stride {_sides_text(numbers['stride'])}")
    if numbers["padding"] != (0, 0):
        words.append(f"with padding {_sides_text(numbers['padding'])}")
    return " ".join(words)


def _sides_text(sides: object) -> str:
    if isinstance(sides, tuple) and len(set(sides)) == 1:
        return str(sides[0])
    return "×".join(map(str, sides)) if isinstance(sides, tuple) else str(sides)


def _window_text(sides: object) -> str:
    high, wide = sides if isinstance(sides, tuple) else (sides, sides)
    return f"{high}×{wide}"
