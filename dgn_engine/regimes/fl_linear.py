"""FL-linear: fixed learnt gates of a linear feature network."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FL-linear",
    title="FL-linear (fixed learnt linear features)",
    about="Hard gates of a trained, then frozen linear feature network.",
    order=10,
    own_gates=False,
    soft=False,
    linear_features=True,
    on_entry="keep",
    takes_gates=True,
    pretrains_as="DL-linear",
    aliases=("DLGN fixed",),
)
