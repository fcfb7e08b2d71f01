"""Made-up worlds for every claim that is judged at full scale: null worlds and those of the papers.

In a null world, statistics lie at the edge of what the claims say, or the effect is absent. In a
paper's world they are what it prints, or what the designs expect, and replicates spread likewise.
All networks that are tested on one test set share its chance error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, Literal

import numpy as np
from scipy.stats import norm

from dgn_engine.experiments import (
    Request,
    composite_davidnet,
    convex_gates,
    dgn_adaptable_gates,
    dgn_frg_convergence,
    dgn_frg_spectrum,
    dgn_galu_relu,
    dgn_gates_only,
    dgn_random_mnist,
    dlgn_rows,
    duality_48,
    duality_noise,
    galu_memorisation,
    half_spaces,
    npf_kernels,
    npf_nu,
    npf_table2,
    path_pruning,
    region_phases,
    silent_alignment,
    theory_depth,
    theory_infinite_width,
    theory_ntk_npk,
    workshop_table4,
)
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments import find_experiment as find
from dgn_engine.experiments._dual_networks import CNN, FC, MARGIN
from dgn_engine.experiments._gate_adaptation import REGIMES as KINDS
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._published import find_printed, number_in
from dgn_engine.experiments._share_claims import PrintedGap, region_of
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.unit import Training
from tests.engine.experiments.worlds import Draw, Runs, Values, scored, shared_error

Random = np.random.Generator
Kind = Literal["null", "paper"]
Means = Mapping[str, Printed]  # by cell
FULL = Request(scale="full")
NOTHING: Values = {}
IN_CODE = Request(scale="full", protocol="as-in-code")  # one learning rate per row


@dataclass(frozen=True)
class World:
    """A way to draw the results of an experiment at full scale."""

    experiment: str
    kind: Kind
    about: str
    draw: Draw
    request: Request = FULL


# Accuracies


def cells_of(name: str, request: Request) -> dict[str, int]:
    """The trained cells of an experiment, with their number of seeds."""
    found: dict[str, int] = {}
    for unit in find(name).plan(request).units:
        if isinstance(unit, Training):
            cell = unit.id.rpartition("-s")[0]
            found[cell] = found.get(cell, 0) + 1
    return found


def trained(
    name: str,
    means: Callable[[str], Printed],
    request: Request = FULL,
    values: Values = NOTHING,
    group: Callable[[str], str] | None = None,
    examples: int = designs.TEST_EXAMPLES,
) -> Draw:
    """Networks with these means and spreads by cell.

    Those of a group and seed have half of their variance in common.
    """

    @cache
    def cells() -> tuple[dict[str, int], dict[str, Printed], float]:
        seeds = cells_of(name, request)
        printed = {cell: means(cell) for cell in seeds}
        return seeds, printed, float(np.mean([cell.value for cell in printed.values()]))

    def draw(random: Random) -> tuple[Runs, Values]:
        seeds, printed, middle = cells()
        shift = shared_error(random, middle, examples)
        common: dict[tuple[str, int], float] = {}
        runs = {}
        for cell, count in seeds.items():
            mean, spread = printed[cell].value, printed[cell].spread
            at = mean + shift(mean)
            for seed in range(count):
                own = random.normal(0, spread)
                if group is not None:
                    key = group(cell), seed
                    if key not in common:
                        common[key] = random.normal(0, spread)
                    own = (own + common[key]) / math.sqrt(2)
                runs[f"{cell}-s{seed}"] = scored(at + own, examples=examples)
        return runs, values

    return draw


def moved(cells: Means, **to: float) -> dict[str, Printed]:
    """The same spreads with other means, by the name of a regime without its hyphen."""
    return {
        name: replace(cell, value=to.get(name.replace("-", ""), cell.value))
        for name, cell in cells.items()
    }


def share_edges(printed: PrintedGap, region: tuple[float, float]) -> list[float]:
    """The accuracies at which the recovered share is at an end of the region."""
    bottom = printed.relu.value - printed.size
    return [bottom + end / 100 * printed.size for end in region if math.isfinite(end)]


# [NPF] Table 2 and [WS] Table 4


def table_rows(name: str) -> dict[str, tuple[str, dict[str, Printed]]]:
    """The rows by the start of their cells' names, with the printed numbers by regime."""
    found = {}
    if name == "npf-table2":
        for setting in npf_table2.SETTINGS:
            cells = {
                regime: number_in(designs.TABLE2, setting.row, column)
                for column, regime in designs.TABLE2_COLUMNS.items()
            }
            found[f"{setting.id}-{setting.step:g}-"] = (setting.row, cells)
        return found
    columns = {regime: column for column, regime in workshop_table4.COLUMNS.items()}
    for arch in workshop_table4.ARCHES:
        cells = {}
        for regime, column in columns.items():
            printed = regime != "pixels" and find_printed(workshop_table4.TABLE, arch.row, column)
            if printed:
                cells[regime] = printed
        cells.setdefault("DL", cells["ReLU"])
        frozen = cells["FR-II"]  # gates from noise lose what they lose where that is printed least
        for noise in ("labels", "pixels"):
            cells.setdefault(noise, Printed(frozen.value - 0.81, 0.1))
        found[f"{arch.id}-{arch.step:g}-"] = (arch.row, cells)
    return found


