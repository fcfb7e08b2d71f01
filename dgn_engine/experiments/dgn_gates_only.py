"""[DGN] 'Lottery in the gates': training only the gates, with frozen random values, learns."""

from __future__ import annotations

from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
    with_training,
)
from dgn_engine.experiments._gate_adaptation import CURVES, gates_alone_claim
from dgn_engine.experiments._grid import Grid, learning_curves, loss_curves, training_unit
from dgn_engine.experiments._power import Design
from dgn_engine.experiments.npf_nu import KERAS_RHO
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = {
    "gates-only": "gates alone (values frozen at random)",
    "FR-II": "values alone (gates frozen at random)",
    "DL": "both",
}
SEEDS = (3, 5)
CLASSES = 10
# soft-GaLU and gates alone within two points of each other, as on the digits
EXPECTED = Design(47.0, 1.0, "one run of each at the quick scale, 2026-11", 0.03)


def plan(request: Request) -> Plan:
    """Plan training of gates alone, values alone, and both."""
    net = dense_net_config(64 if request.quick else 128, 5)
    epochs = request.epochs_or(40, 50)
    config = paper_config(request, net, data_of(request, "mnist"), epochs)
    step = 1e-3 if request.quick else 1e-4
    config = with_training(
        config, optimiser="rmsprop", learning_rate=step, batch=64, smoothing=KERAS_RHO
    )
    units = tuple(
        training_unit(config, regime, seed)
        for seed in request.seed_range(*SEEDS)
        for regime in REGIMES
    )
    return Plan(
        units,
        (
            *data_substitution(request, "MNIST"),
            "64 units a layer instead of 128",
            "RMSprop's learning rate is 1e-3 instead of 1e-4",
        ),
        (
            "RMSprop as in the paper; its learning rate 1e-4, Keras' ρ = 0.9, batch 64, all ten "
            "digits, width 128 and d = 5 were chosen here, since the numbers are missing from our "
            "copy of the text (for two digits, see dgn-adaptable-gates)",
            CURVES,
        ),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {label: grid.read_trained(regime) for regime, label in REGIMES.items()}
    alone, both = cells[REGIMES["gates-only"]], cells[REGIMES["DL"]]
    return Findings(
        tuple(cell.row(label) for label, cell in cells.items()),
        (gates_alone_claim(alone, both, CLASSES, EXPECTED),),
        (
            learning_curves("Training gates, values or both", cells),
            loss_curves("Training gates, values or both: training loss", cells),
        ),
    )


EXPERIMENT = Experiment(
    question="Can a network learn by its gates alone?",
    title="Training the gates alone",
    paper="[DGN]",
    about="Soft gates are trained while the values keep their random initial weights.",
    plan=plan,
    findings=findings,
    quick_minutes=0.15,
    full_hours=0.18,
    claims=("dgn-7",),
)
