"""Gates that adapt against gates that stay: the cells and claims of [DGN], on any data set.

'Adaptable' are the soft gates of soft-GaLU and soft-ReLU and the gates of ReLU, 'learnt' those
that a trained ReLU network leaves behind, 'frozen' those of a network drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dgn_engine.config import RunConfig
from dgn_engine.experiments import Claim
from dgn_engine.experiments._accuracy_designs import COLUMNS_OF, TABLE2, of_printed
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import with_training
from dgn_engine.experiments._grid import Grid, TrainedCell, contrast, gate_source, training
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._published import number_in
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.unit import Training

FROZEN, SOFT_FROZEN = "GaLU, frozen gates", "soft-GaLU, frozen gates"
LEARNT, ADAPTIVE = "GaLU, learnt gates", "soft-GaLU"
REGIMES = {
    FROZEN: "FR-II",
    SOFT_FROZEN: "FR-II-soft",
    LEARNT: "FL",
    ADAPTIVE: "DL",
    "soft-ReLU": "soft-ReLU",
    "ReLU": "ReLU",
}
Pair = tuple[str, str]
# What is compared with what. The last pair is ours: all but the training of the gates is alike.
PAIRS: tuple[Pair, ...] = (
    (ADAPTIVE, FROZEN),
    ("soft-ReLU", FROZEN),
    ("ReLU", FROZEN),
    (LEARNT, FROZEN),
    (ADAPTIVE, SOFT_FROZEN),
)
LEARNS = "'learns' is chosen as half of the way from chance to training both"


def six_regimes(
    config: RunConfig, seed: int, prefix: str = "", kept: Mapping[str, tuple[int, ...]] = {}
) -> Iterator[Training]:
    """Yield a run of each regime; the learnt gates are those of the ReLU network at its best.

    The cells are 'PREFIX-REGIME'. `kept`: regimes whose weights are kept at these epochs.
    """

    def cell(regime: str) -> str:
        return f"{prefix}-{regime}" if prefix else regime

    relu = gate_source(config, seed, cell("ReLU"))
    yield relu
    for regime in REGIMES.values():
        if regime != "ReLU":
            its = with_training(config, keep_epochs=kept.get(regime, ()))
            yield training(its, regime, seed, cell(regime), gates_of=relu)


def adaptation_cells(grid: Grid, prefix: str = "") -> dict[str, TrainedCell]:
    """Read the cells of `six_regimes` by their labels."""
    front = f"{prefix}-" if prefix else ""
    return {label: grid.trained(f"{front}{regime}") for label, regime in REGIMES.items()}


def printed_designs(network: str) -> dict[Pair, Design]:
    """Return what [NPF] Table 2 prints of such gates, where [DGN]'s numbers are stripped."""

    def cell(label: str) -> Printed:
        hard = {"FR-II-soft": "FR-II", "soft-ReLU": "ReLU"}.get(REGIMES[label], REGIMES[label])
        return number_in(TABLE2, network, COLUMNS_OF[hard])

    source = f"[NPF] Table 2, {network}; [DGN]'s own numbers are stripped from the text at hand"
    return {
        (one, other): replace(of_printed((1.0, cell(one)), (-1.0, cell(other))), source=source)
        for one, other in PAIRS
    }


def alone_claim(alone: TrainedCell, both: TrainedCell, classes: int, design: Design) -> Claim:
    """Judge that gates which are trained alone, under frozen random values, learn.

    'Learns' is: at least half of the way from chance to soft-GaLU, which trains both.
    """
    half = contrast((1.0, alone), (-0.5, both))
    words = f"gates alone − half of {ADAPTIVE}"
    return judge("dgn-7", words, above(half, 100 / classes / 2), LEARNS, design)


def adaptation_claims(
    cells: Mapping[str, TrainedCell], designs: Mapping[Pair, Design], prefix: str = ""
) -> Iterator[Claim]:
    """Judge that adaptable gates are better than frozen ones, and learnt than unlearnt."""
    front = f"{prefix}: " if prefix else ""
    for one, other in PAIRS:
        gap = contrast((1.0, cells[one]), (-1.0, cells[other]))
        yield judge("dgn-5", f"{front}{one} − {other}", above(gap), design=designs[one, other])
