"""The configuration of one run: frozen, validated where it is made, round-trips through TOML."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w

from dgn_engine.errors import UserError

Loss = Literal["cross-entropy", "squared"]
Optimiser = Literal["adam", "sgd", "rmsprop"]
ValueInput = Literal["image", "ones", "random"]
Pixels = Literal["true", "random"]
Initialisation = Literal["kaiming", "bernoulli", "glorot"]
Augmentation = Literal["none", "davidnet"]
Device = Literal["auto", "cpu", "cuda", "mps"]
OptionValue = int | float | str | bool


def _one_of(name: str, value: object, allowed: object) -> None:
    choices = get_args(allowed)
    if value not in choices:
        raise UserError(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")


def _at_least(name: str, value: float, least: float) -> None:
    if not math.isfinite(value) or value < least:
        raise UserError(f"{name} is {value}; it must be at least {least}.")


def _above(name: str, value: float, bound: float) -> None:
    if not math.isfinite(value) or value <= bound:
        raise UserError(f"{name} is {value}; it must be greater than {bound}.")


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UserError(f"{name} is {value}; it must be between {least} and {most}.")


def _sorted_options(options: object) -> tuple[tuple[str, OptionValue], ...]:
    pairs: Any = options.items() if isinstance(options, Mapping) else options
    return tuple(sorted((str(name), value) for name, value in pairs))


@dataclass(frozen=True)
class DataConfig:
    """Which examples: a data set by name ('digits', 'mnist', 'folder:PATH'), and what is done to
    them: a pair for ±1, fewer of them, false labels, random pixels. Test examples stay true."""

    name: str = "digits"
    root: str = ""  # where data sets lie; empty: DGN_DATA_ROOT, then the user's cache
    download: bool = False
    binary: tuple[int, int] | None = None  # first class is -1, second +1
    train_limit: int = 0  # keep only this many training examples, balanced; 0 keeps all
    test_limit: int = 0  # likewise for the test set
    options: tuple[tuple[str, OptionValue], ...] = ()  # what the data set's own form asks, sorted
    label_noise: float = 0.0  # each training label is, with this probability, drawn anew
    pixels: Pixels = "true"  # 'random': Gaussian pixels of the training set's mean and variance
    variant_seed: int = 0  # of false labels, random pixels and synthetic data

    def __post_init__(self) -> None:
        if not self.name:
            raise UserError("data.name is empty; name a data set, for example 'digits'.")
        if self.binary is not None:
            pair = tuple(self.binary)
            if len(pair) != 2 or pair[0] == pair[1]:
                raise UserError(f"data.binary is {list(pair)}; it needs two different classes.")
            object.__setattr__(self, "binary", (int(pair[0]), int(pair[1])))
        _at_least("data.train_limit", self.train_limit, 0)
        _at_least("data.test_limit", self.test_limit, 0)
        _within("data.label_noise", self.label_noise, 0, 1)
        _one_of("data.pixels", self.pixels, Pixels)
        _at_least("data.variant_seed", self.variant_seed, 0)
        object.__setattr__(self, "options", _sorted_options(self.options))


@dataclass(frozen=True)
class NetConfig:
    """Which architecture, for both the feature and the value network, and how it is initialised."""

    name: str = "fc"
    options: tuple[tuple[str, OptionValue], ...] = ()  # what the net's own form asks, sorted
    bias: bool = False
    init: Initialisation = "kaiming"
    sigma: float = 0.0  # of the ±σ initialisation; 0 chooses √(2/fan_in)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", _sorted_options(self.options))
        _one_of("net.init", self.init, Initialisation)
        _at_least("net.sigma", self.sigma, 0)


@dataclass(frozen=True)
class GatingConfig:
    """How the gates are made (THEORY §1): regime, softness, wiring, input of the value network."""

    regime: str = "DL"
    beta: float = 8.0
    epsilon: float = 0.0
    value_input: ValueInput = "image"
    wiring: tuple[int, ...] = ()  # π, 0-based: value layer l uses gate layer π(l); empty: identity
    rotation: tuple[int, ...] = ()  # G_π(l) is shifted cyclically by so many units; empty: none
    shift: tuple[int, ...] = ()  # and, in a map, by so many rows and columns
    tiling: tuple[int, ...] = ()  # value layer l has so many times the units; empty: once
    gate_probability: float = 0.5  # FRG: p of each coin
    gates_from: str = ""  # FL: a checkpoint whose weights become the feature network's
    pretrain_epochs: int = 0  # FL without a checkpoint: epochs of ReLU first; 0: as many as epochs

    def __post_init__(self) -> None:
        _one_of("gating.value_input", self.value_input, ValueInput)
        _above("gating.beta", self.beta, 0)
        _at_least("gating.epsilon", self.epsilon, 0)
        _at_least("gating.pretrain_epochs", self.pretrain_epochs, 0)
        _within("gating.gate_probability", self.gate_probability, 0, 1)
        for name in ("rotation", "shift", "tiling"):
            object.__setattr__(self, name, tuple(int(i) for i in getattr(self, name)))
        wiring = tuple(int(i) for i in self.wiring)
        if sorted(wiring) != list(range(len(wiring))):
            raise UserError(
                f"gating.wiring is {list(wiring)}; it must name each gate layer once, 0-based."
            )
        object.__setattr__(self, "wiring", wiring)


@dataclass(frozen=True)
class TrainingConfig:
    """How the weights move."""

    loss: Loss = "cross-entropy"
    optimiser: Optimiser = "adam"
    learning_rate: float = 3e-4
    momentum: float = 0.0  # SGD only
    batch: int = 32
    epochs: int = 20  # 0 trains until stopped
    augmentation: Augmentation = "none"  # 'davidnet': crop, mirror and cutout, anew each epoch
    weights_from: str = ""  # a checkpoint whose weights Θ^v begins with
    keep_epochs: tuple[int, ...] = ()  # epochs after which the weights are kept; 0: the initial
    keep_best: bool = False  # and those of the best test accuracy
    until: float = 0.0  # stop after an epoch of at least this train accuracy; 0: never
    pace: float = 0.0  # at most this many steps a second, to watch; 0: as fast as it goes

    def __post_init__(self) -> None:
        _one_of("training.loss", self.loss, Loss)
        _one_of("training.optimiser", self.optimiser, Optimiser)
        _above("training.learning_rate", self.learning_rate, 0)
        _at_least("training.momentum", self.momentum, 0)
        _at_least("training.batch", self.batch, 1)
        _at_least("training.epochs", self.epochs, 0)
        _one_of("training.augmentation", self.augmentation, Augmentation)
        _within("training.until", self.until, 0, 1)
        kept = tuple(sorted({int(epoch) for epoch in self.keep_epochs}))
        for epoch in kept:
            _at_least("training.keep_epochs", epoch, 0)
        object.__setattr__(self, "keep_epochs", kept)
        _at_least("training.pace", self.pace, 0)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run."""

    data: DataConfig = field(default_factory=DataConfig)
    net: NetConfig = field(default_factory=NetConfig)
    gating: GatingConfig = field(default_factory=GatingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0
    device: Device = "auto"
    probe_examples: int = 64  # size of the probe set that feeds every kernel panel

    def __post_init__(self) -> None:
        _one_of("device", self.device, Device)
        _at_least("seed", self.seed, 0)
        _at_least("probe_examples", self.probe_examples, 2)

    def same_run(self, other: RunConfig) -> bool:
        """Whether both stand for one run: its device and whether data may be fetched do not
        decide that."""
        return self._anywhere() == other._anywhere()

    def _anywhere(self) -> RunConfig:
        return replace(self, device="auto", data=replace(self.data, download=False))

    def to_toml(self) -> str:
        """The whole configuration as TOML text, readable by `from_toml`."""
        return tomli_w.dumps(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries; fields that are None are left out (TOML has no null)."""
        tree: dict[str, Any] = {}
        for part in dataclasses.fields(self):
            value = getattr(self, part.name)
            tree[part.name] = _plain(value) if dataclasses.is_dataclass(value) else value
        return tree

    @staticmethod
    def from_dict(tree: Mapping[str, Any]) -> RunConfig:
        """The inverse of `to_dict`; an unknown or ill-typed key is refused by name."""
        config: RunConfig = _build(RunConfig, tree, "")
        return config

    @staticmethod
    def from_toml(text: str) -> RunConfig:
        """Read TOML text; raises `UserError` with the place of the trouble."""
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"The configuration is not valid TOML: {error}.") from None
        return RunConfig.from_dict(tree)

    @staticmethod
    def from_file(path: Path) -> RunConfig:
        """Read a TOML file; raises `UserError` naming the file."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"Cannot read the configuration {path}: {error}.") from None
        try:
            return RunConfig.from_toml(text)
        except UserError as refusal:
            raise UserError(f"{path}: {refusal}") from None


_PARTS: dict[str, type[Any]] = {
    "data": DataConfig,
    "net": NetConfig,
    "gating": GatingConfig,
    "training": TrainingConfig,
}


def _plain(part: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for item in dataclasses.fields(part):
        value = getattr(part, item.name)
        if value is None:
            continue
        if item.name == "options":
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        tree[item.name] = value
    return tree


def _build(kind: type[Any], tree: object, where: str) -> Any:
    if not isinstance(tree, Mapping):
        raise UserError(f"The configuration's [{where}] must be a table of keys and values.")
    known = {item.name: item for item in dataclasses.fields(kind)}
    arguments: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{where}.{key}" if where else str(key)
        if key not in known:
            raise UserError(
                f"Unknown key '{name}' in the configuration; known: {', '.join(known)}."
            )
        if not where and key in _PARTS:
            arguments[key] = _build(_PARTS[key], value, key)
        else:
            arguments[key] = _typed(name, value, str(known[key].type))
    return kind(**arguments)


def _typed(name: str, value: Any, declared: str) -> Any:
    """Check a scalar against its declared type; ints are accepted where floats are meant."""
    if declared in ("int", "float", "bool", "str"):
        wanted = {"int": int, "float": (int, float), "bool": bool, "str": str}[declared]
        wrong_bool = isinstance(value, bool) and declared in ("int", "float")
        if wrong_bool or not isinstance(value, wanted):  # type: ignore[arg-type]
            raise UserError(f"{name} is {value!r}; it must be of type {declared}.")
        return float(value) if declared == "float" else value
    if name in ("net.options", "data.options"):
        if not isinstance(value, Mapping):
            raise UserError(f"{name} is {value!r}; it must be a table.")
        return value
    if declared.startswith("tuple"):
        if not isinstance(value, (list, tuple)) or not all(type(v) is int for v in value):
            raise UserError(f"{name} is {value!r}; it must be a list of whole numbers.")
        return tuple(value)
    return value
