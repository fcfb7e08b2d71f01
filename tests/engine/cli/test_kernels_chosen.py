"""`dgn kernels --only`, and what is left out where the memory does not hold all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.cli import main
from dgn_engine.kernels.quantities import QUANTITIES
from tests.engine.cli.typed import one_line_error, printed_json, read_arrays
from tests.engine.cli.user_code import (
    command_words,
    compute_kernels,
    inputs,
    make_user_module,
    mean_kernel,
    refused_kernels,
    write_code,
)

# Pairs of its 24 × 24 positions take hundreds of MiB, all the rest some.
MAPS = """
from torch import nn


def maps():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(2 * 24 * 24, 2),
    )
"""
SMALL = ("--memory", "0.05")


def test_of_a_model_that_is_asked_for_one_kernel_there_is_no_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, settings = compute_kernels("user_nets:Residual", "--only", "ntk")
    assert set(arrays) == {"ntk", "ntk_value"}
    assert settings["only"] == ["ntk"]
    np.testing.assert_allclose(
        arrays["ntk"], mean_kernel(make_user_module("Residual"), inputs()), rtol=1e-10
    )
    tree = printed_json(
        capsys, *command_words("user_nets:Residual", "--only", "gates,ntk,eigenvalues"), "--json"
    )
    assert set(tree["kernels"]) == {"tau_1", "tau_2", "ntk", "ntk_value"}
    assert {name for name in tree if name.startswith("eigen")} == {
        "eigenvalues_ntk",
        "eigenvalues_ntk_value",
    }
    tree = printed_json(
        capsys, *command_words("user_nets:Residual", "--labels", "y.npy", "--only", "nu"), "--json"
    )
    assert tree["kernels"] == {}
    assert tree["nu"] > 0


def test_of_a_file_of_weights_the_quantities_asked_for_are_those_of_the_whole_report(
    folder: Path,
) -> None:
    torch.save({"0.weight": torch.randn(7, 5), "2.weight": torch.randn(3, 7)}, "net.pt")
    words = ["kernels", "net.pt", "--activation", "relu", "--inputs", "x.npy", "--labels", "y.npy"]
    assert main([*words, "--out", "all.npz"]) == 0
    assert main([*words, "--out", "some.npz", "--only", "npk,nu"]) == 0
    whole, some = read_arrays("all.npz"), read_arrays("some.npz")
    names = {name for name in whole if name == "npk" or name.startswith(("nu", "bound"))}
    assert set(some) == names | {"settings"}
    assert len(names) == 12
    for name in names:
        np.testing.assert_array_equal(some[name], whole[name])


def test_what_does_not_fit_is_named_and_the_rest_is_computed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_code(folder, MAPS)
    np.save("x.npy", np.random.default_rng(0).random((2, 1, 24, 24)))
    arrays, settings = compute_kernels("user_other:maps", *SMALL)
    assert {"ntk", "gram", "tau_1", "tau_2", "eigenvalues_ntk"} <= set(arrays)
    assert not {"npk", "overlap", "sensitive", "eigenvalues", "nu"} & set(arrays)
    left = settings["left_out"]
    assert {"npk", "overlap", "sensitive"} <= set(left)
    assert all(needed > 0.05 * 2**30 for needed in left.values())
    assert any("npk" in note and "--memory" in note for note in settings["notes"])
    tree = printed_json(capsys, *command_words("user_other:maps", *SMALL), "--json")
    assert "eigenvalues" not in tree
    assert tree["settings"]["left_out"] == left
    enough = f"{max(left.values()) / 2**30 + 0.001:.3f}"
    whole, settings = compute_kernels("user_other:maps", "--memory", enough)
    assert settings["left_out"] == {}
    assert set(arrays) < set(whole)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, whole[name])
    assert "0 inputs" in str(
        refused_kernels(*command_words("user_other:maps", *SMALL, "--only", "npk"))
    )


@pytest.mark.parametrize("only", ["ntk,k", ""])
def test_a_quantity_that_there_is_not_is_refused_with_all_there_are(
    capsys: pytest.CaptureFixture[str], only: str
) -> None:
    said = one_line_error(capsys, *command_words("user_nets:Residual", "--only", only))
    assert ", ".join(QUANTITIES) in said


def test_of_a_model_of_which_k_alone_is_known_it_can_be_asked_for(folder: Path) -> None:
    arrays, settings = compute_kernels("user_nets:Smooth", "--labels", "y.npy", "--only", "ntk")
    assert set(arrays) == {"ntk"}
    arrays, _ = compute_kernels("user_nets:Smooth", "--labels", "y.npy", "--only", "eigenvalues")
    assert set(arrays) == {"eigenvalues_ntk"}
    assert settings["left_out"] == {}
