"""Kernel alignment: of K^V, K^F, K and H with the labels; their shape and scale over steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, named_axis
from dgn_engine.scene.elements import (
    Axis,
    Chart,
    Curve,
    Dash,
    Fact,
    Role,
    Scene,
    Shown,
)
from dgn_engine.scene.layer_curves import chart_over_steps, drop_nonpositive, recorded_curve
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, chosen_value
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number

# (kernel, name, role, dash)
_KERNELS: tuple[tuple[str, str, Role, Dash], ...] = (
    ("value", "$K^V$", "value", "solid"),
    ("feature", "$K^F$", "feature", "dash"),
    ("sum", "$K$", "text", "dot"),
    ("npk", "$H$", "accent", "dashdot"),
)
_TITLES = {
    "centred": "CKA with labels",
    "plain": "Alignment, not centred",
    "shape": "Change of shape",
    "norm": "Norm and loss",
    "trace": "Trace and loss",
}
ALIGNMENT = Option(
    "alignment", "Alignment", always(("centred", "centred (CKA)"), ("plain", "not centred"))
)
SCALE = Option("scale", "Scale", always(("norm", "norm"), ("trace", "trace")))


@draw_reading("alignment", "Alignment of the kernels appears with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw alignments over steps and by class, and shape and scale over steps."""
    alignment, scale = chosen_value(view, ALIGNMENT), chosen_value(view, SCALE)
    charts: list[Chart] = []
    if not reading.facts.get("labels"):
        charts.append(_over_steps(view, alignment, "alignment"))
        by_class = _by_class(view, reading)
        charts += [by_class] if by_class is not None else []
    since = reading.facts.get("since", "")
    notes = [reading.facts.get("labels", "")]
    if _has_reference(view, reading):
        charts += [_over_steps(view, "shape", "shape"), _over_steps(view, scale, "scale")]
        where = f", step {since}" if since else ""
        if any(chart.curves for chart in charts[-2:]):  # a compared file has none
            notes.append(f"Shape and scale: relative to the first reading{where}.")
        if any(curve.name == "loss" for curve in charts[-1].curves):
            notes.append("Loss: on training batches, relative to its first value.")
    charts = [
        replace(chart, column=column, narrow=(column // 2, column % 2, 1, 1))
        for column, chart in enumerate(charts)
    ]
    note = join_sentences(*notes)
    return Scene(tuple(charts), tuple(_list_facts(reading)), reading.step, note)


def _has_reference(view: View, reading: Reading) -> bool:
    """Return whether the reading is one of several of a run, so that shapes can be compared."""
    inspected = view.run is not None and bool(view.run.inspected)
    return not inspected and any(name.startswith("shape_") for name in reading.scalars)


def _over_steps(view: View, scalar: str, key: str) -> Chart:
    log = key == "scale"
    curves: list[Curve] = []
    for kernel, name, role, dash in _KERNELS:
        curves.extend(recorded_curve(view, ("alignment", f"{scalar}_{kernel}"), name, role, dash))
    if log:
        curves = list(drop_nonpositive([*curves, *_relative_loss(view)]))
    chart = chart_over_steps(view, _TITLES[scalar], curves, (0, 0, 1, 1), log=log)
    return replace(chart, key=key)


def _relative_loss(view: View) -> Iterator[Curve]:
    series = view.series.get(("training", "train_loss"))
    first = series.values[0] if series is not None and series.steps.size else np.nan
    if series is not None and np.isfinite(first) and first > 0:
        values = series.values / first
        yield Curve("loss", series.steps, values, "muted", marker=bool(series.steps.size == 1))


def _by_class(view: View, reading: Reading) -> Chart | None:
    """Draw the CKA of each class; None for two classes, which have the same."""
    found = {kernel: reading.arrays.get(f"class_{kernel}") for kernel, *_ in _KERNELS}
    count = max((len(values) for values in found.values() if values is not None), default=0)
    if count <= 2:
        return None
    names = class_names(view, np.arange(count))
    return Chart(
        key="by_class",
        title="CKA, each class against the rest",
        x=named_axis("class", names[:count]),
        y=Axis(),
        curves=tuple(
            Curve(name, np.arange(count), values, role, dash, marker=True)
            for kernel, name, role, dash in _KERNELS
            if (values := found[kernel]) is not None and np.isfinite(values).any()
        ),
    )


def _list_facts(reading: Reading) -> Iterator[Fact]:
    for kernel, name, *_ in _KERNELS:
        value = reading.scalars.get(f"centred_{kernel}")
        if value is not None:
            plain = reading.scalars.get(f"plain_{kernel}")
            about = "Centred kernel alignment (CKA) with the labels."
            if plain is not None:
                about += f" Not centred: {format_number(plain, 3)}."
            yield Fact(f"CKA {name}", format_number(value, 3), about)


PANEL = PanelSpec(
    title="Kernel alignment",
    probes=("alignment",),
    draw=draw,
    about=About(
        text=(
            "Does a kernel know the labels, and does it learn them before the loss shows it? The "
            "alignment is the cosine between the kernel and the matrix that is large where two "
            "examples have the same class; centring removes what all examples have in common, "
            "which would otherwise dominate. It is 1 for a kernel of the labels alone. A kernel "
            "has a shape, which decides what is learnt, and a scale, which decides how fast. In "
            "wide networks with usual weights both hardly change. With small initial weights the "
            "shape can turn to the labels while kernel and loss still seem to stand still, and "
            "only the scale grows later: silent alignment. To see it, start a run with a small σ "
            "of the initial weights and the squared loss."
        ),
        formulas=(
            r"$\langle CKC, YY^\top \rangle \, / \, (\| CKC \| \, \| CYY^\top C \|)$",
            r"$C = I - \frac{1}{n} 1 1^\top$",
            r"$\| K_t / \| K_t \| - K_0 / \| K_0 \| \|, \quad \| K_t \| / \| K_0 \|$",
        ),
        symbols=(
            "$Y$: targets of ±1, one column per class; $K_0$: kernel at the first reading; $H$: "
            "path kernel; $K$: sum of the parts of the tangent kernel; ‖·‖: Frobenius norm."
        ),
        source=(
            "Cortes et al. 2012, arXiv:1203.0550: centred alignment; Atanasov, Bordelon & Pehlevan "
            "2022, arXiv:2111.00034: silent alignment"
        ),
        computed=(
            "Exactly, from all entries of the kernels on the probe examples that were read; K is "
            "the mean over the logits."
        ),
        trials=(
            freeze_random_gates("The shape of H stops: only the values behind it keep moving."),
        ),
    ),
    options=(ALIGNMENT, SCALE),
    area="right",
    order=14,
    opened=False,
)
