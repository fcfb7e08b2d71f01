"""Two points on one ray with opposite labels: (x, +1) and (x/2, -1) ([DGN]).

A bias-free ReLU network is positively homogeneous, ŷ(x/2) = ŷ(x)/2, and cannot fit both.
"""

from __future__ import annotations

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import Setting
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Report
from dgn_engine.data._variants import frozen_stream
from dgn_engine.data._vectors import signed_examples, unit_vector


def load_hard_pair(config: DataConfig, _report: Report) -> Examples:
    """Generate (2, dim): a random unit vector by `variant_seed`, and half of it."""
    dim = int(dict(config.options)["dim"])
    x = unit_vector(dim, frozen_stream("hard", config.variant_seed))
    return signed_examples("hard", np.stack([x, x / 2]), np.array([1, 0]))


def _hard_sizes(config: DataConfig) -> DataSizes:
    return DataSizes(2, 2, (int(dict(config.options)["dim"]),), 1)


DATA = DataSet(
    "Two points on one ray",
    load_hard_pair,
    "Generated on demand.",
    (Setting("dim", "dimension", 2, least=1, most=100_000),),
    sizes=_hard_sizes,
)