def of_table(name: str, change: Callable[[str, dict[str, Printed]], dict[str, Printed]]) -> Draw:
    rows = {start: change(row, cells) for start, (row, cells) in table_rows(name).items()}

    def mean(cell: str) -> Printed:
        (start,) = [start for start in rows if cell.startswith(start)]
        regime = cell.removeprefix(start)
        return Printed(10.0, 0.1) if regime.endswith("-gates") else rows[start][regime]

    return trained(name, mean, IN_CODE)


def of_shares(name: str, end: int) -> Draw:
    """Every share at the lower (0) or the upper (1) end of its region; 2: no gates know anything.

    Where a region has no upper end, the networks are those of the lower.
    """

    def change(row: str, cells: dict[str, Printed]) -> dict[str, Printed]:
        printed = PrintedGap(cells["FL"], cells["ReLU"], (cells["FR-II"], cells["FR-DI"]))
        region = region_of(printed.share)
        if row == npf_table2.SAID_OF:
            region = npf_table2.NEARLY_ALL, math.inf
        edges = share_edges(printed, region)
        bottom = printed.relu.value - printed.size
        learnt = bottom if end == 2 else edges[min(end, len(edges) - 1)]
        return moved(cells, FL=learnt)

    return of_table(name, change)


def alike(_row: str, cells: dict[str, Printed]) -> dict[str, Printed]:
    """All regimes as good as ReLU."""
    return {name: replace(cell, value=cells["ReLU"].value) for name, cell in cells.items()}


def without_effect(_row: str, cells: dict[str, Printed]) -> dict[str, Printed]:
    """FL exactly as good as ReLU."""
    return moved(cells, FL=cells["ReLU"].value)


def tables() -> Iterator[World]:
    for name in ("npf-table2", "workshop-table4"):
        as_printed = of_table(name, lambda _, cells: cells)
        yield World(name, "paper", "as printed", as_printed, IN_CODE)
        for about, change in (("all alike", alike), ("FL is ReLU", without_effect)):
            yield World(name, "null", about, of_table(name, change), IN_CODE)
        for end, about in enumerate(("shares at the lower end", "at the upper", "nothing learnt")):
            yield World(name, "null", about, of_shares(name, end), IN_CODE)
    setting = npf_table2.SETTINGS[0]
    one = Request(scale="full", only=setting.row)
    cells = alike("", table_rows("npf-table2")[f"{setting.id}-{setting.step:g}-"][1])
    draw = trained("npf-table2", lambda cell: cells[cell.split("-", 3)[3]], one)
    yield World("npf-table2", "null", "the best of three equal learning rates", draw, one)


def stages() -> Iterator[World]:
    learnt, random, relu = (
        number_in(designs.TABLE2, npf_table2.SAID_OF, column)
        for column in ("FLNPF", "FRNPF(II)", "ReLU")
    )

    def draw(first: float, last: float, frozen: float, own: float) -> Draw:
        def mean(cell: str) -> Printed:
            if cell.startswith("fl"):
                return replace(learnt, value=first + (last - first) * (int(cell[2:]) - 1) / 5)
            return replace(random, value=frozen) if cell == "fr" else replace(relu, value=own)

        return trained("npf-stages", mean)

    yield World("npf-stages", "paper", "as printed", draw(72.0, 79.68, 67.08, 80.43))
    for gap in (4.2, 2.1, -2.1):
        at_edge = draw(77.43, 77.43, 77.43, 77.43 + gap)
        yield World("npf-stages", "null", f"all alike, ReLU {gap:+g}", at_edge)


# [DUAL] and [COMP]


def regime_of(cell: str) -> str:
    """The regime of [NPF] Table 2 whose ± stands for a cell."""
    for regime in ("FR-II", "FR-DI", "FL", "DL", "ReLU"):
        if regime in cell:
            return regime
    return {"FR": "FR-II", "reversed": "FL"}[cell.removeprefix("fc-").split("-linear")[0]]


def as_networks(mean: Callable[[str], float]) -> Callable[[str], Printed]:
    """Cells of these means with the printed ± of their kind."""

    def cell_mean(cell: str) -> Printed:
        network = designs.FC if cell.startswith("fc-") else designs.CNN
        return designs.with_spread(mean(cell), network, regime_of(cell))

    return cell_mean


def differences() -> Iterator[World]:
    """Claims that two networks differ by less than a margin."""
    for name, ending in (("duality-tiling", "identity"), ("duality-linear-features", "linear")):
        for kind, side in (("paper", 0.0), ("null", 1.0), ("null", -1.0)):

            def mean(cell: str, ending: str = ending, side: float = side) -> float:
                row = FC if cell.startswith("fc-") else CNN
                level = 95.0 if row == FC else 75.0
                return level - side * MARGIN[row] * cell.endswith(ending)

            draw = trained(name, as_networks(mean))
            yield World(name, kind, f"{side:+g} margin", draw)  # type: ignore[arg-type]
    pictures: Values = {"pictures-s0": ({"filters": [[0.5]], "means": [[0.5]]}, 1.0)}
    name = "composite-hidden-outputs"
    for kind, side in (("paper", 0.0), ("null", 3.0), ("null", -3.0)):
        means = as_networks(lambda cell, side=side: 75.0 - side * (cell == "reversed"))
        draw = trained(name, means, values=pictures)
        yield World(name, kind, f"{side:+g} points", draw)  # type: ignore[arg-type]


