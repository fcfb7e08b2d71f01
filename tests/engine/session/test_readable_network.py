"""A run and a network that is inspected are read in one way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dgn_engine.protocol.files import InspectFile
from dgn_engine.protocol.training import StartRun
from dgn_engine.session.readable_network import ReadableNetwork
from tests.engine.session.conftest import Desk, small_config

EXAMPLES = 200  # for training, 20 of them probe examples


@pytest.fixture
def both(desk: Desk, trained: Path) -> tuple[ReadableNetwork, ReadableNetwork]:
    """The run on whose data the network of a file is inspected in its place, and that network."""
    desk.handle(StartRun(small_config("ReLU", seed=7), paused=True))
    run = desk.engine.run
    desk.handle(InspectFile(desk.open(trained).ticket))
    inspected = desk.engine.state.inspected
    assert run is not None
    assert inspected is not None
    return run, inspected


def test_both_say_what_they_are_read_on(both: tuple[ReadableNetwork, ReadableNetwork]) -> None:
    run, inspected = both
    assert (run.number, inspected.number) == (1, 2)
    assert (run.step_count, inspected.step_count) == (0, 30)
    assert run.architecture == inspected.architecture
    assert run.device == inspected.device
    assert run.probed.image_shape == inspected.probed.image_shape == (1, 8, 8)
    assert run.probed.probe_set == inspected.probed.probe_set
    np.testing.assert_array_equal(run.probed.train_labels, inspected.probed.train_labels)
    assert len(run.probed.train_labels) == EXAMPLES
    rows = np.arange(3)
    np.testing.assert_array_equal(
        run.probed.training_images(rows), inspected.probed.training_images(rows)
    )
    assert inspected.probed.training_images(rows).shape == (3, 1, 8, 8)
    np.testing.assert_array_equal(run.probed.probe_images, inspected.probed.probe_images)


def test_probes_see_the_same_examples_under_each(
    both: tuple[ReadableNetwork, ReadableNetwork],
) -> None:
    contexts = [network.probed.probe_context() for network in both]
    assert [context.regime.name for context in contexts] == ["ReLU", "ReLU"]
    assert contexts[0].x.equal(contexts[1].x)
    assert contexts[0].labels.equal(contexts[1].labels)


def test_the_probe_set_of_each_is_chosen_alike(
    both: tuple[ReadableNetwork, ReadableNetwork],
) -> None:
    for network in both:
        network.choose_probe_examples(8, "classes 3")
    run, inspected = both
    assert run.probed.probe_set == inspected.probed.probe_set
    assert set(run.probed.probe_set.labels) == {3}
    assert run.config.probe_examples == inspected.config.probe_examples == 8
    assert len(run.probed.probe_context().x) == len(inspected.probed.probe_context().x) == 8
