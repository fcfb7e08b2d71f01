"""The typical values of the documentation: ranges over ten seeds of trained networks.

They are those of the tables on the pages about concepts, `MNIST` and `digits`, at the end of
training; a test compares them.
"""

from __future__ import annotations

from typing import Literal

from dgn_engine.network_report.section import Form, write_range
from dgn_engine.regimes import Regime

Kind = Literal["ReLU", "DL", "FR-II"]
Range = tuple[float, float]

# By quantity and kind of network; the digits first, then MNIST where it was measured.
VALUES: dict[str, dict[Kind, tuple[Range, ...]]] = {
    "open": {
        "DL": ((0.50, 0.71), (0.53, 0.71)),
        "ReLU": ((0.46, 0.75), (0.54, 0.65)),
        "FR-II": ((0.39, 0.60),),
    },
    "active_same": {
        "DL": ((0.69, 0.82), (0.47, 0.55)),
        "ReLU": ((0.59, 0.69), (0.36, 0.42)),
        "FR-II": ((0.37, 0.59),),
    },
    "active_other": {
        "DL": ((0.38, 0.59), (0.34, 0.40)),
        "ReLU": ((0.35, 0.43), (0.19, 0.23)),
        "FR-II": ((0.23, 0.49),),
    },
    "sensitive_same": {
        "DL": ((0.42, 0.50), (0.25, 0.30)),
        "ReLU": ((0.14, 0.20), (0.07, 0.09)),
        "FR-II": ((0.07, 0.20),),
    },
    "sensitive_other": {
        "DL": ((0.19, 0.24), (0.16, 0.20)),
        "ReLU": ((0.05, 0.06), (0.03, 0.03)),
        "FR-II": ((0.03, 0.13),),
    },
    "nu": {
        "DL": ((0.41, 0.62), (0.50, 0.69)),
        "ReLU": ((0.39, 0.52), (0.43, 0.56)),
        "FR-II": ((0.48, 0.65),),
    },
    "effective_rank": {
        "DL": ((4.5, 8.1), (14.6, 19.5)),
        "ReLU": ((6.8, 8.8), (25.7, 32.2)),
        "FR-II": ((6.5, 16.5),),
    },
    "feature_share": {"DL": ((1.7, 2.8), (2.3, 2.9))},
}


def typical_range(quantity: str, regime: Regime, form: Form = "decimals") -> str:
    """Return '0.39 to 0.52 (digits), 0.43 to 0.56 (MNIST)' for trained networks of this kind.

    Args:
        quantity: A key of `VALUES`.
        regime: The regime of the network.
        form: How the values are written.

    Returns:
        The ranges; '' if no network of this kind was measured.
    """
    ranges = VALUES[quantity].get(_kind_of(regime) or "ReLU", ()) if _kind_of(regime) else ()
    names = ("digits", "MNIST")
    return ", ".join(
        f"{write_range(*ends, form)} ({name})" for ends, name in zip(ranges, names, strict=False)
    )


def _kind_of(regime: Regime) -> Kind | None:
    """Return the measured regime whose gates are made in the same way; None if there is none."""
    if regime.name in ("ReLU", "DL", "FR-II"):
        return regime.name  # type: ignore[return-value]  # one of these names
    return None
