"""Train many dense networks as one batched stack, equivalent to training one after another.

On a CPU, a stack is 1.5 to 5 times as fast as single networks of a width up to 16 or 32, and gains
little from width 64 on:

- Products take half of a packed step, Adam a quarter to a third. Neither shrinks by stacking, as
  each network has its own weights.
- A network that takes many steps in a row keeps weights, gradients and moments in the cache (5 MB
  in DL at w = 128); a stack reads all of them from memory at every step. Adam takes 0.7 ns a weight
  of one network and 1.0 ns of a stack of 24. That uses up the 0.4 ms of Python that a stack saves.

`steps/choice.py` has the table of gains, `python -m benchmarks.sweep_on_cores` measures them. On a
card a stack shares the launches of kernels (18.5 times as fast on an H100, w = 128).
"""

from dgn_engine.training.batched.stack_groups import group_into_packs, reason_not_packed
from dgn_engine.training.batched.stack_member import Job, JobProgress, JobResult
from dgn_engine.training.batched.train_stack import train_pack

__all__ = ["Job", "JobProgress", "JobResult", "group_into_packs", "reason_not_packed", "train_pack"]
