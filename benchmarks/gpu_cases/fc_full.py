"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from benchmarks.cases.fc_full import CASE

__all__ = ["CASE"]
