"""Every network trains in the window's first regime; the layers of those with residual blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.torchvision_nets import place_weights
from dgn_engine.model.architecture import Conv, Gating, Merge
from dgn_engine.model.nets import all_nets
from dgn_engine.model.stack import Stack
from dgn_engine.model.tiling import tile_architecture
from dgn_engine.session.known_plug_ins import net_entries
from tests.engine.conftest import SMALL
from tests.plugins import each
from tests.refusals import refused


@pytest.mark.discovery
def test_the_form_offers_every_network():
    assert [entry.id for entry in net_entries()] == list(all_nets())
    assert all(entry.title for entry in net_entries())


@pytest.mark.parametrize("name", each(all_nets()))
def test_a_network_with_the_least_numbers_of_its_form_trains_and_is_finite(make_run, name):
    options = {
        field.name: field.least
        for field in all_nets()[name].options
        if isinstance(field.default, int) and field.least is not None
    }
    net = NetConfig(name, tuple((key, int(least)) for key, least in options.items()))
    data = replace(SMALL.data, train_limit=40, test_limit=20)
    run = make_run("DL", replace(SMALL, net=net, data=data))
    before = [weight.detach().clone() for weight in run.trainer.network.value.parameters()]
    for _ in range(2):
        run.step()
    after = list(run.trainer.network.value.parameters())
    assert all(bool(torch.isfinite(weight).all()) for weight in after)
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    logits = run.trainer.network(run.probed.probe_context().x)
    assert logits.shape == (20, 10)


def test_a_dense_resnet_has_b_plus_two_blocks_and_two_to_the_b_sub_networks() -> None:
    net = NetConfig("resnet_fc", (("blocks", 3), ("depth", 2), ("pre", 0.5), ("width", 5)))
    architecture = build_architecture(net, (1, 2, 2), 3)
    assert len(architecture.weight_layers) == (3 + 2) * 2
    assert len(architecture.gated_nodes) == (3 + 2) * 2 - 1
    assert k.residual_blocks(architecture) == 3
    x = torch.randn((4, 4), dtype=torch.float64)
    gates = [(torch.rand(4, 5) > 0.5).double() for _ in architecture.gated_nodes]
    t = [k.layer_overlap(layer) for layer in gates]
    H = k.input_gram(x) * t[0] * t[1] * t[8]
    for block in (2, 4, 6):
        H = H * (1 + 0.25 * t[block] * t[block + 1])
    torch.testing.assert_close(k.neural_path_kernel(architecture, gates, x), H)


def test_resnet18_is_torchvision_s_for_small_images() -> None:
    net = NetConfig("resnet18", (("post", 1.0), ("width", 4)))
    architecture = build_architecture(net, (3, 16, 16), 10)
    assert sum(isinstance(node, Merge) for node in architecture.nodes) == 8
    assert sum(isinstance(node, Gating) for node in architecture.nodes) == 8
    names = ["conv1"]
    for stage in range(1, 5):
        for block in range(2):
            names += [f"layer{stage}.{block}.conv{place}" for place in (1, 2)]
            names += [f"layer{stage}.{block}.downsample.0"] if stage > 1 and not block else []
    weights = dict(zip([*names, "fc"], Stack(architecture).weights, strict=True))
    shapes = {f"{name}.weight": tuple(w.shape) for name, w in weights.items()}
    placed = place_weights(shapes, stem=(Conv(3, 4, 3),))
    assert placed is not None
    assert type(architecture)((3, 16, 16), placed.nodes) == architecture


@pytest.mark.wide
@pytest.mark.parametrize("regime", ["ReLU", "DL", "FR-DI"])
@pytest.mark.parametrize(
    "net",
    [
        NetConfig("resnet_fc", (("blocks", 2), ("width", 24))),
        NetConfig("resnet18", (("stages", 2), ("width", 4))),
    ],
    ids=["dense", "conv"],
)
def test_residual_networks_learn_under_every_kind_of_gate(make_run, net, regime):
    base = make_run().config
    config = replace(
        base,
        net=net,
        data=DataConfig(train_limit=200),
        training=replace(base.training, learning_rate=3e-3),
    )
    run = make_run(regime, config)
    before = run.trainer.test_score().loss
    for _ in range(14):
        run.step()
    assert run.trainer.test_score().loss < before


def test_tiling_needs_equal_numbers_where_layers_are_added() -> None:
    net = NetConfig("resnet18", (("stages", 2), ("width", 2)))
    architecture = build_architecture(net, (1, 8, 8), 10)
    layers = len(architecture.gated_nodes)
    with refused("tiled"):
        tile_architecture(architecture, (1, 1, *[2] * (layers - 2)))
    dense = build_architecture(NetConfig("resnet_fc", (("width", 3),)), (1, 2, 2), 10)
    wide = tile_architecture(dense, (2,) * len(dense.gated_nodes))
    assert set(wide.gated_shapes) == {(6,)}
