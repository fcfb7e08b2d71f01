"""Two networks in one file: known by the names of their tensors, and each taken as a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.importing.foreign_keys import check_keys, left_over_in_words
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.networks_beside import networks_beside, same_numbers_beside

pytestmark = pytest.mark.usefixtures("no_reader_child")

State = dict[str, Tensor]


def net(seed: int, outputs: int = 4) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(33, 8), nn.ReLU(), nn.Linear(8, outputs))


def state(seed: int, outputs: int = 4) -> State:
    return net(seed, outputs).state_dict()


def below(**networks: State) -> State:
    return {f"{key}.{name}": t for key, own in networks.items() for name, t in own.items()}


def arrays(tensors: State) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


PAIRS = [
    *(
        ("q_net", "q_net_target"),
        ("q", "target_q"),
        ("online", "target"),
        ("actor", "actor_target"),
    ),
    *(
        ("qnetwork_local", "qnetwork_target"),
        ("policy_net", "target_net"),
        ("policy", "policy_old"),
    ),
    *(("student", "teacher"), ("eval_net", "target_net"), ("model", "ema"), ("net", "net_ema")),
    *(("critic", "criticTarget"), ("encoder", "momentum_encoder"), ("main", "target")),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("moved", [0.0, 0.01])
def test_a_network_and_its_copy_are_two_networks(pair: tuple[str, str], moved: float) -> None:
    copy = {name: tensor + moved for name, tensor in state(0).items()}
    found = networks_beside(arrays(below(**{pair[0]: state(0), pair[1]: copy})))
    assert found is not None
    assert (found.first, found.second) == pair
    assert found.relation == ("moved" if moved else "equal")
    assert found.parts == pair


@pytest.mark.parametrize(
    "pair", [("actor", "critic"), ("policy", "value"), ("generator", "discriminator"), ("q1", "q2")]
)
def test_networks_of_two_roles_are_known_whatever_their_layers(pair: tuple[str, str]) -> None:
    found = networks_beside(arrays(below(**{pair[0]: state(0), pair[1]: state(1, outputs=1)})))
    assert found is not None
    assert (found.parts, found.relation) == (pair, "other")


@pytest.mark.parametrize(
    "names",
    [
        ("layer1", "layer2"),
        ("encoder", "decoder"),
        ("net", "other"),
        ("q_net", "q_net2"),
        ("target_size", "net"),
        ("features", "classifier"),
        ("fc_target", "fc_source"),
    ],
)
def test_other_names_are_no_two_networks(names: tuple[str, str]) -> None:
    assert networks_beside(arrays(below(**{names[0]: state(0), names[1]: state(1)}))) is None


def test_a_copy_by_its_name_with_other_layers_is_none() -> None:
    assert networks_beside(arrays(below(q=state(0), q_target=state(1, outputs=3)))) is None


def test_all_networks_beside_them_are_parts() -> None:
    four = {"actor": state(0), "critic": state(1, 1), "actor_target": state(0)}
    found = networks_beside(arrays(below(**four, critic_target=state(2, 1))))
    assert found is not None
    assert found.parts == ("actor", "critic", "actor_target", "critic_target")


@pytest.mark.parametrize(
    ("more", "outside"),
    [
        ({"shared.weight": torch.ones(33, 33)}, "shared.weight"),
        ({"action_net.weight": torch.ones(2, 4)}, "action_net.weight"),
    ],
)
def test_layers_outside_both_are_named_and_no_part_is_offered(more: State, outside: str) -> None:
    both = {f"mlp.{name}": t for name, t in below(policy=state(0), value=state(1, 1)).items()}
    found = networks_beside(arrays({**both, **more}))
    assert found is not None
    assert (found.first, found.outside, found.parts) == ("mlp.policy", outside, ())
    with pytest.raises(UserError) as refused:
        check_keys("f.pt", arrays({**both, **more}))
    assert f"'{outside}'" in str(refused.value)
    assert "--part" not in str(refused.value)


def test_copies_that_stand_layer_by_layer_have_no_part_to_take() -> None:
    own = {"fc1": state(0)["0.weight"], "fc2": state(0)["2.weight"]}
    flat = {f"{name}.weight": t for name, t in own.items()}
    flat |= {f"{name}_target.weight": t for name, t in own.items()}
    found = networks_beside(arrays(flat))
    assert found is not None
    assert (found.first, found.second, found.parts) == ("fc1", "fc1_target", ())


FILES: dict[str, Any] = {
    "flat": below(q_net=state(0), q_net_target=state(1)),
    "nested": {"q_net": state(0), "q_net_target": state(1)},
    "under model": {"model_state_dict": below(q_net=state(0), q_net_target=state(1)), "epoch": 3},
    "nested under model": {"model": {"q_net": state(0), "q_net_target": state(1)}},
    "DataParallel": below(**{"module.q_net": state(0), "module.q_net_target": state(1)}),
    "deeper": below(**{"agent.q_net": state(0), "agent.q_net_target": state(1)}),
    "deeper, nested": {"agent": {"q_net": state(0), "q_net_target": state(1)}},
    "modules": {"q_net": net(0), "q_net_target": net(1)},
}


@pytest.mark.parametrize("kind", FILES)
def test_the_parts_that_are_offered_are_taken(kind: str, tmp_path: Path) -> None:
    torch.save(FILES[kind], tmp_path / "f.pt")
    whole = read_tensors(tmp_path / "f.pt")
    with pytest.raises(UserError, match=r"--part \S*q_net or --part \S*q_net_target\."):
        check_keys("f.pt", whole.arrays)
    with pytest.raises(UserError) as window:
        check_keys("f.pt", whole.arrays, "window")
    assert "--part" not in str(window.value)
    beside = networks_beside(whole.arrays)
    assert beside is not None
    for seed, part in enumerate(beside.parts):
        found = read_tensors(tmp_path / "f.pt", part=part)
        assert list(found.arrays) == list(state(seed))
        assert all(np.array_equal(found.arrays[n], t.numpy()) for n, t in state(seed).items())
        check_keys("f.pt", found.arrays)


class Agent(nn.Module):
    """Keeps a network and its copy, each a sequence that states its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.q_net, self.q_net_target = net(0), net(0)
        self.deep = nn.ModuleDict({"inner": net(1)})


