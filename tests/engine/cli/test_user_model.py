"""`dgn kernels --model`: a module of the user's own code, against autograd in float64."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dgn_engine.cli import main
from dgn_engine.cli.run.user_code import allow_user_imports
from tests.engine.cli.typed import printed_json
from tests.engine.cli.user_code import (
    NETS,
    N,
    command_words,
    compute_kernels,
    inputs,
    jacobian,
    make_user_module,
    mean_kernel,
    refused_kernels,
    write_code,
)


@pytest.mark.parametrize("name", ["make_net", "Residual", "instance"])
def test_a_model_that_adapt_follows_has_every_kernel(folder: Path, name: str) -> None:
    arrays, settings = compute_kernels(f"user_nets:{name}", "--labels", "y.npy")
    assert {"gram", "tau_1", "overlap", "sensitive", "npk", "ntk", "nu"} <= set(arrays)
    np.testing.assert_allclose(
        arrays["ntk"], mean_kernel(make_user_module(name), inputs()), rtol=1e-10
    )
    assert (settings["computed_by"], settings["tangent_kernel_alone"]) == ("adapt", None)
    assert settings["model"] == f"user_nets:{name}"


@pytest.mark.parametrize("name", ["Smooth", "Frozen", "one_logit", "Tied", "linear"])
def test_a_model_that_adapt_refuses_has_k_its_spectrum_and_its_nu(folder: Path, name: str) -> None:
    if name == "one_logit":
        np.save("y.npy", np.array([0, 1, 1, 0, 1, 0]))
    arrays, settings = compute_kernels(f"user_nets:{name}", "--labels", "y.npy")
    kernel = mean_kernel(make_user_module(name), inputs())
    np.testing.assert_allclose(arrays["ntk"], kernel, rtol=1e-9, atol=1e-12)
    scaled = kernel / np.trace(kernel)
    values = np.linalg.eigvalsh(scaled)[::-1]
    np.testing.assert_allclose(arrays["eigenvalues_ntk"], values, rtol=1e-9, atol=1e-14)
    y = np.load("y.npy")
    targets = (
        2.0 * (y[:, None] == np.arange(3)) - 1 if name != "one_logit" else 2.0 * y[:, None] - 1
    )
    nu = np.trace(targets.T @ np.linalg.solve(scaled, targets)) / targets.shape[1]
    np.testing.assert_allclose(arrays["nu_ntk"], nu, rtol=1e-6)
    of_nu = {f"nu{part}_ntk" for part in ("", "_rank", "_cutoff", "_ridge", "_outside")}
    assert set(arrays) == {"ntk", "eigenvalues_ntk", "nu_contradictory"} | of_nu
    assert settings["computed_by"] == "empirical_ntk"
    over = "2 of 4 parameters" if name == "Frozen" else "all "
    assert over in settings["tangent_kernel"]


def test_what_the_model_is_and_how_it_was_computed_stands_in_print_json_and_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, settings = compute_kernels("user_nets:Smooth", "--labels", "y.npy")
    said = capsys.readouterr().out
    (why,) = (note for note in settings["notes"] if settings["tangent_kernel_alone"] in note)
    assert "layer_norm" in why
    for words in (
        why,
        "Smooth of user_nets.py, 69 parameters",
        "ν = ",
        "rank 6",
        "all 6 parameters",
    ):
        assert words in said
    tree = printed_json(capsys, *command_words("user_nets:Smooth", "--labels", "y.npy", "--json"))
    assert tree["settings"]["module"] == "Smooth of user_nets.py"
    assert tree["settings"]["accuracy"] == settings["accuracy"]
    assert len(tree["eigenvalues_ntk"]) == N
    assert set(tree["kernels"]) == {"ntk"}
    assert tree["nu_ntk"] > 0


@pytest.mark.parametrize("mode", ["full", "perclass", "sumlogit"])
def test_logits_are_treated_as_asked(
    folder: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, _ = compute_kernels("user_nets:Smooth", "--logits", mode, "--labels", "y.npy")
    rows = jacobian(make_user_module("Smooth"), inputs()).detach()
    if mode == "sumlogit":
        rows = rows.sum(1)
    wanted = torch.einsum(
        {"full": "scp,tdp->sctd", "perclass": "scp,tcp->cst", "sumlogit": "sp,tp->st"}[mode],
        rows,
        rows,
    )
    np.testing.assert_allclose(arrays["ntk"], wanted, rtol=1e-9, atol=1e-12)
    assert ("nu_ntk" in arrays) == (mode == "sumlogit")
    assert ("eigenvalues_ntk" in arrays) == (mode != "perclass")
    assert ("│ ntk " in capsys.readouterr().out) == (mode != "perclass")


def test_what_the_code_prints_is_no_result(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command_words("user_nets:make_net", "--json")) == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    assert printed.err == "a net is made\n"


def test_code_that_changes_the_current_folder_changes_no_path_of_the_command(folder: Path) -> None:
    """Neither at import nor when it is called: other inputs would lie under the same names."""
    (folder / "other").mkdir()
    np.save(folder / "other" / "y.npy", np.array([2, 2, 2, 2, 2, 2]))
    moves = "import os\nfrom user_nets import make_net as plain\nos.chdir('other')\n"
    moves += f"def make_net():\n    os.chdir({str(folder / 'other')!r})\n    return plain()\n"
    model = f"{write_code(folder, moves)}:make_net"
    moved, still = (
        compute_kernels(m, "--labels", "y.npy")[1] for m in (model, "user_nets:make_net")
    )
    assert moved["accuracy"] == still["accuracy"]
    assert (folder / "k.npz").exists()


def test_the_current_folder_is_importable_as_with_python_m(folder: Path) -> None:
    (folder / "pack" / "deep").mkdir(parents=True)
    (folder / "pack" / "__init__.py").touch()
    (folder / "pack" / "deep" / "__init__.py").touch()
    (folder / "pack" / "deep" / "net.py").write_text(
        "from torch import nn\nfrom ..sizes import WIDTH\n"
        "def make():\n    return nn.Sequential(nn.Linear(5, WIDTH), nn.ReLU())\n"
    )
    (folder / "pack" / "sizes.py").write_text("WIDTH = 4\n")
    assert compute_kernels("pack.deep.net:make")[1]["module"] == "Sequential of pack/deep/net.py"


def test_an_attribute_of_a_class_is_found_by_dots(folder: Path) -> None:
    assert compute_kernels("user_nets:Zoo.smooth")[1]["module"] == "Smooth of user_nets.py"


def test_the_model_as_it_is_made_is_the_same_at_every_call(folder: Path) -> None:
    before = torch.get_rng_state()
    first, _ = compute_kernels("user_nets:make_net")
    torch.manual_seed(5)
    second, _ = compute_kernels("user_nets:make_net")
    np.testing.assert_array_equal(first["npk"], second["npk"])
    torch.set_rng_state(before)


WRAPPED: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "a state dict": lambda state: state,
    "of DataParallel": lambda state: {f"module.{name}": t for name, t in state.items()},
    "of torch.compile": lambda state: {f"_orig_mod.{name}": t for name, t in state.items()},
    "of a training loop": lambda state: {"model_state_dict": state, "epoch": 3},
    "of Lightning": lambda state: {
        "state_dict": {f"net.{name}": t for name, t in state.items()} | {"loss.w": torch.ones(3)}
    },
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_weights_are_put_in_place_however_the_file_wraps_them(
    folder: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = make_user_module("make_net")
    with torch.no_grad():
        for tensor in (*module.parameters(), module[1].running_mean):  # type: ignore[index]
            tensor.normal_()
        module[1].running_var.uniform_(0.5, 2.0)  # type: ignore[index]
    torch.save(WRAPPED[kind](module.state_dict()), "f.pt")
    arrays, settings = compute_kernels("user_nets:make_net", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-12)
    assert settings["weights"] == "f.pt"
    said = capsys.readouterr().out
    assert ("; 1 tensor " in said) == (kind == "of Lightning")


@pytest.mark.parametrize("prefix", ["", "module.", "module.module.", "student.module."])
def test_a_child_called_module_is_found_whatever_the_reader_took_off(
    folder: Path, prefix: str
) -> None:
    module = make_user_module("Residual")
    torch.save({f"{prefix}{name}": t + 1 for name, t in module.state_dict().items()}, "f.pt")
    arrays, _ = compute_kernels("user_nets:Holder", "--weights", "f.pt")
    for tensor in module.parameters():
        tensor.data += 1
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-10)


def test_one_value_of_a_tied_parameter_is_enough_and_two_are_refused(folder: Path) -> None:
    state = make_user_module("Tied").state_dict()
    whole, _ = compute_kernels("user_nets:Tied")
    torch.save({name: t for name, t in state.items() if name != "b.weight"}, "f.pt")
    arrays, _ = compute_kernels("user_nets:Tied", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], whole["ntk"], rtol=1e-12)
    torch.save(state | {"b.weight": state["b.weight"] + 1}, "f.pt")
    refusal = refused_kernels(*command_words("user_nets:Tied", "--weights", "f.pt"))
    assert (refusal.kind, refusal.value) == ("contradiction", ("a.weight", "b.weight"))


def altered(**tensors: Tensor | None) -> Callable[[], object]:
    """The weights of Smooth with others in their place; '_' is the dot of a name."""
    others = {name.replace("_", "."): tensor for name, tensor in tensors.items()}
    return lambda: {
        name: tensor
        for name, tensor in ({**make_user_module("Smooth").state_dict()} | others).items()
        if tensor is not None
    }


def twice() -> object:
    state = make_user_module("Smooth").state_dict()
    return {f"{who}.{name}": t for who in ("ema", "raw") for name, t in state.items()}


COMPLEX = torch.zeros(3, dtype=torch.complex64)
MISFITS: dict[
    str, tuple[Callable[[], object], str, object]
] = {  # the kind and value of its refusal
    "missing": (altered(a_bias=None), "other-names", (["'a.bias'"], [])),
    "left over": (altered(c_weight=torch.ones(2)), "other-names", ([], ["'c.weight'"])),
    "complex": (altered(b_bias=COMPLEX), "other-names", (["b.bias (complex64)"], [])),
    "another shape": (
        altered(a_weight=torch.ones(6, 4), b_bias=torch.ones(())),
        "wrong-shape",
        {"a.weight": ("6×4", "6×5"), "b.bias": ("a scalar", "3")},
    ),
    "not a number": (altered(b_bias=torch.tensor([0.0, torch.nan, 0.0])), "not-finite", "b.bias"),
    "twice": (twice, "ambiguous", ["ema.", "raw."]),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_weights_that_do_not_fit_are_named(folder: Path, kind: str) -> None:
    build, wrong, value = MISFITS[kind]
    torch.save(build(), "f.pt")
    refusal = refused_kernels(*command_words("user_nets:Smooth", "--weights", "f.pt"))
    assert (refusal.kind, refusal.value) == (wrong, value)
    assert "f.pt" in str(refusal)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["0.weight", "1.bias", "1.running_var", "4.bias"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_value_that_is_not_finite_in_a_model_that_the_code_makes_is_named(
    folder: Path, name: str, value: str
) -> None:
    broken = "from user_nets import make_net as plain\ndef make_net():\n    net = plain()\n"
    broken += f"    net.state_dict()['{name}'][0] = float('{value}')\n    return net\n"
    refusal = refused_kernels(*command_words(f"{write_code(folder, broken)}:make_net"))
    assert (refusal.kind, refusal.value) == ("not-finite", name)


def test_a_mask_of_a_model_may_be_infinite(folder: Path) -> None:
    masked = "import torch\nfrom user_nets import Smooth as Plain\nclass Smooth(Plain):\n"
    masked += "    def __init__(self):\n        super().__init__()\n"
    masked += "        self.register_buffer('mask', torch.full((3,), -torch.inf))\n"
    name = f"{write_code(folder, masked)}:Smooth"
    arrays, _ = compute_kernels(name, "--only", "ntk")
    expected = mean_kernel(make_user_module("Smooth"), inputs())
    np.testing.assert_allclose(arrays["ntk"], expected, rtol=1e-9)
    mask = torch.full((3,), -torch.inf)
    torch.save({**make_user_module("Smooth").state_dict(), "mask": mask}, "f.pt")
    arrays, _ = compute_kernels(name, "--only", "ntk", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["0.weight", "1.bias", "1.running_var"])
def test_a_value_that_is_not_finite_in_a_file_of_weights_is_named_with_its_file(
    folder: Path, name: str
) -> None:
    state = make_user_module("make_net").state_dict()
    state[name][0] = torch.nan
    torch.save(state, "f.pt")
    refusal = refused_kernels(*command_words("user_nets:make_net", "--weights", "f.pt"))
    assert (refusal.kind, refusal.value) == ("not-finite", name)
    assert "f.pt" in str(refusal)


def test_of_many_names_that_do_not_fit_three_are_told_and_how_many_more(folder: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3)).state_dict(), "f.pt")
    refusal = refused_kernels(*command_words("user_nets:Smooth", "--weights", "f.pt"))
    missing, unexpected = refusal.value  # type: ignore[misc]
    assert (len(missing), len(unexpected)) == (6, 4)
    assert "'a.weight', 'a.bias', 'norm.weight' and 3 more" in str(refusal)
    assert "'0.weight', '0.bias', '1.weight' and 1 more" in str(refusal)


def test_a_file_of_code_is_refused_before_the_users_code_runs(folder: Path) -> None:
    class Boom:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (folder / "harmed",))

    torch.save(Boom(), "f.pt")
    name = write_code(folder, f"open({str(folder / 'run')!r}, 'w')\n")
    for file in ("f.pt", "absent.pt"):
        assert file in str(refused_kernels(*command_words(f"{name}:net", "--weights", file)))
        assert not (folder / "harmed").exists()
        assert not (folder / "run").exists()


def test_matrices_are_those_of_the_file_whatever_they_are_called(folder: Path) -> None:
    module = make_user_module("Turned")
    for p in module.parameters():
        p.data.normal_()
    torch.save(module.state_dict(), "f.pt")
    arrays, _ = compute_kernels("user_nets:Turned", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-12)


def test_weights_of_doubles_keep_their_digits(folder: Path) -> None:
    module = make_user_module("Smooth")
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64))
    torch.save(module.state_dict(), "f.pt")
    arrays, _ = compute_kernels("user_nets:Smooth", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-12, atol=1e-13)
    rough, _ = compute_kernels("user_nets:Smooth", "--weights", "f.pt", "--dtype", "float32")
    assert rough["ntk"].dtype == np.float32
    np.testing.assert_allclose(rough["ntk"], arrays["ntk"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["parallel", "Compiled"])
def test_wrappers_that_change_where_it_runs_are_taken_off(folder: Path, name: str) -> None:
    torch.save(make_user_module("Residual").state_dict(), "f.pt")
    arrays, settings = compute_kernels(f"user_nets:{name}", "--weights", "f.pt")
    np.testing.assert_allclose(
        arrays["ntk"], mean_kernel(make_user_module("Residual"), inputs()), rtol=1e-10
    )
    wrapper = {"parallel": "DataParallel", "Compiled": "torch.compile"}[name]
    assert settings["module"] == f"Residual of user_nets.py (without its {wrapper})"


def test_whole_numbers_are_given_as_such_where_the_module_takes_no_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = np.arange(18).reshape(N, 3) % 9
    np.save("x.npy", words)
    arrays, settings = compute_kernels("user_nets:Words", "--labels", "y.npy")
    wanted = mean_kernel(make_user_module("Words"), torch.from_numpy(words))
    np.testing.assert_allclose(arrays["ntk"], wanted, rtol=1e-10, atol=1e-14)
    assert "integers" in settings["tangent_kernel_alone"]
    assert settings["tangent_kernel_alone"] in capsys.readouterr().out


def test_what_the_code_switches_off_is_on_for_kernels_and_as_it_was_after(folder: Path) -> None:
    text = "import torch\nfrom user_nets import Smooth, Residual\ntorch.set_grad_enabled(False)\n"
    write_code(folder, text)
    for name in ("Smooth", "Residual"):
        arrays, _ = compute_kernels(f"user_other:{name}")
        assert torch.is_grad_enabled()
        np.testing.assert_allclose(
            arrays["ntk"], mean_kernel(make_user_module(name), inputs()), rtol=1e-9
        )
    with torch.no_grad():
        compute_kernels("user_other:Smooth")
        assert not torch.is_grad_enabled()


def test_the_memory_holds_for_k_alone(folder: Path) -> None:
    few, none = (
        str(refused_kernels(*command_words("user_nets:Smooth", "--memory", m)))
        for m in ("1e-7", "1e-4")
    )
    assert few.startswith("6 inputs ")
    assert "105 KiB" in none
    assert "288" in none  # bytes of K itself
    for told in (
        few,
        none,
        str(refused_kernels(*command_words("user_nets:Residual", "--memory", "1e-4"))),
    ):
        assert "--memory" in told


def test_an_accuracy_is_measured_and_held_against_the_one_expected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with torch.no_grad():
        right = make_user_module("Smooth")(inputs()).argmax(1).numpy()
    right[0] = (right[0] + 1) % 3
    np.save("y.npy", right)
    words = command_words("user_nets:Smooth", "--labels", "y.npy")
    _, settings = compute_kernels(
        "user_nets:Smooth", "--labels", "y.npy", "--expect-accuracy", "83.3"
    )
    assert settings["accuracy"] == pytest.approx(5 / 6)
    assert "83.3 % on the 6 inputs" in capsys.readouterr().out
    refusal = refused_kernels(*words, "--expect-accuracy", "99")
    assert (refusal.kind, refusal.value) == ("other-accuracy", pytest.approx(5 / 6))
    assert {"83.3", "99.0"} <= set(str(refusal).split())
    np.save("y.npy", np.full(N, 3))
    refusal = refused_kernels(*words)
    assert (refusal.kind, refusal.value) == ("out-of-bounds", (3, 3))
    assert "0…2" in str(refusal)


def test_an_accuracy_is_of_all_inputs_whether_or_not_one_pass_takes_them(folder: Path) -> None:
    x = np.random.default_rng(1).normal(size=(230, 5))
    with torch.no_grad():
        right = make_user_module("Smooth")(torch.from_numpy(x)).argmax(1).numpy()
    right[[3, 120, 229]] = (right[[3, 120, 229]] + 1) % 3
    np.save("x.npy", x)
    np.save("y.npy", right)
    _, settings = compute_kernels("user_nets:Smooth", "--labels", "y.npy", "--only", "ntk")
    assert settings["accuracy"] == pytest.approx(227 / 230)


def test_pixels_are_normalised_as_asked(folder: Path) -> None:
    write_code(
        folder,
        "from torch import nn\ndef make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Tanh(), nn.Linear(3, 2))\n",
    )
    x = np.random.default_rng(0).uniform(size=(N, 3, 2, 2))
    np.save("x.npy", x)
    normal, _ = compute_kernels("user_other:make", "--normalise", "0.5,0.4,0.3/0.2,0.3,0.1")
    mean, deviation = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.3, 0.1])
    np.save("x.npy", (x - mean[:, None, None]) / deviation[:, None, None])
    by_hand, _ = compute_kernels("user_other:make")
    np.testing.assert_allclose(normal["ntk"], by_hand["ntk"], rtol=1e-9)


def test_scale_and_folding_count_where_adapt_follows(folder: Path) -> None:
    plain, _ = compute_kernels("user_nets:make_net")
    scaled, settings = compute_kernels("user_nets:make_net", "--scale", "trace", "--folded")
    np.testing.assert_allclose(scaled["npk"], plain["npk"] / np.trace(plain["npk"]))
    assert settings["folded"] is True
    assert abs(np.trace(scaled["ntk"]) / np.trace(plain["ntk"]) - 1) > 0.01


def test_only_the_named_module_and_what_it_imports_come_from_the_current_folder(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path_factory.mktemp("installed")
    trap = f"open({str(installed / 'mark')!r}, 'w')\n"
    for name in ("user_optional", "user_installed", "sitecustomize"):
        (folder / f"{name}.py").write_text(trap)
    (installed / "user_installed.py").write_text(
        "try:\n    import user_optional\nexcept ImportError:\n    pass\n" + NETS
    )
    (folder / "user_helper.py").write_text("WIDTH = 4\n")
    (folder / "user_later.py").write_text("DEPTH = 2\n")
    (folder / "user_other.py").write_text(
        "import importlib\nimport user_helper\n" + NETS + "\n\ndef late():\n"
        "    assert importlib.import_module('user_later').DEPTH == 2\n    return Smooth()\n"
    )
    with monkeypatch.context() as path:
        path.syspath_prepend(str(installed))
        compute_kernels("user_installed:Smooth")
    del sys.modules["user_installed"]
    compute_kernels("user_other:Smooth")
    compute_kernels("user_other:late")  # imported before, it imports more now
    assert not (installed / "mark").exists()


def test_what_torch_compiles_of_the_users_code_is_kept_out_of_the_shared_temporary_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There torch runs the libraries in its folder, whoever made it."""
    (folder / "user_compiled.py").write_text(
        "from torch import nn\nfrom torch._inductor.runtime import cache_dir_utils\n"
        "folders = []\n"
        "def make():\n    folders.append(cache_dir_utils.cache_dir())\n    return nn.Linear(3, 2)\n"
    )
    monkeypatch.setenv("DGN_HOME", str(folder / "home"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # what it was comes back, whoever sets it
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    with allow_user_imports("user_compiled"):
        module = importlib.import_module("user_compiled")
        module.make()
    assert module.folders == [str(folder / "home" / "cache" / "torch-compile")]
