"""What a network is made of: a chain of nodes, the same for its feature and its value network."""

from dgn_engine.architecture.chain import Architecture
from dgn_engine.architecture.nodes import (
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Pooling,
    Weighted,
    fan_in,
    weight_shape,
)

__all__ = [
    "Architecture",
    "AveragePool",
    "Conv",
    "Dense",
    "Flatten",
    "Fork",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
    "Merge",
    "Node",
    "Pooling",
    "Weighted",
    "fan_in",
    "weight_shape",
]
