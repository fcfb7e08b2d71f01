"""The typical values of the documentation: ranges over ten seeds of trained networks.

They are those of the tables on the pages about concepts, `MNIST` and `digits`, at the end of
training; a test compares them.
"""

from __future__ import annotations

from typing import Literal

from dgn_engine.regimes import Regime

Kind = Literal["ReLU", "DL", "FR-II"]

# By quantity and kind of network; the digits first, then MNIST where it was measured.
VALUES: dict[str, dict[Kind, tuple[str, ...]]] = {
    "open": {
        "DL": ("50 to 71", "53 to 71"),
        "ReLU": ("46 to 75", "54 to 65"),
        "FR-II": ("39 to 60",),
    },
    "active_same": {
        "DL": ("0.69 to 0.82", "0.47 to 0.55"),
        "ReLU": ("0.59 to 0.69", "0.36 to 0.42"),
        "FR-II": ("0.37 to 0.59",),
    },
    "active_other": {
        "DL": ("0.38 to 0.59", "0.34 to 0.40"),
        "ReLU": ("0.35 to 0.43", "0.19 to 0.23"),
        "FR-II": ("0.23 to 0.49",),
    },
    "sensitive_same": {
        "DL": ("0.42 to 0.50", "0.25 to 0.30"),
        "ReLU": ("0.14 to 0.20", "0.07 to 0.09"),
        "FR-II": ("0.07 to 0.20",),
    },
    "sensitive_other": {
        "DL": ("0.19 to 0.24", "0.16 to 0.20"),
        "ReLU": ("0.05 to 0.06", "0.03"),
        "FR-II": ("0.03 to 0.13",),
    },
    "nu": {
        "DL": ("0.41 to 0.62", "0.50 to 0.69"),
        "ReLU": ("0.39 to 0.52", "0.43 to 0.56"),
        "FR-II": ("0.48 to 0.65",),
    },
    "effective_rank": {
        "DL": ("4.5 to 8.1", "14.6 to 19.5"),
        "ReLU": ("6.8 to 8.8", "25.7 to 32.2"),
        "FR-II": ("6.5 to 16.5",),
    },
    "feature_share": {"DL": ("1.7 to 2.8", "2.3 to 2.9")},
}


def typical_range(quantity: str, regime: Regime, unit: str = "") -> str:
    """Return '0.39 to 0.52 (digits), 0.43 to 0.56 (MNIST)' for trained networks of this kind.

    Args:
        quantity: A key of `VALUES`.
        regime: The regime of the network.
        unit: Follows each range.

    Returns:
        The ranges; '' if no network of this kind was measured.
    """
    kind = _kind_of(regime)
    ranges = VALUES[quantity].get(kind, ()) if kind else ()
    return ", ".join(
        f"{ends}{unit} ({name})" for ends, name in zip(ranges, ("digits", "MNIST"), strict=False)
    )


def _kind_of(regime: Regime) -> Kind | None:
    """Return the measured regime whose gates are made in the same way; None if there is none."""
    if regime.name in ("ReLU", "DL", "FR-II"):
        return regime.name  # type: ignore[return-value]  # one of these names
    return None