def davidnet() -> Iterator[World]:
    """Networks as the CNN of [DUAL], or at the edges of the claims; ones lower by a shift."""
    name = "composite-davidnet"
    printed = composite_davidnet.PRINTED
    half_way = {regime: 59.375 if regime in ("FL", "DL") else 38.75 for regime in printed}
    half_way["ReLU"] = 80.0
    for kind, about, of_regime, shift in (
        ("paper", "as the CNN of [DUAL]", printed, 0.0),
        ("null", "gates recover nothing", dict.fromkeys(printed, 67.5) | {"ReLU": 80.4}, 0.0),
        ("null", "at the edges, ones are worse", half_way, MARGIN[CNN]),
        ("null", "at the edges, ones are better", half_way, -MARGIN[CNN]),
    ):

        def mean(cell: str, of_regime: Any = of_regime, shift: float = shift) -> float:
            level: float = of_regime[regime_of(cell)]
            side = cell.endswith("-image") - cell.endswith("-ones")
            return level + side * shift / 2

        draw = trained(name, as_networks(mean))
        yield World(name, kind, about, draw)  # type: ignore[arg-type]


def forty_eight() -> Iterator[World]:
    name, orders = "duality-48", len(duality_48.ORDERS)

    def group(cell: str) -> str:
        return "-".join(cell.split("-")[:-2]) if cell.count("-") > 1 else cell

    def draw(mean: Callable[[str], float]) -> Draw:
        return trained(name, as_networks(mean), group=group)

    def as_printed(cell: str) -> float:
        return number_in(
            duality_48.TABLE, FC if cell.startswith("fc-") else CNN, regime_of(cell)
        ).value

    def at_edges(side: int) -> Callable[[str], float]:
        """Regimes, inputs and orders as far apart as the margins."""

        def mean(cell: str) -> float:
            row = FC if cell.startswith("fc-") else CNN
            margin, relu = MARGIN[row], 80.0
            frozen = (number_in(duality_48.TABLE, row, "FR-II").value + duality_48.CHANCE) / 2
            regime = regime_of(cell)
            level = {
                "ReLU": relu,
                "FR-II": frozen + side * margin / 2,
                "FR-DI": frozen - side * margin / 2,
                "DL": frozen + duality_48.TWO_THIRDS / 100 * (relu - frozen),
                "FL": frozen + duality_48.NEARLY_ALL / 100 * (relu - frozen),
            }[regime]
            if regime == "ReLU":
                return level
            of_input = margin / 2 if "-image-" in cell else -margin / 2
            of_order = margin / orders - margin * cell.endswith("0123")
            return level + side * (of_input + of_order)

        return mean

    yield World(name, "paper", "as printed", draw(as_printed))
    yield World(name, "null", "at the edges", draw(at_edges(1)))
    yield World(name, "null", "at the other edges", draw(at_edges(-1)))
    yield World(name, "null", "all as the CNTK", draw(lambda _: duality_48.CNTK))

    def one_bad_order(cell: str) -> float:
        margin = MARGIN[FC if cell.startswith("fc-") else CNN]
        return as_printed(cell) - margin * cell.endswith("ones-2103")

    yield World(name, "null", "one bad order", draw(one_bad_order))


def noise() -> Iterator[World]:
    """Label noise; M1 has a curve of test accuracies."""
    name, table, levels = "duality-noise", duality_noise.TABLE, duality_noise.LEVELS
    columns = {"best": duality_noise.M1, "end": duality_noise.END, "m2": duality_noise.M2}
    columns |= {"m3": duality_noise.M3, "m4": duality_noise.M4, "m5": duality_noise.M5}
    printed = {
        level: {
            model: cell
            for model, column in columns.items()
            if (cell := find_printed(table, str(level), column)) is not None
        }
        for level in levels
    }

    def at_edges(side: int) -> dict[int, dict[str, Printed]]:
        """M2 at M1's end, or as far above M4 as that is below; curves turn by a point."""
        found = {
            0: {**printed[0], "m3": replace(printed[0]["m3"], value=printed[0]["m2"].value - 2)}
        }
        for level, fall in duality_noise.FALLS.items():
            m4 = printed[0]["best"].value - fall - 2 * side
            end = m4 - 4
            m2 = end if side > 0 else m4 + 4
            to = {"best": end + 1, "end": end, "m2": m2, "m4": m4, "m5": m4 - 2 * side}
            found[level] = {
                model: replace(cell, value=to.get(model, cell.value))
                for model, cell in printed[level].items()
            }
        return found

    flat = {
        level: {model: replace(cell, value=70.0) for model, cell in cells.items()}
        for level, cells in printed.items()
    }

    def draw_of(means: dict[int, dict[str, Printed]], turns: bool) -> Draw:
        def draw(random: Random) -> tuple[Runs, Values]:
            shift, runs = shared_error(random, 70.0, designs.TEST_EXAMPLES), {}
            for level, cells in means.items():
                at = {model: cell.value + shift(cell.value) for model, cell in cells.items()}
                start = cells["end"].value + shift(cells["end"].value)
                for seed in range(5):
                    got = {m: at[m] + random.normal(0, cells[m].spread) for m in cells}
                    first = start + random.normal(0, cells["end"].spread)
                    middle = [got["best"]] * 3
                    if not turns:
                        middle = list(at["best"] + random.normal(0, cells["best"].spread, 20))
                    runs[f"m1-{level}-s{seed}"] = scored(
                        got["best"],
                        got["end"],
                        (first, *middle, got["end"]),
                        examples=designs.TEST_EXAMPLES,
                    )
                    for model in ("m2", "m3", "m4", "m5"):
                        if model in got:
                            run = scored(got[model], examples=designs.TEST_EXAMPLES)
                            runs[f"{model}-{level}-s{seed}"] = run
            return runs, {}

        return draw

    yield World(name, "paper", "as printed", draw_of(printed, turns=True))
    for side in (1, -1):
        yield World(name, "null", f"at the edges, {side:+d}", draw_of(at_edges(side), turns=True))
    yield World(name, "null", "flat noisy curves", draw_of(flat, turns=False))


