"""`dgn kernels`: against autograd and the definitions in float64; bad input is one sentence."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from dgn_engine.cli import main
from dgn_engine.text.written_numbers import format_number
from tests.engine.cli.typed import one_line_error, read_arrays
from tests.refusals import refused_command

SIZES = (6, 9, 9, 9, 3)
N = 7


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)

    def layers():
        return [rng.normal(size=(b, a)) * (2 / a) ** 0.5 for a, b in pairwise(SIZES)]

    value, feature = layers(), layers()
    x = rng.normal(size=(N, SIZES[0]))
    y = rng.integers(0, 3, size=N)
    save_file({f"{2 * i}.weight": w for i, w in enumerate(value)}, tmp_path / "value.safetensors")
    torch.save(
        {f"{2 * i}.weight": torch.from_numpy(w) for i, w in enumerate(feature)},
        tmp_path / "feature.pt",
    )
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    return tmp_path, value, feature, x, y


def run(folder, *options):
    out = folder / "k.npz"
    arguments = ["kernels", str(folder / "value.safetensors"), "--inputs", str(folder / "x.npy")]
    said = [] if "--net" in options else ["--activation", "relu"]
    code = main([*arguments, *said, *options, "--out", str(out)])
    if code:
        return code, {}
    return code, read_arrays(out)


def jacobian(function, weights):
    tensors = tuple(torch.from_numpy(w).clone() for w in weights)
    rows = torch.autograd.functional.jacobian(function, tensors)
    return torch.cat([r.flatten(2) for r in rows], dim=2)  # (n, C, parameters)


def mean_kernel(a, b):
    return (torch.einsum("scp,tcp->st", a, b) / a.shape[1]).numpy()


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())


def test_a_relu_network_has_the_kernels_of_its_definition(files):
    folder, value, _, x, y = files
    code, found = run(folder, "--labels", str(folder / "y.npy"))
    assert code == 0
    inputs = torch.from_numpy(x)

    def forward(*weights):
        z = inputs
        for w in weights[:-1]:
            z = torch.relu(z @ w.T)
        return z @ weights[-1].T

    gates, z = [], x
    for w in value[:-1]:
        q = z @ w.T
        gates.append((q > 0).astype(float))
        z = q * gates[-1]
    product = np.ones((N, N))
    for layer, g in enumerate(gates):
        close(found[f"tau_{layer + 1}"], g @ g.T)
        product *= g @ g.T
    close(found["gram"], x @ x.T)
    close(found["overlap"], product)
    close(found["npk"], (x @ x.T) * product)
    grad = jacobian(forward, value)
    close(found["ntk"], mean_kernel(grad, grad))
    assert "ntk_feature" not in found
    assert "ntk_cross" not in found
    scaled = found["npk"] / np.trace(found["npk"])
    close(np.sort(found["eigenvalues"]), np.linalg.eigvalsh(scaled))
    signs = 2.0 * np.eye(3)[y] - 1.0
    nu = np.trace(signs.T @ np.linalg.inv(scaled) @ signs) / 3
    assert found["nu"] == pytest.approx(nu, rel=1e-8)
    assert json.loads(str(found["settings"]))["scale"] == "none"


def test_nu_of_contradictory_inputs_says_what_it_leaves_out(files, capsys):
    folder, _, _, x, _ = files
    np.save(folder / "x.npy", np.concatenate([np.abs(x[:3]), np.abs(x[:1])]))
    np.save(folder / "y.npy", np.array([0, 1, 2, 1]))
    code, found = run(folder, "--labels", str(folder / "y.npy"))
    assert code == 0
    said = capsys.readouterr().out
    assert found["nu_contradictory"] == 2
    assert found["nu_outside"] > 0.2
    assert found["nu_ridge"] == 0.0
    cutoff = format_number(float(found["nu_cutoff"]), 3)
    for told in (f"rank {found['nu_rank']}, ", cutoff, f"{100 * found['nu_outside']:.2f} % of"):
        assert told in said
    assert "2 examples " in said
    run(folder, "--labels", str(folder / "y.npy"), "--json")
    told = json.loads(capsys.readouterr().out)
    parts = ("nu", "nu_rank", "nu_cutoff", "nu_ridge", "nu_outside", "nu_contradictory")
    assert {name: told[name] for name in parts} == {name: found[name].item() for name in parts}


def dgn(x, beta, order, constant):
    """value weights, feature weights → logits of a soft deep gated network."""
    inputs = torch.from_numpy(x)

    def forward(value, feature):
        z, pre = inputs, []
        for w in feature[:-1]:
            pre.append(z @ w.T)
            z = torch.relu(pre[-1])
        z = torch.ones_like(inputs) if constant else inputs
        for layer, w in enumerate(value[:-1]):
            z = (z @ w.T) * torch.sigmoid(beta * pre[order[layer]])
        return z @ value[-1].T

    return forward


@pytest.mark.parametrize("constant", [False, True])
def test_a_soft_network_with_permuted_gates_splits_into_value_and_feature_parts(files, constant):
    folder, value, feature, x, _ = files
    options = ["--gates", str(folder / "feature.pt"), "--beta", "4", "--permute", "2,0,1"]
    options += ["--value-input", "ones"] if constant else []
    code, found = run(folder, *options)
    assert code == 0
    forward = dgn(x, 4.0, (2, 0, 1), constant)
    fixed_value = [torch.from_numpy(w) for w in value]
    fixed_feature = [torch.from_numpy(w) for w in feature]
    by_value = jacobian(lambda *w: forward(w, fixed_feature), value)
    by_feature = jacobian(lambda *w: forward(fixed_value, w), feature)
    close(found["ntk_value"], mean_kernel(by_value, by_value))
    close(found["ntk_feature"], mean_kernel(by_feature, by_feature))
    close(found["ntk"], found["ntk_value"] + found["ntk_feature"])
    gram = np.full((N, N), float(SIZES[0])) if constant else x @ x.T
    close(found["npk"], gram * found["overlap"])


def test_own_soft_gates_have_a_cross_term_and_the_parts_sum_to_the_kernel(files):
    folder, value, _, x, _ = files
    code, found = run(folder, "--beta", "4")
    inputs = torch.from_numpy(x)

    def forward(*weights):
        z = inputs
        for w in weights[:-1]:
            q = z @ w.T
            z = q * torch.sigmoid(4.0 * q)
        return z @ weights[-1].T

    assert code == 0
    grad = jacobian(forward, value)
    close(found["ntk_value"] + found["ntk_feature"] + found["ntk_cross"], mean_kernel(grad, grad))
    close(found["ntk"], mean_kernel(grad, grad))


def test_a_linear_feature_network_gates_by_its_linear_pre_activations(files):
    folder, _, feature, x, _ = files
    options = ["--gates", str(folder / "feature.pt"), "--feature-activation", "linear"]
    code, found = run(folder, *options)
    assert code == 0
    z = x
    for layer, w in enumerate(feature[:-1]):
        z = z @ w.T
        g = (z > 0).astype(float)
        close(found[f"tau_{layer + 1}"], g @ g.T)


def test_features_are_of_relu_unless_another_known_activation_is_named(files, capsys):
    folder = files[0]
    gates = ["--gates", str(folder / "feature.pt")]
    _, found = run(folder, *gates)
    assert json.loads(str(found["settings"]))["feature_activation"] == "relu"
    words = [folder / "value.safetensors", "--inputs", folder / "x.npy", *gates]
    said = one_line_error(capsys, "kernels", *words, "--feature-activation", "sigmoid")
    assert all(word in said for word in ("'sigmoid'", "relu", "linear"))


@pytest.mark.parametrize(
    ("mode", "shape"), [("full", (N, 3, N, 3)), ("perclass", (3, N, N)), ("sumlogit", (N, N))]
)
def test_every_logit_mode_has_its_shape(files, mode, shape):
    _, found = run(files[0], "--logits", mode)
    assert found["ntk"].shape == shape


@pytest.mark.parametrize("how", ["trace", "width", "cosine"])
def test_the_scale_leaves_tangent_kernels_alone(files, how):
    _, plain = run(files[0])
    _, found = run(files[0], "--scale", how)
    close(found["ntk"], plain["ntk"])
    assert not np.allclose(found["npk"], plain["npk"])


@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL"])
def test_the_weights_of_a_run_are_taken_with_their_gates(tmp_path, regime):
    out = tmp_path / "run"
    small = ["--width", "12", "--depth", "4", "--epochs", "1", "--quiet"]
    assert main(["train", *small, "--regime", regime, "--wiring", "2,0,1", "--out", str(out)]) == 0
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.random((5, 1, 8, 8)))
    arguments = ["kernels", str(out / "weights.safetensors"), "--inputs", str(tmp_path / "x.npy")]
    assert main([*arguments, "--out", str(tmp_path / "k.npz")]) == 0
    found = read_arrays(tmp_path / "k.npz")
    assert ("ntk_feature" in found) == (regime == "DL")
    assert np.array_equal(found["tau_1"], np.round(found["tau_1"])) == (regime != "DL")
    assert refused_command(*arguments, "--beta", "3").place == "--beta"


@pytest.mark.parametrize("options", [["--permute", "a"], ["--logits", "sum"], ["--nonsense"]])
def test_what_cannot_be_parsed_is_one_sentence(files, capsys, options):
    words = [files[0] / "value.safetensors", "--inputs", files[0] / "x.npy"]
    assert options[-1] in one_line_error(capsys, "kernels", *words, *options)


def test_one_logit_is_two_classes(files):
    folder, value, _, _, _ = files
    tensors = {f"{i}.weight": w for i, w in enumerate([*value[:-1], value[-1][:1]])}
    save_file(tensors, folder / "value.safetensors")
    np.save(folder / "y.npy", np.arange(N) % 2)
    code, found = run(folder, "--labels", str(folder / "y.npy"))
    assert code == 0
    signs = 2.0 * (np.arange(N) % 2) - 1.0
    nu = signs @ np.linalg.inv(found["npk"] / np.trace(found["npk"])) @ signs
    assert found["nu"] == pytest.approx(nu, rel=1e-8)


NAMES = (
    "layer2.weight layer3.weight layer10.weight layer11.weight",
    "fc4.weight fc5.weight fc6.weight head.weight",
    "encoder.fc1.weight encoder.fc2.weight fc3.weight head.weight",
    "W1 W2 W3 W4",
)


@pytest.mark.wide
@pytest.mark.parametrize("words", NAMES)
@pytest.mark.parametrize("kind", ["safetensors", "npz", "pt", "pt backwards"])
def test_layers_follow_the_file_or_else_their_names(files, words, kind):
    folder, value, _, _, _ = files
    _, plain = run(folder)
    names = words.split()
    tensors = dict(zip(names, value, strict=True))
    path = folder / f"named.{kind.partition(' ')[0]}"
    if kind == "safetensors":
        save_file(tensors, path)
    elif kind == "npz":
        np.savez(path, **tensors)
    else:
        order = reversed(names) if "backwards" in kind else names
        torch.save({name: torch.from_numpy(tensors[name]) for name in order}, path)
    out = folder / "named_k.npz"
    asked = ["kernels", str(path), "--inputs", str(folder / "x.npy"), "--activation", "relu"]
    asked += ["--out", str(out)]
    if names[0] == "encoder.fc1.weight":  # its two square layers are numbered apart
        assert main(asked) == 2
        assert not out.exists()
        asked += ["--order", ",".join(names)]
    assert main(asked) == 0
    for name in ("npk", "ntk"):
        close(read_arrays(out)[name], plain[name])


def test_empty_entries_are_null_in_the_json(files, capsys):
    folder, _, _, x, _ = files
    np.save(folder / "x.npy", np.where(np.arange(N)[:, None] == 2, 0.0, x))
    code, _ = run(folder, "--scale", "cosine", "--json")
    assert code == 0

    def refuse(word):
        raise AssertionError(word)

    tree = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert tree["kernels"]["npk"]["trace"] is None
    assert tree["kernels"]["npk"]["max"] == pytest.approx(1.0)


def test_batch_norm_of_a_state_dict_is_folded_in_and_said(files, capsys):
    folder, value, _, x, _ = files
    layers = []
    for w in value:
        layers += [torch.nn.Linear(w.shape[1], w.shape[0]), torch.nn.BatchNorm1d(w.shape[0])]
        layers.append(torch.nn.ReLU())
    module = torch.nn.Sequential(*layers[:-2]).double()
    generator = torch.Generator().manual_seed(0)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) + 0.2)
            tensor.mul_(-1 if name.endswith("running_mean") else 1)
    torch.save(module.state_dict(), folder / "normed.pt")
    out = folder / "normed.npz"
    arguments = ["kernels", str(folder / "normed.pt"), "--inputs", str(folder / "x.npy")]
    arguments += ["--activation", "relu", "--norm-eps", "1e-5"]
    assert main([*arguments, "--out", str(out)]) == 0
    assert "BatchNorm" in capsys.readouterr().out
    module.eval()
    z, kernel = torch.from_numpy(x), x @ x.T
    with torch.no_grad():
        for layer in module:
            if isinstance(layer, torch.nn.ReLU):
                gates = (z > 0).double().numpy()
                kernel = kernel * (gates @ gates.T)
            z = layer(z)
    close(read_arrays(out)["npk"], kernel)


@pytest.mark.parametrize("soft", [False, True])
def test_a_convolutional_network_has_the_kernels_of_the_plain_module(files, soft):
    folder = files[0]
    rng = np.random.default_rng(5)
    shapes = [(3, 2, 3, 3), (3, 3, 3, 3), (3, 3, 3, 3), (3, 3, 3, 3), (4, 3)]
    weights = [rng.normal(size=shape) / 3 for shape in shapes]
    x = rng.normal(size=(4, 2, 5, 6))
    np.savez(folder / "images.npz", x=x)
    tensors = {f"features.{i}.weight": w for i, w in enumerate(weights)}
    save_file(tensors, folder / "cnn.safetensors")
    out = folder / "cnn.npz"
    arguments = ["kernels", str(folder / "cnn.safetensors"), "--out", str(out), "--net", "cnn4"]
    arguments += ["--option", "channels=3", "--inputs", str(folder / "images.npz")]
    assert main([*arguments, *(["--beta", "3"] if soft else [])]) == 0

    def forward(*w):
        z = torch.from_numpy(x)
        for kernel in w[:-1]:
            q = torch.nn.functional.conv2d(z, kernel, padding=1)
            z = q * torch.sigmoid(3.0 * q) if soft else torch.relu(q)
        return z.mean((2, 3)) @ w[-1].T

    grad = jacobian(forward, weights)
    close(read_arrays(out)["ntk"], mean_kernel(grad, grad))


def test_more_inputs_than_fit_are_refused_with_the_number_that_fits(files, capsys):
    folder = files[0]
    np.save(folder / "x.npy", np.zeros((20_000, SIZES[0]), dtype=np.float32))
    code, _ = run(folder)
    words = capsys.readouterr().err
    assert code == 2
    fits = int(words.split("at most ")[1].split()[0].replace(",", ""))
    assert 1_000 < fits < 20_000
