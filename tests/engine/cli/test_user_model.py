"""`dgn kernels --model`: a module of the user's own code, against autograd in float64."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from dgn_engine.cli import main
from dgn_engine.protocol.frames import Array

N = 6
NETS = """
import torch
from torch import nn
from torch.nn import functional as F


def make_net():
    print("a net is made")
    return nn.Sequential(
        nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, 3)
    )


class Residual(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.stem = nn.Linear(5, width)
        self.block = nn.Linear(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = F.relu(self.stem(x))
        h = h + F.relu(self.block(h))
        return self.head(h)


class Smooth(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.b(F.gelu(self.norm(self.a(x))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(torch.relu(self.b(torch.relu(self.a(x)))))


class Turned(nn.Module):
    # matrices are inputs × outputs, and square
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(5, 5))
        self.last = nn.Parameter(torch.randn(5, 5))

    def forward(self, x):
        return torch.tanh(x @ self.kernel) @ self.last


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, words):
        return self.head(self.table(words).mean(1))


class Frozen(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 3))
        self[0].requires_grad_(False)


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(5, 3))


def one_logit():
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0))


def parallel():
    return nn.DataParallel(Residual())


class Compiled(nn.Module):
    # as torch.compile leaves a module
    def __init__(self):
        super().__init__()
        self._orig_mod = Residual()

    def forward(self, x):
        raise NotImplementedError("compiled for another machine")


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = Residual()

    def forward(self, x):
        return self.module(x)


instance = Residual()


class Zoo:
    smooth = Smooth
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with inputs, labels and code; what it imports is forgotten after."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.normal(size=(N, 5)))
    np.save("y.npy", np.array([0, 1, 2, 0, 1, 2]))
    (tmp_path / "user_nets.py").write_text(NETS)
    places = list(sys.path)
    yield tmp_path
    assert sys.path == places
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def code(folder: Path, text: str, name: str = "user_other") -> str:
    (folder / f"{name}.py").write_text(text)
    return name


def asked(model: str, *options: str) -> list[str]:
    return ["kernels", "--model", model, "--inputs", "x.npy", *options]


def computed(model: str, *options: str) -> tuple[dict[str, Array], dict[str, Any]]:
    assert main(asked(model, *options, "--out", "k.npz")) == 0
    with np.load("k.npz", allow_pickle=False) as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays.pop("settings")))


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """What is said, one sentence after the command's name."""
    capsys.readouterr()
    try:
        status = main([*arguments, "--out", "refused.npz"])
    except SystemExit as left:
        status = int(str(left.code))
    assert status == 2
    assert not Path("refused.npz").exists()
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = [line for line in printed.err.splitlines() if line != "a net is made"]
    assert len(lines) == 1, lines
    assert "Traceback" not in lines[0]
    return lines[0].partition(": ")[2]


def made(name: str) -> nn.Module:
    """The very module that the command makes: torch's seed is 0 before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path.cwd())
        found = getattr(import_module("user_nets"), name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module: nn.Module = found if isinstance(found, nn.Module) else found()
    return module.double().eval()


def jacobian(module: nn.Module, x: Tensor) -> Tensor:
    """∂ŷ_k(x_s)/∂θ over what trains (n, C, parameters)."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}

    def logits(parameters: dict[str, Tensor]) -> Tensor:
        output: Tensor = functional_call(module, parameters, (x,))
        return output.reshape(len(x), -1)

    rows = jacrev(logits)(trained)
    return torch.cat([row.flatten(2) for row in rows.values()], dim=2)


def mean_kernel(module: nn.Module, x: Tensor) -> Array:
    rows = jacobian(module, x).detach()
    return np.asarray(torch.einsum("scp,tcp->st", rows, rows) / rows.shape[1])


def inputs() -> Tensor:
    return torch.from_numpy(np.load("x.npy"))


@pytest.mark.parametrize("name", ["make_net", "Residual", "instance"])
def test_a_model_that_adapt_follows_has_every_kernel(folder: Path, name: str) -> None:
    arrays, settings = computed(f"user_nets:{name}", "--labels", "y.npy")
    assert {"gram", "tau_1", "overlap", "sensitive", "npk", "ntk", "nu"} <= set(arrays)
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(made(name), inputs()), rtol=1e-10)
    assert (settings["computed_by"], settings["tangent_kernel_alone"]) == ("adapt", None)
    assert settings["model"] == f"user_nets:{name}"
    assert settings["tangent_kernel"].startswith("K = K^V, over Θ")


