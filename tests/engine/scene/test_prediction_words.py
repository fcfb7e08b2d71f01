"""The words for what a network answers: three classes, the label, and whether it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.elements import Axis, Chart, Mark, Matrix, Scene
from dgn_engine.scene.example_readout import example_readout
from dgn_engine.scene.panel_spec import PREDICTIONS, ComparedRun, View, all_panels
from dgn_engine.scene.predictions import (
    WRONG,
    confident_mistakes,
    prediction_lines,
    predictions_of,
)
from tests.engine.panels.known_readings import BOTH
from tests.engine.panels.pictures import LABELS, started_run, with_choices
from tests.plugins import each

PIXELS = np.zeros((5, 2, 2), np.uint8)
PICTURES = ProbeExamples(started_run((4,)).probe_set, PIXELS.shape, PIXELS.tobytes())
VIEW = View(run=started_run((4,), (3,)), step=7, pictures=PICTURES)
TOP = np.array([[0, 1], [1, 0], [0, 1], [1, 0], [1, 0]], np.int32)
SHARE = np.array([[0.92, 0.05], [0.6, 0.4], [0.997, 0.003], [0.5, 0.5], [1.0, 0.0]], np.float32)


def answers(step: int = 7, facts: Mapping[str, str] | None = None, **arrays: object) -> Reading:
    label_share = [
        float(share[list(top).index(label)]) if label in top else 0.004
        for top, share, label in zip(TOP, SHARE, LABELS, strict=True)
    ]
    found = {
        "labels": LABELS,
        "top": TOP,
        "share": SHARE,
        "label_share": np.array(label_share, np.float32),
        **arrays,
    }
    return Reading(
        PREDICTIONS,
        step,
        arrays=found,
        facts={"kind": "probability", "classes": "data", **(facts or {})},
    )


def view_of(reading: Reading, **fields: object) -> View:
    return replace(VIEW, readings={**VIEW.readings, PREDICTIONS: reading}, **fields)  # type: ignore[arg-type]


def test_an_answer_names_classes_probabilities_and_the_label() -> None:
    names = PICTURES.probe_set.class_names
    first, *others = predictions_of(view_of(answers()))
    label = names[int(LABELS[0])]
    assert first.in_words.removeprefix(f"{WRONG} ") == (
        f"{names[0]} (92 %) · {names[1]} (5 %) · label {label}"
    )
    for one, top, own in zip((first, *others), TOP, LABELS, strict=True):
        assert one.is_wrong == (top[0] != own)
        assert one.in_words.startswith(WRONG) == one.is_wrong
    assert "(>99 %)" in others[1].in_words
    assert "(<1 %)" in others[1].in_words
    assert "(>99 %)" in others[3].in_words  # 1 in float32


def test_mistakes_come_in_the_order_of_their_confidence() -> None:
    found = confident_mistakes(view_of(answers()))
    assert found
    assert all(one.is_wrong for one in found)
    shares = [one.top[0][1] for one in found]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    ("kind", "expected"), [("output", "0.92"), ("softmax", "92 %"), ("probability", "92 %")]
)
def test_only_probabilities_are_percentages(kind: str, expected: str) -> None:
    first = predictions_of(view_of(answers(facts={"kind": kind})))[0]
    assert f"({expected})" in first.in_words
    assert (kind in first.in_words) == (kind != "probability")


def test_a_network_with_classes_of_its_own_has_numbers_and_no_label() -> None:
    top = np.array([[207, 3]] * 5, np.int32)
    first = predictions_of(view_of(answers(facts={"classes": "own"}, top=top)))[0]
    assert (first.label, first.is_wrong) == (None, False)
    assert first.in_words.startswith("output 207 (92 %)")


def test_a_drawn_example_has_no_label() -> None:
    known = PICTURES.probe_set
    probe_set = replace(known, class_names=(*known.class_names, "drawn"), drawn=1)
    probe_set = replace(probe_set, labels=(*known.labels[:4], probe_set.classes))
    labels = np.array(probe_set.labels)
    pictures = replace(PICTURES, probe_set=probe_set)
    last = predictions_of(view_of(answers(labels=labels), pictures=pictures))[-1]
    assert (last.label, last.is_wrong) == (None, False)


def test_nothing_is_said_where_it_is_unknown() -> None:
    assert not predictions_of(VIEW)
    assert not predictions_of(view_of(Reading(PREDICTIONS, 7, absent="It was not recorded.")))
    assert not predictions_of(view_of(answers(), pictures=None))
    swapped = Mark(7.0, "swap", "FR-II")
    assert not predictions_of(view_of(answers(), outdated={PREDICTIONS: swapped}))


def test_an_answer_of_another_step_says_so_and_b_answers_beside_a() -> None:
    view = view_of(answers(step=5))
    (line,) = prediction_lines(view, 0, step=7)
    assert line.endswith("step 5")
    (line,) = prediction_lines(view, 0, step=5)
    assert "step" not in line
    theirs = answers(step=3, facts={"kind": "softmax"})
    compared = ComparedRun("other", layers=VIEW.run.layers, readings={PREDICTIONS: theirs})  # type: ignore[union-attr]
    a, b = prediction_lines(replace(view, compared=compared), 0, step=5)
    assert a == f"A: {line}"
    assert b.startswith("B: ")
    assert "softmax" in b


def test_the_card_of_a_pair_has_both_answers_and_reads_them_out() -> None:
    view = view_of(answers())
    rows = tuple(range(5))
    matrix = Matrix(
        "active", np.eye(5), "sequential", 0.0, 1.0, row_examples=rows, column_examples=rows
    )
    chart = Chart("active", "Λ", Axis("example"), Axis("example"), matrix=matrix)
    readout = example_readout(view, chart, 2, 1, 7)
    assert readout is not None
    words = [one.in_words for one in predictions_of(view)]
    assert [one.answers for one in readout.examples] == [(words[1],), (words[2],)]
    assert words[1] in readout.in_words


@pytest.mark.parametrize("name", each(all_panels()))
@pytest.mark.parametrize("show", ["", "kernel"])
def test_a_panel_whose_rows_are_examples_asks_for_the_answers(name: str, show: str) -> None:
    given, panel = with_choices(BOTH, show=show), all_panels()[name]
    assert given.run is not None
    scene = panel.draw(replace(given, pictures=ProbeExamples(given.run.probe_set)))
    charts = scene.charts if isinstance(scene, Scene) else ()
    if any(chart.matrix is not None and chart.matrix.row_examples for chart in charts):
        assert panel.shows_examples
