"""ReLU: the standard network, which makes its own hard gates."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="ReLU",
    title="ReLU (standard network)",
    about="One network; each unit gates itself with 1{q > 0}.",
    order=0,
    in_sight=True,
    own_gates=True,
    soft=False,
    on_entry="aside",
    standard=True,
    aliases=("dnn", "standard"),
)
