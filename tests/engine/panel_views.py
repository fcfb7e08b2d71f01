"""Views with readings of every kind that a probe may give, made from a seed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.training import LayerInfo, RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, Series, View
from dgn_engine.training.probes import all_probes
from dgn_engine.training.run import Run

MakeView = Callable[..., View]
LAYERS = 3
STEP = 1200


@pytest.fixture
def make_view() -> MakeView:
    """`make_view(kind, n, step)`: kind is first, absent, hard, soft, conv, nan or constant."""
    return _view


def _view(kind: str = "hard", n: int = 20, step: int = STEP, width: int = 12) -> View:
    labels = np.sort(np.arange(n) % 10)
    run = _run(kind, labels, width)
    if kind == "first":
        return View(run=run, regime="DL", wiring=(0, 1, 2))
    marks = (Mark(200.0, "DL → FR-II"), Mark(210.0, "π 2 1 3"), Mark(900.0, "FR-II → FL"))
    readings = {
        "gates": _gates(kind, labels, width, step),
        "overlap": _overlap(kind, labels, step),
        "npk": _npk(labels, step),
        "ntk": _ntk(kind, labels, step),
        "agreement": _agreement(kind, labels, width, step),
    }
    readings |= {name: _measured(name, step) for name in all_probes() if name not in readings}
    if kind == "absent":
        why = "There is no feature network in ReLU; choose DL."
        readings = {name: Reading(name, step, absent=why) for name in readings}
    return View(
        run=run,
        regime="FL",
        wiring=(1, 0, 2),
        step=step,
        readings=readings,
        series={} if kind == "absent" else _recorded(readings, step) | _series(kind, step),
        marks=marks,
        compared=ComparedRun("other.safetensors", "ReLU", run.layers),
    )


@functools.cache
def _trained() -> Run:
    """A small run after a few steps, for probes that have no made-up reading here."""
    net = NetConfig("fc", (("depth", LAYERS + 1), ("width", 12)))
    config = RunConfig(data=DataConfig(train_limit=100), net=net, probe_examples=20)
    run = Run(1, config, lambda _: None, lambda *_: None, live=False)
    for _ in range(3):
        run.step()
    return run


@functools.cache
def _measured(probe: str, step: int) -> Reading:
    found = all_probes()[probe].read(_trained().probed.probe_context(), {}, None)
    arrays, scalars = dict(found.arrays), dict(found.scalars)
    return Reading(probe, step, 0.01, 0.5, arrays, scalars, dict(found.facts), found.absent)


@pytest.fixture
def compared() -> Callable[[View], View]:
    """The view with another network beside the run, seen a little otherwise."""

    def compare(view: View) -> View:
        other = _view(n=len(view.readings["npk"].arrays["labels"]), step=view.step + 1)
        run = other.run
        assert run is not None
        compared = ComparedRun(
            "other.safetensors", "ReLU", run.layers, (0, 1, 2), 7, other.readings, other.series
        )
        return replace(view, compared=compared)

    return compare


def _agreement(kind: str, labels: Array, width: int, step: int) -> Reading:
    random = np.random.default_rng(step + 4)
    equal = np.array([0.9, np.nan if kind == "nan" else 0.8, 0.7])
    arrays: dict[str, Array] = {"labels": labels, "equal": equal, "chance": equal - 0.2}
    for layer in range(LAYERS):
        if np.isfinite(equal[layer]):
            arrays[f"difference_{layer}"] = np.sign(
                random.normal(size=(labels.size, width))
            ) * float(kind != "constant")
    scalars = {f"equal_{layer}": float(equal[layer]) for layer in range(LAYERS)}
    return Reading("agreement", step, 0.01, 0.5, arrays, {"equal": 0.8} | scalars)


def _run(kind: str, labels: Array, width: int) -> RunStarted:
    shape = (width, 4, 4) if kind == "conv" else (width,)
    sort = "conv" if kind == "conv" else "dense"
    return RunStarted(
        run=1,
        config=RunConfig(),
        regime="DL",
        device="cpu",
        layers=tuple(LayerInfo(i, f"layer {i + 1}", sort, shape) for i in range(LAYERS)),
        wiring=(0, 1, 2),
        parameters_value=10,
        parameters_feature=10,
        train_examples=100,
        test_examples=50,
        classes=10,
        steps_per_epoch=4,
        total_steps=0,
        probe_set=ProbeSet(
            tuple(range(labels.size)), tuple(labels.tolist()), tuple("0123456789"), "digest"
        ),
        paused=False,
    )


def _gates(kind: str, labels: Array, width: int, step: int) -> Reading:
    random = np.random.default_rng(step)
    arrays: dict[str, Array] = {"labels": labels}
    for layer in range(LAYERS):
        values = random.random((labels.size, width)).astype(np.float32)
        if kind == "constant":
            values[:] = 0.0
        values[:, 3] = 0.0
        soft = kind in ("soft", "conv")
        arrays[f"layer_{layer}"] = values * 1.1 if soft else (values > 0.5).astype(np.uint8)
        arrays[f"dead_{layer}"] = np.array([3], dtype=np.int64)
    if kind == "conv":
        arrays["unit_map"] = random.random((labels.size, 4, 4)).astype(np.float32)
    scalars = {f"active_{layer}": 0.5 for layer in range(LAYERS)} | {"churn": 0.01}
    facts = {"unit_map": "layer 0, unit 2"} if kind == "conv" else {}
    return Reading("gates", step, 0.01, 0.5, arrays, scalars, facts)


def _overlap(kind: str, labels: Array, step: int) -> Reading:
    random = np.random.default_rng(step + 1)
    arrays: dict[str, Array] = {"labels": labels}
    for name in ("active", "sensitive"):
        for suffix in ("", *(f"_{layer}" for layer in range(LAYERS))):
            values = random.random((labels.size, labels.size))
            if kind in ("nan", "conv"):
                values[2, :] = values[:, 2] = np.nan
            if kind == "constant":
                values[:] = np.nan
            arrays[name + suffix] = values
    fact = {"gate": "D = ∂γ, β = 8"} if kind == "soft" else {"kappa": "D = 1{|q| < 0.1·rms(q)}"}
    return Reading("overlap", step, 0.01, 0.5, arrays, {}, fact)


def _npk(labels: Array, step: int) -> Reading:
    n = labels.size
    random = np.random.default_rng(step + 2)
    kernel = random.random((n, n)) / n
    values = np.sort(random.random(n))[::-1] ** 4
    values[-1] = -1e-18  # rounding noise of a singular kernel
    return Reading(
        "npk",
        step,
        0.01,
        0.5,
        {
            "labels": labels,
            "npk": kernel,
            "eigenvalues": values,
            "cumulative": np.cumsum(values) / values.sum(),
            "alignment": np.full(n, 1.0 / n),
        },
        {"nu": 12.4, "rank": n - 1.0, "effective_rank": 3.2, "rho_min": -1e-18, "rho_max": 0.9}
        | {"cutoff": 1e-12},
    )


def _ntk(kind: str, labels: Array, step: int) -> Reading:
    random = np.random.default_rng(step + 3)
    parts = {"soft": ("value", "feature", "cross")}.get(kind, ("value",))
    arrays: dict[str, Array] = {"labels": labels}
    scalars: dict[str, float] = {}
    for part in parts:
        root = random.normal(size=(labels.size, 5))
        kernel = root @ root.T
        arrays[part] = -kernel if part == "cross" else kernel
        scalars |= {f"trace_{part}": float(np.trace(arrays[part])), f"norm_{part}": 2.0}
    facts = {} if kind == "soft" else {"feature": "K^F = 0 in FL."}
    return Reading("ntk", step, 0.01, 0.5, arrays, scalars, facts)


def _recorded(readings: Mapping[str, Reading], step: int) -> dict[tuple[str, str], Series]:
    """Every scalar of every reading, as large at each step."""
    steps = np.arange(1, step + 1, 10, dtype=np.int64)
    return {
        (probe, name): Series(steps, np.full(len(steps), value))
        for probe, reading in readings.items()
        for name, value in reading.scalars.items()
    }


def _series(kind: str, step: int) -> dict[tuple[str, str], Series]:
    steps = np.arange(1, step + 1, dtype=np.int64)
    falling = np.exp(-steps / step) + 0.1 * np.sin(steps)
    found = {
        ("training", "train_loss"): Series(steps, falling + 0.2),
        ("training", "train_accuracy"): Series(steps, 1.0 - np.exp(-steps / step)),
        ("training", "test_loss"): Series(steps[::100], falling[::100] + 0.2),
        ("training", "test_accuracy"): Series(
            steps[::100], np.linspace(0.1, 0.9, len(steps[::100]))
        ),
    }
    for part, sign in (("value", 1.0), ("feature", 0.0), ("cross", -1.0)):
        if kind == "soft" or part == "value":
            values = sign * np.exp(steps[::10] / step)
            found["ntk", f"trace_{part}"] = Series(steps[::10], values)
            found["ntk", f"norm_{part}"] = Series(steps[::10], np.abs(values))
    return found


@pytest.fixture
def grown() -> Callable[[View, int], View]:
    """The same view with this many more steps in every series."""

    def grow(view: View, steps: int) -> View:
        longer = {
            key: Series(np.append(s.steps, s.steps[-1] + steps), np.append(s.values, s.values[-1]))
            for key, s in view.series.items()
        }
        return replace(view, series=longer, step=view.step + steps)

    return grow