# [DGN]


def values(cells: Mapping[str, Any]) -> Values:
    return {unit: (value, 1.0) for unit, value in cells.items()}


def errors_by_depth(
    cell: str, ends: tuple[Design, Design], widths: tuple[int, ...] = (0,), n: int = 20
) -> Draw:
    """log10 of errors that are the same between, and at both ends what the designs add.

    `cell` names a cell by its width w and depth d.
    """
    shared = min(end.spread for end in ends) / 2

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for width, depth, seed in product(widths, theory_depth.DEPTHS, range(n)):
            end = {2: ends[0], 20: ends[1]}.get(depth)
            # one depth is far below the others, so that it is chosen in each world but the null one
            middle = -4.0 if depth == 8 and any(one.expected for one in ends) else -3.0
            log = random.normal(middle, shared or 0.3)
            if end is not None and end.expected:
                spread = np.sqrt(end.spread**2 - shared**2)
                log = random.normal(-4.0 + end.expected, spread)
            unit = f"{cell.format(w=width, d=depth)}-s{seed}"
            found[unit] = {"errors": [1.0, 10**log], "left": 10**log, "condition": 0.1}
        return {}, values(found)

    return draw


def kinds_by_depth(ends: tuple[Design, Design]) -> Draw:
    draws = [errors_by_depth(kind + "-d{d}", ends, n=10) for kind in ("relu", "galu", "coins")]

    def draw(random: Random) -> tuple[Runs, Values]:
        return {}, {unit: one for part in draws for unit, one in part(random)[1].items()}

    return draw


def spectra(near: float, far: float, spread: float) -> Draw:
    """e.c.d.f.s at these distances from the ideal, at the wide and at the narrow width."""

    @cache
    def ideal(depth: int) -> list[float]:
        return dgn_frg_spectrum._ideal_distribution(200, depth)

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for (width, mean), seed in product(((25, far), (500, near)), range(10)):
            distance = random.normal(mean, spread)  # the mean over depths is judged
            for depth in dgn_frg_spectrum.DEPTHS:
                distribution = list(ideal(depth))
                distribution[100] += distance
                one = {"distribution": distribution, "diagonal": 1.0, "off": 0.5}
                found[f"w{width}-d{depth}-s{seed}"] = one
        return {}, values(found)

    return draw


def descents(by_depth: Mapping[int, Design], areas: Mapping[int, Design], deeper: Design) -> Draw:
    """Errors and e.c.d.f.s of ReLU that differ from GaLU's, and GaLU's at both ends of the depths,
    by as much as designed."""

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for seed in range(20):
            shallow = random.normal(-3, 0.5)
            deep = shallow - random.normal(deeper.expected, deeper.spread)
            for depth, design in by_depth.items():
                galu, area = deep if depth == max(by_depth) else shallow, random.normal(0.2, 0.02)
                gap = random.normal(design.expected, design.spread)
                more = random.normal(areas[depth].expected, areas[depth].spread)
                for kind, log, mean in (("galu", galu, area + more), ("relu", galu + gap, area)):
                    found[f"{kind}-d{depth}-s{seed}"] = {
                        "distribution": [mean],
                        "steps": [0],
                        "errors": [10**log],
                    }
        return {}, values(found)

    return draw


def trained_on_mnist(faster: Mapping[str, Design], better: Design) -> Draw:
    def draw(random: Random) -> tuple[Runs, Values]:
        runs = {}
        shift = shared_error(random, 96.0, designs.TEST_EXAMPLES)
        for variant, design in faster.items():
            means = {"GaLU": 96.0 + shift(96.0), "ReLU": 96.0 + shift(98.0) + better.expected}
            for seed in range(5):
                log, gap = random.normal(-1, 0.3), random.normal(design.expected, design.spread)
                for name, mean in (("GaLU", log), ("ReLU", log + gap)):
                    best = means[name] + random.normal(0, better.spread / math.sqrt(2))
                    run = scored(best, examples=designs.TEST_EXAMPLES)
                    cell = variant.replace(" ", "-")
                    runs[f"{cell}-{name}-s{seed}"] = replace(run, train_loss=(10**mean,))
        return runs, {}

    return draw


