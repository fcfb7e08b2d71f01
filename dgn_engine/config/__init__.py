"""The configuration of one run: frozen, validated when it is created, and written as TOML."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from dgn_engine.config.setting import (
    Setting,
    check_value,
    refused_value,
    setting,
    settings_of,
    short_repr,
)
from dgn_engine.errors import UserError, Where, did_you_mean
from dgn_engine.frozen_data import dataclass
from dgn_engine.model.choices import FeatureLayers, Initialisation, ValueInput
from dgn_engine.plugins import OptionValue
from dgn_engine.text.toml import TomlError, format_toml, parse_toml

Loss = Literal["cross-entropy", "squared"]
Optimiser = Literal["adam", "sgd", "rmsprop"]
Pixels = Literal["true", "random"]
Augmentation = Literal["none", "davidnet"]
Precision = Literal["float32", "tf32", "bf16"]
Device = Literal["auto", "cpu", "cuda", "mps"]

OF_FILE = "file:"  # the network of a checkpoint is named file:PATH
MOST_SEED = 2**31 - 1
_SEEDS = (0, MOST_SEED)
_WORDS = 4096  # characters of a table that is cached
_TENTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9)
_WIRED: dict[str, object] = {"regime.own_gates": False}
_TESTED: dict[str, object] = {"regime.drawn_gates": False}

# fmt: off


@dataclass(frozen=True)
class DataConfig:
    """The data set and its variant.

    `name` is a data set ('digits', 'folder:PATH'). A variant keeps two classes as ±1, fewer
    examples, noisy labels or random pixels; test examples stay true.
    """

    name: str = setting(
        "digits", "data set", option="data", order=-2, offered=True,
        help="digits, mnist, fashion-mnist, cifar10, …, folder:PATH",
    )
    root: str = setting(  # empty: DGN_DATA_ROOT, then the user's cache
        "", "data folder", option="data-root", metavar="DIR", help="where data sets are stored",
        tip="Where data sets are stored", path="folder", title="Data set folder",
        hint="DGN_DATA_ROOT, then the cache", when={"dataset.rooted": True},
    )
    download: bool = setting(
        False, "download if missing", help="download if missing", order=-1,
        when={"dataset.missing": True}, effect={"dataset.rooted": True},
    )
    binary: tuple[int, int] | None = setting(  # the first class is -1, the second +1
        None, "two classes ±1", metavar="A,B", help="keep two classes, as -1 and +1",
        tip="Keep two classes; the first becomes -1, the second +1",
    )
    train_limit: int = setting(  # 0 keeps all
        0, "training examples", least=0, metavar="N",
        help="use only N training examples", zero="all",
        tip="Use only this many, balanced over classes",
    )
    test_limit: int = setting(
        0, "test examples", least=0, metavar="N", help="use only N test examples", zero="all",
        tip="Use only this many, balanced over classes", advanced=True, effect=_TESTED,
    )
    options: tuple[tuple[str, OptionValue], ...] = ()  # of the data set itself, sorted
    label_noise: float = setting(
        0.0, "label noise", share=True, metavar="P", help="fraction of labels redrawn at random",
        tip="The probability that a training label is redrawn; test labels stay true",
        advanced=True, rungs=(1, 2, 2.5, 5, 7.5),
    )
    pixels: Pixels = setting(  # 'random': Gaussian, with the training set's mean and variance
        "true", "training pixels", help="true pixels, or Gaussian noise",
        tip="Random pixels have the training set's mean and variance", advanced=True,
        changed="random pixels", words={"true": "true pixels", "random": "Gaussian noise"},
    )
    normalise: str = setting(  # parsed by `data._preprocessing.normalisation`
        "none", "pixel normalisation", metavar="HOW",
        help="imagenet, cifar10, cifar100, mnist or m1,m2,m3/s1,s2,s3 (default: none)",
        tip="imagenet, cifar10, cifar100, mnist, or mean/deviation such as 0.5,0.5,0.5/0.2,0.2,0.2",
        advanced=True, changed="normalised pixels", title="Pixel normalisation",
        hint="none",
    )
    image_size: int = setting(  # after `image_channels` and `normalise` are applied
        0, "resize to", least=0, metavar="S",
        help="resize the shorter side of images to S, then crop the centre",
        tip="Resize the shorter side (bilinear), then crop the centre square",
        advanced=True, changed="resized images", span=(0, 1024), zero="original size",
        unit="pixels",
    )
    image_channels: int = setting(
        0, "grey channels", least=0, metavar="N", help="repeat grey images over N channels",
        tip="Repeat grey images over this many channels", advanced=True,
        changed="repeated grey images", span=(0, 64), zero="one channel", unit="channels",
    )
    split_seed: int = setting(
        0, "split seed", least=0, most=_SEEDS[1], metavar="N",
        help="seed of the test split of the digits",
        tip="Which examples of digits are held out for testing", advanced=True,
        changed="different split", span=_SEEDS,
    )
    test_indices: str = setting(
        "", "test examples from", metavar="FILE", help="file with the indices of the test examples",
        tip="A .npy or .txt file of 0-based indices into the whole data set", advanced=True,
        changed="split from a file", path="file", title="Test examples file",
        hint="the data set's own",
    )
    variant_seed: int = setting(
        0, "noise seed", least=0,
        help="seed of noisy labels, random pixels and generated data sets",
        tip="The seed of noisy labels, random pixels and generated data sets", advanced=True,
        changed="seed", span=_SEEDS,
    )

    def __post_init__(self) -> None:
        if not self.name:
            way_out = "name a data set, for example 'digits'"
            raise UserError(Where("data.name") + f" is empty; {way_out}.", kind="empty")
        if self.binary is not None:
            pair = tuple(self.binary)
            if len(pair) != 2 or pair[0] == pair[1]:
                way_out = "it must be two different classes"
                raise refused_value("data.binary", list(pair), way_out, "no-pair")
            object.__setattr__(self, "binary", (int(pair[0]), int(pair[1])))
        object.__setattr__(self, "options", _sorted_options(self.options))
        _check_settings(self, "data.")

    def without_variant(self) -> DataConfig:
        """Return these data with true labels and pixels; sizes, shape and classes are those of any
        variant."""
        return replace(self, label_noise=0.0, pixels="true", variant_seed=0)


@dataclass(frozen=True)
class NetConfig:
    """The architecture of the feature and the value network, and their initialisation."""

    name: str = setting(
        "fc", "network", option="net", order=-1, offered=True,
        help="fc, cnn4, resnet18, …: docs/guide/data.md lists them",
    )
    options: tuple[tuple[str, OptionValue], ...] = ()  # of the network itself, sorted
    bias: bool = setting(
        False, "with biases", help="train with biases",
        tip="Biases break the homogeneity that path features rely on", order=1,
    )
    feature_bias: bool = setting(
        False, "feature biases", help="train with biases in the feature network alone",
        tip="Biases of the feature network alone: they move the gates, and the output stays a "
        "sum over paths", advanced=True, order=2, changed="feature biases",
        shown={"regime.trains_feature": True, "net.bias": False},
    )
    init: Initialisation = setting("kaiming", "initial weights")
    sigma: float = setting(  # 0 chooses √(2/fan_in)
        0.0, "σ", least=0, help="σ of the initial weights: ±σ (bernoulli), N(0, σ²) (kaiming)",
        tip="Initial weights are ±σ (bernoulli) or N(0, σ²) (kaiming)", span=(1e-6, 1000),
        zero="√(2/fan-in)", when={"net.init": ("bernoulli", "kaiming")},
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _sorted_options(self.options))
        _check_settings(self, "net.")

    @property
    def display_name(self) -> str:
        """The name of the network; for the network of a checkpoint its file name,
        'resnet18.pth'."""
        return Path(self.name.removeprefix(OF_FILE)).name if self.is_from_file else self.name

    @property
    def is_from_file(self) -> bool:
        return self.name.startswith(OF_FILE)


@dataclass(frozen=True)
class GatingConfig:
    """The gates (theory §1): regime, softness, wiring, and the input of the value network."""

    regime: str = setting(
        "DL", "regime", order=-2, offered=True,
        help="ReLU, DL, FL, FR-II, DLN, …",
    )
    beta: float = setting(
        8.0, "steepness β", above=0, help="steepness β of soft gates", span=(0.1, 1000),
        rungs=(1, 2, 3, 4, 5, 6, 8), shown={"regime.soft": True},
    )
    epsilon: float = setting(
        0.0, "ε", least=0, help="ε of soft gates, (1+ε)/(1+exp(-βq))",
        tip="Soft gates are (1+ε)/(1+exp(-βq))", span=(0, 1),
        shown={"regime.soft": True},
    )
    value_input: ValueInput = setting(
        "image", "value input", help="input of the value network",
        tip="The input of the value network", order=1, shown=_WIRED,
    )
    # π, 0-based: value layer l uses gate layer π(l); empty: identity
    wiring: tuple[int, ...] = setting(
        (), metavar="2,0,1", help="order of the gate layers, a 0-based permutation", when=_WIRED,
    )
    rotation: tuple[int, ...] = setting(  # G_π(l) is rotated cyclically by this many units
        (), "gate rotation", metavar="0,1,2",
        help="rotate each layer's gates by this many units",
        tip="Rotate each layer's gates by this many units", advanced=True,
        changed="rotated gates", title="Rotation", hint="0 0 … one per layer", when=_WIRED,
    )
    shift: tuple[int, ...] = setting(  # and, in a feature map, by this many rows and columns
        (), "gate shift", metavar="0,1,2",
        help="shift each feature map's gates by this many rows and columns",
        tip="Shift the gates of feature maps by this many rows and columns",
        advanced=True, changed="shifted gates", title="Shift", hint="0 0 … one per layer",
        when=_WIRED,
    )
    tiling: tuple[int, ...] = setting(  # value layer l has this many times the units
        (), "gate tiling", metavar="2,2,2",
        help="multiply each value layer's units by this; its gates are repeated",
        tip="Multiply the units of each value layer; its gates are repeated", advanced=True,
        order=-1, changed="tiled gates", title="Tiling", hint="1 1 … one per layer", when=_WIRED,
        effect={},  # with a network's own gates, tiling widens the network
    )
    feature_layers: FeatureLayers = setting(
        "chain", "feature layers",
        help="parallel: each feature layer reads the input, so that gates are half-spaces",
        tip="In parallel, each feature layer reads the input; its gates are half-spaces",
        advanced=True, order=-1, changed="parallel feature layers",
        words={"chain": "one after another", "parallel": "each from the input"}, when=_WIRED,
    )
    gate_probability: float = setting(  # of each Bernoulli gate to be open
        0.5, "gate probability p", share=True, metavar="P",
        help="FRG: probability that a gate is open",
        tip="The probability that each gate is open", rungs=_TENTHS,
        when={"regime.drawn_gates": True},
    )
    gates_from: str = setting(  # a checkpoint for the weights of the feature network
        "", "gates from", metavar="FILE", help="FL: copy the gates of a checkpoint", order=-1,
        path="file", title="Checkpoint for the gates", hint="pre-train instead",
        when={"regime.takes_gates": True},
    )
    pretrain_epochs: int = setting(  # if gates are pre-trained; 0: the same as epochs
        0, "pre-training epochs", least=0, help="FL: epochs of ReLU pre-training", order=-1,
        zero="same as epochs", when={"regime.takes_gates": True},
        shown={"gating.gates_from": ""},
    )

    def __post_init__(self) -> None:
        _check_settings(self, "gating.")
        for name in ("rotation", "shift", "tiling"):
            object.__setattr__(self, name, tuple(int(i) for i in getattr(self, name)))
        wiring = tuple(int(i) for i in self.wiring)
        if sorted(wiring) != list(range(len(wiring))):
            raise UserError(
                Where("gating.wiring")
                + f" is {list(wiring)}; it must list each gate layer once, counted from 0.",
                kind="no-permutation",
                value=list(wiring),
            )
        object.__setattr__(self, "wiring", wiring)


@dataclass(frozen=True)
class TrainingConfig:
    """The loss, the optimiser, and when a run ends or keeps its weights."""

    loss: Loss = setting("cross-entropy", "loss")
    optimiser: Optimiser = setting("adam", "optimiser")
    learning_rate: float = setting(3e-4, "learning rate", above=0, option="lr", span=(1e-9, 100))
    momentum: float = setting(
        0.0, "momentum", least=0, span=(0, 1), rungs=_TENTHS, when={"training.optimiser": "sgd"},
    )
    batch: int = setting(32, "batch", least=1, span=(1, 10**6))
    epochs: int = setting(20, "epochs", least=0, zero="until stopped")
    smoothing: float = setting(  # of RMSprop's mean square: torch's alpha, Keras' rho
        0.99, "smoothing", share=True, metavar="RHO", help="RMSprop: ρ of the mean square",
        tip="RMSprop: how much of the mean square each step keeps; 0.99 in torch, 0.9 in Keras",
        advanced=True, rungs=(1, 2, 5, 9, 9.5, 9.9), when={"training.optimiser": "rmsprop"},
    )
    augmentation: Augmentation = setting(  # 'davidnet': random crop, flip and cutout each epoch
        "none", "augmentation", help="augmentation of the training images",
        tip="Shift, mirror and partly cut out training images at random; for convolutional "
        "networks only", advanced=True,
        words={"davidnet": "as in DavidNet"},
    )
    precision: Precision = setting(  # of training steps; kernels and scores stay in float32
        "float32", "precision", help="precision of training steps (tf32: CUDA only)",
        tip="Mantissa of products in a step: tf32 10 bits (CUDA only), bf16 7 bits (on a CPU only "
        "with AVX-512 BF16 or AMX, and only faster for convolutions). Weights and all kernels stay "
        "in float32", advanced=True,
        words={"float32": "float32", "tf32": "TF32", "bf16": "bf16"},
    )
    weights_from: str = setting(  # a checkpoint
        "", "weights from", metavar="FILE",
        help="checkpoint with the initial weights of the value network",
        tip="Initial weights of the value network", advanced=True, changed="weights from a file",
        path="file", title="Checkpoint for the weights", hint="random, from the seed",
    )
    keep_epochs: tuple[int, ...] = setting(  # 0: the initial weights
        (), least=0, metavar="0,10", help="keep the weights after these epochs",
    )
    keep_best: bool = setting(  # of test accuracy
        False, effect=_TESTED,
        help="keep the best weights; with --keep-epochs, also the best up to each of them",
    )
    until: float = setting(  # 0: never
        0.0, "stop at", share=True,
        help="stop after an epoch with at least this train accuracy (0 to 1)",
        tip="Stop after an epoch with at least this train accuracy", advanced=True,
        changed="stop at an accuracy", span=(0.01, 1), rungs=(1, 2, 5, 9, 9.5, 9.9), zero="never",
    )
    patience: int = setting(  # epochs; 0: never
        0, "early stopping", least=0, metavar="N", zero="never", unit="epochs",
        help="stop after N epochs in which train accuracy rises by less than half a point",
        tip="Stop after this many epochs in which train accuracy rises by less than half a point",
        advanced=True, changed="early stopping", span=(0, 1000),
    )
    pace: float = setting(  # steps per second; 0: no limit
        0.0, "pace", least=0, option="", tip="At most this many steps per second",
        span=(1, 5000), rungs=(1, 2, 5), zero="full speed", unit="steps/s",
    )

    def __post_init__(self) -> None:
        unique_epochs = tuple(sorted({int(epoch) for epoch in self.keep_epochs}))
        object.__setattr__(self, "keep_epochs", unique_epochs)
        _check_settings(self, "training.")


# fmt: on


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run."""

    data: DataConfig = field(default_factory=DataConfig)
    net: NetConfig = field(default_factory=NetConfig)
    gating: GatingConfig = field(default_factory=GatingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = setting(0, "seed", least=0, span=_SEEDS)
    device: Device = setting("auto", "device", offered=True)
    probe_examples: int = setting(  # size of the probe set
        64,
        "probe examples",
        least=2,
        option="",
        tip="The examples that every kernel panel shows",
        span=(2, 4096),
    )
    probe_set: str = setting(  # '': balanced over all classes (protocol/probe_choice.py)
        "",
        metavar="CHOICE",
        help="probe examples: 'classes 3,8' or 'rows 0,5,9'",
    )

    def __post_init__(self) -> None:
        _check_settings(self, "")

    def with_changes_of(self, other: RunConfig) -> RunConfig:
        """Return this configuration with `other`'s values of what can change while a run trains."""
        return replace(
            self,
            gating=other.gating,
            training=replace(self.training, learning_rate=other.training.learning_rate),
            probe_examples=other.probe_examples,
            probe_set=other.probe_set,
        )

    def is_same_run(self, other: RunConfig) -> bool:
        """Return whether both describe the same run, regardless of device and download."""
        return self._without_machine() == other._without_machine()

    def _without_machine(self) -> RunConfig:
        return replace(self, device="auto", data=replace(self.data, download=False))

    def to_toml(self) -> str:
        """Return the whole configuration as TOML text, readable by `from_toml`."""
        return format_toml(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return nested dictionaries of plain values, without fields that are None: TOML has no
        null."""
        return _to_plain_dict(self)

    @staticmethod
    def from_dict(tree: Mapping[str, Any]) -> RunConfig:
        """Build a configuration from nested dictionaries, the inverse of `to_dict`.

        Raises:
            UserError: A key is unknown, or its value has the wrong type or is out of bounds.
        """
        config: RunConfig = _build_table(RunConfig, tree, "")
        return config

    @staticmethod
    def from_toml(text: str) -> RunConfig:
        """Build a configuration from TOML text; raises `UserError` as `from_dict` does."""
        try:
            tree = parse_toml(text)
        except TomlError as error:
            raise UserError(f"The configuration {error}.", kind=error.kind) from None
        return RunConfig.from_dict(tree)


PARTS: dict[str, Any] = {
    item.name: item.default_factory
    for item in dataclasses.fields(RunConfig)
    if item.default_factory is not dataclasses.MISSING
}
SETTINGS: dict[str, dict[str, Setting]] = {
    part: dict(settings_of(kind)) for part, kind in (PARTS | {"": RunConfig}).items()
}
"""Every setting of a run: by its part ('data', 'net', 'gating', 'training', ''), then its name."""


def _check_settings(part: Any, where: str) -> None:
    for name, declared, place in _settings_with_places(part.__class__, where):
        declared.check_allowed(place, getattr(part, name))


@cache  # ten thousand runs may be listed at once
def _settings_with_places(kind: Any, where: str) -> tuple[tuple[str, Setting, str], ...]:
    return tuple((name, declared, f"{where}{name}") for name, declared in settings_of(kind).items())


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind))


def _sorted_options(options: object) -> tuple[tuple[str, OptionValue], ...]:
    pairs: Any = options.items() if isinstance(options, Mapping) else options
    for name, value in pairs:
        check_value("The name of an option", str(name))
        finite = not isinstance(value, float) or math.isfinite(value)
        if not isinstance(value, (int, float, str)) or not finite:
            raise UserError(
                f"Option '{name}' is {short_repr(value)}; it must be a number or text.",
                kind="wrong-type",
                value=value,
            )
        check_value(f"Option '{name}'", value)
    return tuple(sorted((str(name), value) for name, value in pairs))


def _to_plain_dict(part: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for item in dataclasses.fields(part):
        match getattr(part, item.name):
            case None:
                continue
            case pairs if item.name == "options":
                tree[item.name] = dict(pairs)
            case tuple() as numbers:
                tree[item.name] = list(numbers)
            case value:
                tree[item.name] = (
                    _to_plain_dict(value) if dataclasses.is_dataclass(value) else value
                )
    return tree


def _places_by_key(part: str) -> dict[str, str]:
    """Map each key and each option name ('lr') to its place; those of `part` take precedence."""
    places: dict[str, str] = {}
    for table in sorted(SETTINGS, key=lambda table: table == part):
        for name, declared in SETTINGS[table].items():
            key_path = f"{table}.{name}".lstrip(".")
            places |= dict.fromkeys((declared.option or name, name), key_path)
    return places


def _build_part(part: str, tree: object) -> Any:
    """Build a part, once for equal tables: runs that are listed together mostly differ in their
    seeds."""
    if isinstance(tree, dict) and 0 < len(words := repr(tree)) <= _WORDS:
        return _build_cached_part(part, _Spelt(tree, words))
    return _build_table(PARTS[part], tree, part)


@lru_cache(maxsize=256)
def _build_cached_part(part: str, spelt: _Spelt) -> Any:
    return _build_table(PARTS[part], spelt.tree, part)


@dataclass(frozen=True)
class _Spelt:
    """A table that equals another if both have the same `repr`: 1 is not true."""

    tree: dict[str, Any] = field(compare=False)
    words: str


def _build_table(kind: Any, tree: object, part: str) -> Any:
    if not isinstance(tree, Mapping):
        raise UserError(
            f"[{part}] in the configuration must be a table of keys and values.",
            kind="wrong-type",
            value=part,
        )
    known, settings = _field_names(kind), SETTINGS[part]
    arguments: dict[str, Any] = {}
    for key, value in tree.items():
        place = f"{part}.{key}" if part else str(key)
        if key not in known:
            raise UserError(
                "Unknown key '"
                + Where(place)
                + f"' in the configuration; known: {', '.join(known)}."
                + did_you_mean(str(key), PARTS, _places_by_key(part)),
                kind="unknown-key",
                value=value,
            )
        if not part and key in PARTS:
            value = _build_part(key, value)
        elif key in settings:
            value = settings[key].convert_value(place, value)
        elif not isinstance(value, Mapping):
            raise refused_value(place, value, "it must be a table", "wrong-type")
        arguments[key] = value
    return kind(**arguments)
