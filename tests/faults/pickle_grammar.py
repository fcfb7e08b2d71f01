"""Random pickles that put a function, or bytes that call it, wherever a pickle can put anything.

The function is that of a module CANARY, which only `canary_child` has. `drawn` gives the file of a
seed; `loaded` loads files for real, in a child, and says of which the function was called; `judged`
says what the reader warns of, or refuses. Most of what is drawn uses names on the lists of
`harmless_names` alone: instances with functions as attributes, makers with strange arguments, and
pickles within bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from dgn_engine.storage.checkpoints.harmless_names import (
    CALLS_ARGUMENTS,
    LOADS_BYTES,
    MADE,
    SHOWN,
)
from tests.faults.answered import answer_or_reason
from tests.faults.pickle_assembly import Raw, encode_thing, legacy, tensor, torch_zip

CANARY = "dgn_canary"
FUNCTION = "touch"
_DEPTH = 4
_ROOT = Path(__file__).parents[2]

_VALUES = [(m, n) for m, names in MADE.items() for n in names.split()]
_FUNCTIONS = [(m, n) for m, names in SHOWN.items() for n in names.split()]
_MAKERS = [(m, n) for m, _, n in (name.rpartition(".") for name in (*CALLS_ARGUMENTS, LOADS_BYTES))]
_LOADER = LOADS_BYTES.rpartition(".")[::2]
# Those that other code calls, or that take attributes; drawn more often than their number.
_OBJECTS = [
    ("torch.nn.modules.linear", "Identity"),
    ("torch.nn.modules.container", "Sequential"),
    ("torch.nn.modules.container", "ModuleDict"),
    ("torch.nn.utils.weight_norm", "WeightNorm"),
    ("torch.optim.optimizer", "Optimizer"),
    ("torch.optim.lr_scheduler", "LambdaLR"),
    ("argparse", "Namespace"),
    ("types", "SimpleNamespace"),
    ("collections", "defaultdict"),
    ("collections", "OrderedDict"),
    ("builtins", "object"),
]
_ATTRIBUTES = (
    *("forward", "__setstate__", "append", "extend", "add", "keys", "items", "__getitem__"),
    *("_forward_hooks", "_forward_pre_hooks", "_modules", "_parameters", "_buffers"),
    *("_compiled_call_impl", "__reduce_ex__", "__deepcopy__", "__new__", "__init__", "__iter__"),
    *("_make_wrapper_subclass", "dtype", "extra_repr", "compute_weight", "default_factory", "name"),
)

_CALLED_BY = {"__setstate__": "b", "append": "a", "extend": "e", "add": "add"}  # an instruction


class Drawing:
    """The instructions of one random pickle of protocol 4."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.plain = self.random.random() < 0.5  # the canary is in bytes alone

    def value(self, depth: int = _DEPTH) -> bytes:
        """The instructions that push something."""
        pick: Sequence[Callable[[int], bytes]]
        if depth <= 0:
            pick = (self.leaf, self.name, self.canary)
        else:
            pick = (
                *(self.leaf, self.name, self.canary, self.container, self.call),
                *(self.instance, self.instance, self.builder, self.loaded_bytes),
            )
        return self.random.choice(pick)(depth - 1)

    def leaf(self, _: int) -> bytes:
        bytes_of_a_pickle = self.payload()
        choices = (None, 0, 1, True, "latin1", "weight", FUNCTION, b"", bytes_of_a_pickle, 2.5)
        return encode_thing(self.random.choice(choices))

    def name(self, _: int) -> bytes:
        pool = self.random.choice((_VALUES, _FUNCTIONS, _MAKERS, _OBJECTS))
        return named(*self.random.choice(pool))

    def loader(self, _: int) -> bytes:
        return named(*_LOADER)

    def canary(self, _: int) -> bytes:
        """The function by its name, behind a dot in a module of torch, or bytes that call it."""
        if self.plain:
            return encode_thing(self.payload())
        ways = ((CANARY, FUNCTION), ("torch.serialization", f"{CANARY}.{FUNCTION}"))
        return named(*self.random.choice(ways))

    def payload(self) -> bytes:
        call = named(CANARY, FUNCTION) + b")R"
        kept = self.random.choice(
            (b"\x80\4" + call + b".", b"\x80\4}" + encode_thing("a") + call + b"s.")
        )
        legacy_file = legacy(Raw(call), {})
        return self.random.choice((kept, legacy_file, torch_zip(kept, {})))

    def made_bytes(self, depth: int) -> bytes:
        """Bytes as they are, or made by a call."""
        content = self.payload()
        text = content.decode("latin-1")
        return self.random.choice(
            (
                encode_thing(content),
                named("_codecs", "encode") + encode_thing((text, "latin1")) + b"R",
                named("builtins", "bytes") + encode_thing((list(content),)) + b"R",
                named("builtins", "bytearray") + encode_thing((content,)) + b"R",
                b"\x96" + len(content).to_bytes(8, "little") + content,
                self.value(depth),
            )
        )

    def loaded_bytes(self, depth: int) -> bytes:
        return self.loader(depth) + self.made_bytes(depth) + b"\x85R"

    def container(self, depth: int) -> bytes:
        items = [self.value(depth) for _ in range(self.random.randrange(3))]
        if self.random.random() < 0.5:
            return b"](" + b"".join(items) + b"e"
        return b"}(" + b"".join(encode_thing(str(i)) + item for i, item in enumerate(items)) + b"u"

    def arguments(self, depth: int, most: int = 3) -> bytes:
        count = self.random.randrange(most + 1)
        return b"(" + b"".join(self.value(depth) for _ in range(count)) + b"t"

    def call(self, depth: int) -> bytes:
        how = self.random.choice((b"R", b"R", b"\x81"))
        callee = self.value(0) if self.random.random() < 0.1 else self.name(0)
        return callee + self.arguments(depth) + how

    def builder(self, depth: int) -> bytes:
        """A builder that calls an argument, with what it needs, and perhaps something else."""
        function = self.random.choice((self.instance, self.name, self.canary))(depth)
        inner = b"(" + self.made_bytes(depth) + b"t"
        kind = named("builtins", "object")
        name = self.random.choice(("_rebuild_from_type", "_rebuild_from_type_v2"))
        return named("torch._tensor", name) + b"(" + function + kind + inner + b"}tR"

    def instance(self, depth: int) -> bytes:
        """An object of a class on the lists, with attributes, and what is then done to it."""
        made = named(*self.random.choice(_OBJECTS))
        made += b")" + self.random.choice((b"\x81", b"R"))
        attribute = ""
        for _ in range(self.random.randrange(1, 3)):
            attribute = self.random.choice(
                self.random.choice((_ATTRIBUTES, _ATTRIBUTES, [*_CALLED_BY]))
            )
            ways = (self.value, self.name, self.canary, self.loader)
            value = self.random.choice(ways)(depth)
            if attribute in ("_forward_hooks", "_forward_pre_hooks"):
                value = b"}K\1" + value + b"s"
            made += b"}" + encode_thing(attribute) + value + b"sb"
        then = self.random.choice(("", "b", "a", "e", "add", "s"))
        if self.random.random() < 0.7:
            then = _CALLED_BY.get(attribute, then)
        given = self.made_bytes(depth) if then else b""
        steps = {
            "": b"",
            "b": given + b"b",
            "a": given + b"a",
            "e": b"(" + given + b"e",
            "add": b"(" + given + b"\x90",
            "s": encode_thing("k") + given + b"s",
        }
        return made + steps[then]


