"""Many dense networks trained as one batched stack on one device, equal to one after another."""

from dgn_engine.packed.grouping import packable, why_not
from dgn_engine.packed.jobs import Job, Packed, Progress
from dgn_engine.packed.training import train_pack

__all__ = ["Job", "Packed", "Progress", "packable", "train_pack", "why_not"]
