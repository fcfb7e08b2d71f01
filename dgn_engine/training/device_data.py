"""The examples as tensors on the device, and the order in which training sees them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples
from dgn_engine.data._augmentation import Augmentation
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.protocol.probe_choice import ProbeChoice, unpack_pixels
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.random_streams import random_stream, send_to_device

ALL = ProbeChoice()  # balanced over all classes
DRAWN = "drawn"  # class name of examples drawn by the user, which have no class


@dataclass(frozen=True)
class DeviceData:
    """Inputs (n, *input_shape) and integer labels (n,) of both splits, on the device.

    Attributes:
        train_x: Training inputs.
        train_y: Training labels.
        test_x: Test inputs.
        test_y: Test labels.
        fingerprint: Fingerprint of the examples they were made from.
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    fingerprint: str = ""


def to_device(examples: Examples, architecture: Architecture, device: torch.device) -> DeviceData:
    """Copy examples to a device, reshaped to the network's input.

    Args:
        examples: Examples in main memory.
        architecture: Its input shape is used.
        device: Where to put them.

    Returns:
        The tensors.
    """

    def inputs_to_tensor(images: Array) -> Tensor:
        tensor = torch.from_numpy(np.ascontiguousarray(images))
        return tensor.reshape(len(images), *architecture.input_shape).to(device)

    def labels_to_tensor(values: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return DeviceData(
        inputs_to_tensor(examples.train_x),
        labels_to_tensor(examples.train_y),
        inputs_to_tensor(examples.test_x),
        labels_to_tensor(examples.test_y),
        examples.fingerprint,
    )


class Batches:
    """The training examples of each step, a function of (seed, step).

    Attributes:
        data: May be replaced by equal data between two steps.
        augmentation: Augments training images, or None.
    """

    def __init__(self, data: DeviceData, config: RunConfig) -> None:
        """Start with the order of the configuration's seed.

        Args:
            data: Examples on the device.
            config: Seed, batch size and augmentation.
        """
        self.data = data
        self._size = config.training.batch
        self._seed = config.seed
        self._epoch = 0
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))
        self._room: dict[int, tuple[Tensor, Tensor]] = {}  # buffers by batch size
        augmented = config.training.augmentation != "none"
        self.augmentation = Augmentation(data.train_x, config.seed) if augmented else None

    @property
    def examples(self) -> int:
        """Return the number of training examples.

        Returns:
            n.
        """
        return len(self.data.train_y)

    @property
    def batches_per_epoch(self) -> int:
        """Return the number of batches per epoch; the last may be smaller.

        Returns:
            ⌈n / batch⌉.
        """
        return math.ceil(self.examples / self._size)

    def step_rows(self, step: int) -> Tensor:
        """Return the examples of a step.

        Args:
            step: Step, from 0.

        Returns:
            Indices, (m,) int64 on the device.
        """
        self._epoch, batch = divmod(step, self.batches_per_epoch)
        if self.augmentation is not None:
            self.augmentation.begin_epoch(self._epoch)
        if self._order[0] != self._epoch:
            order = epoch_order(self._seed, self._epoch, self.examples)
            self._order = (self._epoch, send_to_device(order, self.data.train_x.device))
        return self._order[1][batch * self._size : (batch + 1) * self._size]

    def gather_batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Gather inputs and labels of a batch, augmented as in the current epoch.

        The result is overwritten by the next call, so that captured steps find it at the same
        address.

        Args:
            rows: Indices, (m,).

        Returns:
            Inputs (m, *input_shape) and labels (m,).
        """
        data = self.data
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
        if self.augmentation is None:
            return room
        return self.augmentation.augment_images(room[0], rows, self._epoch), room[1]

    def set_seed(self, seed: int) -> None:
        """Use another seed for order and augmentation from the next step on.

        Args:
            seed: The seed.
        """
        self._seed, self._order = seed, (-1, torch.empty(0))
        if self.augmentation is not None:
            self.augmentation.set_seed(seed)


def epoch_order(seed: int, epoch: int, examples: int) -> Tensor:
    """Return the order of the training examples in an epoch, a pure function of (seed, epoch).

    Args:
        seed: Seed of the run.
        epoch: Epoch, from 0.
        examples: Number of training examples n.

    Returns:
        A permutation, (n,) int64 on the CPU.
    """
    return torch.randperm(examples, generator=random_stream("order", seed, epoch))


def choose_probe_set(
    examples: Examples, wanted: int, seed: int, choice: ProbeChoice | None = None
) -> ProbeSet:
    """Choose probe examples: balanced over classes and drawn by the seed, or those of a choice.

    They are sorted by class; examples drawn by the user come last.

    Args:
        examples: Examples in main memory.
        wanted: Number of probe examples.
        seed: Seed of the run.
        choice: Rows, classes or drawn images; None for all classes.

    Returns:
        Indices, labels and a digest of the examples.

    Raises:
        UserError: There are fewer than two, or the choice names something that does not exist.
    """
    labels, names = examples.train_y, examples.class_names
    shape = examples.train_x.shape[1:]
    return _probe_set(
        labels, names, lambda at: examples.train_x[at], wanted, seed, choice or ALL, shape
    )


def choose_probe_set_on_device(
    data: DeviceData,
    class_names: tuple[str, ...],
    wanted: int,
    seed: int,
    choice: ProbeChoice,
    shape: tuple[int, ...],
) -> ProbeSet:
    """Choose the same probe examples as `choose_probe_set`, from data on a device.

    Args:
        data: Examples on the device.
        class_names: Names of the classes.
        wanted: Number of probe examples.
        seed: Seed of the run.
        choice: Rows, classes or drawn images.
        shape: Shape of one example.

    Returns:
        Indices, labels and a digest of the examples.

    Raises:
        UserError: As for `choose_probe_set`.
    """

    def read_inputs(at: Array) -> Array:
        chosen: Array = data.train_x[torch.from_numpy(at).to(data.train_x.device)].cpu().numpy()
        return chosen

    labels = data.train_y.cpu().numpy()
    return _probe_set(labels, class_names, read_inputs, wanted, seed, choice, shape)


def drawn_inputs(choice: ProbeChoice, shape: tuple[int, ...]) -> Array:
    """Return the images drawn by the user, before normalisation.

    Args:
        choice: Contains the drawn images.
        shape: Shape of one example, (C, H, W).

    Returns:
        (k, *shape) float32 in [0, 1].

    Raises:
        UserError: Images are drawn, but the examples are vectors.
    """
    if choice.drawn and len(shape) != 3:
        raise UserError(
            "Drawn examples need image data; these examples are vectors.", kind="not-supported"
        )
    levels = [unpack_pixels(word, shape) for word in choice.drawn]
    return np.array(levels, dtype=np.float32).reshape(-1, *shape) / np.float32(255.0)


def _probe_set(
    labels: Array,
    class_names: tuple[str, ...],
    inputs: Callable[[Array], Array],
    wanted: int,
    seed: int,
    choice: ProbeChoice,
    shape: tuple[int, ...],
) -> ProbeSet:
    if choice.rows:
        indices = _chosen_rows(choice, labels)
    else:
        indices = _draw_balanced(labels, _chosen_classes(choice, class_names), wanted, seed)
    if len(indices) < 2:
        raise UserError(
            "The probe set needs at least two training examples; choose a larger data set.",
            kind="too-few-examples",
            value=len(indices),
        )
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(inputs(indices)).tobytes())
    digest.update(np.ascontiguousarray(labels[indices]).tobytes())
    own = drawn_inputs(choice, shape)
    digest.update(own.tobytes())
    return ProbeSet(
        indices=(*map(int, indices), *range(len(labels), len(labels) + len(own))),
        labels=(*map(int, labels[indices]), *[len(class_names)] * len(own)),
        class_names=(*class_names, DRAWN) if len(own) else class_names,
        digest=digest.hexdigest(),
        drawn=len(own),
    )


def _draw_balanced(labels: Array, classes: list[int], wanted: int, seed: int) -> Array:
    """Return equally many rows per class, drawn by the seed, sorted by class."""
    order = torch.randperm(len(labels), generator=random_stream("probe", seed)).numpy()
    wanted, count = min(wanted, len(labels)), len(classes)
    quota = [wanted // count + (index < wanted % count) for index in range(count)]
    chosen = [order[labels[order] == c][:most] for c, most in zip(classes, quota, strict=True)]
    return np.concatenate(chosen)


def _chosen_classes(choice: ProbeChoice, class_names: tuple[str, ...]) -> list[int]:
    """Return the chosen class numbers, ascending; names take precedence over numbers."""
    known = {str(index): index for index in range(len(class_names))}
    known |= {name: index for index, name in enumerate(class_names)}
    unknown = [name for name in choice.classes if name not in known]
    if unknown:
        raise UserError(
            f"probe_set: no class '{unknown[0][:40]}'. Classes: {', '.join(class_names)}.",
            kind="unknown-name",
            value=unknown[0],
        )
    return sorted({known[name] for name in choice.classes}) or list(range(len(class_names)))


def _chosen_rows(choice: ProbeChoice, labels: Array) -> Array:
    """Return the chosen rows, sorted by class, then by row."""
    if max(choice.rows) >= len(labels):
        raise UserError(
            f"probe_set: no row {max(choice.rows):,}. There are {len(labels):,} training "
            "examples, counted from 0.",
            kind="out-of-bounds",
            value=max(choice.rows),
        )
    rows = np.array(sorted(choice.rows))
    return rows[np.argsort(labels[rows], kind="stable")]
