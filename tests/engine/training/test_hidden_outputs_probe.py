"""Hidden outputs against loops over units and positions, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Flatten,
    Fork,
    GlobalAveragePool,
    MaxPool,
    Merge,
)
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.frames import Array
from dgn_engine.regimes import find_regime
from dgn_engine.training.probes import ProbeContext, hidden_outputs
from dgn_engine.training.run import Run

DENSE = Architecture((4,), (Dense(4, 3), Dense(3, 3), Dense(3, 3), Dense(3, 2, gated=False)))
POOLED = Architecture(
    (1, 4, 4),
    (Conv(1, 2), Conv(2, 2), MaxPool(), Flatten(), Dense(8, 3), Dense(3, 3), Dense(3, 2, False)),
)
AVERAGED = Architecture(
    (1, 4, 4), (Conv(1, 2), Conv(2, 2), GlobalAveragePool(), Dense(2, 2, False))
)
RESIDUAL = Architecture((4,), (Dense(4, 3), Fork(), Dense(3, 3), Merge(), Dense(3, 2, False)))
MADE = {"dense": DENSE, "pooled": POOLED, "averaged": AVERAGED, "residual": RESIDUAL}


def by_loops(
    architecture: Architecture,
    weights: Sequence[Array],
    x: Array,
    gates: Sequence[Array],
    masks: Sequence[Array],
) -> tuple[list[Array], Array]:
    """z of every gate layer and the logits of one example, entry by entry."""
    z, kept, hidden = x, x, []
    weight, mask = iter(weights), iter(masks)
    for node in architecture.nodes:
        if isinstance(node, Dense):
            w = next(weight)
            z = np.array([sum(w[i, j] * z[j] for j in range(len(z))) for i in range(len(w))])
        elif isinstance(node, Conv):
            z = _convolved(z, next(weight))
        elif isinstance(node, MaxPool):
            z = np.stack([c.ravel()[at] for c, at in zip(z, next(mask), strict=True)])
        elif isinstance(node, GlobalAveragePool):
            z = np.array([c.sum() / c.size for c in z])
        elif isinstance(node, Flatten):
            z = z.ravel()
        elif isinstance(node, Fork):
            kept = z
        elif isinstance(node, Merge):
            z = z + kept
        if isinstance(node, (Dense, Conv)) and node.gated:
            z = z * gates[len(hidden)]
            hidden.append(z)
    return hidden, z


def _convolved(z: Array, w: Array) -> Array:
    made = np.zeros((len(w), *z.shape[1:]))
    for out, row, column in np.ndindex(made.shape):
        for source, down, across in np.ndindex(*w.shape[1:]):
            r, c = row + down - 1, column + across - 1
            if 0 <= r < z.shape[1] and 0 <= c < z.shape[2]:
                made[out, row, column] += w[out, source, down, across] * z[source, r, c]
    return made


def context_of(architecture: Architecture, regime: str) -> ProbeContext:
    """Four examples of a network with drawn weights, in float64."""
    torch.manual_seed(3)
    network = GatedNetwork(architecture).double()
    for weight in network.parameters():
        torch.nn.init.normal_(weight)
    found = find_regime(regime)
    network.own_gates = found.own_gates
    network.gate = Gate(soft=not found.own_gates)
    x = torch.randn(4, *architecture.input_shape, dtype=torch.float64)
    return ProbeContext(network, x, torch.tensor([0, 0, 1, 1]), found)


@pytest.mark.parametrize("regime", ["ReLU", "DL"])
@pytest.mark.parametrize("kind", MADE)
def test_every_pass_is_that_of_loops(kind: str, regime: str) -> None:
    context = context_of(MADE[kind], regime)
    found = hidden_outputs.PROBE.read(context, {"example": 2}, None)
    trace = context.network.trace(context.x).value
    gates = [layer[2].detach().numpy() for layer in trace.gates]
    masks = [mask[2].numpy() for mask in trace.masks]
    weights = [weight.detach().numpy() for weight in context.network.value.weights]
    x = context.x[2].numpy()
    turned = {"dense": (2, 1, 0), "pooled": (1, 0, 3, 2), "averaged": (1, 0), "residual": (1, 0)}
    given = {
        "as_is": (x, gates),
        "reversed": (x, [gates[source] for source in turned[kind]]),
        "ones": (np.ones_like(x), gates),
    }
    for place, (name, (fed, used)) in enumerate(given.items()):
        hidden, logits = by_loops(MADE[kind], weights, fed, used, masks)
        for layer, expected in enumerate(hidden):
            if expected.ndim == 3:
                mean = sum(expected) / len(expected)
                expected = np.concatenate([mean[None], expected])
            np.testing.assert_allclose(
                found.arrays[f"{name}_{layer}"], expected, rtol=1e-5, atol=1e-6
            )
        assert found.arrays["says"][place] == logits.argmax()
        answers = found.arrays[f"answers_{name}"]
        assert answers[2] == logits.argmax()
        assert found.scalars[f"right_{name}"] == np.mean(answers == [0, 0, 1, 1])
    assert found.facts["order"] == " ".join(str(source + 1) for source in turned[kind])


def test_gates_of_one_shape_change_places_among_themselves() -> None:
    assert hidden_outputs.reversed_order(((4,), (3,), (4,), (3,))) == (2, 3, 0, 1)
    assert hidden_outputs.reversed_order(((4,), (3,))) is None
    assert hidden_outputs.reversed_order(((4,),)) is None
    one = Architecture((4,), (Dense(4, 3), Dense(3, 2, gated=False)))
    found = hidden_outputs.PROBE.read(context_of(one, "DL"), {}, None)
    assert {"as_is_0", "ones_0"} <= set(found.arrays)
    assert "reversed_0" not in found.arrays
    assert "order" not in found.facts


def test_channels_begin_where_asked_and_large_maps_are_averaged_down() -> None:
    wide = Architecture((1, 96, 4), (Conv(1, 12), GlobalAveragePool(), Dense(12, 2, False)))
    context = context_of(wide, "ReLU")
    found = hidden_outputs.PROBE.read(context, {"channel": 7}, None)
    trace = context.network.trace(context.x).value
    z = (trace.pre[0] * trace.gates[0])[0].detach()
    pairs = z.reshape(12, 48, 2, 4).mean(2).numpy()
    assert found.arrays["as_is_0"].shape == (6, 48, 4)
    np.testing.assert_allclose(found.arrays["as_is_0"][1:], pairs[7:], rtol=1e-5)
    np.testing.assert_allclose(found.arrays["as_is_0"][0], pairs.mean(0), rtol=1e-5)
    past = hidden_outputs.PROBE.read(context, {"channel": 99, "example": 99}, None)
    assert (past.facts["channel"], past.facts["example"]) == ("11", "3")


@pytest.mark.parametrize("regime", ["FRG", "FR-II", "soft-ReLU", "DLN", "FL-linear"])
def test_every_kind_of_regime_has_three_passes(make_run: Callable[..., Run], regime: str) -> None:
    net = NetConfig("fc", (("depth", 3), ("width", 6)))
    config = RunConfig(data=DataConfig(train_limit=40), net=net, probe_examples=20)
    context = make_run(regime, config).probed.probe_context()
    found = hidden_outputs.PROBE.read(context, {}, None)
    assert not found.absent
    for name in hidden_outputs.PASSES:
        assert found.arrays[f"{name}_1"].shape == (6,)
        assert 0.0 <= found.scalars[f"right_{name}"] <= 1.0


def test_under_a_wiring_the_gate_layers_are_named_by_where_they_come_from(
    make_run: Callable[..., Run],
) -> None:
    net = NetConfig("fc", (("depth", 4), ("width", 6)))
    config = RunConfig(data=DataConfig(train_limit=40), net=net, probe_examples=20)
    context = make_run("DL", config, wiring=(1, 2, 0), value_input="ones").probed.probe_context()
    found = hidden_outputs.PROBE.read(context, {}, None)
    assert found.facts["order"] == "1 3 2"
    assert found.facts["fed"] == "ones"
    for layer in range(3):
        np.testing.assert_array_equal(found.arrays[f"as_is_{layer}"], found.arrays[f"ones_{layer}"])


def test_an_example_without_a_class_is_answered_and_not_counted() -> None:
    context = context_of(DENSE, "DL")
    own = Tensor.new_tensor(context.labels, [2, 2, 2, 2])
    found = hidden_outputs.PROBE.read(
        ProbeContext(context.network, context.x, own, context.regime, classes=2), {}, None
    )
    assert found.scalars == {}
    assert len(found.arrays["says"]) == 3


def test_where_each_nth_example_is_read_a_chosen_one_is_shown_as_itself() -> None:
    """Defect: the place among all was taken for the row of those read."""
    whole = context_of(DENSE, "DL")
    found = hidden_outputs.PROBE.read(whole.subsample(2), {"example": 2}, None)
    expected = hidden_outputs.PROBE.read(whole, {"example": 2}, None)
    assert found.facts["example"] == "2"
    for layer in range(3):
        name = f"as_is_{layer}"
        np.testing.assert_allclose(found.arrays[name], expected.arrays[name], rtol=1e-5)


def test_one_logit_says_which_of_two_classes_by_its_sign() -> None:
    pair = Architecture((4,), (Dense(4, 3), Dense(3, 3), Dense(3, 1, gated=False)))
    context = context_of(pair, "ReLU")
    says = (context.network(context.x)[:, 0] > 0).long()
    told = ProbeContext(context.network, context.x, says, context.regime)
    assert 0 < int(says.sum()) < len(says)
    assert hidden_outputs.PROBE.read(told, {}, None).scalars["right_as_is"] == 1.0
