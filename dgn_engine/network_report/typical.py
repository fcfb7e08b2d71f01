"""The typical values of the documentation: ranges over ten seeds of trained networks.

They are those of the tables on the pages about concepts, at the end of training; a test compares
them. Each quantity has, for the regimes that were measured, the range on the digits and then, where
it was measured, that on MNIST.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from dgn_engine.regimes import Regime

DATA = ("digits", "MNIST")


@cache
def typical_values() -> dict[str, dict[str, list[str]]]:
    """Return the ranges by quantity and regime, one for each of `DATA`."""
    text = (files("dgn_resources") / "typical_values.json").read_text(encoding="utf-8")
    values: dict[str, dict[str, list[str]]] = json.loads(text)
    return values


def typical_range(quantity: str, regime: Regime, unit: str = "") -> str:
    """Return '0.39 to 0.52 (digits), 0.43 to 0.56 (MNIST)' for trained networks of this regime.

    Args:
        quantity: A key of `typical_values`.
        regime: The regime of the network.
        unit: Follows each range.

    Returns:
        The ranges; '' if no network of this regime was measured.
    """
    ranges = typical_values()[quantity].get(regime.name, [])
    return ", ".join(f"{ends}{unit} ({name})" for ends, name in zip(ranges, DATA, strict=False))
