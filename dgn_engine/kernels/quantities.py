"""Names of the quantities of a kernel report, as `dgn kernels --only` takes them."""

from __future__ import annotations

# Σ of the value input, Λ, S, H, K and δ, which have eigenvalues.
WITH_SPECTRUM = ("gram", "overlap", "sensitive", "npk", "ntk", "delta")
# `gates` are the overlaps τ_l of each layer; ν is that of H, or of K if K is named and H is not.
QUANTITIES = (*WITH_SPECTRUM, "gates", "eigenvalues", "nu")
QUANTITIES_OF_K = ("ntk", "eigenvalues", "nu")  # for modules without known gates
ON_DEMAND = ("delta",)  # takes long, and [DGN] Lemma 3.1 is for few networks
