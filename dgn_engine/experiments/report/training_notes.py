"""How the runs of a plan are trained, in sentences made of their configurations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.regimes import find_regime
from dgn_engine.sweep.unit import Training, Unit

_OPTIMISERS = {"adam": "Adam", "sgd": "SGD", "rmsprop": "RMSprop"}
_STARTS = {"kaiming": "N(0, 2/fan-in)", "glorot": "Glorot's start", "bernoulli": "±σ"}


@dataclass(frozen=True)
class _Kind:
    """What runs of one kind share; steps and epochs may differ within it."""

    net: str
    data: str
    optimiser: str
    loss: str
    batch: int
    gates: str


def trained_as(units: Sequence[Unit]) -> Iterator[str]:
    """A sentence for each kind of network, data and optimiser."""
    kinds: dict[_Kind, list[RunConfig]] = {}
    for unit in units:
        if isinstance(unit, Training):
            kinds.setdefault(_kind(unit.config), []).append(unit.config)
    for kind, configs in kinds.items():
        steps = {f"{config.training.learning_rate:g}" for config in configs}
        epochs = sorted({config.training.epochs for config in configs})
        soft = any(find_regime(config.gating.regime).soft for config in configs)
        yield (
            f"{kind.net} on {kind.data}: {kind.optimiser}, "
            f"step {' or '.join(sorted(steps, key=float, reverse=True))}, batch {kind.batch}, "
            f"{' or '.join(f'{number:,}' for number in epochs)} "
            f"{'epoch' if epochs == [1] else 'epochs'}, {kind.loss}"
            f"{f'; soft gates are {kind.gates}' if soft else ''}"
        )


def _kind(config: RunConfig) -> _Kind:
    training = config.training
    until = f", to a train accuracy of {100 * training.until:g} %" if training.until else ""
    return _Kind(
        _net(config.net),
        _data(config.data),
        _OPTIMISERS[training.optimiser],
        training.loss.replace("-", " ").replace("squared", "squared loss") + until,
        training.batch,
        _gate(config.gating),
    )


def _data(data: DataConfig) -> str:
    return (
        data.name
        if data.binary is None
        else f"{data.name} (classes {data.binary[0]} and {data.binary[1]})"
    )


def _net(net: NetConfig) -> str:
    options = ", ".join(f"{name} {value}" for name, value in net.options)
    start = _STARTS[net.init] + (f" with σ = {net.sigma:.4g}" if net.sigma else "")
    biases = "biases" if net.bias else "no biases"
    return f"{net.name} ({', '.join(part for part in (options, biases, start) if part)})"


def _gate(gating: GatingConfig) -> str:
    """χ(q) = (1 + ε)/(1 + exp(-βq)), THEORY §1."""
    return f"{1 + gating.epsilon:g}/(1 + exp(−{gating.beta:g}q))"
