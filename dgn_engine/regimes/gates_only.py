"""gates-only: only the gates are learnt, the values stay random ('lottery in the gates')."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="gates-only",
    title="gates-only (values frozen at random)",
    about="Soft gates are trained; the value network keeps its random weights.",
    order=6,
    own_gates=False,
    soft=True,
    trains=("feature",),
    on_entry="redraw-both",
    aliases=("gates only", "lottery in the gates", "soft-GaLU gates only"),
)
