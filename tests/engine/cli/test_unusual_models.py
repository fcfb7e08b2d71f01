"""`dgn kernels --model` of modules that torch or their own form make difficult."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.cli import main
from dgn_engine.protocol.frames import Array
from tests.engine.cli.typed import read_arrays, read_settings
from tests.engine.cli.user_code import command_words, compute_kernels, refused_kernels, write_code
from tests.engine.kernels.unusual_modules import (
    ENDS,
    UNUSUAL,
    Ended,
    dense,
    in_double,
    make_unusual,
    real_jacobian,
    unusual_examples,
)

N = 5
BUILDERS = """
import torch
from torch import nn
from tests.engine.kernels.unusual_modules import *
"""


def asked_of(folder: Path, body: str) -> str:
    """The name of a function with this body for --model."""
    return f"{write_code(folder, f'{BUILDERS}def made():{chr(10)}    {body}{chr(10)}')}:made"


def autograd(module: nn.Module, name: str = "", body: nn.Module | None = None) -> Array:
    J = real_jacobian(module, unusual_examples(name, N), body)
    return np.asarray(torch.einsum("scp,tcp->st", J, J) / J.shape[1])


def close(one: Array, two: Array, rtol: float) -> None:
    np.testing.assert_allclose(one, two, rtol=rtol, atol=rtol * np.abs(two).max())


@pytest.mark.parametrize("name", list(UNUSUAL))
def test_k_of_an_unusual_model_is_that_of_autograd(folder: Path, name: str) -> None:
    np.save("x.npy", unusual_examples(name, N).numpy())
    model = asked_of(folder, f"return make_unusual({name!r})")
    exact = autograd(in_double(make_unusual(name)), name)
    arrays, settings = compute_kernels(model)
    close(arrays["ntk"], exact, 1e-12)
    assert settings["computed_by"] == "empirical_ntk"
    if name == "complex":  # each such number counts as two, and keeps its imaginary part
        assert settings["parameters"] == settings["trained_parameters"] == 2 * 6 * 3 + 3
    rough, _ = compute_kernels(model, "--dtype", "float32")
    assert rough["ntk"].dtype == np.float32
    close(rough["ntk"], exact, 2e-5)


@pytest.mark.parametrize("name", list(ENDS))
@pytest.mark.parametrize("act", ["GELU", "ReLU"])
def test_k_is_of_the_logits_before_a_softmax_and_a_note_says_so(
    folder: Path, name: str, act: str
) -> None:
    np.save("x.npy", unusual_examples("", N).numpy())
    seeded = f"torch.manual_seed(0); return Ended(dense(nn.{act}), ENDS[{name!r}])"
    arrays, settings = compute_kernels(asked_of(folder, seeded))
    torch.manual_seed(0)
    module = Ended(dense(getattr(nn, act)), ENDS[name]).double().eval()
    close(arrays["ntk"], autograd(module, body=module.body), 1e-12)
    assert settings["computed_by"] == ("adapt" if act == "ReLU" else "empirical_ntk")
    kind = " LogSoftmax " if "og" in name or "method" in name else " Softmax "
    assert any(kind in note for note in settings["notes"])


@pytest.mark.parametrize("end", ["LogSoftmax", "Softmax"])
def test_a_module_and_its_file_have_the_same_kernels(folder: Path, end: str) -> None:
    np.save("x.npy", unusual_examples("", N).numpy())
    seeded = f"torch.manual_seed(0); return nn.Sequential(*dense(nn.ReLU), nn.{end}(1))"
    by_model, of_model = compute_kernels(asked_of(folder, seeded))
    torch.manual_seed(0)
    torch.save(nn.Sequential(*dense(nn.ReLU), getattr(nn, end)(1)), "whole.pt")
    assert main(["kernels", "whole.pt", "--inputs", "x.npy", "--out", "k.npz"]) == 0
    by_file = read_arrays("k.npz")
    for kernel in ("overlap", "npk", "ntk"):
        close(by_model[kernel], by_file[kernel], 1e-12)
    (said,) = (note for note in of_model["notes"] if f" {end} " in note)
    assert said in read_settings("k.npz")["notes"]


def test_outputs_that_are_probabilities_otherwise_are_said(folder: Path) -> None:
    np.save("x.npy", unusual_examples("", N).numpy())
    model = asked_of(folder, "return Ended(dense(), lambda z: z - z.logsumexp(1, keepdim=True))")
    _, settings = compute_kernels(model)
    assert any("probabilities" in note for note in settings["notes"])


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # Tokens: the try with floats fails too, and is not the reason.
        ("return Ended(Words(), lambda y: (y, y))", "tuple of 2 items"),
        ("return Ended(nn.Embedding(3, 3), lambda y: y.mean(1))", "raised IndexError"),
        # Whole numbers to layers of floats: the try with whole numbers is not the reason.
        ("return nn.Linear(7, 3)", "cannot be multiplied"),
    ],
)
def test_the_reason_is_that_of_the_try_that_is_meant(folder: Path, body: str, told: str) -> None:
    np.save("x.npy", 3 + torch.arange(5 * 5).reshape(5, 5).numpy() % 6)
    assert told in str(refused_kernels(*command_words(asked_of(folder, body))))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_buffer_that_changes_its_shape_is_named(folder: Path, dtype: str) -> None:
    np.save("x.npy", unusual_examples("", N).numpy())
    model = asked_of(folder, "return spiking(torch.zeros(0))")
    assert " 1.mem " in str(refused_kernels(*command_words(model, "--dtype", dtype)))
