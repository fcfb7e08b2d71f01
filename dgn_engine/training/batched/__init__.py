"""Train many dense networks as one batched stack, equivalent to training one after another.

Network-steps per second of processor time, by autograd one by one → 24 in a stack (MNIST, w = 128,
d = 5, batch 32, Adam, one busy core): ReLU 415 → 1191, FR-II 293 → 1271, DL 199 → 563. The
hand-written dense step leaves less to gain: docs/performance.md.
"""

from dgn_engine.training.batched.stack_groups import group_into_packs, reason_not_packed
from dgn_engine.training.batched.stack_member import Job, JobProgress, JobResult
from dgn_engine.training.batched.train_stack import train_pack

__all__ = ["Job", "JobProgress", "JobResult", "group_into_packs", "reason_not_packed", "train_pack"]
