"""What a run sets in the thread that trains it."""

from __future__ import annotations

import threading

import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.training.devices import set_threads


def smallest_kept(prepare) -> float:
    """2⁻¹⁴⁰ through one multiplication, in a thread of its own."""
    found: list[float] = []

    def work():
        prepare()
        found.append(float(torch.full((64,), 2.0**-70) @ torch.full((64,), 2.0**-70)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def test_numbers_too_small_for_a_normalised_float_are_zero_where_a_run_trains():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    torch.set_flush_denormal(False)
    architecture = build_architecture(NetConfig(), (64,), 10)
    assert smallest_kept(lambda: torch.set_flush_denormal(False)) > 0
    assert smallest_kept(lambda: set_threads(architecture)) == 0
