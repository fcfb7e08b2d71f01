"""What a configuration names must exist: found out before the first of many runs begins."""

from __future__ import annotations

from collections.abc import Iterable

from dgn_engine.data import data_sets
from dgn_engine.forms import filled
from dgn_engine.nets import build_architecture
from dgn_engine.refusal import Refusal
from dgn_engine.regimes import find_regime
from dgn_engine.sweep.unit import Training

_SHAPE, _CLASSES = (3, 32, 32), 10  # any images: names and options are what is checked


def check_trainings(trainings: Iterable[Training]) -> None:
    """Raise `Refusal` for a regime, network, option or data set that is not there."""
    seen: set[object] = set()
    known = data_sets()
    for training in trainings:
        config = training.config
        data = config.data.name.partition(":")[0]
        told = (config.gating.regime, config.net, data, config.data.options)
        if told in seen:
            continue
        seen.add(told)
        try:
            find_regime(config.gating.regime)
            build_architecture(config.net, _SHAPE, _CLASSES)
            if data not in known:
                raise Refusal(f"There is no data set '{data}'; choose one of {', '.join(known)}.")
            filled(f"Data set '{data}'", "data.options", known[data].options, config.data.options)
        except Refusal as refusal:
            raise Refusal(f"The run {training.id} is not possible: {refusal}") from None
