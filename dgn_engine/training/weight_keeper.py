"""Keep weights while a run trains: after chosen epochs, and the best on the test set.

If both are wanted, the best so far is also kept at each of these epochs.
"""

from __future__ import annotations

import math

from dgn_engine.importing.saved_network import NetworkState
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.checkpoints.save_network import save_network
from dgn_engine.storage.inner_path import FilePath
from dgn_engine.storage.regular_files import FILE, read_regular
from dgn_engine.storage.runs import folder_layout
from dgn_engine.training.trainer import Trainer

KEPT = folder_layout.KEPT  # subfolder of the run's folder
BEST = "best.safetensors"


def epoch_file(epoch: int) -> str:
    """Return the file name of the weights after an epoch.

    Args:
        epoch: Number of epochs trained; 0 for the initial weights.

    Returns:
        'epoch-0010.safetensors'.
    """
    return f"epoch-{epoch:04}.safetensors"


def best_until_file(epoch: int) -> str:
    """Return the file name of the best weights up to an epoch.

    Args:
        epoch: Number of epochs trained.

    Returns:
        'best-until-0010.safetensors'.
    """
    return f"best-until-{epoch:04}.safetensors"


def save_trainer(path: FilePath, trainer: Trainer) -> None:
    """Write both networks, with what is needed to read them.

    Args:
        path: File to write.
        trainer: The trainer.

    Raises:
        UserError: The file cannot be written.
    """
    network = trainer.network
    state = NetworkState.from_network(
        *(network, trainer.config, trainer.regime, trainer.step_count),
        *(trainer.data.fingerprint, trainer.seed),
    )
    save_network(path, network.state_dict(), state.to_metadata())


class WeightKeeper:
    """Writer of the weights that the configuration asks to keep.

    Call `process_scores` before a measurement is logged: after a kill, either the weights exist or
    the epoch is trained again.
    """

    def __init__(self, folder: FilePath, trainer: Trainer, first_step: int) -> None:
        """Write the initial weights if they are wanted.

        Args:
            folder: Folder for the weights.
            trainer: The trainer.
            first_step: First step of the last stage; 0 without pre-training.
        """
        self._folder, self._trainer, self._first = folder, trainer, first_step
        self._epochs = frozenset(trainer.config.training.keep_epochs)
        self._keep_best = trainer.config.training.keep_best
        if 0 in self._epochs and trainer.step_count == 0:
            save_trainer(folder / epoch_file(0), trainer)

    def process_scores(self, event: Measured, best: float) -> None:
        """Write weights if this score calls for it.

        Args:
            event: The scores.
            best: Highest test accuracy of this regime before this event, or NaN.

        Raises:
            UserError: A file cannot be written.
        """
        trainer = self._trainer
        epoch, remainder = divmod(trainer.step_count, trainer.steps_per_epoch)
        wanted = not remainder and epoch in self._epochs
        if wanted:
            save_trainer(self._folder / epoch_file(epoch), trainer)
        accuracy = event.test_accuracy
        if not self._keep_best or trainer.step_count <= self._first or accuracy is None:
            return
        if math.isnan(best) or accuracy > best:
            save_trainer(self._folder / BEST, trainer)
        if wanted:
            self._keep_best_until(epoch)

    def _keep_best_until(self, epoch: int) -> None:
        """Copy the best weights, once.

        A run that repeats this epoch after a kill may already have the best weights of a later one.
        """
        path = self._folder / best_until_file(epoch)
        if not path.exists():
            save_file(path, read_regular(self._folder / BEST, FILE))
