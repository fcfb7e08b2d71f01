"""MNIST: 70,000 handwritten digits, 28×28 (LeCun, Cortes & Burges)."""

from __future__ import annotations

from dgn_engine.data._idx import IdxSet

DATA = IdxSet("mnist", "MNIST", "MNIST", tuple(str(digit) for digit in range(10))).data_set()
