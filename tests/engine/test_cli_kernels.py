"""`dgn kernels`: against autograd and the definitions in float64; bad input is one sentence."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from dgn_engine.cli import main

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
    code = main([*arguments, *options, "--out", str(out)])
    if code:
        return code, {}
    with np.load(out, allow_pickle=False) as found:
        return code, dict(found)


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
    assert json.loads(str(found["settings"]))["normalise"] == "none"


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


@pytest.mark.parametrize(
    ("mode", "shape"), [("full", (N, 3, N, 3)), ("perclass", (3, N, N)), ("sumlogit", (N, N))]
)
def test_every_logit_mode_has_its_shape(files, mode, shape):
    _, found = run(files[0], "--logits", mode)
    assert found["ntk"].shape == shape


@pytest.mark.parametrize("how", ["trace", "width", "cosine"])
def test_normalisation_leaves_tangent_kernels_alone(files, how):
    _, plain = run(files[0])
    _, found = run(files[0], "--normalise", how)
    close(found["ntk"], plain["ntk"])
    assert not np.allclose(found["npk"], plain["npk"])


def test_the_table_and_the_json_go_to_stdout(files, capsys):
    run(files[0])
    assert "ntk_value" in capsys.readouterr().out
    run(files[0], "--json")
    assert json.loads(capsys.readouterr().out)["kernels"]["npk"]["trace"] > 0


def broken(folder, kind):
    """Options that must be refused, and what the sentence must name."""
    rng = np.random.default_rng(1)
    path = folder / "broken.safetensors"
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(SIZES)]
    match kind:
        case "chain":
            weights[1] = rng.normal(size=(9, 8))
        case "nan":
            weights[0][0, 0] = np.nan
        case "conv":
            weights[0] = rng.normal(size=(9, 1, 3, 3))
        case "gates":
            weights[1] = rng.normal(size=(8, 9))
            weights[2] = rng.normal(size=(9, 8))
    tensors = {f"{i}.weight": w for i, w in enumerate(weights)}
    if kind == "norm":
        tensors["1.running_mean"] = rng.normal(size=9)
    save_file(tensors, path)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("chain", "1.weight"),
        ("nan", "not finite"),
        ("conv", "--net"),
        ("norm", "running_mean"),
    ],
)
def test_a_network_that_cannot_be_is_refused(files, capsys, kind, named):
    folder = files[0]
    out = folder / "never.npz"
    network = broken(folder, kind)
    code = main(["kernels", network, "--inputs", str(folder / "x.npy"), "--out", str(out)])
    captured = capsys.readouterr()
    assert code == 2
    assert named in captured.err
    assert captured.err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--permute", "0,0,1"], "--gates"),
        (["--memory", "0.0000001"], "inputs fit"),
        (["--beta", "-1"], "--beta"),
        (["--labels", "x.npy"], "labels"),
        (["--net", "resnet152"], "resnet152"),
        (["--gates", "gates"], "layer 2"),
        (["--gates", "feature.pt", "--permute", "1,0"], "gate layers"),
    ],
)
def test_options_that_do_not_fit_are_refused(files, capsys, options, named):
    folder = files[0]
    known = {"x.npy": str(folder / "x.npy"), "feature.pt": str(folder / "feature.pt")}
    if "gates" in options:
        known["gates"] = broken(folder, "gates")
    code, _ = run(folder, *(known.get(option, option) for option in options))
    captured = capsys.readouterr()
    assert code == 2
    assert named in captured.err
    assert captured.err.count("\n") == 1
    assert not (folder / "k.npz").exists()


def test_inputs_that_are_not_finite_or_of_the_wrong_size_are_refused(files, capsys):
    folder = files[0]
    for bad, named in ((np.full((3, 6), np.inf), "finite"), (np.zeros((3, 5)), "(5,)")):
        np.save(folder / "x.npy", bad)
        code, _ = run(folder)
        assert code == 2
        assert named in capsys.readouterr().err


@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL"])
def test_the_weights_of_a_run_are_taken_with_their_gates(tmp_path, capsys, regime):
    out = tmp_path / "run"
    small = ["--width", "12", "--depth", "4", "--epochs", "1", "--quiet"]
    assert main(["train", *small, "--regime", regime, "--wiring", "2,0,1", "--out", str(out)]) == 0
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.random((5, 1, 8, 8)))
    arguments = ["kernels", str(out / "weights.safetensors"), "--inputs", str(tmp_path / "x.npy")]
    assert main([*arguments, "--out", str(tmp_path / "k.npz")]) == 0
    with np.load(tmp_path / "k.npz", allow_pickle=False) as found:
        assert ("ntk_feature" in found) == (regime == "DL")
        hard = np.array_equal(found["tau_1"], np.round(found["tau_1"]))
    assert hard == (regime != "DL")
    assert main([*arguments, "--beta", "3"]) == 2
    assert "--beta" in capsys.readouterr().err
