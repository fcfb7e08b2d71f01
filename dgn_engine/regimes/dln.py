"""DLN: deep linear network, all of whose gates are 1."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="DLN",
    title="DLN (deep linear network)",
    about="One network with all gates open, so that it is linear.",
    order=4,
    in_sight=True,
    own_gates=True,
    soft=False,
    open_gates=True,
    on_entry="aside",
    aliases=("deep linear network", "linear network"),
)