def on_two_digits(
    accuracies: Mapping[Any, Design], nus: Mapping[str, Design], alone: Design
) -> Draw:
    """Runs whose gaps to frozen gates are as designed, and ν."""

    def draw(random: Random) -> tuple[Runs, Values]:
        runs: dict[str, Any] = {}
        found: dict[str, Any] = {}
        shift = shared_error(random, 99.0, 2010)
        at = {regime: 99.0 + shift(99.0) for regime in KINDS.values()}
        gates_only = alone.expected + 99.0 / 2 + shift(alone.expected + 99.0 / 2)
        for seed in range(10):
            for label, regime in KINDS.items():
                design = next((d for (b, _), d in accuracies.items() if b == label), None)
                gap = random.normal(design.expected, design.spread) if design else 0.0
                runs[f"{regime}-s{seed}"] = scored(at[regime] + gap, examples=2010)
            runs[f"gates-only-s{seed}"] = scored(
                gates_only + random.normal(0, alone.spread), examples=2010
            )
            grams: dict[str, dict[str, Any]] = {"DL": {}, "FR-II-soft": {}}
            for name, design in nus.items():
                frozen = 10 ** random.normal(4, 0.1, 3)
                adaptive = frozen * 10 ** random.normal(design.expected, design.spread)
                for regime, nu in (("DL", adaptive), ("FR-II-soft", frozen)):
                    grams[regime][name] = {"nu": list(nu), "rank": [1], "outside": [0.0]}
            for regime, of_regime in grams.items():
                found[f"grams-{regime}-s{seed}"] = {"epochs": [0, 5, 10], **of_regime}
        return runs, values(found)

    return draw


def no_effect(by_key: Mapping[Any, Design]) -> dict[Any, Design]:
    return {key: replace(design, expected=0.0) for key, design in by_key.items()}


def deep_gated() -> Iterator[World]:
    nothing = (Design(0.0, 0.0, ""),) * 2
    both = (25, 500)
    name = "dgn-frg-convergence"
    cell = "w{w}-d{d}"
    yield World(
        name, "paper", "as designed", errors_by_depth(cell, dgn_frg_convergence.DESIGNS, both)
    )
    yield World(name, "null", "no depth differs", errors_by_depth(cell, nothing, both))
    yield World("theory-depth", "paper", "as designed", kinds_by_depth(theory_depth.DESIGNS))
    yield World("theory-depth", "null", "no depth differs", kinds_by_depth(nothing))
    spread = dgn_frg_spectrum.NEARER.spread / math.sqrt(2)
    yield World("dgn-frg-spectrum", "paper", "as measured", spectra(0.123, 0.477, spread))
    yield World("dgn-frg-spectrum", "null", "equally far", spectra(0.3, 0.3, spread))
    own, areas, deeper = dgn_galu_relu.DESIGNS, dgn_galu_relu.SPECTRA, dgn_galu_relu.DEEPER
    yield World("dgn-galu-relu", "paper", "as designed", descents(own, areas, deeper))
    same = descents(no_effect(own), no_effect(areas), replace(deeper, expected=0.0))
    yield World("dgn-galu-relu", "null", "no difference", same)
    faster, better = dgn_random_mnist.FASTER, dgn_random_mnist.BETTER
    name = "dgn-random-mnist"
    yield World(name, "paper", "as designed", trained_on_mnist(faster, better))
    same = trained_on_mnist(no_effect(faster), replace(better, expected=0.0))
    yield World(name, "null", "no difference", same)
    two = dgn_adaptable_gates
    name = "dgn-adaptable-gates"
    as_designed = on_two_digits(two.ACCURACIES, two.NUS, two.LEARNT_ALONE)
    yield World(name, "paper", "as designed", as_designed)
    nothing_learnt = replace(two.LEARNT_ALONE, expected=25.0)
    same = on_two_digits(no_effect(two.ACCURACIES), no_effect(two.NUS), nothing_learnt)
    yield World(name, "null", "no difference", same)

    def on_cifar10(cell: str, same: float | None = None) -> Printed:
        regime = cell.split("-", 1)[1]
        hard = {"FR-II-soft": "FR-II", "soft-ReLU": "ReLU"}.get(regime, regime)
        found = number_in(designs.TABLE2, designs.CNN, designs.COLUMNS_OF[hard])
        return found if same is None else replace(found, value=same)

    name = "dgn-cifar10"
    yield World(name, "paper", "as [NPF] prints", trained(name, on_cifar10))
    same = trained(name, lambda cell: on_cifar10(cell, 70.0))
    yield World(name, "null", "all alike", same)
    name = "dgn-gates-only"
    for kind, gap in (("paper", dgn_gates_only.EXPECTED.expected), ("null", 5.0)):

        def alone(cell: str, gap: float = gap) -> Printed:
            if cell == "gates-only":
                return Printed(gap + 97.0 / 2, dgn_gates_only.EXPECTED.spread * math.sqrt(0.8))
            return Printed(97.0, 0.1)

        yield World(name, kind, f"{gap:g} points", trained(name, alone))  # type: ignore[arg-type]


# Half-spaces


