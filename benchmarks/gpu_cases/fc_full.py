"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import fc_full

CASE = replace(fc_full.CASE, rank=3, dry=8)
