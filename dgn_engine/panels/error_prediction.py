"""Predicted errors: gradient descent steps against the prediction of a constant tangent kernel."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Axis, Chart, Curve, Fact, Scene, Shown, finite_range
from dgn_engine.scene.layer_curves import chart_over_steps, recorded_curve
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, chosen_value
from dgn_engine.scene.scatter import scatter_curve
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.scene.typeset import escape_label
from dgn_engine.text.written_numbers import format_percent

TIMES = Option(
    "times",
    "Rate",
    always(
        ("1", "run's rate"), ("10", "rate × 10"), ("100", "rate × 100"), ("1000", "rate × 1000")
    ),
    engine=True,
)


@draw_reading("error_prediction", "Predicted and measured steps appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw the losses along the steps, the logit changes, and the mismatch over steps."""
    charts = (_draw_losses(reading), _draw_changes(reading), _over_steps(view))
    return Scene(charts, _list_facts(reading), reading.step, _write_note(view, reading))


def _draw_losses(reading: Reading) -> Chart:
    measured, predicted = reading.arrays["measured"], reading.arrays["predicted"]
    steps = np.arange(len(measured))
    finite = [np.where(np.isfinite(losses), losses, np.nan) for losses in (measured, predicted)]
    return Chart(
        key="losses",
        title="Loss on the probe examples",
        x=Axis(label="virtual step", limits=(0.0, len(steps) - 1.0)),
        y=Axis(),
        curves=(
            Curve("measured", steps, finite[0], "accent", thick=True, marker=True),
            Curve("predicted", steps, finite[1], "compared", "dash", marker=True),
        ),
        narrow=(0, 0, 1, 1),
    )


def _draw_changes(reading: Reading) -> Chart:
    """Plot each logit's change in the first step, measured against predicted."""
    measured = reading.arrays["change"].ravel().astype(np.float64)
    predicted = reading.arrays["change_predicted"].ravel().astype(np.float64)
    low, high = finite_range(np.concatenate([measured, predicted]))
    if low == high:
        low, high = low - 1e-6, high + 1e-6
    # Exact predictions lie on this diagonal.
    ends = np.array([low, high])
    return Chart(
        key="changes",
        title="Logit changes, first step",
        x=Axis(label="predicted", limits=(low, high)),
        y=Axis(limits=(low, high)),
        curves=(
            Curve("as predicted", ends, ends, "muted", "dash"),
            scatter_curve("measured", predicted, measured, "accent"),
        ),
        column=1,
        narrow=(0, 1, 1, 1),
    )


def _over_steps(view: View) -> Chart:
    after_one = recorded_curve(view, ("error_prediction", "one"), "after 1", "text", "solid", 100)
    after_all = recorded_curve(view, ("error_prediction", "all"), "after all", "muted", "dash", 100)
    title = "Logit mismatch, %"
    return chart_over_steps(view, title, after_one + after_all, (1, 0, 1, 2), 2)


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    steps = len(reading.arrays["measured"]) - 1
    facts = [
        Fact("rate", reading.facts.get("rate", "–"), "Rate of each virtual step, on the mean loss.")
    ]
    for name, title in (("one", "after 1"), ("all", f"after {steps}")):
        if (off := reading.scalars.get(name)) is not None:
            about = "‖predicted − measured‖/‖measured‖ over the changes of all logits."
            facts.append(Fact(title, format_percent(off, 2), about))
    return tuple(facts)


def _write_note(view: View, reading: Reading) -> str:
    errors = "e = p − y (cross entropy)" if reading.facts.get("loss") != "squared" else "e = f − y"
    rate_changed = "The curves include steps before the rate was changed."
    return join_sentences(
        f"Full-batch gradient descent on the probe examples, on a network copy; {errors}.",
        escape_label(reading.facts.get("run", "")),
        rate_changed if chosen_value(view, TIMES) != "1" else "",
    )


PANEL = PanelSpec(
    title="Predicted errors",
    probes=("error_prediction",),
    draw=draw,
    about=About(
        text=(
            "The tangent kernel predicts how one gradient descent step on some examples moves the "
            "outputs on them: with squared loss, by minus rate times kernel times error. This is "
            "exact to first order in the rate. Here a copy of the network takes ten such steps on "
            "all probe examples at once (measured), and the same ten are predicted with the "
            "current kernel held fixed. Left: the loss along both. Middle: each logit's change in "
            "the first step, on the dashed line where the prediction is right. With cross entropy "
            "the errors are p − y. This holds for plain gradient descent: Adam, momentum and "
            "mini-batches take different steps, as the line below the charts notes. Raise the "
            "rate in the header to see where the prediction breaks down; then try a wider "
            "network, whose kernel moves less."
        ),
        formulas=(
            r"$e_{t+1} = e_t - \alpha K_t e_t + O(\alpha^2)$",
            r"$f_{k+1} = f_k - \alpha J J^\top \partial L / \partial f_k, \quad K = J J^\top$",
        ),
        symbols=(
            "$e_t$: errors of the logits at step $t$; $f$: logits; $α$: learning rate; $L$: loss; "
            "$J$: Jacobian of the logits."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: errors under gradient descent; Jacot et al. 2018, "
            "arXiv:1806.07572. JJᵀ is applied to all logits at once and never built"
        ),
        computed=(
            "Exact: JJᵀ is applied to the errors of all logits by two products with the "
            "gradients, in float64 to resolve the small steps of a trained network; the copy "
            "takes real steps and is discarded."
        ),
        trials=(
            freeze_random_gates(
                "K then comes from the values alone and moves less: the prediction holds for more "
                "steps."
            ),
        ),
    ),
    options=(TIMES,),
    area="right",
    order=13,
    opened=False,
)