def trees(moves: Design, beats: Design, learnt: Design) -> Draw:
    """Angles and accuracies of 20 trees, whose differences are as designed."""

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        runs = {f"sdi-s{seed}": scored(random.normal(96.0, 0.5)) for seed in range(5)}
        for seed in range(20):
            runs |= {f"{cell}-s{seed}": scored(90.0) for cell in half_spaces.KINDS}
            start, machine = random.normal(50, 5), random.normal(78, 3)
            other = random.normal(0, 3)
            found[f"measured-s{seed}"] = {
                "epochs": [0, 400],
                "own": [start, start - other - random.normal(moves.expected, moves.spread)],
                "unrelated": [start, start - other],
                "inside": [0.3, 0.6],
                "across": [0.2, 0.1],
                "machine_start": machine,
                "machine_end": machine + random.normal(learnt.expected, learnt.spread),
                "network": machine + random.normal(beats.expected, beats.spread),
            }
        return runs, values(found)

    return draw


def oblique_trees() -> Iterator[World]:
    designed = (half_spaces.MOVES, half_spaces.BEATS, half_spaces.LEARNT)
    yield World("half-spaces", "paper", "as designed", trees(*designed))
    none = (replace(design, expected=0.0) for design in designed)
    yield World("half-spaces", "null", "no difference", trees(*none))


# Theory, kernels


def curve(widths: tuple[int, ...], slope: float) -> list[float]:
    return [float(width) ** slope for width in widths]


def wide(rate: Design, beyond: Design, angle: Design, overlap: Design) -> Draw:
    def one(random: Random, design: Design) -> float:
        return float(random.normal(design.expected, design.spread))

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for seed in range(10):
            limit = curve(theory_infinite_width.WIDTHS, one(random, rate))
            found[f"limit-s{seed}"] = {
                "limit": limit,
                "beta": [1.0] * 6 + [0.45 + one(random, beyond)],
                "apart": 0.9,
            }
            found[f"angles-s{seed}"] = {
                "angle": [1.6] * 10 + [0.8 + one(random, angle)],
                "overlap": [0.25] * 10 + [0.375 - one(random, overlap)],
                "predicted": [0.3] * 11,
            }
        return {}, values(found)

    return draw


def starts(rates: Mapping[str, Design], bounds: Mapping[str, Design]) -> Draw:
    own = theory_ntk_npk

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {"exact": dict.fromkeys((*own.TINY, "feature", "rotation"), 0.0)}
        for seed in range(10):
            for name, design in rates.items():
                slope = random.normal(design.expected, design.spread)
                found[f"{name}-s{seed}"] = curve(own.WIDTHS[name], slope)
            excess = {key: random.normal(one.expected, one.spread) for key, one in bounds.items()}
            found[f"variance-s{seed}"] = {
                "widths": curve(own.SPREAD_WIDTHS, excess["widths"] - 1),
                "depths": curve(own.SPREAD_DEPTHS, excess["depths"] + 2),
            }
        return {}, values(found)

    return draw


def residual(slope: float, seeds: int = 10, spread: float = 0.06) -> Draw:
    """Distances that fall with the width by this power, the slope itself drawn."""

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for kind, seed in product(("", "gamma-"), range(seeds)):
            steep = random.normal(slope, spread)
            for width in (32, 64, 128, 256, 512):
                found[f"{kind}w{width}-s{seed}"] = {
                    "paths": [0.2] * 5,
                    "weighted": [0.2] * 5,
                    "sum": 0.0,
                    "weighted_sum": 0.0,
                    "product": 0.0,
                    "distance": width**steep,
                }
        return {}, values(found)

    return draw


def of_nu(logs: Callable[[Random], np.ndarray]) -> Draw:
    """ν at 26 kept epochs of five seeds; `logs`: log10 of it, (26,)."""
    runs = {f"relu-s{seed}": scored(99.0) for seed in range(5)}

    def draw(random: Random) -> tuple[Runs, Values]:
        found = {}
        for seed in range(5):
            nu = (10 ** logs(random)).tolist()
            found[f"nu-s{seed}"] = {"epochs": list(range(0, 52, 2)), "nu": nu}
        return runs, values(found)

    return draw


def of_kernels(mean: float, spread: float = 0.2) -> Draw:
    """Ratios of K^V and K^F whose largest logarithm is this in the mean over seeds."""
    runs = {f"dl-s{seed}": scored(97.0) for seed in range(5)}
    shape = np.array([0.2, 1.0, 0.6, -0.5])

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for seed in range(5):
            one: dict[str, Any] = {"epochs": [0, 20, 40, 60]}
            for name in ("trace", "norm"):
                ratio = 10 ** (shape * math.exp(random.normal(math.log(mean), spread)))
                one |= {f"{name}_value": ratio.tolist(), f"{name}_feature": [1.0] * 4}
            found[f"kernels-s{seed}"] = one
        return runs, values(found)

    return draw


def fallen(random: Random) -> np.ndarray:
    fall = random.normal(npf_nu.EXPECTED.expected, npf_nu.EXPECTED.spread)
    return 4 + np.repeat((0.0, fall), (5, 21))


