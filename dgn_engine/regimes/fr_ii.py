"""FR-II: fixed random gates, drawn independently of the value network."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FR-II",
    title="FR-II (fixed random gates, independent)",
    about="Hard gates from an independent random feature network, never trained.",
    order=3,
    in_sight=True,
    own_gates=False,
    soft=False,
    on_entry="redraw",
    aliases=("FRNPF(II)", "FRNPF-II", "NPF(II)", "GaLU frozen", "GaLU"),
)
