"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import fc_mean

CASE = replace(fc_mean.CASE, rank=5, dry=8)
