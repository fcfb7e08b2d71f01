"""Training examples to choose a probe set from: those of a class, or those it gets wrong."""

from __future__ import annotations

import numpy as np
import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import ProbeSet
from dgn_engine.protocol.probe_commands import ListExamples
from dgn_engine.protocol.probe_examples import ExamplesListed
from dgn_engine.random_streams import random_stream
from dgn_engine.session.file_commands import Shown
from dgn_engine.training.losses import answered_right
from dgn_engine.training.probe_pictures import pictures_of
from dgn_engine.training.trainer import Trainer

MOST_LISTED = 256
LOOKED_AT = 4096  # training examples that are tried for those that are misclassified
_TOGETHER = 256


def listed_examples(command: ListExamples, shown: Shown) -> ExamplesListed:
    """The training examples that are asked for, with their pictures."""
    labels, names = shown.train_labels, shown.probe_set.class_names[: shown.probe_set.classes]
    rows = np.arange(len(labels))
    if command.label >= 0:
        rows = rows[labels == command.label]
    total, first = len(rows), max(command.first, 0)
    rows = rows[first : first + min(command.count, MOST_LISTED)]
    indices, classes = tuple(map(int, rows)), tuple(map(int, labels[rows]))
    found = ProbeSet(indices, classes, names, "")
    pictures = pictures_of(found, shown.training_images(rows), shown.config.data.normalise)
    return ExamplesListed(command.label, first, total, pictures)


def misclassified(trainer: Trainer, wanted: int, seed: int) -> tuple[int, ...]:
    """Rows of training examples that the network gets wrong now, the first `wanted` of an order
    drawn by the seed, of which `LOOKED_AT` are tried.

    Raises `UserError` where there are fewer than two.
    """
    generator = random_stream("probe", seed)
    order = torch.randperm(trainer.examples, generator=generator)[:LOOKED_AT]
    found: list[int] = []
    for rows in torch.split(order, _TOGETHER):
        at = rows.to(trainer.data.train_x.device)
        with torch.no_grad():
            logits = trainer.network_at(at)(trainer.data.train_x[at])
        right = answered_right(logits, trainer.data.train_y[at])
        found.extend(rows[~right.cpu()].tolist())
        if len(found) >= wanted:
            break
    if len(found) < 2:
        raise UserError(
            f"{len(found)} of {len(order):,} training examples {'is' if len(found) == 1 else 'are'}"
            f" misclassified at step {trainer.step_count:,}; a probe set needs two."
        )
    return tuple(found[:wanted])
