"""What differs between the run (A) and what it is compared with (B): settings, scores, scalars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.protocol.run_curves import TRAINING
from dgn_viewer.scene.panel_spec import ComparedRun, Series, View

_SCORES = {
    "train_loss": "train loss",
    "train_accuracy": "train accuracy",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
}
_SCALARS = {
    ("npk", "nu"): "ν of the path kernel",
    ("npk", "outside"): "labels outside its range",
    ("ntk", "trace_value"): "trace of K, value part",
    ("ntk", "trace_feature"): "trace of K, feature part",
    ("ntk", "trace_cross"): "trace of K, cross part",
    ("gates", "churn"): "gates that switched",
}
_WIRING = "gating.wiring"
_PERCENT = ("train_accuracy", "test_accuracy", "churn")


@dataclass(frozen=True)
class Difference:
    """One row: what it is, A, B and B - A in words; `where`: at which steps they were measured."""

    name: str
    a: str
    b: str
    change: str = ""
    where: str = ""


@dataclass(frozen=True)
class Differences:
    """`settings`: what is set differently; `scores` and `scalars`: at the newest common step, or
    where there is none each at its newest, which `where` says."""

    settings: tuple[Difference, ...] = ()
    scores: tuple[Difference, ...] = ()
    scalars: tuple[Difference, ...] = ()


def differences(view: View, a: RunConfig | None, b: RunConfig | None) -> Differences:
    """Of a view with a comparison; `a` and `b`: the configurations as they are now, where known."""
    if view.compared is not None and view.compared.own:
        settings = tuple(_between_steps(view, view.compared))
    else:
        settings = () if a is None or b is None else tuple(_settings(a, b))
    return Differences(
        settings,
        tuple(_measured(view, {(TRAINING, name): words for name, words in _SCORES.items()})),
        tuple(_measured(view, _scalars(view))),
    )


def _settings(a: RunConfig, b: RunConfig) -> Iterator[Difference]:
    """Settings that differ, in the order of the form; the pace changes no result."""
    ours, theirs = _flat(a), _flat(b)
    for place in dict.fromkeys((*ours, *theirs)):
        if ours.get(place) != theirs.get(place) and place != "training.pace":
            word = _order if place == _WIRING else _word
            yield Difference(_label(place), word(ours.get(place)), word(theirs.get(place)))


def _between_steps(view: View, other: ComparedRun) -> Iterator[Difference]:
    """What of the run was changed between two of its steps."""
    if view.regime != other.regime:
        yield Difference(_label("gating.regime"), _word(view.regime), _word(other.regime))
    if view.wiring != other.wiring:
        yield Difference(_label(_WIRING), _order(view.wiring), _order(other.wiring))


def _flat(config: RunConfig) -> dict[str, Any]:
    """By place: 'training.learning_rate', 'net.options.width', 'seed'."""
    found: dict[str, Any] = {}

    def take(tree: Mapping[str, Any], path: str) -> None:
        for name, value in tree.items():
            place = f"{path}.{name}" if path else name
            if isinstance(value, Mapping):
                take(value, place)
            else:
                found[place] = value

    take(config.to_dict(), "")
    return found


def _label(place: str) -> str:
    if place == _WIRING:
        return "gate layers"  # as the form of a branch calls their order
    part, _, name = place.rpartition(".")
    setting = SETTINGS.get(part, {}).get(name)
    return (setting.label if setting is not None and setting.label else name).replace("_", " ")


def _word(value: Any) -> str:
    """As in the form: '0.01', '–' where there is nothing."""
    if value is None or value == "" or value == [] or value == ():
        return "–"
    if isinstance(value, (list, tuple)):
        return " ".join(str(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _order(wiring: Sequence[int] | None) -> str:
    """Counted from 1, as everywhere in the window."""
    if not wiring or list(wiring) == sorted(wiring):
        return "in order"
    return " ".join(str(layer + 1) for layer in wiring)


def _scalars(view: View) -> dict[tuple[str, str], str]:
    """Known scalars first, then the shares of open gates by layer."""
    found = dict(_SCALARS)
    for source, name in view.series:
        if source == "gates" and name.startswith("active_"):
            layer = int(name.removeprefix("active_")) + 1
            found[source, name] = f"open gates, layer {layer}"
    return found


def _measured(view: View, wanted: Mapping[tuple[str, str], str]) -> Iterator[Difference]:
    theirs = view.compared.series if view.compared is not None else {}
    own = view.compared.step if view.compared is not None and view.compared.own else None
    for key, words in wanted.items():
        ours, other = view.series.get(key), theirs.get(key)
        if ours is not None and own is not None:
            found = _newest(ours.until(view.cursor), ours.until(own))
        elif ours is None or other is None:
            continue
        else:
            found = common_values(ours, other)
        if found is not None:
            (step_a, a), (step_b, b) = found
            where = f"step {step_a:,}" if step_a == step_b else f"A {step_a:,} · B {step_b:,}"
            percent = key[1] in _PERCENT or key[1].startswith("active_")
            yield Difference(words, _number(a, percent), _number(b, percent),
                             _change(b - a, percent), where)  # fmt: skip


def common_values(a: Series, b: Series) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Step and value of each at the newest step that both have, or each at its newest up to the
    last step of the other; None where one has nothing until then."""
    ours, theirs = np.isfinite(a.values), np.isfinite(b.values)
    steps_a, steps_b = a.steps[ours], b.steps[theirs]
    both = np.intersect1d(steps_a, steps_b)
    if both.size:
        step = int(both[-1])
        return (step, _at(a, step)), (step, _at(b, step))
    if not (steps_a.size and steps_b.size):
        return None
    last = min(steps_a[-1], steps_b[-1])
    before_a, before_b = steps_a[steps_a <= last], steps_b[steps_b <= last]
    if not (before_a.size and before_b.size):
        return None
    step_a, step_b = int(before_a[-1]), int(before_b[-1])
    return (step_a, _at(a, step_a)), (step_b, _at(b, step_b))


def _newest(a: Series, b: Series) -> tuple[tuple[int, float], tuple[int, float]] | None:
    """Step and value of each at its newest; None where one has nothing."""
    last = [np.flatnonzero(np.isfinite(one.values))[-1:] for one in (a, b)]
    if not all(at.size for at in last):
        return None
    (step_a, value_a), (step_b, value_b) = (
        (int(one.steps[at[0]]), float(one.values[at[0]]))
        for one, at in zip((a, b), last, strict=True)
    )
    return (step_a, value_a), (step_b, value_b)


def _at(series: Series, step: int) -> float:
    """The newest finite value of this step."""
    found = series.values[(series.steps == step) & np.isfinite(series.values)]
    return float(found[-1])


def _number(value: float, percent: bool) -> str:
    return f"{value:.2%}".replace("%", " %") if percent else f"{value:.4g}"


def _change(value: float, percent: bool) -> str:
    return (f"{100 * value:+.2f}" if percent else f"{value:+.3g}").replace("-", "−")
