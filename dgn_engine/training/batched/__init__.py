"""Train many dense networks as one batched stack, equivalent to training one after another.

Against steps by autograd a stack is three to four times as fast (MNIST, w = 128, d = 5, batch 32,
Adam, one busy core). Against the hand-written dense step it gains little from width 64 on:

- Products take half of a packed step, Adam a quarter to a third. Neither shrinks by stacking, as
  each network has its own weights.
- A network that takes many steps in a row keeps weights, gradients and moments in the cache (5 MB
  in DL at w = 128); a stack reads all of them from memory at every step. Adam takes 0.7 ns a weight
  of one network and 1.0 ns of a stack of 24. That uses up the 0.4 ms of Python that a stack saves.
- On a busy machine, where other programs empty the cache anyway, the stack wins (1.5 times).

`steps/choice.py` has the table of gains, `python -m benchmarks.sweep_on_cores` measures them.
"""

from dgn_engine.training.batched.stack_groups import group_into_packs, reason_not_packed
from dgn_engine.training.batched.stack_member import Job, JobProgress, JobResult
from dgn_engine.training.batched.train_stack import train_pack

__all__ = ["Job", "JobProgress", "JobResult", "group_into_packs", "reason_not_packed", "train_pack"]
