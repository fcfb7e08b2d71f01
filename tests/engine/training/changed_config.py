"""A configuration in which some settings are others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dgn_engine.config import RunConfig


def change_config(config: RunConfig, **parts: Any) -> RunConfig:
    """`change_config(BASE, net={'bias': True}, seed=3)`."""
    whole = {
        name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }
    return replace(config, **whole)
