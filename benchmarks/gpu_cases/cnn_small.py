"""A kernel on the card against torch.func on the card: the case of `make bench`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import cnn_small

CASE = replace(cnn_small.CASE, rank=4, dry=4)
