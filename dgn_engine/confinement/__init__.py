"""Confine a process that parses untrusted bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One layer of confinement: whether it holds here, and what it does, or why it fails."""

    holds: bool
    about: str
