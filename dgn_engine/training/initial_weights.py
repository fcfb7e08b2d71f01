"""Load initial weights from files: gates from one, value weights from another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.data import Report
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.from_file import match_file, states_its_layers
from dgn_engine.importing.match_layers import LayerMatching
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.feature_layers import value_and_feature
from dgn_engine.protocol.file_reading import reading_from_options
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.regimes import Regime, all_regimes
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.trainer import Trainer


@dataclass(frozen=True)
class InitialWeights:
    """Matched weights of feature and value network; None where the configuration gives no file."""

    gates: LayerMatching | None
    values: LayerMatching | None

    def is_complete(self, regime: Regime) -> bool:
        """Return whether files provide every weight that a regime uses.

        Args:
            regime: The regime.

        Returns:
            True if no weight is drawn at random.
        """
        values = self.values
        makes_gates = not (regime.own_gates or regime.drawn_gates)
        if values is None or (makes_gates and self.gates is None):
            return False
        return len(values.weights) == len(values.rows)

    def copy_into(self, trainer: Trainer) -> None:
        """Set Θ^f and Θ^v to the weights of the files.

        Args:
            trainer: The trainer, before its first step.
        """
        if self.gates is not None:
            trainer.control.take_gates(*matched_tensors(self.gates))
        if self.values is not None:
            trainer.control.take_weights(*matched_tensors(self.values))


def read_initial_weights(
    config: RunConfig, regime: Regime, architecture: Architecture, report: Report
) -> InitialWeights:
    """Read the files that a configuration names.

    Args:
        config: The configuration.
        regime: Its regime.
        architecture: Architecture of the run, before tiling.
        report: Called with the file being read.

    Returns:
        The matched weights.

    Raises:
        UserError: A file does not fit, or the regime does not use gates of a file.
    """
    gates = values = None
    if config.gating.gates_from:
        if not regime.takes_gates:
            takers = " or ".join(
                candidate.name for candidate in all_regimes() if candidate.takes_gates
            )
            raise UserError(
                Where("gating.gates_from")
                + f" needs {takers}; {regime.name} does not use copied gates.",
                kind="contradiction",
            )
        report(f"reading {config.gating.gates_from}", None)
        _, makers = value_and_feature(
            architecture, config.gating.tiling, config.gating.feature_layers
        )
        gates = match_file(_read_contents(config.gating.gates_from, config), makers)
    if config.training.weights_from:
        report(f"reading {config.training.weights_from}", None)
        values = match_file(
            _read_contents(config.training.weights_from, config), architecture, "values"
        )
    for match in (gates, values):
        if match is not None and not match.fits:
            raise UserError(match.verdict, kind="no-fit")
    return InitialWeights(gates, values)


def _read_contents(path: str, config: RunConfig) -> CheckpointContents:
    """Read a file, adding what the configuration says about its network if the file does not."""
    listing = read_tensors(Path(path))
    if not config.net.is_from_file or states_its_layers(listing):
        return listing
    return replace(listing, reading=reading_from_options(config.net))


def weights_taken_event(match: LayerMatching, source: str, step: int) -> WeightsTaken:
    """Return the event for value weights loaded from a file.

    Args:
        match: Matched weights.
        source: Name of the file.
        step: Step of the run.

    Returns:
        The event.
    """
    return WeightsTaken(
        step=step,
        source=source,
        layers=len(match.weights),
        kept=tuple(row.layer for row in match.rows[len(match.weights) :]),
        biases=any(bias is not None for bias in match.biases),
    )


def matched_tensors(match: LayerMatching) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return matched weights and biases as new tensors.

    Args:
        match: Matched weights.

    Returns:
        One tensor, or None for a missing bias, per layer.
    """
    weights = [torch.from_numpy(array.copy()) for array in match.weights]
    biases = [None if b is None else torch.from_numpy(b.copy()) for b in match.biases]
    return weights, biases