@pytest.mark.parametrize("wrap", [lambda a: a, nn.DataParallel, lambda a: {"model": a}])
def test_a_part_of_a_saved_module_states_its_own_layers(wrap: Any, tmp_path: Path) -> None:
    torch.save(wrap(Agent()), tmp_path / "f.pt")
    found = read_tensors(tmp_path / "f.pt", part="q_net_target")
    assert [layer.kind for layer in found.layers] == ["Linear", "ReLU", "Linear"]
    assert [layer.name for layer in found.layers] == ["0", "1", "2"]
    assert list(found.arrays) == list(state(0))
    assert found.module == f"{nn.Sequential.__module__}.Sequential"
    assert len(read_tensors(tmp_path / "f.pt", part="deep.inner").layers) == 3
    with pytest.raises(UserError, match="has no part"):
        read_tensors(tmp_path / "f.pt", part="q_net_targe")


def test_equal_layers_are_tied_only_where_no_whole_network_is_equal() -> None:
    twins = arrays(below(first=state(0), second=state(0)))
    assert same_numbers_beside(twins, "first.0.weight", "second.0.weight") == ("first", "second")
    with pytest.raises(UserError) as refused:
        check_keys("f.pt", twins)
    assert "'first' and 'second'" in str(refused.value)
    assert "tied" not in str(refused.value)
    assert "--part first" in str(refused.value)
    tied = arrays(below(a=state(0), b=state(1)))
    tied["b.0.weight"] = tied["a.0.weight"]
    with pytest.raises(UserError, match=r"'b\.0\.weight' equals 'a\.0\.weight'.*tied"):
        check_keys("f.pt", tied)


@pytest.mark.parametrize(
    ("tensors", "name", "words"),
    [
        ({"ce.weight": np.ones(10)}, "ce.weight", "a vector of 10 numbers"),
        ({"ce.pos_weight": np.ones(3)}, "ce.pos_weight", "a vector of 3 numbers"),
        ({"temperature": np.float32(2)}, "temperature", "a single number"),
        ({"log_alpha": np.ones(1)}, "log_alpha", "a single number"),
        ({"mask": np.ones(4, bool)}, "mask", "a mask of 4 booleans"),
        ({"pos": np.ones((2, 3, 4))}, "pos", "shape 2×3×4"),
        ({"ln.weight": np.ones(5), "ln.bias": np.ones(5)}, "ln.weight", "LayerNorm"),
        ({"ln.weight": np.ones(5), "ln.bias": np.ones(5)}, "ln.bias", "LayerNorm"),
        ({"ln.weight": np.ones(5), "ln.bias": np.ones(4)}, "ln.weight", "a vector of 5 numbers"),
    ],
)
def test_what_no_layer_has_is_called_what_it_is(
    tensors: dict[str, Any], name: str, words: str
) -> None:
    assert words in left_over_in_words(name, {k: np.asarray(v) for k, v in tensors.items()})