@pytest.mark.parametrize("name", ["Smooth", "Frozen", "one_logit", "Tied", "linear"])
def test_a_model_that_adapt_refuses_has_k_its_spectrum_and_its_nu(folder: Path, name: str) -> None:
    if name == "one_logit":
        np.save("y.npy", np.array([0, 1, 1, 0, 1, 0]))
    arrays, settings = computed(f"user_nets:{name}", "--labels", "y.npy")
    kernel = mean_kernel(made(name), inputs())
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
    assert set(arrays) == {
        "ntk", "eigenvalues_ntk", "nu_ntk", "nu_rank_ntk", "nu_cutoff_ntk", "nu_ridge_ntk",
        "nu_outside_ntk", "nu_contradictory",
    }  # fmt: skip
    assert settings["computed_by"] == "empirical_ntk"
    over = "2 of 4 parameters" if name == "Frozen" else "all "
    assert over in settings["tangent_kernel"]


def test_what_the_model_is_and_how_it_was_computed_stands_in_print_json_and_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, settings = computed("user_nets:Smooth", "--labels", "y.npy")
    said = capsys.readouterr().out
    title = "It is Smooth of user_nets.py, 69 parameters, in evaluation mode, with the weights that"
    why = "Layer norm (LayerNorm) calls layer_norm, which is not supported; Linear, Conv2d,"
    alone = "K alone is computed (empirical_ntk); there are no gates, Λ, S or NPK: " + why
    for words in (title, alone, "ν = ", "(K at trace 1; rank 6", "K is over all 6 parameters"):
        assert words in said
    assert any(alone in note for note in settings["notes"])
    assert settings["tangent_kernel_alone"].startswith(why)
    capsys.readouterr()
    assert main(asked("user_nets:Smooth", "--labels", "y.npy", "--json")) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["settings"]["module"] == "Smooth of user_nets.py"
    assert tree["settings"]["accuracy"] == settings["accuracy"]
    assert len(tree["eigenvalues_ntk"]) == N
    assert set(tree["kernels"]) == {"ntk"}
    assert tree["nu_ntk"] > 0


