"""FR-linear: fixed random gates of a linear feature network."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FR-linear",
    title="FR-linear (fixed random linear features)",
    about="Hard gates from a random linear feature network, never trained.",
    order=11,
    own_gates=False,
    soft=False,
    linear_features=True,
    on_entry="redraw",
    aliases=("DLGN random",),
)
