"""DL: decoupled learning; soft gates are trained together with the value network."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="DL",
    title="DL (decoupled learning)",
    about="Soft gates; feature and value networks are trained together.",
    order=1,
    in_sight=True,
    own_gates=False,
    soft=True,
    trains=("value", "feature"),
    on_entry="keep",
    aliases=("DNPFL", "DLNPF", "twin", "soft-GaLU"),
)
