"""The playground: a small network on points of the plane, and the link that describes it.

A link is one line of text, 'dgn-play:spirals?depth=4&width=8&noise=0.2&regime=DL&lr=0.01&seed=1'.
Anybody may have written it: names must be known and numbers within bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dgn_engine.config import (
    MOST_SEED,
    SETTINGS,
    DataConfig,
    GatingConfig,
    NetConfig,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.regimes import find_regime
from dgn_engine.text.written_numbers import format_number

SCHEME = "dgn-play:"
NET = "fc"
LAYOUT = "teach"
DEPTHS, WIDTHS = (2, 8), (1, 16)  # that the bar offers: what the panels draw unit by unit
MOST_NOISE = 0.5  # that the bar offers
_PACE = 40.0  # steps per second, slow enough to follow
_PRETRAINING = 30  # epochs of the gates of FL: ten seconds at this pace
_LONGEST = 400  # characters of a link
_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?(e[+-]?[0-9]{1,2})?")
_NAME = re.compile(r"[A-Za-z0-9-]{1,40}")


@dataclass(frozen=True)
class Playground:
    """The settings that can be changed in the playground; all others have their defaults."""

    data: str
    depth: int = 4
    width: int = 8
    noise: float = 0.08
    regime: str = GatingConfig().regime
    learning_rate: float = 1e-2
    seed: int = 0
    beta: float = GatingConfig().beta
    value_input: str = "image"

    def run_config(self) -> RunConfig:
        gating: dict[str, Any] = {"regime": self.regime, "beta": self.beta}
        if find_regime(self.regime).takes_gates:
            gating["pretrain_epochs"] = _PRETRAINING
        return RunConfig(
            data=DataConfig(name=self.data, options=(("noise", self.noise),)),
            net=NetConfig(name=NET, options=(("depth", self.depth), ("width", self.width))),
            gating=GatingConfig(value_input=self.value_input, **gating),  # type: ignore[arg-type]  # checked there
            training=TrainingConfig(
                learning_rate=self.learning_rate, batch=32, epochs=0, pace=_PACE
            ),
            seed=self.seed,
        )

    @property
    def link(self) -> str:
        """The link that `parse_link` turns back into this, without defaults that few change."""
        default = Playground(self.data)
        parts = [
            f"{key}={_write_value(getattr(self, name))}"
            for key, (name, _) in _KEYS.items()
            if key not in _RARE or getattr(self, name) != getattr(default, name)
        ]
        return f"{SCHEME}{self.data}?{'&'.join(parts)}"


def playground_run(data: str) -> RunConfig:
    """Return a network with three gate layers of eight units.

    It has few enough paths to draw each of them, and still learns every data set of the plane.
    """
    return Playground(data).run_config()


def playground_of(config: RunConfig) -> Playground:
    """Return the playground of a run on points of the plane, as far as it describes the run."""
    data, net = dict(config.data.options), dict(config.net.options)
    default = Playground(config.data.name)
    return Playground(
        config.data.name,
        int(net.get("depth", 6)),  # the network's own defaults
        int(net.get("width", 128)),
        float(data.get("noise", default.noise)),
        config.gating.regime,
        config.training.learning_rate,
        config.seed,
        config.gating.beta,
        config.gating.value_input,
    )


def settings_left_out(config: RunConfig) -> tuple[str, ...]:
    """Return the settings of a run that no link can carry: with them, it would be another run."""
    described = playground_of(config).run_config()
    order, turns = config.gating.wiring, (*config.gating.rotation, *config.gating.shift)
    gating = replace(
        described.gating,
        epsilon=config.gating.epsilon,
        tiling=config.gating.tiling,
        feature_layers=config.gating.feature_layers,
        gate_probability=config.gating.gate_probability,
        gates_from=config.gating.gates_from,
    )
    found = ["gate order"] if order not in ((), tuple(range(len(order)))) else []
    found += ["gate rotation"] if any(turns) else []
    for section, given, carried in (
        ("data", config.data, described.data),
        ("net", config.net, described.net),
        ("gating", gating, described.gating),
        ("training", config.training, described.training),
    ):
        carried_values = vars(carried)
        for name, value in vars(given).items():
            if (section, name) in _NOT_THE_RUN or value == carried_values[name]:
                continue
            if name == "options":
                found += [option for option, _ in value if option not in _OPTIONS]
            else:
                found.append(SETTINGS[section][name].label or name)
    return tuple(found)


def parse_link(text: str, data: Collection[str]) -> Playground:
    """Return the playground of a link; `data` are the names of the data sets of the plane.

    Raises:
        UserError: The text is not a link, or says something unknown or out of bounds.
    """
    text = text.strip()
    if not text.startswith(SCHEME) or len(text) > _LONGEST:
        raise UserError(
            f"This is no link to a playground; one reads {Playground('spirals').link}.",
            kind="no-link",
            value=text[:_LONGEST],
        )
    name, _, query = text.removeprefix(SCHEME).partition("?")
    if name not in data:
        raise UserError(
            f"The link names the data '{name}'; it must be one of {', '.join(sorted(data))}."
            f"{did_you_mean(name, data)}",
            kind="unknown-name",
            value=name,
        )
    values: dict[str, Any] = {}
    for part in query.split("&") if query else ():
        key, _, value = part.partition("=")
        if key not in _KEYS or _KEYS[key][0] in values:
            why = "twice" if key in _KEYS else f"; it may say {', '.join(_KEYS)}"
            raise UserError(
                f"The link says '{key}'{' ' if key in _KEYS else ''}{why}.",
                kind="repeated" if key in _KEYS else "unknown-name",
                value=key,
            )
        attribute, read_value = _KEYS[key]
        values[attribute] = read_value(key, value)
    return Playground(name, **values)


def _write_value(value: object) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _read_number(least: float, most: float, whole: bool = False) -> Callable[[str, str], float]:
    def read(key: str, text: str) -> float:
        value = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not least <= value <= most or (whole and not text.isdecimal()):
            kind = "a whole number" if whole else "a number"
            bounds = f"between {format_number(least)} and {format_number(most)}"
            raise UserError(
                f"The link says {key}={text}; {key} must be {kind} {bounds}.",
                kind="out-of-bounds",
                value=text,
            )
        return int(value) if whole else value

    return read


def _read_regime(_key: str, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise UserError(f"The link says regime={text}.", kind="unknown-name", value=text)
    return find_regime(text).name


def _read_input(key: str, text: str) -> str:
    choices = SETTINGS["gating"]["value_input"].choices
    if text not in choices:
        raise UserError(
            f"The link says {key}={text}; it must be one of {', '.join(choices)}.",
            kind="no-choice",
            value=text,
        )
    return text


_KEYS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "depth": ("depth", _read_number(2, 12, whole=True)),
    "width": ("width", _read_number(1, 64, whole=True)),
    "noise": ("noise", _read_number(0.0, 2.0)),
    "regime": ("regime", _read_regime),
    "lr": ("learning_rate", _read_number(1e-9, 100.0)),
    "seed": ("seed", _read_number(0, MOST_SEED, whole=True)),
    "beta": ("beta", _read_number(0.1, 1000.0)),
    "input": ("value_input", _read_input),
}
_RARE = ("beta", "input")
_OPTIONS = ("noise", "depth", "width")  # of data and network, that a link carries
# What does not change the network that is trained.
_NOT_THE_RUN = {("training", "pace"), ("data", "root"), ("data", "download")}
