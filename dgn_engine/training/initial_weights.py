"""Initial weights from files: gates of one file, weights of the value network of another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.data import Report
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.from_file import matched, says_itself
from dgn_engine.importing.match_layers import LayerMatching
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.file_reading import reading_of
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.regimes import Regime, all_regimes
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.trainer import Trainer


@dataclass(frozen=True)
class InitialWeights:
    """Matched weights of the feature and of the value network; None where no file is named."""

    gates: LayerMatching | None
    values: LayerMatching | None

    def complete(self, regime: Regime) -> bool:
        """Whether no weight that the regime uses is drawn."""
        values = self.values
        makes_gates = not (regime.own_gates or regime.drawn_gates)
        if values is None or (makes_gates and self.gates is None):
            return False
        return len(values.weights) == len(values.rows)

    def copy_into(self, trainer: Trainer) -> None:
        """Θ^f and Θ^v := what the files hold."""
        if self.gates is not None:
            trainer.control.take_gates(*tensors_of(self.gates))
        if self.values is not None:
            trainer.control.take_weights(*tensors_of(self.values))


def read_initial_weights(
    config: RunConfig, regime: Regime, architecture: Architecture, report: Report
) -> InitialWeights:
    """Read the files that the configuration names; raises `UserError` where one does not fit."""
    gates = values = None
    if config.gating.gates_from:
        if not regime.takes_gates:
            takers = " or ".join(each.name for each in all_regimes() if each.takes_gates)
            raise UserError(
                Where("gating.gates_from")
                + f" needs {takers}, not {regime.name}: its gates are not copied.",
                kind="contradiction",
            )
        report(f"reading {config.gating.gates_from}", None)
        gates = matched(_read(config.gating.gates_from, config), architecture)
    if config.training.weights_from:
        report(f"reading {config.training.weights_from}", None)
        values = matched(_read(config.training.weights_from, config), architecture, "values")
    for match in (gates, values):
        if match is not None and not match.fits:
            raise UserError(match.verdict)
    return InitialWeights(gates, values)


def _read(path: str, config: RunConfig) -> CheckpointContents:
    """A file with what the configuration says of it, where its network is that of a file."""
    listing = read_tensors(Path(path))
    if not config.net.of_file or says_itself(listing):
        return listing
    return replace(listing, reading=reading_of(config.net))


def weights_taken(match: LayerMatching, source: str, step: int) -> WeightsTaken:
    return WeightsTaken(
        step=step,
        source=source,
        layers=len(match.weights),
        kept=tuple(row.layer for row in match.rows[len(match.weights) :]),
        biases=any(bias is not None for bias in match.biases),
    )


def tensors_of(match: LayerMatching) -> tuple[list[Tensor], list[Tensor | None]]:
    """Weights and biases of a match, as tensors of their own."""
    weights = [torch.from_numpy(array.copy()) for array in match.weights]
    biases = [None if b is None else torch.from_numpy(b.copy()) for b in match.biases]
    return weights, biases
