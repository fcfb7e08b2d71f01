"""Networks by name; one file each with the constant NET."""

from __future__ import annotations

from dgn_engine.model.nets._net import Net
from dgn_engine.plugins import discover_plugins

__all__ = ["Net", "all_nets"]


def all_nets() -> dict[str, Net]:
    """Return all networks.

    Returns:
        Networks by name, which is that of their file.
    """
    return discover_plugins("dgn_engine.model.nets", "NET", Net)
