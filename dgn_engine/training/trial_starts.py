"""Start runs on trial, to refuse what cannot be trained before any work is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import DataSizes, Examples, ignore_progress, load_examples, options_of
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.model.architecture import Architecture
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import to_device
from dgn_engine.training.devices import check_precision, choose_device
from dgn_engine.training.ignored_settings import check_contradictions
from dgn_engine.training.initial_weights import read_initial_weights
from dgn_engine.training.memory_needed import RunUse, check_memory
from dgn_engine.training.trainer import Trainer

_SHAPE, _CLASSES = (3, 32, 32), 10  # of images, when no data are loaded
_FEW = 2  # examples; only shapes and classes matter


def usual_architecture(net: NetConfig) -> Architecture:
    """Return the architecture of a network for 10 classes of 3×32×32 images.

    Args:
        net: Network of a configuration.

    Returns:
        Its layers.

    Raises:
        UserError: There is no such network.
    """
    return architecture_for(net, _SHAPE, _CLASSES)


def check_can_end(config: RunConfig) -> None:
    """Check that a run has a last step, consistent settings and known names.

    Args:
        config: Configuration of the run.

    Raises:
        UserError: One of these does not hold.
    """
    if not config.training.epochs:
        raise UserError(Where("training.epochs") + " is 0: the run would never end; set a number.")
    check_contradictions(config)  # and that the regime is known
    options_of(config.data)  # and that the data set is known


def is_of_other_data(info: Mapping[str, Any], data: DataConfig) -> bool:
    """Return whether a recorded run was trained on other examples than a data set has now.

    Args:
        info: What its folder says about it.
        data: Data set.

    Returns:
        False if the folder has no fingerprint.
    """
    return info.get("data_fingerprint") not in (None, load_examples(data).fingerprint)


class TrialStarts:
    """Trial starts of runs, on the CPU with next to no examples.

    Attributes:
        sizes: Numbers of training and test examples, by data set.
    """

    def __init__(self) -> None:
        self.sizes: dict[DataConfig, tuple[int, int]] = {}
        self._loaded: dict[DataConfig, Examples] = {}

    def begin_trial(self, config: RunConfig, gates_given: bool) -> float:
        """Start a run on trial.

        Args:
            config: Its configuration.
            gates_given: Whether its gates come from another run, so that it trains none.

        Returns:
            Bytes of main memory it needs with all examples; 0 on a CUDA card.

        Raises:
            UserError: It cannot start, or does not fit.
        """
        device = choose_device(config.device)
        check_precision(config.training.precision, device)
        data = config.data.without_variant()
        if data not in self._loaded:
            whole = load_examples(data)
            self.sizes[data] = (len(whole.train_y), len(whole.test_y))
            self._loaded[data] = _copy_few(whole)
            del whole
        examples = self._loaded[data]
        logits = 1 if examples.signed else len(examples.class_names)
        shape = examples.train_x.shape[1:]
        architecture = architecture_for(config.net, shape, logits)
        whole_sizes = DataSizes(*self.sizes[data], shape, logits)
        needed = check_memory(config, architecture, whole_sizes, device, RunUse())
        regime, cpu = find_regime(config.gating.regime), torch.device("cpu")
        copies = read_initial_weights(config, regime, architecture, ignore_progress)
        learns = regime.takes_gates and not config.gating.gates_from and not gates_given
        first = find_regime(regime.pretrains_as) if learns else regime
        trainer = Trainer(config, architecture, to_device(examples, architecture, cpu), first, cpu)
        copies.copy_into(trainer)
        if learns:
            trainer.control.enter_regime(regime, restart_value=True)
        return needed.total if device.type != "cuda" else 0.0


def _copy_few(examples: Examples) -> Examples:
    """Copy a few examples, so that the memory of the rest is freed."""
    return replace(
        examples,
        train_x=examples.train_x[:_FEW].copy(),
        train_y=examples.train_y[:_FEW].copy(),
        test_x=examples.test_x[:_FEW].copy(),
        test_y=examples.test_y[:_FEW].copy(),
    )