def kernels() -> Iterator[World]:
    own = theory_infinite_width
    name = "theory-infinite-width"
    as_designed = wide(own.RATE, own.APART, own.ANGLE, own.OVERLAP)
    yield World(name, "paper", "as designed", as_designed)
    for slope in (-0.35, -0.65, 0.0):
        at_edges = (replace(one, expected=0.0) for one in (own.APART, own.ANGLE, own.OVERLAP))
        draw = wide(replace(own.RATE, expected=slope), *at_edges)
        yield World(name, "null", f"slope {slope:g}", draw)
    rates, bounds = theory_ntk_npk.RATES, theory_ntk_npk.BOUNDS
    name = "theory-ntk-npk"
    yield World(name, "paper", "as designed", starts(rates, bounds))
    at_bound = {k: replace(one, expected=theory_ntk_npk.EXCESS) for k, one in bounds.items()}
    for slope in (-0.35, -0.65, 0.0):
        at_slope = {k: replace(one, expected=slope) for k, one in rates.items()}
        yield World(name, "null", f"slope {slope:g}", starts(at_slope, at_bound))
    name = "composite-resnet-kernel"
    yield World(name, "paper", "slope −½", residual(-0.5))
    for slope in (-0.35, -0.65, 0.0):
        yield World(name, "null", f"slope {slope:g}", residual(slope))
    yield World("npf-nu", "paper", "as in the pilot", of_nu(fallen))
    yield World("npf-nu", "null", "flat", of_nu(lambda random: 4 + random.normal(0, 0.05, 26)))
    # a random walk is monotone often enough that Spearman's ρ of five seeds would be −1
    wandering = of_nu(lambda random: 4 + random.normal(0, 0.05, 26).cumsum())
    yield World("npf-nu", "null", "wandering", wandering)
    yield World(
        "npf-kernels", "paper", "a factor of three", of_kernels(npf_kernels.EXPECTED.expected)
    )
    yield World("npf-kernels", "null", "a decade", of_kernels(1.0))


# Two layers with given gates


def optima(faster: Mapping[Any, Design], reached: Mapping[float, Design]) -> Draw:
    """Passes of training and of the proximal method, and where training ends."""

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for seed in range(10):
            one: dict[str, Any] = {"passes": [1, 2]}
            for share, end in reached.items():
                one[convex_gates.key_of(share)] = {
                    "proximal": 100.0,
                    "late": [],
                    "excess": 10 ** random.normal(end.expected, end.spread),
                    "curves": {key: [1.0, 0.1] for key in ("proximal", *convex_gates.NAMES)},
                    **dict.fromkeys(("units", "relu", "learnt"), 1.0),
                    **dict.fromkeys(("gap", "factored", "below", "as_relu"), 0.0),
                } | {
                    name: 100 * 10 ** random.normal(design.expected, design.spread)
                    for (name, of), design in faster.items()
                    if of == share
                }
            found[f"optimum-s{seed}"] = one
        return {}, values(found)

    return draw


def memorising(slopes: Mapping[str, Design], factors: Mapping[str, Design], ratio: Design) -> Draw:
    """Widths that memorise, which grow with n by a power, and the width of full rank."""
    own = galu_memorisation
    inputs, sizes = own.FULL

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for seed in range(10):
            slope, factor = (
                {kind: random.normal(one.expected, one.spread) for kind, one in designs.items()}
                for designs in (slopes, factors)
            )
            over_rank = random.normal(ratio.expected, ratio.spread)
            for n in sizes:
                width = {
                    kind: factor[kind] * sizes[-1] / inputs * (n / sizes[-1]) ** slope[kind]
                    for kind in own.KINDS
                }
                first, second = sorted(width.values())
                found[f"n{n}-s{seed}"] = {
                    "width": [first, second],
                    "rank": width["galu"] / over_rank,
                    "floor": [0.5, 0.5],
                } | {
                    kind: [own.FITTED if own_width == first else 1.0, own.FITTED]
                    for kind, own_width in width.items()
                }
        return {}, values(found)

    return draw


def two_layers() -> Iterator[World]:
    own, name = convex_gates, "convex-gates"
    yield World(name, "paper", "as designed", optima(own.FASTER, own.REACHED))
    at_bar = {k: replace(one, expected=math.log10(own.NEAR)) for k, one in own.REACHED.items()}
    yield World(name, "null", "no difference", optima(no_effect(own.FASTER), at_bar))
    galu, name = galu_memorisation, "galu-memorisation"
    as_designed = memorising(galu.SLOPES, galu.WIDTHS, galu.RATIO)
    yield World(name, "paper", "as designed", as_designed)
    twice = {kind: replace(one, expected=galu.TWICE) for kind, one in galu.WIDTHS.items()}
    soon = replace(galu.RATIO, expected=galu.SOON)
    for slope in (galu.SLOPE - galu.MARGIN, galu.SLOPE + galu.MARGIN, 2.0):
        at_slope = {kind: replace(one, expected=slope) for kind, one in galu.SLOPES.items()}
        yield World(name, "null", f"slope {slope:g}", memorising(at_slope, twice, soon))


