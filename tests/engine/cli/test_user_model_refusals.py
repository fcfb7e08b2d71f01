"""What `dgn kernels --model` says of code with an error, and of options that mean nothing to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.cli.user_code import asked, code, refused

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
        "        return super().forward(x), x\nnet = Net(5, 2)\n",
        "net",
        "The module returns a tuple of 2 items; K needs one real tensor (n, C) of logits: wrap the "
        "module in one that returns that.",
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
        "import torch\nfrom torch import nn\nclass Net(nn.Linear):\n    def forward(self, x):\n"
        "        return super().forward(x.to(self.weight.dtype))\n"
        "net = Net(5, 2, dtype=torch.complex64)\n",
        "net",
        "The module returns complex128 of shape (2, 2) for 2 examples; K needs one real tensor",
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
]


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
    assert f"'{typed}' is not of the form MODULE:NAME" in said
    assert said.endswith(f"Did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--net", "fc"], "--net has no effect beside --model: the code says what"),
        (["--net", "fc", "--option", "width=3"], "--net has no effect beside --model"),
        (["--option", "width=3"], "--option has no effect beside --model"),
        (["--norm-eps", "1e-3"], "--norm-eps has no effect beside --model: the code says"),
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
        (["--inputs", "x.npy"], "Name a network: a file, a run, a session, or your own code with"),
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
