"""FR-II-soft: like FR-II, but with soft gates (soft-GaLU whose gates do not adapt)."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FR-II-soft",
    title="FR-II-soft (fixed random soft gates)",
    about="Soft gates from an independent random feature network, never trained.",
    order=12,
    own_gates=False,
    soft=True,
    on_entry="redraw",
    aliases=("soft-GaLU frozen",),
)
