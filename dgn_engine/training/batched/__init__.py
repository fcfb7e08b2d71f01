"""Many dense networks trained as one batched stack on one device, equal to one after another.

MNIST, w = 128, d = 5, batch 32, Adam, one busy core (load 6 to 11 on two), processor time,
network-steps a second by autograd alone → 24 in a stack: ReLU 415 → 1191, FR-II 293 → 1271, DL
199 → 563. Against the step by hand there is less to save: docs/performance.md.
"""

from dgn_engine.training.batched.stack_groups import packable, why_not
from dgn_engine.training.batched.stack_member import Job, JobProgress, JobResult
from dgn_engine.training.batched.train_stack import train_pack

__all__ = ["Job", "JobProgress", "JobResult", "packable", "train_pack", "why_not"]
