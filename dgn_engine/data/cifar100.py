"""CIFAR-100: 60,000 photographs in a hundred classes, 3×32×32 (Krizhevsky 2009)."""

from __future__ import annotations

from dgn_engine.data._cifar import CifarSet

DATA = CifarSet("cifar100", "CIFAR-100", "CIFAR100", "cifar-100-python", "fine_labels").data_set()
