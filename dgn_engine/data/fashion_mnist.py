"""Fashion-MNIST: 70,000 pieces of clothing in MNIST's format (Xiao, Rasul & Vollgraf 2017)."""

from __future__ import annotations

from dgn_engine.data._idx import IdxSet

CLASS_NAMES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

DATA = IdxSet("fashion-mnist", "Fashion-MNIST", "FashionMNIST", CLASS_NAMES).data_set()
