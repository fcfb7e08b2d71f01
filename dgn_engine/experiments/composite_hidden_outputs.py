"""[COMP] Figure 5: a ReLU CNN, and a value network with its gates in reverse, on random input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._claims import judge, within
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    paper_config,
    with_gating,
    with_training,
)
from dgn_engine.experiments._grid import (
    Grid,
    calculation_unit,
    contrast,
    gate_source,
    learning_curves,
    training_unit,
)
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.sweep.unit import CalculationInputs, Training
from dgn_engine.sweep.unit_results import UnitResults

REVERSED = (3, 2, 1, 0)
SEEDS = (3, 5)
SAME = 3.0
FILTERS = 2
LAYERS = 4
NETWORKS = ("ReLU", "reversed")  # top and bottom of the images
FILTER_ROWS = tuple(f"{name}, filter {place + 1}" for name in NETWORKS for place in range(FILTERS))


def plan(request: Request) -> Plan:
    """Plan the ReLU network, and a value network with its gates in reverse order of layers."""
    config = _build_config(request)
    runs: list[Training] = []
    for seed in request.seed_range(*SEEDS):
        relu = gate_source(config, seed)
        other = training_unit(
            config, "FL", seed, "reversed", gates_of=relu, wiring=REVERSED, value_input="random"
        )
        runs += [relu, other]
    return Plan(
        (*runs, calculation_unit(_pictures_id(request), pictures, *runs[:2])),
        (*data_substitution(request, "CIFAR-10"), "8 channels instead of 128, Adam 3e-3"),
        (
            f"'about as well' means a mean difference within ±{SAME:g} points",
            f"one image shows the first {FILTERS} filters of each layer, as in the paper, another "
            "the means over all filters: |z| scaled to the maximum of each tile, for the first "
            "training image and the first seed",
        ),
    )


def _pictures_id(request: Request) -> str:
    """Return the id of the calculation of the images, for the first seed."""
    return f"pictures-s{request.seed_range(*SEEDS).start}"


def _build_config(request: Request) -> RunConfig:
    net = NetConfig("cnn4", (("channels", 8 if request.quick else 128),))
    epochs = request.epochs_or(20, 100)
    config = paper_config(request, net, data_of(request, "cifar10"), epochs)
    config = with_training(config, keep_epochs=(epochs,))
    if request.quick:
        config = with_training(config, learning_rate=3e-3)
    return with_gating(config, beta=10.0)


Picture = list[list[float | None]]


def pictures(work: CalculationInputs) -> dict[str, Picture]:
    """Return images of the hidden outputs z_l, the ReLU network at the top, the other below.

    'filters' has a row of tiles for each of the first filters, 'means' one for the mean over all
    filters. The first column is the value input. Tiles show |z| for the first training image,
    scaled to their maximum.
    """
    above, below = (_hidden_outputs(folder) for folder in work.needs.values())
    by_filter = [_first_filters(maps, index) for maps in (above, below) for index in range(FILTERS)]
    means = [[_scale_tile(layer.mean(0)) for layer in maps] for maps in (above, below)]
    return {"filters": _make_montage(by_filter), "means": _make_montage(means)}


def _hidden_outputs(folder: Path) -> list[Tensor]:
    """Return the value input and z of every layer, each (channels, rows, columns)."""
    networks = KeptNetworks(folder, 1)
    x = networks.x[:1]
    ((_, network),) = list(networks)
    trace = network.trace(x).value
    maps = [network.input_of_value(x)]
    maps += [q * gate for q, gate in zip(trace.pre, trace.gates, strict=True)]
    return [values[0].detach().cpu() for values in maps]


def _first_filters(maps: list[Tensor], place: int) -> list[Tensor | None]:
    """Return the tiles of one filter of each layer, preceded by the input in the first row."""
    value_input, *layers = maps
    return [
        None if place else _scale_tile(value_input.mean(0)),
        *(_scale_tile(layer[place]) for layer in layers),
    ]


def _scale_tile(values: Tensor) -> Tensor:
    sizes = values.abs()
    return sizes / sizes.max().clamp(min=1e-12)


def _make_montage(rows: Sequence[Sequence[Tensor | None]]) -> Picture:
    """Join tiles of equal size (rows, columns) into an image, separated by empty lines."""
    height, width = next(tile.shape for tile in rows[0] if tile is not None)
    picture: Picture = []
    for tiles in rows:
        for line in range(height):
            row: list[float | None] = []
            for tile in tiles:
                row += [*([None] * width if tile is None else tile[line].tolist()), None]
            picture.append(row[:-1])
        picture.append([None] * len(picture[-1]))
    return picture[:-1]


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    relu, other = grid.read_trained("ReLU"), grid.read_trained("reversed")
    pictures: dict[str, Picture] = results.calculation_result(_pictures_id(request))
    cells = {"ReLU": relu, "gates reversed, random input": other}
    judged = judge(
        "comp-2",
        "ReLU − reversed gates on a random input",
        within(contrast((1.0, relu), (-1.0, other)), SAME),
        design=designs.of_regimes(0.0, designs.CNN, "ReLU", "FL"),
    )
    return Findings(
        tuple(cell.row(label) for label, cell in cells.items()),
        (judged,),
        (
            learning_curves("Reversed gates on a random input", cells),
            _outputs_figure(
                "outputs", pictures["filters"], FILTER_ROWS, f"the first {FILTERS} filters"
            ),
            _outputs_figure("output-means", pictures["means"], NETWORKS, "means over the filters"),
        ),
    )


def _outputs_figure(name: str, picture: Picture, rows: Sequence[str], title: str) -> Figure:
    image = tuple(tuple(math.nan if value is None else value for value in row) for row in picture)
    layers = tuple(str(layer) for layer in range(1, LAYERS + 1))
    return Figure(
        name,
        f"Hidden outputs: {title}",
        "layer",
        "",
        (),
        image=image,
        rows=tuple(rows),
        columns=("input", *layers),
        scale="|z| / tile maximum",
    )


EXPERIMENT = Experiment(
    question="Can a network classify images that its values never see?",
    title="Gates reversed, on a random input",
    paper="[COMP] Figure 5, [DUAL]",
    about="A value network that never sees the image, with a ReLU network's gates in reverse.",
    plan=plan,
    findings=findings,
    quick_minutes=0.22,
    full_hours=300,
    claims=("comp-2",),
)
