"""Measure the peak rates of a device: products of square matrices, a large copy, counted bits.

`python -m benchmarks.rates --out F.json` writes FLOP/s for float32, bf16, float64 and on a card
tf32, bytes/s for 'copy', counting bytes read and bytes written, and on a CPU words/s for
'popcount': two words of 64 bits are combined by 'and', and their common bits counted and added up.
A CPU is timed like its cases, by processor seconds, so its rates are those of one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.timing import make_timer
from dgn_engine.kernels.precision import Products, float32_products

REPEATS, CALLS = 10, 10  # the latter on a card
WARM_UP = 1.0  # seconds
TYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "float64": torch.float64,
}
SIDE, SIDE_ON_CARD = 1536, 4096  # of the matrices: too large for a cache unless in blocks
SIDE_OF_BF16 = 8192  # on a card
COPIED, COPIED_ON_CARD = 1 << 27, 1 << 30  # bytes: larger than any cache
WORDS, PASSES = 512, 20_000  # words that fit in the first cache, and how often they are counted

Words = npt.NDArray[np.uint64]


def measure_rates(device: torch.device) -> dict[str, float]:
    """Return the best of a few repeats of each rate."""
    on_card = device.type == "cuda"
    rates = {}
    if on_card:
        _raise_clocks(device)
    for name, dtype in TYPES.items():
        if name == "tf32" and not on_card:
            continue
        n = (SIDE_OF_BF16 if dtype == torch.bfloat16 else SIDE_ON_CARD) if on_card else SIDE
        left, right = (torch.randn((n, n), device=device).to(dtype) for _ in range(2))
        kind: Products = "tf32" if name == "tf32" else "ieee"
        with float32_products(kind):
            seconds = [_measure_best(work, device) for work in _list_products(left, right)]
        rates[name] = 2.0 * n**3 / min(seconds)
    source = torch.zeros(COPIED_ON_CARD if on_card else COPIED, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    rates["copy"] = 2.0 * source.numel() / _measure_best(lambda: target.copy_(source), device)
    if not on_card:
        rates["popcount"] = _measure_popcount()
    return rates


def _list_products(left: Tensor, right: Tensor) -> list[Callable[[], object]]:
    """Return calls of every library that multiplies matrices of this type here."""
    result = torch.empty_like(left)
    calls: list[Callable[[], object]] = [lambda: torch.mm(left, right, out=result)]
    if left.device.type == "cpu" and left.dtype == torch.float32:
        onednn = torch.ops.mkldnn._linear_pointwise  # as in `kernels/gram.py`
        try:
            onednn(left[:8, :8], right[:8, :8], None, "none", [], "")
        except (AttributeError, RuntimeError):
            return calls
        calls.append(lambda: onednn(left, right, None, "none", [], ""))
    return calls


def make_bit_counter() -> Callable[[Words, Words, int], int]:
    """Return a compiled function (one, two, passes) that counts the bits that words of `one`, four
    in each pass, have in common with all words of `two`.

    Four words stay in registers, so that loading words is not what limits the rate. LLVM makes one
    instruction of `count_bits` where the processor has it.
    """
    import numba  # late: not needed for a card

    ones, twos = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    fours, sums = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
    by_1, by_2, by_4, by_56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]  # numba has no types
    def count_bits(v: Any) -> Any:
        v = v - ((v >> by_1) & ones)
        v = (v & twos) + ((v >> by_2) & twos)
        v = (v + (v >> by_4)) & fours
        return (v * sums) >> by_56

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]  # numba has no types
    def count_common_bits(one: Any, two: Any, passes: int) -> Any:
        total = np.uint64(0)
        for step in range(passes):
            at = step % (len(one) - 3)
            a, b, c, d = one[at], one[at + 1], one[at + 2], one[at + 3]
            for index in range(len(two)):
                word = two[index]
                total += count_bits(a & word) + count_bits(b & word)
                total += count_bits(c & word) + count_bits(d & word)
        return total

    return lambda one, two, passes: int(count_common_bits(one, two, passes))


def _measure_popcount() -> float:
    """Return words/s; compiling takes half a second."""
    draw = np.random.default_rng(0)
    one, two = (draw.integers(0, 1 << 63, size, dtype=np.uint64) for size in (64, WORDS))
    count = make_bit_counter()
    seconds = _measure_best(lambda: count(one, two, PASSES), torch.device("cpu"))
    return 4.0 * WORDS * PASSES / seconds


def _raise_clocks(device: torch.device) -> None:
    """Keep the card busy until its clocks are up; otherwise the first rate would be too low."""
    matrix = torch.zeros((4096, 4096), device=device)
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_UP:
        torch.mm(matrix, matrix)
        torch.cuda.synchronize()


def _measure_best(work: Callable[[], object], device: torch.device) -> float:
    """Return the least seconds per call, after warming up. On CUDA each repeat synchronises only
    once, so that launch overhead is hidden."""
    calls = CALLS if device.type == "cuda" else 1

    def repeat() -> None:
        for _ in range(calls):
            work()

    repeat()
    timer = make_timer(repeat, device)
    return min(timer()[0] for _ in range(REPEATS)) / calls


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    rates = measure_rates(torch.device(options.device))
    options.out.write_text(json.dumps(rates), encoding="utf-8")


if __name__ == "__main__":
    main()
