"""The examples as tensors on the device, and the order in which they are shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine.data import Examples
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.events import ProbeSet
from dgn_engine.protocol.frames import Array
from dgn_engine.random_streams import random_stream


@dataclass(frozen=True)
class DeviceData:
    """Inputs (n, *input_shape) and integer labels (n,) of both splits, on the device.

    `fingerprint`: of the examples that they were made of.
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    fingerprint: str = ""


def to_device(examples: Examples, architecture: Architecture, device: torch.device) -> DeviceData:
    """Copy the examples to the device once, in the shape that the network takes."""

    def inputs(images: Array) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(images))
        return tensor.reshape(len(images), *architecture.input_shape).to(device)

    def labels(values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return DeviceData(
        inputs(examples.train_x),
        labels(examples.train_y),
        inputs(examples.test_x),
        labels(examples.test_y),
        examples.fingerprint,
    )


class BatchBuffer:
    """The examples of a step, gathered into the same memory each time."""

    def __init__(self) -> None:
        self._room: dict[int, tuple[Tensor, Tensor]] = {}  # by the size of the batch

    def take(self, data: DeviceData, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some training examples; the next call writes over them."""
        sources = (data.train_x, data.train_y)
        room = self._room.get(len(rows))
        if room is None or any(
            own.dtype != source.dtype or own.shape[1:] != source.shape[1:]
            for own, source in zip(room, sources, strict=True)
        ):
            x, y = (source.new_empty(len(rows), *source.shape[1:]) for source in sources)
            self._room[len(rows)] = room = (x, y)
        for own, source in zip(room, sources, strict=True):
            torch.index_select(source, 0, rows, out=own)
        return room


def epoch_order(seed: int, epoch: int, examples: int) -> Tensor:
    """The order of the training examples in an epoch: a pure function of (seed, epoch)."""
    return torch.randperm(examples, generator=random_stream("order", seed, epoch))


def choose_probe_set(examples: Examples, wanted: int, seed: int) -> ProbeSet:
    """Training examples balanced over the classes, drawn by the seed, sorted by class.

    Raises `UserError` where there are fewer training examples than classes.
    """
    return _probe_set(
        examples.train_y, examples.class_names, lambda at: examples.train_x[at], wanted, seed
    )


def chosen_on_device(
    data: DeviceData, class_names: tuple[str, ...], wanted: int, seed: int
) -> ProbeSet:
    """The same set as `choose_probe_set`, of examples that lie on the device."""

    def inputs(at: Array) -> Array:
        found: Array = data.train_x[torch.from_numpy(at).to(data.train_x.device)].cpu().numpy()
        return found

    return _probe_set(data.train_y.cpu().numpy(), class_names, inputs, wanted, seed)


def _probe_set(
    labels: Array,
    class_names: tuple[str, ...],
    inputs: Callable[[Array], Array],
    wanted: int,
    seed: int,
) -> ProbeSet:
    classes = len(class_names)
    order = torch.randperm(len(labels), generator=random_stream("probe", seed)).numpy()
    wanted = min(wanted, len(labels))
    quota = [wanted // classes + (c < wanted % classes) for c in range(classes)]
    chosen = [order[labels[order] == c][: quota[c]] for c in range(classes)]
    indices = np.concatenate(chosen)
    if len(indices) < 2:
        raise UserError("The probe set needs at least two training examples; choose larger data.")
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(inputs(indices)).tobytes())
    digest.update(np.ascontiguousarray(labels[indices]).tobytes())
    return ProbeSet(
        indices=tuple(int(i) for i in indices),
        labels=tuple(int(label) for label in labels[indices]),
        class_names=class_names,
        digest=digest.hexdigest(),
    )