@pytest.mark.parametrize("mode", ["full", "perclass", "sumlogit"])
def test_logits_are_treated_as_asked(
    folder: Path, mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, _ = computed("user_nets:Smooth", "--logits", mode, "--labels", "y.npy")
    rows = jacobian(made("Smooth"), inputs()).detach()
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
    assert main(asked("user_nets:make_net", "--json")) == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    assert printed.err == "a net is made\n"


def test_the_current_folder_is_importable_as_with_python_m(folder: Path) -> None:
    (folder / "pack" / "deep").mkdir(parents=True)
    (folder / "pack" / "__init__.py").touch()
    (folder / "pack" / "deep" / "__init__.py").touch()
    (folder / "pack" / "deep" / "net.py").write_text(
        "from torch import nn\nfrom ..sizes import WIDTH\n"
        "def make():\n    return nn.Sequential(nn.Linear(5, WIDTH), nn.ReLU())\n"
    )
    (folder / "pack" / "sizes.py").write_text("WIDTH = 4\n")
    command = [sys.executable, "-P", "-m", "dgn_engine.cli", *asked("pack.deep.net:make", "--json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["settings"]["module"] == "Sequential of pack/deep/net.py"


def test_an_attribute_of_a_class_is_found_by_dots(folder: Path) -> None:
    assert computed("user_nets:Zoo.smooth")[1]["module"] == "Smooth of user_nets.py"


def test_the_model_as_it_is_made_is_the_same_at_every_call(folder: Path) -> None:
    before = torch.get_rng_state()
    first, _ = computed("user_nets:make_net")
    torch.manual_seed(5)
    second, _ = computed("user_nets:make_net")
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
    module = made("make_net")
    with torch.no_grad():
        for tensor in (*module.parameters(), module[1].running_mean):  # type: ignore[index]
            tensor.normal_()
        module[1].running_var.uniform_(0.5, 2.0)  # type: ignore[index]
    torch.save(WRAPPED[kind](module.state_dict()), "f.pt")
    arrays, settings = computed("user_nets:make_net", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-12)
    said = capsys.readouterr().out
    assert "in evaluation mode, with the weights of f.pt." in said
    assert settings["weights"] == "f.pt"
    told = "Names in f.pt are read without their 'net.'; 1 tensor without it left out.\n"
    assert (told in said) == (kind == "of Lightning")


@pytest.mark.parametrize("prefix", ["", "module.", "module.module.", "student.module."])
def test_a_child_called_module_is_found_whatever_the_reader_took_off(
    folder: Path, prefix: str
) -> None:
    module = made("Residual")
    torch.save({f"{prefix}{name}": t + 1 for name, t in module.state_dict().items()}, "f.pt")
    arrays, _ = computed("user_nets:Holder", "--weights", "f.pt")
    for tensor in module.parameters():
        tensor.data += 1
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-10)


def test_one_value_of_a_tied_parameter_is_enough_and_two_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = made("Tied").state_dict()
    whole, _ = computed("user_nets:Tied")
    torch.save({name: t for name, t in state.items() if name != "b.weight"}, "f.pt")
    arrays, _ = computed("user_nets:Tied", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], whole["ntk"], rtol=1e-12)
    torch.save(state | {"b.weight": state["b.weight"] + 1}, "f.pt")
    assert refused(capsys, asked("user_nets:Tied", "--weights", "f.pt")) == (
        "f.pt holds other values for 'a.weight' than for 'b.weight', which are one parameter in "
        "Tied of user_nets.py."
    )


def altered(change: Callable[[dict[str, Tensor]], dict[str, Any]]) -> Callable[[], object]:
    return lambda: change(dict(made("Smooth").state_dict()))


NAN = float("nan")
MISFITS: list[tuple[str, Callable[[], object], str]] = [
    (
        "missing",
        altered(lambda s: {n: t for n, t in s.items() if n != "a.bias"}),
        "f.pt does not fit Smooth of user_nets.py: 'a.bias' missing from it.",
    ),
    (
        "left over",
        altered(lambda s: s | {"c.weight": torch.ones(2)}),
        "f.pt does not fit Smooth of user_nets.py: 'c.weight' not in the module.",
    ),
    (
        "another network",
        lambda: nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3)).state_dict(),
        "f.pt does not fit Smooth of user_nets.py: 'a.weight', 'a.bias', 'norm.weight' and 3 more "
        "missing from it, and '0.weight', '0.bias', '1.weight' and 1 more not in the module.",
    ),
    (
        "another shape",
        altered(lambda s: s | {"a.weight": torch.ones(6, 4), "b.bias": torch.ones(())}),
        "f.pt does not fit Smooth of user_nets.py: 'a.weight' is 6×4 in the file and 6×5 in it, "
        "'b.bias' is one number in the file and 3 in it.",
    ),
    (
        "not a number",
        altered(lambda s: s | {"b.bias": torch.tensor([0.0, NAN, 0.0])}),
        "'b.bias' of f.pt holds values that are not finite.",
    ),
    (
        "twice",
        lambda: {
            f"{who}.{n}": t
            for who in ("ema", "raw")
            for n, t in made("Smooth").state_dict().items()
        },
        "f.pt holds the module 2 times, under 'ema.', 'raw.'; save the one that is meant.",
    ),
    (
        "complex",
        altered(lambda s: s | {"b.bias": torch.zeros(3, dtype=torch.complex64)}),
        "f.pt does not fit Smooth of user_nets.py: b.bias (complex64) missing from it.",
    ),
]


@pytest.mark.parametrize(
    ("build", "words"), [case[1:] for case in MISFITS], ids=[m[0] for m in MISFITS]
)
def test_weights_that_do_not_fit_are_named(
    folder: Path, build: Callable[[], object], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(build(), "f.pt")
    assert refused(capsys, asked("user_nets:Smooth", "--weights", "f.pt")) == words


def test_a_file_of_code_is_refused_before_the_users_code_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Boom:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (folder / "harmed",))

    torch.save(Boom(), "f.pt")
    name = code(folder, f"open({str(folder / 'run')!r}, 'w')\n")
    said = refused(capsys, asked(f"{name}:net", "--weights", "f.pt"))
    assert "nothing was run" in said
    assert not (folder / "harmed").exists()
    assert not (folder / "run").exists()
    assert "absent.pt cannot be opened" in refused(
        capsys, asked(f"{name}:net", "--weights", "absent.pt")
    )
    assert not (folder / "run").exists()


def test_matrices_are_those_of_the_file_whatever_they_are_called(folder: Path) -> None:
    module = made("Turned")
    for p in module.parameters():
        p.data.normal_()
    torch.save(module.state_dict(), "f.pt")
    arrays, _ = computed("user_nets:Turned", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-12)


