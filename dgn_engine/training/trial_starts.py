"""Runs that are begun on trial: what cannot be trained is refused before any work is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import DataSizes, Examples, load_examples, options_of, quiet
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.architecture import Architecture
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import to_device
from dgn_engine.training.devices import choose_device
from dgn_engine.training.ignored_settings import check_contradictions
from dgn_engine.training.initial_weights import read_initial_weights
from dgn_engine.training.memory_needed import RunUse, check_memory
from dgn_engine.training.trainer import Trainer

_SHAPE, _CLASSES = (3, 32, 32), 10  # any images, where the data are not at hand
_FEW = 2  # examples: of the data only shapes and classes matter here


def usual_architecture(net: NetConfig) -> Architecture:
    """Return the layers of a network on 10 classes of images of 3×32×32.

    Raises `UserError` where there is no such network.
    """
    return architecture_for(net, _SHAPE, _CLASSES)


def check_can_end(config: RunConfig) -> None:
    """Raise `UserError` where a run never ends, contradicts itself or has unknown names."""
    if not config.training.epochs:
        raise UserError(Where("training.epochs") + " is 0, which never ends; say how many.")
    check_contradictions(config)  # and that the regime is known
    options_of(config.data)  # and that the data set is known


def is_of_other_data(info: Mapping[str, Any], data: DataConfig) -> bool:
    """Return whether a recorded run was trained on other examples than `data` holds now; `info`:
    what its folder says of it."""
    return info.get("data_fingerprint") not in (None, load_examples(data).fingerprint)


class TrialStarts:
    """Begins runs on the CPU with next to no examples.

    Attributes:
        sizes: The numbers of training and test examples of the data that were looked at.
    """

    def __init__(self) -> None:
        self.sizes: dict[DataConfig, tuple[int, int]] = {}
        self._loaded: dict[DataConfig, Examples] = {}

    def begin(self, config: RunConfig, gates_given: bool) -> float:
        """Begin a run; return the bytes of main memory that it needs with all its examples.

        Args:
            config: The run.
            gates_given: Its gates come from another run, so that it trains none of its own.

        Raises:
            UserError: It cannot be begun, or does not fit.
        """
        device = choose_device(config.device)
        data = config.data.without_variant()
        if data not in self._loaded:
            whole = load_examples(data)
            self.sizes[data] = (len(whole.train_y), len(whole.test_y))
            self._loaded[data] = _few(whole)
            del whole
        examples = self._loaded[data]
        logits = 1 if examples.signed else len(examples.class_names)
        shape = examples.train_x.shape[1:]
        architecture = architecture_for(config.net, shape, logits)
        whole_sizes = DataSizes(*self.sizes[data], shape, logits)
        needed = check_memory(config, architecture, whole_sizes, device, RunUse())
        regime, cpu = find_regime(config.gating.regime), torch.device("cpu")
        copies = read_initial_weights(config, regime, architecture, quiet)
        learns = regime.takes_gates and not config.gating.gates_from and not gates_given
        first = find_regime(regime.pretrains_as) if learns else regime
        trainer = Trainer(config, architecture, to_device(examples, architecture, cpu), first, cpu)
        copies.copy_into(trainer)
        if learns:
            trainer.control.swap(regime, restart_value=True)
        return needed.total if device.type != "cuda" else 0.0


def _few(examples: Examples) -> Examples:
    """Copy a few examples, so that the memory of the others is freed."""
    return replace(
        examples,
        train_x=examples.train_x[:_FEW].copy(),
        train_y=examples.train_y[:_FEW].copy(),
        test_x=examples.test_x[:_FEW].copy(),
        test_y=examples.test_y[:_FEW].copy(),
    )
