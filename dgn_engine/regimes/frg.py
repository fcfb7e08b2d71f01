"""FRG: fixed random gates that no network makes, i.i.d. Bernoulli(p) per example and unit."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FRG",
    title="FRG (fixed random gating)",
    about="Each gate of each training example is drawn once at random; it cannot generalise.",
    order=7,
    own_gates=False,
    soft=False,
    drawn_gates=True,
    on_entry="aside",
    aliases=("fixed random gating", "Bernoulli gates"),
)
