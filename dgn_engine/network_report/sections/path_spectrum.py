"""The neural path kernel H: its spectrum and ν."""

from __future__ import annotations

import numpy as np
import torch

from dgn_engine import kernels as k
from dgn_engine.network_report.panel_figures import draw_panel
from dgn_engine.network_report.probe_readings import (
    NETWORKS,
    cost_of_probe,
    describe_method,
    read_probe,
    read_random_networks,
)
from dgn_engine.network_report.section import Quantity, SectionResult, SectionSpec, not_here
from dgn_engine.network_report.subject import Subject
from dgn_engine.network_report.typical import typical_range
from dgn_engine.training.probes import ProbeContext, ProbeResult

PROBE = "npk"


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Read H of the network and of random ones, and of the network with shuffled labels."""
    reading = read_probe(subject, PROBE, seconds)
    if reading.absent:
        raise not_here(reading.absent)
    n, exact = len(reading.arrays["labels"]), not reading.error
    npk = torch.tensor(reading.arrays["npk"])
    nulls: dict[str, list[float]] = {"nu": [], "rank": [], "first": []}

    def keep(context: ProbeContext, result: ProbeResult) -> None:
        if result.absent:
            return
        nulls["nu"].append(result.scalars["nu"] / n**2)
        nulls["rank"].append(result.scalars["effective_rank"])
        nulls["first"].append(result.scalars["rho_max"])

    if exact:
        read_random_networks(subject, PROBE, seconds, keep)
    labels, classes = torch.tensor(reading.arrays["labels"]), subject.probe_set.classes
    own = k.spectrum(npk, k.class_targets(labels, classes))
    generator = np.random.default_rng(subject.seed)
    shuffled = [labels[torch.from_numpy(generator.permutation(n))] for _ in range(NETWORKS)]
    spectra = [k.spectrum(npk, k.class_targets(order, classes)) for order in shuffled]
    regime = subject.imported.regime
    values = reading.arrays["eigenvalues"]
    quantities = [
        Quantity(
            "share of the first eigenvalue",
            float(values[0] / np.trace(reading.arrays["npk"])),
            "percent",
            random=tuple(nulls["first"]),
        )
    ]
    if exact and own.nu is not None:
        quantities = [
            Quantity("ν", own.nu, "number"),
            Quantity(
                "ν/n²",
                own.nu / n**2,
                random=tuple(nulls["nu"]),
                shuffled=tuple((s.nu or np.nan) / n**2 for s in spectra),
                typical=typical_range("nu", regime),
            ),
            Quantity(
                "effective rank",
                own.effective_rank,
                "number",
                random=tuple(nulls["rank"]),
                typical=typical_range("effective_rank", regime),
            ),
            Quantity("rank", float(own.rank), "number"),
            *quantities,
        ]
    by_name = {quantity.name: quantity for quantity in quantities}
    sentences = (
        _describe_nu(by_name, n),
        _describe_rank(by_name, n),
        _describe_contradictions(reading.scalars.get("contradictory", 0.0)),
    )
    return SectionResult(
        tuple(filter(None, sentences)),
        tuple(quantities),
        draw_panel(subject, "spectrum", {PROBE: reading}),
        "Left: eigenvalues of H at trace 1, largest first. Right: how the energy of the labels is "
        "spread over its eigenvectors.",
        describe_method(reading, len(nulls["nu"])),
    )


def _describe_nu(by_name: dict[str, Quantity], n: int) -> str:
    if "ν/n²" not in by_name:
        return "ν needs the exact kernel, which the time limit does not allow."
    own = by_name["ν/n²"]
    size = (
        "these labels are harder for it than if no two examples shared a path"
        if own.value > 1
        else "the kernel helps with these labels"
        if own.value < 0.8
        else "the kernel helps little with these labels"
    )
    sentence = f"ν is {own.text} n² (1 n² if each example is on its own): {size}. "
    sentence += f"With the same kernel, {own.text} is {own.label_rank}"
    if own.label_rank.startswith("below"):
        sentence += ": it fits these labels in particular"
    elif own.label_rank.startswith("above"):
        sentence += ": it fits other labels better"
    else:
        sentence += ": it would fit any labels as well"
    sentence += f"; it is {own.rank}." if own.rank else "."
    return sentence


def _describe_rank(by_name: dict[str, Quantity], n: int) -> str:
    first = by_name["share of the first eigenvalue"]
    sentence = f"The first of {n} directions alone has {first.text} of the trace of H"
    sentence += f", {first.rank}" if first.rank else ""
    if "effective rank" not in by_name:
        return f"{sentence}."
    rank = by_name["effective rank"]
    also = f", {rank.rank}" if rank.rank else ""
    return f"{sentence}; the spectrum is like that of {rank.text} equal directions{also}."


def _describe_contradictions(count: float) -> str:
    if not count:
        return ""
    return f"{int(count):,} examples have the input of another label: no kernel can fit them."


SECTION = SectionSpec("spectrum", "Neural path kernel and ν", cost_of_probe(PROBE), measure)
