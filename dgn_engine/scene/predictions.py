"""The answer of a network for a probe example: '7 (92 %) · 1 (5 %) · 9 (2 %) · label 7'."""

from __future__ import annotations

import numpy as np

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_rows
from dgn_engine.scene.compared import compared_view, pair_labels
from dgn_engine.scene.panel_spec import PREDICTIONS, View
from dgn_engine.text.written_numbers import format_number, format_percent

WRONG = "Wrong:"  # not by colour alone


@dataclass(frozen=True)
class Prediction:
    """The answer of a network for one example.

    `top`: (class, value), the predicted class first. `label`: (class, value), None if the example
    has none, or the classes of the network are not those of the data. `kind` as in the probe.
    """

    place: int
    step: int
    kind: str
    top: tuple[tuple[str, float], ...]
    label: tuple[str, float] | None = None
    is_wrong: bool = False

    @property
    def in_words(self) -> str:
        """'7 (92 %) · 1 (5 %) · 9 (2 %) · label 7', after 'Wrong:' if it is."""
        parts = [f"{name} ({self._format_value(value)})" for name, value in self.top]
        if self.kind == "softmax":
            parts.append("softmax")
        elif self.kind == "output":
            parts.append("outputs" if len(parts) > 1 else "output")
        if self.label is not None:
            name, value = self.label
            is_listed = name in (listed for listed, _ in self.top)
            hidden = "" if is_listed or np.isnan(value) else f" ({self._format_value(value)})"
            parts.append(f"label {name}{hidden}")
        return f"{WRONG} " * self.is_wrong + " · ".join(parts)

    def _format_value(self, value: float) -> str:
        if self.kind == "output":
            return format_number(value, 3)
        if value < 0.005:  # a softmax is neither 0 nor 1, though float32 may be
            return "<1 %"
        return ">99 %" if value >= 0.995 else format_percent(value, 0)


def predictions_of(view: View) -> tuple[Prediction, ...]:
    """Return the answers for all probe examples that were read, in their order.

    Empty if they are unknown at this step, or were read before the last change of the network.
    """
    reading = _valid_reading(view)
    if reading is None:
        return ()
    places = example_rows(view, reading.arrays["labels"])
    return tuple(_make_prediction(view, reading, row, place) for row, place in enumerate(places))


def _valid_reading(view: View) -> Reading | None:
    reading = view.readings.get(PREDICTIONS)
    if reading is None or reading.absent or PREDICTIONS in view.outdated:
        return None
    return reading


def prediction_lines(view: View, place: int, step: int | None = None) -> tuple[str, ...]:
    """Return the answer for one example: a line, or in a comparison one for A and one for B.

    `step`: that of the picture it stands beside; an answer of another step says so.
    """
    theirs = compared_view(view)
    if theirs is None or view.compared is None:
        return _find_line(view, place, step)
    a, b = pair_labels(view.compared)
    ours = (f"{a}: {line}" for line in _find_line(view, place, step))
    return (*ours, *(f"{b}: {line}" for line in _find_line(theirs, place, None)))


def confident_mistakes(view: View) -> tuple[Prediction, ...]:
    """Return the wrong answers, those with the largest value first."""
    wrong = [prediction for prediction in predictions_of(view) if prediction.is_wrong]
    return tuple(sorted(wrong, key=lambda prediction: -abs(prediction.top[0][1])))


def _find_line(view: View, place: int, step: int | None) -> tuple[str, ...]:
    reading = _valid_reading(view)
    if reading is None:
        return ()
    rows = example_rows(view, reading.arrays["labels"])
    if place not in rows:
        return ()
    prediction = _make_prediction(view, reading, rows.index(place), place)
    is_other = step is not None and step != prediction.step
    return (prediction.in_words + f" · step {prediction.step:,}" * is_other,)


def _make_prediction(view: View, reading: Reading, row: int, place: int) -> Prediction:
    assert view.pictures is not None
    arrays, probe_set = reading.arrays, view.pictures.probe_set
    is_own = reading.facts["classes"] == "data"
    names = probe_set.class_names[: probe_set.classes] if is_own else ()
    answers = tuple(
        (_class_name(names, int(number)), float(value))
        for number, value in zip(arrays["top"][row], arrays["share"][row], strict=True)
    )
    label = int(arrays["labels"][row])
    if not is_own or label >= probe_set.classes:  # a drawn example has no label
        return Prediction(place, reading.step, reading.facts["kind"], answers)
    return Prediction(
        *(place, reading.step, reading.facts["kind"], answers),
        label=(_class_name(names, label), float(arrays["label_share"][row])),
        is_wrong=int(arrays["top"][row, 0]) != label,
    )


def _class_name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else f"output {number:,}"
