"""Random calls of names on the lists of `harmless_names`, mostly with odd arguments.

Beside an honest array or tensor `w` each file holds one such call, `x`. What is read of it must be
what pickle and torch read, or it is refused or warned of: `misread` compares.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.harmless_names import CALLS_ARGUMENTS, MADE, NAMED
from tests.faults.differential import difference, read_inertly
from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    encode_thing,
    make_pickle,
    tensor,
    torch_zip,
)
from tests.faults.reference_readers import ReferenceReaders

ADDRESSES = b"A" * 8
_NUMBERS = np.array([1.5, 2.5], np.float32)
_ARRAY = Raw(pickle.dumps(_NUMBERS, 2)[2:-1])
_OBJECTS = ("torch.nn.modules", "torch.optim", "torch.nn.utils", "torch.nn.parallel")


def _split(module: str, names: str) -> list[Name]:
    return [Name(module, name) for name in names.split()]


_VALUES = [n for m, names in MADE.items() if not m.startswith(_OBJECTS) for n in _split(m, names)]
_OF_NUMPY = [
    n for m, names in (MADE | NAMED).items() if m.startswith("numpy") for n in _split(m, names)
]
_MODULES = [n for m, names in MADE.items() if m.startswith(_OBJECTS) for n in _split(m, names)]
_CALLING = [Name(*name.rsplit(".", 1)) for name in CALLS_ARGUMENTS]
_WRITTEN = (_NUMBERS.dtype, np.dtype("O"), np.dtype("U2"), np.dtype([("a", "O")]))


@dataclass
class _Drawing:
    random: Random
    honest: Any
    depth: int = 0

    def pick(self, *ways: Callable[[], Any]) -> Any:
        self.depth += 1
        made = self.random.choice(ways if self.depth < 4 else ways[:2])()
        self.depth -= 1
        return made

    def value(self) -> Any:
        return self.pick(self.plain, self.name, self.held, self.type_of_numbers, self.call)

    def plain(self) -> Any:
        return self.random.choice(
            (*(None, 0, 1, 2, True, "w", "O", "f4", "latin1", ADDRESSES, b"b", (0,), (1,), (), []),)
        )

    def name(self) -> Any:
        return self.random.choice((*_OF_NUMPY, *_VALUES[:20], Name("torch", "float32")))

    def held(self) -> Any:
        one = self.honest
        return self.random.choice((one, [one], {"k": one}, (one, 1), [["k", one]], {"k": [one]}))

    def type_of_numbers(self) -> Any:
        """A `numpy.dtype` as it is written, or with another code or state."""
        honest = self.random.choice(_WRITTEN)
        if self.random.random() < 0.4:
            return Raw(pickle.dumps(honest, 2)[2:-1])
        code = self.random.choice((honest.char, "f4", *self.random.sample(_OF_NUMPY, 2)))
        return self.stated(Call("numpy", "dtype", (code, False, True)))

    def stated(self, made: Any) -> Any:
        size, flags = self.random.choice(((-1, -1), (8, 4))), self.random.choice((0, 5, 8, 63))
        types = (3, self.random.choice("<|"), None, None, None, *size, flags)
        of_array = (1, (1,), self.pick(self.type_of_numbers, self.plain), False, ADDRESSES)
        state = self.random.choice((types, of_array, {"a": 1}, {}, ({"a": 1}, None)))
        return Raw(encode_thing(made) + encode_thing(state) + b"b")

    def call(self) -> Any:
        maker = self.random.choice(self.random.choice((_VALUES, _OF_NUMPY, _CALLING, _MODULES)))
        given = tuple(self.value() for _ in range(self.random.choice((0, 1, 1, 2, 3))))
        if self.random.random() < 0.1:
            made = Raw(encode_thing(maker) + encode_thing(given) + b"\x81")
        elif self.random.random() < 0.05:
            made = Raw(encode_thing(maker) + encode_thing([*given]) + b"R")
        else:
            made = Raw(encode_thing(maker) + encode_thing(given) + b"R")
        return self.stated(made) if self.random.random() < 0.2 else made


def odd_call(seed: int) -> bytes:
    """The file of a seed: a plain pickle, or one of torch."""
    random = Random(seed)
    if random.random() < 0.6:
        return make_pickle({"w": _ARRAY, "x": _Drawing(random, _ARRAY).call()}, 3)
    return torch_zip({"w": tensor(), "x": _Drawing(random, tensor()).call()})


@dataclass
class Judged:
    """How many files were refused, warned of, and read as the others do; the seeds and faults."""

    refused: int = 0
    warned: int = 0
    equal: int = 0
    wrong: list[tuple[int, str]] = field(default_factory=list)


def misread(seeds: Iterable[int], readers: ReferenceReaders) -> Judged:
    """Read the file of each seed by dgn and, where it has no warning, by pickle and torch."""
    judged = Judged()
    for seed in seeds:
        content, calls = odd_call(seed), CallRecorder()
        try:
            ours = read_inertly(content, calls)
        except UnreadableFile:
            judged.refused += 1
            continue
        if calls.would_call or calls.would_look_up:
            judged.warned += 1
            continue
        deaths = readers.deaths
        theirs, *_ = readers.read(content, harmless=True)
        read = [theirs[name] for name in ("torch", "torch, all names", "pickle") if name in theirs]
        faults = [fault for tensors in read if (fault := difference(ours, tensors))]
        if readers.deaths > deaths:
            faults.append("pickle or torch ended")
        if faults:
            judged.wrong.append((seed, "; ".join(faults)))
        else:
            judged.equal += bool(read)
    return judged
