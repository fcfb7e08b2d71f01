"""Keeps weights while a run trains: after chosen epochs, and the best on the test set.

Where both are wanted, the best so far is kept at each of these epochs as well.
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

KEPT = folder_layout.KEPT  # the folder, within that of the run
BEST = "best.safetensors"


def epoch_file(epoch: int) -> str:
    """'epoch-0010.safetensors': the weights after ten epochs, those before the first is done."""
    return f"epoch-{epoch:04}.safetensors"


def best_until_file(epoch: int) -> str:
    """'best-until-0010.safetensors': the weights at the best test score of the first ten epochs."""
    return f"best-until-{epoch:04}.safetensors"


def save_trainer(path: FilePath, trainer: Trainer) -> None:
    """Both networks with what is needed to read them; raises `UserError` where that fails."""
    network = trainer.network
    state = NetworkState.of(
        *(network, trainer.config, trainer.regime, trainer.step_count),
        *(trainer.data.fingerprint, trainer.seed),
    )
    save_network(path, network.state_dict(), state.metadata())


class WeightKeeper:
    """Writes into `folder` the weights that the configuration wants kept.

    `measured` is called before a measurement is logged: after a kill either the weights are
    there, or the epoch that ends with them is trained again.
    """

    def __init__(self, folder: FilePath, trainer: Trainer, first_step: int) -> None:
        """`first_step`: where the last stage begins, 0 where nothing is trained before it."""
        self._folder, self._trainer, self._first = folder, trainer, first_step
        self._epochs = frozenset(trainer.config.training.keep_epochs)
        self._keep_best = trainer.config.training.keep_best
        if 0 in self._epochs and trainer.step_count == 0:
            save_trainer(folder / epoch_file(0), trainer)

    def measured(self, event: Measured, best: float) -> None:
        """`best`: the highest test accuracy of this regime before this event, or NaN."""
        trainer = self._trainer
        epoch, over = divmod(trainer.step_count, trainer.steps_per_epoch)
        wanted = not over and epoch in self._epochs
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
        """Copy the best so far, once: a run that trains this epoch again after a kill may have
        left the weights of a later one as its best."""
        path = self._folder / best_until_file(epoch)
        if not path.exists():
            save_file(path, read_regular(self._folder / BEST, FILE))
