"""Adaptive and fixed gates: the cells and claims of [DGN], on any data set.

'Adaptable' gates are those of ReLU and the soft gates of soft-GaLU and soft-ReLU, 'learnt' gates
are copied from a trained ReLU network, and 'frozen' gates are those of a random network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dgn_engine.config import RunConfig
from dgn_engine.experiments import Claim
from dgn_engine.experiments._accuracy_designs import COLUMNS_OF, TABLE2, of_printed
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import with_training
from dgn_engine.experiments._grid import Grid, TrainedCell, contrast, gate_source, training_unit
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
# Compared pairs. The last one was added here: it differs only in whether the gates are trained.
PAIRS: tuple[Pair, ...] = (
    (ADAPTIVE, FROZEN),
    ("soft-ReLU", FROZEN),
    ("ReLU", FROZEN),
    (LEARNT, FROZEN),
    (ADAPTIVE, SOFT_FROZEN),
)
CURVES = (
    "the learning curves carry no figure number of the paper: its figures are missing from our "
    "copy, so which of them shows which curves could not be checked"
)
LEARNS = (
    "'learns' means at least halfway from chance to the accuracy of training both (chosen here)"
)


def six_regimes(
    config: RunConfig, seed: int, prefix: str = "", kept: Mapping[str, tuple[int, ...]] = {}
) -> Iterator[Training]:
    """Yield a run per regime, in cells 'PREFIX-REGIME'.

    The learnt gates are those of the ReLU network at its best test score.

    Args:
        config: the settings.
        seed: the seed.
        prefix: prefix of the cells.
        kept: epochs at which to keep weights, by regime.
    """

    def prefixed_cell(regime: str) -> str:
        return f"{prefix}-{regime}" if prefix else regime

    relu = gate_source(config, seed, prefixed_cell("ReLU"))
    yield relu
    for regime in REGIMES.values():
        if regime != "ReLU":
            regime_config = with_training(config, keep_epochs=kept.get(regime, ()))
            yield training_unit(regime_config, regime, seed, prefixed_cell(regime), gates_of=relu)


def adaptation_cells(grid: Grid, prefix: str = "") -> dict[str, TrainedCell]:
    """Read the cells of `six_regimes`, by label."""
    front = f"{prefix}-" if prefix else ""
    return {label: grid.read_trained(f"{front}{regime}") for label, regime in REGIMES.items()}


def printed_designs(network: str) -> dict[Pair, Design]:
    """Return designs from [NPF] Table 2, since the numbers of [DGN] are not available."""

    def table_cell(label: str) -> Printed:
        hard = {"FR-II-soft": "FR-II", "soft-ReLU": "ReLU"}.get(REGIMES[label], REGIMES[label])
        return number_in(TABLE2, network, COLUMNS_OF[hard])

    source = f"[NPF] Table 2, {network}; the numbers of [DGN] are missing from our copy of the text"
    return {
        (better, worse): replace(
            of_printed((1.0, table_cell(better)), (-1.0, table_cell(worse))), source=source
        )
        for better, worse in PAIRS
    }


def gates_alone_claim(alone: TrainedCell, both: TrainedCell, classes: int, design: Design) -> Claim:
    """Judge that training only the gates, with frozen random values, learns.

    'Learns' means at least halfway from chance to soft-GaLU, which trains both.
    """
    half = contrast((1.0, alone), (-0.5, both))
    statistic = f"gates alone − half of {ADAPTIVE}"
    return judge("dgn-7", statistic, above(half, 100 / classes / 2), LEARNS, design)


def adaptation_claims(
    cells: Mapping[str, TrainedCell], designs: Mapping[Pair, Design], prefix: str = ""
) -> Iterator[Claim]:
    """Judge that adaptable gates are better than frozen ones, and learnt than random ones.

    Only the pairs with a design are judged.
    """
    front = f"{prefix}: " if prefix else ""
    for better, worse in designs:
        gap = contrast((1.0, cells[better]), (-1.0, cells[worse]))
        yield judge(
            "dgn-5", f"{front}{better} − {worse}", above(gap), design=designs[better, worse]
        )