def test_weights_of_doubles_keep_their_digits(folder: Path) -> None:
    module = made("Smooth")
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64))
    torch.save(module.state_dict(), "f.pt")
    arrays, _ = computed("user_nets:Smooth", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(module, inputs()), rtol=1e-12, atol=1e-13)
    rough, _ = computed("user_nets:Smooth", "--weights", "f.pt", "--dtype", "float32")
    assert rough["ntk"].dtype == np.float32
    np.testing.assert_allclose(rough["ntk"], arrays["ntk"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["parallel", "Compiled"])
def test_wrappers_that_change_where_it_runs_are_taken_off(folder: Path, name: str) -> None:
    torch.save(made("Residual").state_dict(), "f.pt")
    arrays, settings = computed(f"user_nets:{name}", "--weights", "f.pt")
    np.testing.assert_allclose(arrays["ntk"], mean_kernel(made("Residual"), inputs()), rtol=1e-10)
    wrapper = {"parallel": "DataParallel", "Compiled": "torch.compile"}[name]
    assert settings["module"] == f"Residual of user_nets.py (without its {wrapper})"


def test_whole_numbers_are_given_as_such_where_the_module_takes_no_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = np.arange(18).reshape(N, 3) % 9
    np.save("x.npy", words)
    arrays, settings = computed("user_nets:Words", "--labels", "y.npy")
    wanted = mean_kernel(made("Words"), torch.from_numpy(words))
    np.testing.assert_allclose(arrays["ntk"], wanted, rtol=1e-10, atol=1e-14)
    assert settings["tangent_kernel_alone"].startswith("Its inputs are whole numbers")
    assert (
        "there are no gates, Λ, S or NPK: Its inputs are whole numbers" in capsys.readouterr().out
    )


def test_what_the_code_switches_off_is_on_for_kernels_and_as_it_was_after(folder: Path) -> None:
    text = "import torch\nfrom user_nets import Smooth, Residual\ntorch.set_grad_enabled(False)\n"
    code(folder, text)
    for name in ("Smooth", "Residual"):
        arrays, _ = computed(f"user_other:{name}")
        assert torch.is_grad_enabled()
        np.testing.assert_allclose(arrays["ntk"], mean_kernel(made(name), inputs()), rtol=1e-9)


def test_the_memory_holds_for_k_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, asked("user_nets:Smooth", "--memory", "1e-7"))
    assert said.startswith("6 inputs need ")
    assert said.endswith("GiB allowed; give fewer (or --memory).")
    said = refused(capsys, asked("user_nets:Smooth", "--memory", "1e-4"))
    assert said.startswith("--memory is 0.0001 GiB; K of these 6 examples needs at least ")
    assert said.endswith(" bytes (288 for K itself).")
    said = refused(capsys, asked("user_nets:Residual", "--memory", "1e-4"))
    assert "inputs fit (or --memory)." in said


def test_an_accuracy_is_measured_and_held_against_the_one_expected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with torch.no_grad():
        right = made("Smooth")(inputs()).argmax(1).numpy()
    right[0] = (right[0] + 1) % 3
    np.save("y.npy", right)
    _, settings = computed("user_nets:Smooth", "--labels", "y.npy", "--expect-accuracy", "83.3")
    assert settings["accuracy"] == pytest.approx(5 / 6)
    assert "It is right on 83.3% of the 6 inputs.\n" in capsys.readouterr().out
    said = refused(
        capsys, asked("user_nets:Smooth", "--labels", "y.npy", "--expect-accuracy", "99")
    )
    assert said.startswith("user_nets:Smooth is right on 83.3% of the 6 inputs, not on the 99.0%")
    np.save("y.npy", np.full(N, 3))
    said = refused(capsys, asked("user_nets:Smooth", "--labels", "y.npy"))
    assert said == "The labels go from 3 to 3; the network has 3 logits, so they must lie in 0…2."


def test_pixels_are_normalised_as_asked(folder: Path) -> None:
    code(
        folder,
        "from torch import nn\ndef make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Tanh(), nn.Linear(3, 2))\n",
    )
    x = np.random.default_rng(0).uniform(size=(N, 3, 2, 2))
    np.save("x.npy", x)
    normal, _ = computed("user_other:make", "--normalise", "0.5,0.4,0.3/0.2,0.3,0.1")
    mean, deviation = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.3, 0.1])
    np.save("x.npy", (x - mean[:, None, None]) / deviation[:, None, None])
    by_hand, _ = computed("user_other:make")
    np.testing.assert_allclose(normal["ntk"], by_hand["ntk"], rtol=1e-9)


