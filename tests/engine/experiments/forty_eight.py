"""The models of [DUAL] Experiment 1, and the numbers published for them."""

from __future__ import annotations

from itertools import permutations

EIGHT = ("0123", "0321", "1230", "1032", "2301", "2103", "3012", "3210")  # orders at quick
ALL = tuple("".join(map(str, order)) for order in permutations(range(4)))
REGIMES, INPUTS = ("FR-II", "FR-DI", "FL", "DL"), {"image": "x", "ones": "1"}
FC_PRINTED = {"FR-II": 94.1, "FR-DI": 94.1, "FL": 98.6, "DL": 98.1, "ReLU": 98.5}
CNN_PRINTED = {"FR-II": 67.5, "FR-DI": 67.6, "FL": 79.4, "DL": 77.6, "ReLU": 80.4}
