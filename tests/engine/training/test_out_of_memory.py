"""Out of memory: probes take fewer examples and say so, training stops with a batch that fits."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import out_of_memory
from dgn_engine.training.out_of_memory import is_out_of_memory
from dgn_engine.training.probes import ProbeContext, ProbeResult
from dgn_engine.training.run import Run, batch_that_fits
from dgn_engine.training.steps.dense_step import DenseStep
from tests.refusals import refused, refused_command

Make = Callable[..., Run]
SMALL = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(epochs=1, learning_rate=1e-3),
    probe_examples=20,
)
ON_THE_CPU = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError(ON_THE_CPU),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)"),
        MemoryError(),
    ],
)
def test_what_says_that_memory_is_over_is_known(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_real_allocation_that_is_too_large_is_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def test_what_only_garbage_holds_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_memory, "gc", gc)
    ring: list[object] = [large := torch.zeros(8)]
    ring.append(ring)
    held = weakref.ref(large)
    del ring, large
    out_of_memory.free_memory()
    assert held() is None


def hungry(run: Run, probe: str, most: int) -> None:
    """The probe runs out of memory with more examples than `most`."""
    known = run.probe_schedule._probes[probe]

    def read(context: ProbeContext, options: object, memory: object) -> ProbeResult:
        if len(context.x) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return known.read(context, options, memory)  # type: ignore[arg-type]

    run.probe_schedule._probes[probe] = replace(known, read=read)


def test_a_probe_without_memory_sees_half_of_its_examples_and_says_so(make_run: Make) -> None:
    run = make_run("DL", replace(SMALL, probe_examples=64))
    hungry(run, "npk", 40)
    run.probe_schedule.watch((ProbeRequest("npk"), ProbeRequest("gates")))
    run.probe_schedule.read_probes(("npk", "gates"), run.probed.probe_context(), 0)
    readings = run.probe_schedule.readings
    assert "halved to 32:" in readings["npk"].remark
    assert readings["gates"].remark == ""
    assert readings["gates"].arrays["layer_0"].shape[0] == 64
    whole = make_run("DL", replace(SMALL, probe_examples=64))
    whole.probe_schedule.watch((ProbeRequest("npk"),))
    whole.probe_schedule.read_probes(("npk",), whole.probed.probe_context(), 0)
    for name, array in readings["npk"].arrays.items():
        if array.shape == (32, 32):  # each second example, classes in their order
            wanted = whole.probe_schedule.readings["npk"].arrays[name][::2, ::2]
            trace = np.trace(wanted) / np.trace(array)  # kernels are shown with trace 1
            assert np.allclose(array * trace, wanted, rtol=1e-5), name
    assert any(array.shape == (32, 32) for array in readings["npk"].arrays.values())
    assert run.config.training.batch == SMALL.training.batch


def narrow(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Passes of more examples than `most` run out of memory."""
    forward = GatedNetwork.forward

    def limited(network: GatedNetwork, x: torch.Tensor) -> torch.Tensor:
        if len(x) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(network, x)

    by_hand = DenseStep.__call__

    def limited_step(
        step: DenseStep, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if len(x) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return by_hand(step, x, y)

    monkeypatch.setattr(GatedNetwork, "forward", limited)
    monkeypatch.setattr(DenseStep, "__call__", limited_step)


def test_a_batch_that_fits_is_found_by_trying_and_changes_nothing(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, twin = make_run(), make_run()
    narrow(monkeypatch, 9)
    assert batch_that_fits(run.trainer, 16) == 8
    narrow(monkeypatch, 0)
    assert batch_that_fits(run.trainer, 16) == 0
    monkeypatch.undo()
    for one in (run, twin):
        one.step()
    for name, tensor in twin.trainer.tensors().items():
        assert torch.equal(run.trainer.tensors()[name], tensor), name


def test_a_test_pass_takes_fewer_examples_at_once_where_memory_is_short(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    wanted = run.trainer.test_score()
    narrow(monkeypatch, 100)
    found = run.trainer.test_score()
    assert found.accuracy == wanted.accuracy
    assert found.loss == pytest.approx(wanted.loss, rel=1e-6)
    narrow(monkeypatch, 0)
    with pytest.raises(torch.OutOfMemoryError):
        run.trainer.test_score()


def test_a_network_that_does_not_fit_is_refused_and_the_old_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, make_run: Make
) -> None:
    def too_much(*_: object) -> None:
        raise RuntimeError(ON_THE_CPU)

    monkeypatch.setattr("dgn_engine.training.run.Trainer", too_much)
    with refused("no-memory"):
        make_run()


def test_dgn_train_says_in_one_sentence_that_it_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    narrow(monkeypatch, 9)
    folder = tmp_path / "run"
    small = ["--width", "16", "--depth", "4", "--epochs", "1", "--quiet"]
    refusal = refused_command("train", *small, "--out", folder)
    assert (refusal.kind, refusal.value, refusal.details) == ("no-memory", 8, ())
    assert RunReader(folder).status == "failed"
