"""Regions and decisions on a grid against networks that are run point by point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork
from dgn_engine.regimes import find_regime
from dgn_engine.training.probes import ProbeContext, regions
from dgn_engine.training.run import Run

DENSE = NetConfig("fc", (("depth", 3), ("width", 5)))
MOONS = DataConfig(name="moons", options=(("n", 40), ("noise", 0.1)))
CASES = {
    "plane": (MOONS, DENSE, "FR-II"),
    "soft": (MOONS, NetConfig("resnet_fc", (("width", 4), ("blocks", 1))), "DL"),
    "images": (DataConfig(train_limit=40), NetConfig("cnn4", (("channels", 1),)), "ReLU"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_point_of_the_grid_is_that_of_the_network_there(
    make_run: Callable[..., Run], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regions, "FINEST", 16)
    data, net, regime = CASES[case]
    context = make_run(
        regime, RunConfig(data=data, net=net, probe_examples=10)
    ).probed.probe_context()
    found = regions.PROBE.read(context, {}, None)
    arrays, corners = found.arrays, context.x[[0, 5, 9]]
    seen: dict[tuple[int, int], list[tuple[bool, ...]]] = {}
    for row, y in enumerate(arrays["y"]):
        for column, x in enumerate(arrays["x"]):
            if case == "images":
                a, b, c = corners
                point = a + float(x) * (b - a) + float(y) * (c - a)
            else:
                point = torch.tensor([x, y, 1.0], dtype=torch.float32)
            trace = context.network.trace(point[None]).value
            p = torch.softmax(trace.output[0].double(), 0).tolist()
            ordered = sorted(p)
            margin = p[1] - p[0] if len(p) == 2 else ordered[-1] - ordered[-2]
            assert arrays["margin"][row, column] == pytest.approx(margin, abs=1e-5)
            if ordered[-1] - ordered[-2] > 1e-5:
                assert arrays["winner"][row, column] == p.index(max(p))
            seen[row, column] = [tuple((g.flatten() >= 0.5).tolist()) for g in trace.gates]
    assert found.scalars["regions"] == len({tuple(layers) for layers in seen.values()})
    for (row, column), layers in seen.items():
        beside = [seen[at] for at in ((row, column + 1), (row + 1, column)) if at in seen]
        switched = [
            layer + 1
            for layer in range(len(layers))
            if any(other[layer] != layers[layer] for other in beside)
        ]
        assert arrays["switch"][row, column] == min(switched, default=0)
    assert found.facts["plane"] == ("examples" if case == "images" else "data")
    assert ("soft" in found.facts) == (regime == "DL")
    count = 3 if case == "images" else 10
    assert arrays["points"].shape == (count, 2)
    whole = context.network(corners if case == "images" else context.x).argmax(1)
    assert arrays["answers"].tolist() == whole.tolist()


def test_one_logit_decides_between_two_classes_by_its_sign() -> None:
    torch.manual_seed(3)
    pair = Architecture((2,), (Dense(2, 4), Dense(4, 3), Dense(3, 1, gated=False)))
    network, regime = GatedNetwork(pair).double(), find_regime("ReLU")
    for weight in network.parameters():
        torch.nn.init.normal_(weight)
    network.own_gates = regime.own_gates
    x, labels = torch.randn(6, 2, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 0, 1])
    found = regions.PROBE.read(ProbeContext(network, x, labels, regime), {}, None).arrays
    columns, rows = np.meshgrid(found["x"], found["y"])
    at = torch.from_numpy(np.stack([columns, rows], axis=-1).reshape(-1, 2))
    with torch.no_grad():
        logits, answered = network(at).reshape(columns.shape).numpy(), network(x)[:, 0] > 0
    assert (logits > 0).any()
    assert (logits < 0).any()
    odds = 1 / (1 + np.exp(-logits))  # of the second class
    np.testing.assert_allclose(found["margin"], odds - (1 - odds), atol=1e-6)
    np.testing.assert_array_equal(found["winner"], logits > 0)
    assert found["answers"].tolist() == answered.tolist()


def test_gates_that_are_coins_have_no_plane(make_run: Callable[..., Run]) -> None:
    found = regions.PROBE.read(make_run("FRG").probed.probe_context(), {}, None)
    assert "FRG" in found.absent


def test_the_grid_is_coarser_where_passes_are_dear(make_run: Callable[..., Run]) -> None:
    small = make_run("ReLU", RunConfig(data=MOONS, net=DENSE)).architecture
    assert regions.grid_side(small) == regions.FINEST
    dear = NetConfig("fc", (("depth", 5), ("width", 2000)))
    assert regions.grid_side(make_run("ReLU", RunConfig(data=MOONS, net=dear)).architecture) == 16


def test_a_grid_spans_all_points() -> None:
    x = torch.tensor([[-1.0, 0.0, 1.0], [2.0, 0.5, 1.0]])
    assert regions.lies_in_plane(x)
    assert not regions.lies_in_plane(x + 1)
    assert not regions.lies_in_plane(torch.zeros(4, 1, 8, 8))
    across, up = regions._grid_axes(x, 5)
    assert across[0] < -1.0 < 2.0 < across[-1]
    np.testing.assert_allclose(across[-1] - across[0], up[-1] - up[0])
