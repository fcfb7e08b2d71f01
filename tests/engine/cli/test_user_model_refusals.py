"""What `dgn kernels --model` says of code with an error, and of options that mean nothing to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.cli.run.user_code import RaisedError
from tests.engine.cli.typed import one_line_error
from tests.engine.cli.user_code import command_words, refused_kernels, write_code

TORCH = "import torch\nfrom torch import nn\n"
MODULE = TORCH + "class Net(nn.Linear):\n    def forward(self, x):\n"
CALLED, FILE = "'net' of user_other.py", "user_other.py"
IMPORTS = "import math\nimport absent\n"
CALLS = "def a():\n    raise ValueError('no\\nwidth.')\n\ndef net():\n    a()\n"
OF_TORCH = TORCH + "def net():\n    return nn.Linear(-1, 2)\n"
MUTE = "class Mute(Exception):\n    def __str__(self):\n        raise self\n"
MUTE += "def net():\n    raise Mute\n"
LOOKS_UP = "def __getattr__(name):\n    raise KeyError(name)\n"
SHAPES = TORCH + "net = nn.Linear(4, 2)\n"
TYPES = MODULE + "        return super().forward(x @ torch.ones(5, 5))\nnet = Net(5, 2)\n"
RAISED = [  # code, whose error it is, its type, its line, its text
    (IMPORTS, "user_other", "ModuleNotFoundError", "2", "'absent'"),
    ("def net(:\n", "user_other", "SyntaxError", "1", "invalid syntax"),
    ("x = 1\n\ny = 1 / 0\n", "user_other", "ZeroDivisionError", "3", "division by zero"),
    (CALLS, CALLED, "ValueError", "2", "no"),
    (OF_TORCH, CALLED, "RuntimeError", "4", "-1"),
    (MUTE, CALLED, "Mute", "5", ""),
    (LOOKS_UP, FILE, "KeyError", "2", "'net'"),
    (SHAPES, f"Linear of {FILE}", "RuntimeError", "", "shapes cannot be multiplied"),
    (TYPES, f"Net of {FILE}", "RuntimeError", "5", "same dtype"),
]
LEAVES = MODULE + "        raise SystemExit(0)\nnet = Net(5, 2)\n"
TWO = TORCH + "def net():\n    return nn.Linear(5, 2), None\n"
META = TORCH + "net = nn.Linear(5, 2, device='meta')\n"
META_MASK = TORCH + "net = nn.Linear(5, 2)\n"
META_MASK += "net.register_buffer('mask', torch.ones(2, device='meta'))\n"
ASKS = TORCH + "class net(nn.Module):\n    def __init__(self, width, *, depth):\n        pass\n"
ORDERED = "import collections\ndef net():\n    return collections.OrderedDict()\n"
OTHERS = [  # code, the kind and value of the refusal
    ("import sys\nsys.exit(3)\n", "ended-program", f"{FILE}:2"),
    (LEAVES, "ended-program", f"{FILE}:5"),
    ("def nets():\n    pass\n", "unknown-name", "net"),
    ("net = {'a': 1}\n", "wrong-type", "a dict"),
    (ASKS, "needs-arguments", ["width", "depth"]),
    (TWO, "wrong-type", "a tuple"),
    ("async def net():\n    pass\n", "wrong-type", "a coroutine"),
    (ORDERED, "wrong-type", "a collections.OrderedDict"),
    (META, "no-values", "weight"),
    (META_MASK, "no-values", "mask"),
]
OUTPUTS = {  # code of a module whose K is not defined, and what its refusal tells
    "a tuple": (
        MODULE + "        return super().forward(x), x\nnet = Net(5, 2)\n",
        "tuple of 2 items",
    ),
    "dropout in evaluation": (
        MODULE + "        return super().forward(nn.functional.dropout(x, 0.5))\nnet = Net(5, 2)\n",
        "random numbers",
    ),
    "complex numbers": (
        MODULE + "        return super().forward(x.to(self.weight.dtype))\n"
        "net = Net(5, 2, dtype=torch.complex64)\n",
        "complex128 of shape (2, 2)",
    ),
    "BatchNorm in training": (
        TORCH + "class Net(nn.BatchNorm1d):\n    def train(self, mode=True):\n"
        "        return super().train(True)\nnet = nn.Sequential(nn.Linear(5, 2), Net(2))\n",
        "Layer 1 (Net)",
    ),
    "nothing that trains": (TORCH + "net = nn.Tanh()\n", "requires_grad"),
}


@pytest.mark.parametrize(("text", "who", "error", "line", "said"), RAISED)
def test_an_error_of_the_users_code_is_told_with_its_place(
    folder: Path, text: str, who: str, error: str, line: str, said: str
) -> None:
    refusal = refused_kernels(*command_words(f"{write_code(folder, text)}:net"))
    assert refusal.kind == "raised"
    found: RaisedError = refusal.value
    assert (found.who, found.kind, found.at.partition(":")[2]) == (who, error, line)
    assert said in found.said
    assert refusal.way_out == ("--dtype float32" if text == TYPES else "")
    assert f"{who} raised {error}" in str(refusal)


@pytest.mark.parametrize(("text", "kind", "value"), OTHERS)
def test_what_makes_no_module_is_refused(folder: Path, text: str, kind: str, value: object) -> None:
    refusal = refused_kernels(*command_words(f"{write_code(folder, text)}:net"))
    assert (refusal.kind, refusal.value) == (kind, value)
    assert kind != "unknown-name" or "'nets'?" in str(refusal)


@pytest.mark.parametrize("case", OUTPUTS)
def test_a_module_whose_kernel_is_not_defined_is_refused(folder: Path, case: str) -> None:
    text, told = OUTPUTS[case]
    assert told in str(refused_kernels(*command_words(f"{write_code(folder, text)}:net")))


def test_a_module_that_is_not_there_says_where_it_was_looked_for(folder: Path) -> None:
    refusal = refused_kernels(*command_words("user_net:Smooth"))
    assert (refusal.kind, refusal.value) == ("unknown-name", "user_net")
    assert str(folder) in str(refusal)
    assert "'user_nets'?" in str(refusal)
    assert refused_kernels(*command_words("user_nets.deep:Smooth")).value == "user_nets.deep"
    write_code(folder, "net = 1\n", "json")
    refusal = refused_kernels(*command_words("json:net"))
    assert (refusal.kind, refusal.value) == ("unknown-name", "net")
    assert "hides json.py" in str(refusal)


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
    said = one_line_error(capsys, *command_words(typed))
    assert f"'{typed}'" in said
    assert said.endswith(f"'{meant}'?\n")
