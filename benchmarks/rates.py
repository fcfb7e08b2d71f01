"""Measure the peak rates of a device: products of square matrices, and a large copy.

`python -m benchmarks.rates --out F.json` writes FLOP/s for float32, tf32, bf16 and float64, and
bytes/s for 'copy', counting bytes read and bytes written.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch

from dgn_engine.kernels.precision import Products, float32_products

REPEATS, CALLS = 5, 10
WARM_UP = 1.0  # seconds
TYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "float64": torch.float64,
}


def measure_rates(device: torch.device) -> dict[str, float]:
    """Return the best of a few repeats of each rate. A CPU uses smaller matrices."""
    on_card = device.type == "cuda"
    side = {torch.bfloat16: 8192} if on_card else {}
    rates = {}
    if on_card:
        _raise_clocks(device)
    for name, dtype in TYPES.items():
        n = side.get(dtype, 4096 if on_card else 1024)
        left, right = (torch.randn((n, n), device=device).to(dtype) for _ in range(2))
        result = torch.empty_like(left)
        kind: Products = "tf32" if name == "tf32" else "ieee"
        with float32_products(kind):
            seconds = _measure_best(lambda a=left, b=right, c=result: torch.mm(a, b, out=c), device)
        rates[name] = 2.0 * n**3 / seconds
    source = torch.zeros((1 << 30) if on_card else (1 << 25), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    rates["copy"] = 2.0 * source.numel() / _measure_best(lambda: target.copy_(source), device)
    return rates


def _raise_clocks(device: torch.device) -> None:
    """Keep the card busy until its clocks are up; otherwise the first rate would be too low."""
    matrix = torch.zeros((4096, 4096), device=device)
    began = time.perf_counter()
    while time.perf_counter() - began < WARM_UP:
        torch.mm(matrix, matrix)
        _wait_for_card(device)


def _measure_best(work: Callable[[], object], device: torch.device) -> float:
    """Return the least seconds per call, after warming up. On CUDA each repeat synchronises only
    once, so that launch overhead is hidden."""
    calls, repeats = (CALLS, REPEATS) if device.type == "cuda" else (1, 3)

    def repeat() -> float:
        _wait_for_card(device)
        began = time.perf_counter()
        for _ in range(calls):
            work()
        _wait_for_card(device)
        return (time.perf_counter() - began) / calls

    repeat()
    return min(repeat() for _ in range(repeats))


def _wait_for_card(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    rates = measure_rates(torch.device(options.device))
    options.out.write_text(json.dumps(rates), encoding="utf-8")


if __name__ == "__main__":
    main()