FAULTY: list[tuple[str, str, str]] = [
    (
        "import math\nimport absent_package\n",
        "net",
        "user_other raised ModuleNotFoundError at user_other.py:2 while it was imported: No module "
        "named 'absent_package'.",
    ),
    (
        "def net(:\n",
        "net",
        "user_other raised SyntaxError at user_other.py:1 while it was imported: invalid syntax.",
    ),
    (
        "x = 1\n\ny = 1 / 0\n",
        "net",
        "user_other raised ZeroDivisionError at user_other.py:3 while it was imported: division by "
        "zero.",
    ),
    (
        "import sys\nsys.exit(3)\n",
        "net",
        "user_other ended the program at user_other.py:2 while it was imported; what is not to be "
        'run by an import belongs under if __name__ == "__main__".',
    ),
    (
        "def make_net():\n    pass\n",
        "make_nets",
        "There is no 'make_nets' in user_other.py. Did you mean 'make_net'?",
    ),
    (
        "net = {'a': 1}\n",
        "net",
        "'net' of user_other.py is a dict; an nn.Module is needed, or a function without required "
        "arguments that returns one.",
    ),
    (
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, width, *, depth):\n"
        "        super().__init__()\n",
        "Net",
        "'Net' of user_other.py needs arguments (width, depth); name a function without required "
        "ones that returns the module.",
    ),
    (
        "def inner():\n    raise ValueError('no\\nwidth.')\n\ndef net():\n    inner()\n",
        "net",
        "'net' of user_other.py raised ValueError at user_other.py:2 when it was called: no.",
    ),
    (
        "from torch import nn\ndef net():\n    return nn.Linear(-1, 2)\n",
        "net",
        "'net' of user_other.py raised RuntimeError at user_other.py:3 when it was called: ",
    ),
    (
        "from torch import nn\ndef net():\n    return nn.Linear(5, 2), None\n",
        "net",
        "'net' of user_other.py returned a tuple; an nn.Module is needed.",
    ),
    (
        "class Mute(Exception):\n    def __str__(self):\n        raise self\n"
        "def net():\n    raise Mute\n",
        "net",
        "'net' of user_other.py raised Mute at user_other.py:5 when it was called.",
    ),
    (
        "async def net():\n    pass\n",
        "net",
        "'net' of user_other.py returned a coroutine; an nn.Module is needed.",
    ),
    (
        "import collections\ndef net():\n    return collections.OrderedDict()\n",
        "net",
        "'net' of user_other.py returned a collections.OrderedDict; an nn.Module is needed.",
    ),
    (
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.a = nn.Linear(4, 2)\n"
        "    def forward(self, x):\n        return self.a(x)\n",
        "Net",
        "Net of user_other.py raised RuntimeError at user_other.py:7 on inputs of shape (5,): mat1 "
        "and mat2 shapes cannot be multiplied (2x5 and 4x2).",
    ),
    (
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.a = nn.Linear(5, 2)\n"
        "        self.s = torch.ones(5, 5)\n"
        "    def forward(self, x):\n        return self.a(x @ self.s)\n",
        "Net",
        "Net of user_other.py raised RuntimeError at user_other.py:9 on inputs of shape (5,): "
        "expected m1 and m2 to have the same dtype, but got: double != float. It runs with --dtype "
        "float32.",
    ),
    (
        "from torch import nn\nclass Net(nn.Linear):\n    def forward(self, x):\n"
        "        return (super().forward(x),)\nnet = Net(5, 2)\n",
        "net",
        "The module returns a tuple; K needs one tensor (n, C) of logits: wrap the module in one "
        "that returns that.",
    ),
    (
        "import torch\nfrom torch import nn\nclass Net(nn.Linear):\n    def forward(self, x):\n"
        "        return super().forward(torch.nn.functional.dropout(x, 0.5))\nnet = Net(5, 2)\n",
        "net",
        "The module draws random numbers, after eval() too.",
    ),
    (
        "from torch import nn\nnet = nn.Linear(5, 2, device='meta')\n",
        "net",
        "The parameter weight of Linear of user_other.py is on the device meta: it has no values; "
        "make the module on the CPU.",
    ),
    (
        "import torch\nfrom torch import nn\nnet = nn.Linear(5, 2, dtype=torch.complex64)\n",
        "net",
        "'weight' of Linear of user_other.py holds complex numbers; K is of real parameters.",
    ),
    (
        "from torch import nn\nclass Net(nn.Linear):\n    def forward(self, x):\n"
        "        raise SystemExit(0)\nnet = Net(5, 2)\n",
        "net",
        "user_other:net ended the program at user_other.py:4; what is not to be run by an import "
        'belongs under if __name__ == "__main__".',
    ),
    (
        "from torch import nn\nclass Net(nn.BatchNorm1d):\n    def train(self, mode=True):\n"
        "        return super().train(True)\nnet = nn.Sequential(nn.Linear(5, 2), Net(2))\n",
        "net",
        "Layer 1 (Net) couples the examples in training mode, after eval() too.",
    ),
    (
        "from torch import nn\nnet = nn.Tanh()\n",
        "net",
        "No parameter of the module is trained: none has requires_grad, so K is zero.",
    ),
    (
        "def __getattr__(name):\n    raise KeyError(name)\n",
        "net",
        "user_other.py raised KeyError at user_other.py:2 when 'net' was looked for: 'net'.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "words"), FAULTY)
def test_an_error_in_the_users_code_is_one_sentence_with_its_place(
    folder: Path, text: str, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, asked(f"{code(folder, text)}:{name}"))
    assert said == words if words.endswith(".") else said.startswith(words)


def test_a_module_that_is_not_there_says_where_it_was_looked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, asked("user_net:Smooth")) == (
        f"There is no module 'user_net', neither in {folder} nor among what is installed for this "
        "Python. Did you mean 'user_nets'?"
    )
    assert "There is no module 'user_nets.deep'" in refused(capsys, asked("user_nets.deep:Smooth"))
    code(folder, "net = 1\n", "json")
    said = refused(capsys, asked("json:net"))
    assert said.startswith("There is no 'net' in ")
    assert said.endswith(" It hides json.py of this folder, which has the same name: rename that.")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("user_nets.py:Smooth", "user_nets:Smooth"),
        ("pack/net.py:Net", "pack.net:Net"),
        ("pack.net", "pack:net"),
        ("nets:", "nets:make_net"),
    ],
)
def test_a_path_in_the_place_of_a_module_is_answered_with_what_is_meant(
    folder: Path, typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, asked(typed))
    assert f"'{typed}' is no name in a module, of the form mypackage.module:make_net" in said
    assert said.endswith(f"Did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--net", "fc"], "--net has no effect beside --model: the code says what"),
        (["--net", "fc", "--option", "width=3"], "--net has no effect beside --model"),
        (["--option", "width=3"], "--option has no effect beside --model"),
        (["--norm-eps", "1e-3"], "--norm-eps has no effect beside --model: its BatchNorms say it."),
        (["--gates", "g.pt"], "--gates has no effect beside --model: the module makes its own"),
        (["--beta", "4"], "--beta has no effect beside --model"),
        (["--beta", "4", "--eps", "0.1"], "--beta has no effect beside --model"),
        (["--permute", "0,1"], "--permute has no effect beside --model"),
        (["--value-input", "ones"], "--value-input ones has no effect beside --model"),
        (["--feature-activation", "linear"], "--feature-activation linear has no effect"),
        (["--data-root", "d"], "--data-root has no effect beside --model: it is for --examples."),
        (["--scale", "trace"], "--scale has no effect on this model. K alone is computed"),
        (["--folded"], "--folded has no effect on this model. K alone is computed"),
        (["net.pt"], "--model makes the network; leave out net.pt, or give the file as --weights."),
    ],
)
def test_options_without_effect_beside_a_model_are_refused(
    folder: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, asked("user_nets:Smooth", *options)).startswith(words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--inputs", "x.npy"], "Name a network: a file, a run's folder, or your own code with"),
        (["--inputs", "x.npy", "net.pt", "--weights", "f.pt"], "--weights needs --model; "),
        (
            ["--model", "user_nets:Smooth", "--examples", "probe"],
            "--examples has no effect beside --model: they are those of a run; give --inputs.",
        ),
    ],
)
def test_a_command_without_its_network_is_refused(
    folder: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, ["kernels", *arguments]).startswith(words)


def test_scale_and_folding_count_where_adapt_follows(folder: Path) -> None:
    plain, _ = computed("user_nets:make_net")
    scaled, settings = computed("user_nets:make_net", "--scale", "trace", "--folded")
    np.testing.assert_allclose(scaled["npk"], plain["npk"] / np.trace(plain["npk"]))
    assert (
        settings["tangent_kernel"] == "K = K^V, over Θ, its folded weights (BatchNorm is in them)."
    )
    assert abs(np.trace(scaled["ntk"]) / np.trace(plain["ntk"]) - 1) > 0.01
