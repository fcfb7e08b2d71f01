"""Generated vectors: shared code of the synthetic data sets."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import Setting
from dgn_engine.data._dataset import DataSizes, Examples
from dgn_engine.data._variants import frozen_stream
from dgn_engine.errors import UserError

Vectors = npt.NDArray[np.float64]
MOST_NUMBERS = 1 << 28  # 1 GiB of float32

COUNT = Setting("n", "vectors n", 200, least=2, most=100_000)
DIMENSION = Setting("dim", "dimension", 256, least=2, most=100_000)


def vector_sizes(config: DataConfig) -> DataSizes:
    """Return the sizes of a ±1 problem with the values of `COUNT` and `DIMENSION`."""
    n, dim = vector_counts(config)
    return DataSizes(n, n, (dim,), 1)


def vector_counts(config: DataConfig) -> tuple[int, int]:
    """Return the values of `COUNT` and `DIMENSION`; refuses more than 1 GiB."""
    options = dict(config.options)
    n, dim = int(options["n"]), int(options["dim"])
    if n * dim > MOST_NUMBERS:
        raise UserError(
            f"{n:,} vectors of dimension {dim:,} do not fit in 1 GiB; use fewer.",
            kind="too-large",
        )
    return n, dim


def unit_vector(dim: int, stream: np.random.RandomState) -> Vectors:
    """Draw uniformly from the unit sphere, shape (dim,)."""
    vector = stream.normal(size=dim)
    return vector / np.linalg.norm(vector)


def balanced_labels(name: str, n: int, seed: int) -> npt.NDArray[np.int64]:
    """Return (n,) labels 0 and 1, balanced up to one, in random order."""
    return frozen_stream(name, "labels", seed).permutation(np.arange(n) % 2).astype(np.int64)


def signed_examples(name: str, x: Vectors, y: npt.NDArray[np.int64]) -> Examples:
    """Build a ±1 problem of vectors (n, dim) and labels (n,), 0 for -1 and 1 for +1.

    The test part repeats the training part: these sets test how a network fits, not how it
    generalises, and random labels offer nothing to generalise.
    """
    inputs = np.ascontiguousarray(x, dtype=np.float32)
    digest = hashlib.sha256(f"{name} {x.shape}".encode())
    digest.update(inputs.data)
    digest.update(y.data)
    fingerprint = digest.hexdigest()
    return Examples(inputs, y, inputs, y, ("-1", "+1"), name, fingerprint, signed=True)
