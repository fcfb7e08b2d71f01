"""Confines a process that parses untrusted bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One of the means by which a process is confined: does it hold here, and what it is, or why
    it does not."""

    holds: bool
    about: str
