"""The quantities of a report of kernels, by the names that `dgn kernels --only` takes."""

from __future__ import annotations

# Σ of the value input, Λ, S, H and K: those that have eigenvalues.
WITH_SPECTRUM = ("gram", "overlap", "sensitive", "npk", "ntk")
# `gates` are the overlaps τ_l of each layer; ν is of H, or of K where K is named and H is not.
QUANTITIES = (*WITH_SPECTRUM, "gates", "eigenvalues", "nu")
QUANTITIES_OF_K = ("ntk", "eigenvalues", "nu")  # where nothing is known but a module's gradients