def named(module: str, name: str) -> bytes:
    return encode_thing(module) + encode_thing(name) + b"\x93"


def drawn(seed: int) -> bytes:
    """The file of a seed: of torch now or before 1.6, or a plain pickle."""
    drawing = Drawing(seed)
    value = drawing.value()
    if drawing.random.random() < 0.2:
        value += b"0" + drawing.value()
    frame = drawing.random.choice((torch_zip, legacy, None))
    if frame is None:
        return b"\x80\4}" + encode_thing("n") + value + b"s."
    return frame(b"\x80\4" + encode_thing({"w": tensor(), "n": Raw(value)}) + b".")


def judged(content: bytes) -> str:
    """What is said of a file: its warnings or its refusal; '' where it is shown without any."""
    found, refusal = answer_or_reason(content)
    return ", ".join((*found.would_call, *found.would_look_up)) if found else f"refused: {refusal}"


def loaded(files: Sequence[bytes], folder: Path) -> list[bool]:
    """Load each file for real, in a child; return whether the canary's function was called."""
    (folder / f"{CANARY}.py").write_text(
        f"touched = False\ndef {FUNCTION}(*_, **__):\n    global touched\n    touched = True\n"
    )
    for number, content in enumerate(files):
        (folder / f"{number}.pt").write_bytes(content)
    child = subprocess.run(
        [sys.executable, "-m", "tests.faults.canary_child", str(len(files))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{_ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        check=True,
    )
    told = json.loads(child.stdout.splitlines()[-1])
    assert len(told) == len(files)
    return [bool(touched) for touched in told]
