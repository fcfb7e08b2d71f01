"""Training: loss and accuracy over steps, on training batches and on the test set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.scene.axes import LOG, count_beyond, spanning_axis, step_axis
from dgn_engine.scene.compared import (
    compared_view,
    curve_differences,
    describe_b,
    facts_of_both,
    pair_labels,
)
from dgn_engine.scene.elements import Axis, Chart, Curve, Empty, Fact, Scene, Shown, finite_range
from dgn_engine.scene.layer_curves import recorded_curve
from dgn_engine.scene.overlaid import scalar_curves
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Series, View, always, chosen_value
from dgn_engine.scene.trials import freeze_random_gates, keep_gates
from dgn_engine.text.written_numbers import format_number, format_percent

SCALE = Option(
    "scale", "Loss", always(("auto", "automatic"), ("linear", "linear"), ("log", "logarithmic"))
)


def draw(view: View) -> Shown:
    """Draw loss and accuracy, train thin and test thick, with a mark for each event."""
    if view.run is not None and view.run.inspected:
        why = f"{view.run.inspected} is inspected, not trained, so it has no curves."
        return Empty(why, "not-trained")
    loss, accuracy = _layered_curves(view, "loss", 1.0), _layered_curves(view, "accuracy", 100.0)
    if not loss and not accuracy:
        if view.step:
            return Empty(f"No loss was measured up to step {view.step:,}.", "no-reading")
        return Empty(
            "Loss and accuracy on training batches and on the test set appear from step 1.",
            "no-reading",
        )
    x = step_axis((*loss, *accuracy), view)
    scale = chosen_value(view, SCALE)
    y = spanning_axis(loss, None if scale == "auto" else scale == "log")
    charts: tuple[Chart, ...] = (
        Chart(
            key="loss",
            title=f"Loss{LOG}" if y.log else "Loss",
            x=x,
            y=y,
            curves=loss,
            marks=view.marks,
            narrow=(0, 0, 1, 1),
        ),
        Chart(
            key="accuracy",
            title="Accuracy, %",
            x=x,
            y=Axis(limits=_accuracy_range(accuracy)),
            curves=accuracy,
            marks=view.marks,
            column=1,
            narrow=(1, 0, 1, 1),
        ),
    )
    scores = (series for (source, _), series in view.series.items() if source == "training")
    scores = (series.until(view.cursor) for series in scores)
    last_steps = [int(series.steps[-1]) for series in scores if series.steps.size]
    facts, other = _list_facts(view), compared_view(view)
    if other is not None and view.compared is not None:
        facts = facts_of_both(facts, _list_facts(other), view.compared)
    charts += _draw_difference(view, x)
    return Scene(charts, facts, max(last_steps, default=0), _write_note(view, loss, y))


def _layered_curves(view: View, quantity: str, scale: float) -> tuple[Curve, ...]:
    """Return the run's curves, over those of recorded runs and of B, which are dashed."""
    compared = compared_view(view)
    own = view.compared is not None and view.compared.own  # the curves of A are the same
    curves_of_b = () if compared is None or own else _score_curves(compared, quantity, scale)
    b = "B" if view.compared is None else pair_labels(view.compared)[1]
    names = (f"test_{quantity}", f"train_{quantity}")
    return (
        *scalar_curves(view.overlaid, "training", names, scale),
        *(
            replace(curve, name=f"{b} {curve.name}", role="compared", dash="dash")
            for curve in curves_of_b
        ),
        *_score_curves(view, quantity, scale),
    )


def _draw_difference(view: View, x: Axis) -> tuple[Chart, ...]:
    """Draw the accuracy of A minus that of B at common steps, if B is another run."""
    other = compared_view(view)
    if other is None or view.compared is None or view.compared.own:
        return ()
    pair = [_score_curves(side, "accuracy", 100.0) for side in (view, other)]
    curves = curve_differences(pair[0], pair[1])
    if not curves:
        return ()
    a, b = pair_labels(view.compared)
    return (
        Chart(
            key="accuracy_difference",
            title=f"Accuracy, {a} − {b}, points",
            x=x,
            y=Axis(),
            curves=curves,
            marks=view.marks,
            column=2,
            narrow=(2, 0, 1, 1),
        ),
    )


def _score_curves(view: View, quantity: str, scale: float) -> tuple[Curve, ...]:
    train, test = (("training", f"{split}_{quantity}") for split in ("train", "test"))
    return (
        *recorded_curve(view, train, "train", "muted", scale=scale),
        *recorded_curve(view, test, "test", "accent", scale=scale, thick=True),
    )


def _accuracy_range(curves: tuple[Curve, ...]) -> tuple[float, float] | None:
    ranges = [finite_range(curve.y) for curve in curves]
    if not ranges:
        return None
    low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
    air = max((high - low) * 0.06, 1.0)
    return max(low - air, -1.0), min(high + air, 101.0)


