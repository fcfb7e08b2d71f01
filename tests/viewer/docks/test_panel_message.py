"""Divergence and lack of memory: what panels, status bar and notices say, and what can go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.figures.provenance import make_provenance
from dgn_engine.panels.training import PANEL
from dgn_engine.protocol.training import StartRun
from dgn_engine.scene.elements import Axis, Chart, Empty, Scene
from dgn_engine.scene.panel_spec import Series, View, all_panels
from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_message import compose_footer, compose_message
from tests.engine.panels.pictures import started_run
from tests.plugins import each

RUN = RunConfig(
    data=DataConfig(name="digits"),
    net=NetConfig(name="fc", options=(("depth", 4), ("width", 16))),
    gating=GatingConfig(regime="DL"),
    training=TrainingConfig(learning_rate=1e-3, epochs=0, pace=200.0),
    device="cpu",
    probe_examples=20,
)


def test_every_panel_says_at_which_step_the_run_diverged(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    wild = replace(RUN.training, optimiser="sgd", learning_rate=1e20)
    viewer = make_viewer(replace(RUN, training=wild))
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.diverged is not None)
    found = re.match(r"Diverged at step (\d+): ", window.notices.recent_notices[-1].text)
    assert found is not None
    assert 1 <= int(found[1]) <= 10  # where it happened, not at the next score
    said = f"diverged at step {found[1]}"

    def told() -> bool:
        hosts = [window.docks.hosts[name] for name in window.docks.visible_panels()]
        return all(
            said in f"{host.footer_text()} {host.parts.message.displayed_text()[0]}".lower()
            for host in hosts
        )

    qtbot.waitUntil(told)
    window.run_views.status.write_now()
    assert window.run_views.status.field_text("phase") == "diverged"
    viewer.pump.send(StartRun(RUN))
    qtbot.waitUntil(lambda: window.run_state.step > 5)
    assert window.run_state.diverged is None
    qtbot.waitUntil(
        lambda: (
            not any(
                "diverged" in host.footer_text().lower() for host in window.docks.hosts.values()
            )
        )
    )


@pytest.mark.nightly  # the remark below a panel: test_panel_words
def test_a_panel_says_that_its_probe_batch_was_halved(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dgn_engine.training.readings import probe_schedule

    known = probe_schedule.all_probes()

    def read(context: object, *rest: object) -> object:
        if len(context.x) > 10:  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return known["npk"].read(context, *rest)  # type: ignore[arg-type]

    def never(*_: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    fakes = {"npk": replace(known["npk"], read=read), "gates": replace(known["gates"], read=never)}
    monkeypatch.setattr(probe_schedule, "all_probes", lambda: {**known, **fakes})
    hosts = make_viewer(RUN).window.docks.hosts
    qtbot.waitUntil(lambda: " 10: out of memory" in hosts["spectrum"].footer_text())
    qtbot.waitUntil(lambda: hosts["gate_maps"].parts.message.displayed_text()[0] == "Out of memory")
    qtbot.waitUntil(lambda: hosts["ntk"].footer_text() != "")
    assert "halved" not in hosts["ntk"].footer_text()


@pytest.mark.nightly  # the refusal: tests/engine/training; another run after one: the test above
def test_training_that_does_not_fit_is_told_with_a_batch_that_would_and_another_run_starts(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = make_viewer(RUN)
    window = viewer.window
    qtbot.waitUntil(lambda: window.run_state.step > 3)
    from dgn_engine.model.network import GatedNetwork
    from dgn_engine.training.steps.dense_step import DenseStep

    forward, by_hand = GatedNetwork.forward, DenseStep.__call__

    def narrow(network: GatedNetwork, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(network, x)

    def narrow_step(
        step: DenseStep, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if len(x) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return by_hand(step, x, y)

    with monkeypatch.context() as patch:
        patch.setattr(GatedNetwork, "forward", narrow)
        patch.setattr(DenseStep, "__call__", narrow_step)
        qtbot.waitUntil(lambda: window.run_state.phase == "paused")
        (notice,) = (one for one in window.notices.recent_notices if one.kind == "failed")
        assert " 32; " in notice.text
        assert " 8 " in notice.text
        assert notice.details == ""
    viewer.pump.send(StartRun(RUN))
    qtbot.waitUntil(lambda: window.run_state.phase == "running")
    qtbot.waitUntil(lambda: window.run_state.step > 3)


def test_a_panel_says_how_many_of_its_points_and_events_are_drawn() -> None:
    points = Series(np.arange(3), np.ones(3))
    left_out = {"training": (3, 4000), "ntk": (5, 6000), "": (2000, 2500)}
    view = View(series={("training", "train_loss"): points}, left_out=left_out)
    scene = PANEL.draw(view)
    assert isinstance(scene, Scene)
    said = compose_footer("live", PANEL, view, scene, 0.0)
    assert "3 of 4,000 points drawn" in said
    assert "2,000 of 2,500 events marked" in said
    assert "6,000" not in said
    shown = make_provenance(view, PANEL, scene).examples
    assert shown == "3 of 4,000 points drawn · 2,000 of 2,500 events marked"
    whole = compose_footer("live", PANEL, replace(view, left_out={}), scene, 0.0)
    assert "drawn" not in whole
    assert compose_footer("live", PANEL, view, Scene(()), 0.0) == "step 0"


def test_the_line_below_a_panel_over_steps_says_the_last_gap() -> None:
    spec = all_panels()["ntk"]
    time = Chart("c", "", Axis("step", epoch=0), Axis())
    view = View(gaps={"ntk": ((30, 1300), (1400, 2500))})
    said = compose_footer("live", spec, view, Scene((time,), step=9), 0.0)
    assert said.startswith("step 9 · ")
    assert " 1,400 to 2,500, " in said
    alone = compose_footer("live", spec, View(gaps={"ntk": ((30, 1300),)}), Scene((time,)), 0.0)
    assert alone.endswith(" 30 to 1,300")
    still = Chart("c", "", Axis("unit"), Axis())
    assert compose_footer("live", spec, view, Scene((still,), step=9), 0.0) == "step 9"


@pytest.mark.parametrize("panel", each(all_panels()))
def test_no_panel_waits_for_the_first_frame_after_a_step(panel: str) -> None:
    spec, view = all_panels()[panel], View(run=started_run((2,)), regime="DL", trains=True)
    if spec.compares:
        return
    headings = []
    for step in (0, 1, 65):
        at = replace(view, step=step)
        shown = spec.draw(at)
        assert isinstance(shown, Empty)
        heading, sentence, _ = compose_message("waiting", spec, at, shown)
        headings.append(heading)
        assert sentence
        assert step == 0 or "first frame" not in f"{heading} {sentence}"
    assert headings[0] != headings[1] == headings[2]
    inspected = replace(view, run=replace(view.run, inspected="net.pth"))
    heading, sentence, _ = compose_message("waiting", spec, inspected, shown)
    assert "first frame" not in sentence
    assert (heading == "Not training") == (not spec.probes)
