"""CIFAR-10: 60,000 photographs in ten classes, 3×32×32 (Krizhevsky 2009)."""

from __future__ import annotations

from dgn_engine.data._cifar import CifarSet

DATA = CifarSet("cifar10", "CIFAR-10", "CIFAR10", "cifar-10-batches-py", "labels").data_set()
