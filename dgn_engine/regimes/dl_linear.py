"""DL-linear: decoupled learning whose feature network is linear between its gates."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="DL-linear",
    title="DL-linear (learnt linear features)",
    about="Like DL, but the feature network has no ReLU: its pre-activations are linear in x.",
    order=9,
    own_gates=False,
    soft=True,
    trains=("value", "feature"),
    linear_features=True,
    on_entry="keep",
    aliases=("DLGN", "linear features"),
)
