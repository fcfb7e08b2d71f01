"""A step of a dense network at batch 32: captured as CUDA graphs, and hand-tuned eager."""

from __future__ import annotations

from benchmarks.case import Amounts, Case, Faster, Method
from benchmarks.cases.train_step_fc import PREPARE
from benchmarks.floors import count_training_work
from benchmarks.networks import dense_architecture
from benchmarks.training_epochs import BATCH, CLASSES, CONFIG


def _floor(n: int) -> Amounts:
    return count_training_work(CONFIG, dense_architecture(CLASSES), n, n // BATCH)


CASE = Case(
    title="DGN 784-128×5-10, training in DL, batch 32, an epoch of 200 steps",
    n=6400,
    quick=640,
    methods=tuple(Method(name, PREPARE[name]) for name in ("dgn_engine", "hand-tuned eager")),
    bars=(Faster("hand-tuned eager", 5.0),),
    agreement=1e-2,
    rank=1,
    dry=320,
    floor=_floor,
)
