"""Points of the plane in two classes: shared code of the data sets for teaching.

Each example is (x, y, 1): networks have no biases (theory §1), and without the constant every
region would be a cone from the origin. It acts as a bias of the first layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import Setting
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Labels, Report
from dgn_engine.data._variants import frozen_stream

Points = npt.NDArray[np.float64]
Draw = Callable[[Labels, np.random.RandomState], Points]
"""Draws points (n, 2), roughly within ±1, for labels 0 or 1, before noise is added."""

COUNT = Setting("n", "training points n", 400, least=4, most=100_000)
NOISE = Setting("noise", "noise (standard deviation)", 0.08, least=0.0, most=2.0)
TEST = 400  # test points, drawn in the same way


def plane_set(name: str, title: str, draw: Draw) -> DataSet:
    """Return the data set of points that `draw` generates, with balanced classes."""

    def load(config: DataConfig, _report: Report) -> Examples:
        options = dict(config.options)
        seed, noise = config.variant_seed, float(options["noise"])
        parts = [
            _draw_part(draw, count, noise, frozen_stream(name, what, seed))
            for what, count in (("train", int(options["n"])), ("test", TEST))
        ]
        digest = hashlib.sha256(name.encode())
        for x, y in parts:
            digest.update(str(x.shape).encode())
            digest.update(x.data)
            digest.update(y.data)
        (train_x, train_y), (test_x, test_y) = parts
        classes = ("first", "second")
        return Examples(train_x, train_y, test_x, test_y, classes, name, digest.hexdigest())

    def sizes(config: DataConfig) -> DataSizes:
        return DataSizes(int(dict(config.options)["n"]), TEST, (3,), 2)

    hint = "Generated on demand."
    return DataSet(title, load, hint, (COUNT, NOISE), sizes=sizes, plane=True)


def _draw_part(
    draw: Draw, count: int, noise: float, stream: np.random.RandomState
) -> tuple[npt.NDArray[np.float32], Labels]:
    labels = stream.permutation(np.arange(count) % 2).astype(np.int64)
    points = draw(labels, stream) + noise * stream.normal(size=(count, 2))
    x = np.ones((count, 3), dtype=np.float32)
    x[:, :2] = points
    return x, labels
