"""A run in a few words: 'digits · fc 64×5 · 21,450 weights'."""

from __future__ import annotations

from pathlib import PurePath

from dgn_engine.config import DataConfig
from dgn_engine.protocol.events import RunStarted


def run_in_words(run: RunStarted, feature_weights: int) -> str:
    """Data, network and the number of weights of both networks together."""
    total = run.parameters_value + feature_weights
    return f"{data_in_words(run.config.data)} · {net_in_words(run)} · {total:,} weights"


def weights_in_words(run: RunStarted, feature_weights: int, aside: bool = False) -> str:
    """How the weights are shared out; `aside`: the feature network is there but not in use."""
    own = f"Value network {run.parameters_value:,}"
    if not feature_weights:
        return own
    return f"{own}, feature network {feature_weights:,}{' (kept aside)' if aside else ''}"


def data_in_words(data: DataConfig) -> str:
    """'digits', 'mnist 4|7', 'folder flowers', 'mnist, 25 % label noise, random pixels'."""
    name, colon, path = data.name.partition(":")
    words = f"{name} {PurePath(path).name}" if colon else name
    words = f"{words} {data.binary[0]}|{data.binary[1]}" if data.binary else words
    if data.label_noise:
        words += f", {100 * data.label_noise:g} % label noise"
    return f"{words}, random pixels" if data.pixels == "random" else words


def net_in_words(run: RunStarted) -> str:
    """'fc 64×5' (width × weight layers), 'cnn4 128' (channels), 'vconv'."""
    if run.inspected:
        return run.inspected
    name, widths = run.config.net.name, {layer.shape[0] for layer in run.layers}
    kinds = {layer.kind for layer in run.layers}
    if kinds == {"dense"} and len(widths) == 1:
        return f"{name} {widths.pop()}×{len(run.layers) + 1}"
    options = dict(run.config.net.options)
    channels = options.get("channels")
    if channels is None and kinds == {"conv"} and len(widths) == 1:
        channels = widths.pop()
    return f"{name} {channels}" if channels is not None else name