def _list_facts(view: View) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    accuracy = _score_so_far(view, "test_accuracy")
    tested = accuracy is not None and bool(accuracy.values.size)
    if accuracy is not None and tested:
        last = format_percent(accuracy.values[-1], 2)
        step, outdated = f"{accuracy.steps[-1]:,}", _outdated_suffix(view, "test_accuracy")
        if view.tested:
            about = f"Accuracy on the whole test set at step {step}."
            facts.append(Fact("test", last + outdated, about))
        else:
            facts.append(_missing_test_fact(view, f" Last: {last} at step {step}{outdated}."))
        best_step, best = best_test(view) or (None, np.nan)
        where = f", at step {best_step:,}" if best_step is not None else ""
        about = f"Best test accuracy of this run so far{where}."
        facts.append(Fact("best", format_percent(best, 2), about))
    elif not view.tested:
        facts.append(_missing_test_fact(view))
    loss = _score_so_far(view, "train_loss")
    if loss is not None and loss.values.size:
        about = "Mean loss over the training batches since the last measurement."
        value = format_number(loss.values[-1], 4) if np.isfinite(loss.values[-1]) else "not finite"
        facts.append(Fact("train loss", value + _outdated_suffix(view, "train_loss"), about))
    return tuple(facts)


def best_test(view: View) -> tuple[int, float] | None:
    """Return the first step of the best test accuracy so far, and the accuracy; None if unknown."""
    accuracy = _score_so_far(view, "test_accuracy")
    finite = np.zeros(0, bool) if accuracy is None else np.isfinite(accuracy.values)
    if accuracy is None or not finite.any():
        return None
    at = int(np.argmax(np.where(finite, accuracy.values, -np.inf)))
    return int(accuracy.steps[at]), float(accuracy.values[at])


def _score_so_far(view: View, name: str) -> Series | None:
    """Return the score up to the step shown."""
    series = view.series.get(("training", name))
    return series.until(view.cursor) if series is not None else None


def _missing_test_fact(view: View, last: str = "") -> Fact:
    about = (
        f"{view.regime} has gates for the training examples only, so there is no test score.{last}"
    )
    return Fact("test", f"none in {view.regime}", about)


def _outdated_suffix(view: View, score: str) -> str:
    """Return ', before FR-II' for a score of the network before that change; '' otherwise."""
    later = view.outdated.get(score)
    return f", before {later.label}" if later is not None else ""


def _write_note(view: View, losses: tuple[Curve, ...], axis: Axis) -> str:
    if view.run is None:
        return ""
    count, top = count_beyond(losses, axis)
    above = (
        f"{count:,} loss{'es' if count > 1 else ''} above the axis, up to {format_number(top, 3)}. "
    )
    return (above if count else "") + _describe_scores(view)


def _describe_scores(view: View) -> str:
    assert view.run is not None
    which = view.run.config.training.loss.replace("-", " ")
    note = f"{which.capitalize()} loss; train: mean over batches, test: whole test set."
    if view.run.watched:
        note = f"Scores as reported by {view.run.watched}; train: mean over batches."
    if view.compared is not None and view.compared.series:
        note += f" {describe_b(view.compared, 'Dashed: ')}".rstrip()
    if view.overlaid:
        note += " Named lines: recorded runs, on the test set where available."
    return note


PANEL = PanelSpec(
    title="Training",
    probes=(),
    draw=draw,
    draws_both=True,
    about=About(
        text=(
            "The thin line is the mean over the training batches since the last measurement, the "
            "thick line the whole test set. Each regime swap, rewiring and dropped checkpoint is "
            "marked and labelled, so that you can see its effect on the curves."
        ),
        formulas=(
            r"$L = \frac{1}{2}\sum_s (\hat{y}(x_s) - y_s)^2$ or "
            r"$L = -\sum_s \log\,\mathrm{softmax}(\hat{y}(x_s))_{y_s}$",
        ),
        symbols=(
            "$x_s$, $y_s$: an example and its label; $ŷ$: output of the network, one logit per "
            "class. Left: squared loss; right: cross entropy."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529, Table 2"
        ),
        computed=(
            "The train score is the mean over the batches since the last point, each taken before "
            "its update; the test score covers all test examples, as often as the allowed viewer "
            "overhead permits, and at the end of every epoch. The loss axis is logarithmic while "
            "the losses in view span more than three decades, or a curve ends far above the rest; "
            "your own choice of axis takes precedence. A few losses far above all others fall "
            "beyond the axis and are counted below the charts."
        ),
        trials=(
            keep_gates(
                "The accuracy drops to chance and recovers to about where it was: [NPF] Table 2, "
                "FLNPF."
            ),
            freeze_random_gates(
                "The accuracy stays below that of learnt gates: [NPF] Table 2, FRNPF."
            ),
        ),
    ),
    options=(SCALE,),
    area="right",
    order=2,
)
