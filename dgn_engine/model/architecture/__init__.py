"""What a network is made of: a chain of nodes, the same for its feature and its value network."""

from dgn_engine.model.architecture.chain import Architecture, is_gated
from dgn_engine.model.architecture.nodes import (
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    Gating,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Pooling,
    Skip,
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
    "Gating",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
    "Merge",
    "Node",
    "Pooling",
    "Skip",
    "Weighted",
    "fan_in",
    "is_gated",
    "weight_shape",
]
