"""soft-ReLU: one network with its own soft gates, q·γ_sr(q)."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="soft-ReLU",
    title="soft-ReLU (own soft gates)",
    about="One network; each unit gates itself softly, q·(1+ε)/(1+exp(-βq)).",
    order=1,
    own_gates=True,
    soft=True,
    on_entry="aside",
    aliases=("softrelu", "soft relu"),
)
