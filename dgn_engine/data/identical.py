"""n copies of one unit vector with random labels: x_s = x for all s ([DGN], spectrum of FRG).

Only gates that differ between examples (FRG) can tell them apart.
"""

from __future__ import annotations

import numpy as np

from dgn_engine.config import DataConfig
from dgn_engine.data._dataset import DataSet, Examples, Report
from dgn_engine.data._variants import frozen_stream
from dgn_engine.data._vectors import (
    COUNT,
    DIMENSION,
    balanced_labels,
    signed_examples,
    unit_vector,
    vector_counts,
    vector_sizes,
)


def load_identical(config: DataConfig, _report: Report) -> Examples:
    """Generate (n, dim) inputs by `variant_seed`."""
    n, dim = vector_counts(config)
    x = unit_vector(dim, frozen_stream("identical", config.variant_seed))
    return signed_examples(
        "identical", np.tile(x, (n, 1)), balanced_labels("identical", n, config.variant_seed)
    )


DATA = DataSet(
    "Identical inputs",
    load_identical,
    "Generated on demand.",
    (COUNT, DIMENSION),
    sizes=vector_sizes,
)
