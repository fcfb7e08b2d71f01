"""A step of a dense network at batch 32: captured as CUDA graphs, and hand-tuned eager."""

from __future__ import annotations

from benchmarks.case import Case, Faster, Method
from benchmarks.cases.train_step_fc import PREPARE, compute_floor

CASE = Case(
    title="DGN 784-128×5-10, training in DL, batch 32, an epoch of 200 steps",
    n=6400,
    quick=640,
    methods=tuple(Method(name, PREPARE[name]) for name in ("dgn_engine", "hand-tuned eager")),
    bars=(Faster("hand-tuned eager", 5.0),),
    agreement=1e-2,
    rank=1,
    dry=320,
    floor=compute_floor,
)