def aligned(by_depth: Mapping[int, Mapping[str, Design]]) -> Draw:
    """Shares, distances and rises as designed; those of the contrasts differ by as much."""

    def draw(random: Random) -> tuple[Runs, Values]:
        found: dict[str, Any] = {}
        for (depth, designs_of), seed in product(by_depth.items(), range(10)):
            small = {n: float(random.normal(d.expected, d.spread)) for n, d in designs_of.items()}
            cells = {
                "small": small,
                "usual": {**small, "turn": 0.0},
                "plain": {**small, "share": small["share"] - small["whitened"]},
            }
            for cell, numbers in cells.items():
                more = {"last_cka": 0.2, "rise": 0.1, "far": [0.5, 0.1], "steps": [100, 40]}
                curves = {key: [0.1, 0.9] for key in ("cosine", "cka", "norm", "loss")}
                curves["plain"] = [0.1, 0.2, 0.2]
                found[f"{cell}-d{depth}-s{seed}"] = numbers | more | curves
        return {}, values(found)

    return draw


def silent() -> Iterator[World]:
    """The edges of the shares, and no contrast."""
    own = silent_alignment.DESIGNS
    yield World("silent-alignment", "paper", "as designed", aligned(own))
    edges = {"share": 0.5, "scale": 0.5, "learnt": 0.0, "whitened": 0.0, "turn": 0.0}
    at_edges = {
        depth: {name: replace(one, expected=edges[name]) for name, one in designs_of.items()}
        for depth, designs_of in own.items()
    }
    yield World("silent-alignment", "null", "at the edges", aligned(at_edges))


# Regions


def phases(fall: Design, rise: Design, last: Design) -> Draw:
    """Local complexity that falls, rises and falls by as much, in log2."""

    def draw(random: Random) -> tuple[Runs, Values]:
        epochs = [0, region_phases.LOW, region_phases.HIGH[1], region_phases.LAST[1]]
        found, runs = {}, {}
        for seed in range(5):
            log, curve = random.normal(4, 0.2), []
            for sign, change in ((0, fall), (-1, fall), (1, rise), (-1, last)):
                log += sign * random.normal(change.expected, change.spread)
                curve.append(2**log)
            one = {"epochs": epochs, "complexity": curve, "layers": [[c] for c in curve]}
            found[f"regions-s{seed}"] = one
            runs[f"relu-s{seed}"] = scored(90.0)
        return runs, values(found)

    return draw


def regions() -> Iterator[World]:
    fall, rise = region_phases.FALL, region_phases.RISE
    last = replace(rise, expected=0.3)  # unknown
    name = "region-phases"
    yield World(name, "paper", "as designed", phases(fall, rise, last))
    still = phases(*(replace(one, expected=0.0) for one in (fall, rise, last)))
    yield World(name, "null", "no phase", still)


def pruned(
    alike: Design, better: Mapping[float, Design], base: float, examples: int = 10_000
) -> Draw:
    """Answers to test examples that are as hard for all networks, which differ by as much as
    designed: path magnitude, of accuracy `base`, from magnitude with and without rescaling."""
    shares = path_pruning.SHARES
    designs_of = {
        "path": dict.fromkeys(shares),
        "magnitude": dict.fromkeys(shares, alike),
        "rescaled": better,
    }

    def draw(random: Random) -> tuple[Runs, Values]:
        hard = random.normal(size=examples)
        found: dict[str, Any] = {}
        for seed in range(10):
            own = random.normal(size=examples)
            wrong: dict[str, list[list[int]]] = {kind: [] for kind in designs_of}
            for kind, share in product(designs_of, shares):
                accuracy, design = base, designs_of[kind][share]
                if design is not None:
                    accuracy -= random.normal(design.expected, design.spread)
                line = norm.ppf(1 - accuracy / 100)
                answers = np.flatnonzero((2 * hard + own) / math.sqrt(5) < line).tolist()
                wrong[kind].append(answers)
            inputs = dict.fromkeys(designs_of, [0.5] * 3)
            more = {"examples": examples, "whole": [], "differing": 0.0, "inputs": inputs}
            found[f"prune-s{seed}"] = {"wrong": wrong, **more}
        return {}, values(found)

    return draw


def path_magnitudes() -> Iterator[World]:
    """The edges of the equivalence, and no loss by rescaling."""
    name, alike, better = "path-pruning", path_pruning.MATCHES, path_pruning.BETTER
    yield World(name, "paper", "as designed", pruned(alike, better, 97.0))
    for side in (1, -1):
        edge = replace(alike, expected=side * path_pruning.MARGIN)
        at_edge = pruned(edge, no_effect(better), 70.0)
        yield World(name, "null", f"at the edges, {side:+d}", at_edge)


def dlgn() -> Iterator[World]:
    """DLGNs that keep exactly the abstract's share of a DNN's accuracy, more, or nothing."""
    name, dnn = "dlgn-rows", 90.0
    for kind, about, kept in (
        ("paper", "three points more than the abstract's bound", dlgn_rows.KEPT + 3),
        ("null", "the bound itself", dlgn_rows.KEPT),
        ("null", "chance", 100 * 10 / dnn),
    ):

        def mean(cell: str, kept: float = kept) -> Printed:
            return Printed(dnn if cell.endswith("-DNN") else kept / 100 * dnn, 0.3)

        yield World(name, kind, about, trained(name, mean))  # type: ignore[arg-type]


def all_worlds() -> list[World]:
    of_papers = (tables, stages, differences, davidnet, forty_eight, noise, deep_gated, kernels)
    groups = (*of_papers, oblique_trees, two_layers, silent, regions, path_magnitudes, dlgn)
    return [world for group in groups for world in group()]
