"""FR-DI: fixed random gates that start as a copy of the value network's weights."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FR-DI",
    title="FR-DI (fixed random gates, same start)",
    about="Hard gates from a copy of the value network's initial weights, never trained.",
    order=3,
    own_gates=False,
    soft=False,
    on_entry="share-redrawn",
    aliases=("FRNPF(DI)", "FRNPF-DI", "NPF(DI)"),
)
