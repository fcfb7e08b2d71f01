"""The options of a reproduction: what they leave to the experiment, and which of them count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.experiments import (
    Experiment,
    Findings,
    Plan,
    Request,
    check_options,
    effective_request,
)
from dgn_engine.sweep.unit import Training
from tests.refusals import refused

ASKED: dict[str, Any] = {
    "only": "row",
    "steps": (0.5,),
    "augmentation": "davidnet",
    "data": "mnist",
    "data_root": "/there",
    "download": True,
    "epochs": 7,
    "seeds": 3,
    "train_limit": 9,
    "test_limit": 8,
    "device": "cuda",
    "seed_start": 4,
}


def obeying(*options: str) -> Experiment:
    """An experiment whose plan depends on these options and on nothing else."""

    def plan(request: Request) -> Plan:
        name = "-".join(f"{option}_{getattr(request, option)!r}" for option in options)
        return Plan((Training(f"unit-{name}", RunConfig()),))

    return Experiment("T", "P", "A", plan, lambda *_: Findings(), 1.0, 1.0)


def test_what_was_not_asked_is_left_to_the_experiment() -> None:
    quick, full = Request(), Request(scale="full")
    assert (quick.quick, full.quick) == (True, False)
    assert (quick.seed_range(3, 5), full.seed_range(3, 5)) == (range(3), range(5))
    assert (quick.epochs_or(40, 100), full.epochs_or(40, 100)) == (40, 100)
    asked = Request(seeds=2, epochs=7)
    assert (asked.seed_range(3, 5), asked.epochs_or(40, 100)) == (range(2), 7)
    assert (quick.protocol, quick.device, quick.augmentation) == ("as-published", "auto", "none")


@pytest.mark.parametrize("name", ASKED)
def test_an_option_counts_where_the_plan_depends_on_it(name: str) -> None:
    asked = Request(**ASKED)
    kept = effective_request(obeying(name), asked)
    assert kept == replace(Request(), **{name: ASKED[name]})
    check_options("x", obeying(name), kept)
    others = obeying(*(option for option in ASKED if option != name))
    assert effective_request(others, asked) == replace(asked, **{name: getattr(Request(), name)})
    with refused("no-effect", value=name):
        check_options("x", others, asked)


def test_the_first_of_two_classes_of_data_is_enough() -> None:
    """'digits' asked for is the same plan at quick, but another data set is not."""
    assert effective_request(obeying("data"), Request(data="digits")).data == "digits"


def test_an_option_that_another_takes_away_is_told_apart() -> None:
    def plan(request: Request) -> Plan:
        counted = request.steps if request.only != "Adam" else ()
        return Plan((Training(f"u-{request.only}-{counted}", RunConfig()),))

    made = Experiment("T", "P", "A", plan, lambda *_: Findings(), 1.0, 1.0)
    check_options("x", made, Request(steps=(0.5,)))
    with refused("no-effect", value="steps") as found:
        check_options("x", made, Request(steps=(0.5,), only="Adam"))
    assert "with the other options" in str(found.error)


def test_alone_is_within_the_scale_and_the_usual_protocol_of_the_experiment() -> None:
    def plan(request: Request) -> Plan:
        usual = request.protocol == "as-in-code" and request.scale == "full"
        return Plan((Training(f"u-{request.epochs if usual else 0}", RunConfig()),))

    protocols: Any = ("as-in-code", "as-published")
    made = Experiment("T", "P", "A", plan, lambda *_: Findings(), 1.0, 1.0, protocols=protocols)
    check_options("x", made, Request("full", "as-in-code", epochs=7))
    for scale, elsewhere in (("full", True), ("quick", False)):
        with refused("no-effect", value="epochs") as found:
            check_options("x", made, Request(scale, epochs=7))  # type: ignore[arg-type]
        assert ("with the other options" in str(found.error)) == elsewhere


def test_nothing_is_said_of_options_where_no_row_is_left() -> None:
    nothing = Experiment("T", "P", "A", lambda _: Plan(()), lambda *_: Findings(), 1.0, 1.0)
    check_options("x", nothing, Request(**ASKED))
