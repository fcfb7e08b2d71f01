"""FL: fixed learnt gates of a pre-trained feature network, at any stage or from a checkpoint."""

from dgn_engine.regimes._regime import Regime

REGIME = Regime(
    name="FL",
    title="FL (fixed learnt gates)",
    about="Hard gates of a trained, then frozen feature network; only the value network learns.",
    order=2,
    in_sight=True,
    own_gates=False,
    soft=False,
    on_entry="keep",
    takes_gates=True,
    pretrains_as="ReLU",
    for_copied_gates=True,
    aliases=("FLNPF", "NPF trained"),
)
