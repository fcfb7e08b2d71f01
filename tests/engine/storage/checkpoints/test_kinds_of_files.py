"""What the parsers make of honest and odd files, kind by kind: numbers, words, order, limits."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from typing import Any

import numpy as np
import pytest

from dgn_engine.storage.checkpoints import limits, numpy_file
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import (
    CheckpointContents,
    UnreadableFile,
    decoded,
    is_sound,
    natural,
)
from dgn_engine.storage.checkpoints.pickle_file import (
    InertDict,
    InertObject,
    members,
    read_pickle,
)
from dgn_engine.storage.checkpoints.pickled_tensors import (
    build,
    storage,
)
from dgn_engine.storage.checkpoints.reader_child import answer, read, tidy
from dgn_engine.storage.checkpoints.safetensors_file import read_safetensors
from dgn_engine.storage.checkpoints.stated_layers import stated_layers
from dgn_engine.storage.checkpoints.wire import receive
from dgn_engine.storage.checkpoints.zip_archive import checked_zip
from dgn_engine.text.printable import plain
from tests.engine.storage.checkpoints.inert_trees import (
    NUMBERS,
    layer,
    refusal,
    sequence,
    table,
    tensor,
    tree_of,
)

# safetensors


def safetensors(entries: dict[str, Any], numbers: bytes) -> bytes:
    head = json.dumps(entries).encode()
    return len(head).to_bytes(8, "little") + head + numbers


def entry(begin: int, end: int, dtype: str = "F32", shape: tuple[int, ...] | None = None) -> Any:
    shape = ((end - begin) // 4,) if shape is None else shape
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def test_a_type_that_is_not_known_is_named_and_what_follows_is_read() -> None:
    found = read_safetensors(
        safetensors(
            {
                "w.10": entry(0, 8),
                "w.2": entry(8, 16, "F4", (16,)),
                "w.1": entry(16, 20),
                "w.3": entry(20, 24, "F8_E8M0", (4,)),
                "__metadata__": {"k": "v", "n": "3"},
            },
            NUMBERS[:6].tobytes(),
        )
    )
    assert {name: array.tolist() for name, array in found.arrays.items()} == {
        "w.1": [4],
        "w.10": [0, 1],
    }
    assert list(found.arrays) == ["w.1", "w.10"]
    assert found.ignored == ("w.2 (F4)", "w.3 (F8_E8M0)")
    assert found.metadata == {"k": "v", "n": "3"}
    assert found.kind == "safetensors"


@pytest.mark.parametrize("notes", [3, ["k"], {"n": 3}, {"k": {"n": "3"}}])
def test_notes_that_are_no_text_are_refused_as_safetensors_does(notes: object) -> None:
    with pytest.raises(UnreadableFile, match="no text"):
        read_safetensors(safetensors({"w": entry(0, 4), "__metadata__": notes}, bytes(4)))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"a": entry(0, 8), "b": entry(4, 12)}, "in which tensors overlap"),
        ({"a": entry(0, 4), "b": entry(8, 12)}, "bytes that belong to none of its tensors"),
        ({"a": entry(0, 8)}, "bytes that belong to none of its tensors"),
        ({"a": entry(4, 12)}, "bytes that belong to none of its tensors"),
        ({"a": entry(0, 16)}, "a ends outside the file"),
        ({"a": entry(8, 4, shape=(1,))}, "a ends outside the file"),
        ({"a": entry(0, 12, shape=(2,))}, "declares a shape for a that its bytes do not fill"),
        ({"a": entry(-4, 12, shape=(4,))}, "an impossible shape or place of a"),
        ({"a": {**entry(0, 12), "dtype": 3}}, "an impossible shape or place of a"),
        ({"a": {"dtype": "F32"}}, "a header without type, shape and place of a"),
        ({"a": []}, "a header without type, shape and place of a"),
    ],
)
def test_a_header_that_lies_is_refused_with_the_name_of_the_tensor(
    entries: dict[str, Any], words: str
) -> None:
    assert words in refusal(read_safetensors, safetensors(entries, NUMBERS[:3].tobytes()))


def test_headers_beyond_their_limits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    two = safetensors({"a": entry(0, 4), "b": entry(4, 8)}, bytes(8))
    monkeypatch.setattr(limits, "MEMBERS", 2)
    assert len(read_safetensors(two).arrays) == 2
    monkeypatch.setattr(limits, "MEMBERS", 1)
    assert refusal(read_safetensors, two) == "declares 2 tensors, which is too many"
    monkeypatch.setattr(limits, "HEADER", len(two) - 8)
    monkeypatch.setattr(limits, "MEMBERS", 2)
    assert len(read_safetensors(two).arrays) == 2
    monkeypatch.setattr(limits, "HEADER", len(two) - 9)
    assert refusal(read_safetensors, two) == "has a safetensors header of unreasonable size"
    double = b'{"a": 1, "a": 2}'
    lying = len(double).to_bytes(8, "little") + double
    assert "one name twice" in refusal(read_safetensors, lying)


# archives and kinds of files


def archive(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, content in files.items():
            file.writestr(name, content)
    return made.getvalue()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"m/constants.pkl": b"", "m/data.pkl": b""}, "is a TorchScript program, not weights"),
        ({"m/data.pkl": b"", "m/code/a.py": b""}, "is a TorchScript program, not weights"),
        ({"m/data.pkl": b"", ".data/extern_modules": b""}, "is a torch.package with code"),
        ({"m/archive_format": b""}, "is an exported program, not weights"),
        ({"serialized_exported_program.json": b""}, "is an exported program, not weights"),
        ({"session.json": b""}, "is a session file, not weights"),
        ({"m/a.pkl": b"", "m/b.pkl": b""}, "does not hold one small list of tensors"),
        ({"data.pkl": b""}, "does not hold one small list of tensors"),
        ({"m/a.txt": b""}, "does not hold one small list of tensors"),
        ({"m/data.pkl": b"", "n/x": b""}, "holds more than one folder"),
        ({"m/data.pkl": b"", "m/byteorder": b"little"}, "is of no version that torch reads"),
        (
            {"m/data.pkl": b"", "m/version": b"3", "m/byteorder": b"middle"},
            "names a byte order that does not exist",
        ),
    ],
)
def test_archives_of_something_else_are_told_apart(files: dict[str, bytes], words: str) -> None:
    assert refusal(read, archive(files)).startswith(words)


def test_arrays_of_an_archive_are_read_and_the_rest_is_named() -> None:
    def npy(array: Any) -> bytes:
        made = io.BytesIO()
        np.save(made, array, allow_pickle=True)
        return made.getvalue()

    found = read(
        archive(
            {
                "first.npy": npy(np.ones(2)),
                "text.txt": b"x",
                "objects.npy": npy(np.array([None], dtype=object)),
                "complex.npy": npy(np.ones(1, complex)),
                "last.npy": npy(np.eye(2)),
            }
        )
    )
    assert list(found.arrays) == ["first", "last"]
    assert found.ignored == (
        "text.txt (not an array)",
        "objects (Python objects)",
        "complex (numbers of type <c16)",
    )
    assert found.kind == "NumPy arrays"
    alone = read(npy(np.eye(2)))
    assert (alone.kind, alone.dtypes) == ("NumPy array", {"array": "float64"})
    only = archive({"objects.npy": npy(np.array([None], dtype=object))})
    assert "no arrays of numbers" in refusal(read, only)
    assert numpy_file.read_npz(checked_zip(archive({})), CallRecorder()).arrays == {}
    assert refusal(read, npy(np.array([None], dtype=object))) == (
        "holds Python objects, which are not read"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89HDF\r\n", "is an HDF5 file"),
        (b"GGUF....", "is a GGUF file"),
        (b"\x1f\x8b\x08", "is compressed with gzip"),
        (b"(lp0\n", "is a pickle of a protocol before 2"),
        (
            b"cos\nsystem\n(S'x'\n",
            "is a pickle of a protocol before 2, which is not read here; "
            "it would look up os.system; nothing was run",
        ),
        (b"cos\nsystem\n(S'x'\ntR.", "is a pickle of a protocol before 2, which is not read here"),
        (b"(see the other file)", "is no checkpoint that is read here: it is text"),
        (b"common words\nof a text\n", "is no checkpoint that is read here"),
        (b"<html>", "is a web page (HTML)"),
        (b"\n<!-- a -->\n<!DOCTYPE html><html>", "is a web page (HTML)"),
        (b"<html-like>", "is no checkpoint that is read here: it is text, '<html-like>'"),
        (b"<?xml version='1.0'?><Error>", "is no checkpoint that is read here: it is text"),
        (b"Entry not found", "is no checkpoint that is read here: it is text, 'Entry not found'"),
        (b"caf\xe9 and more", "is no checkpoint that is read here: what it holds"),
        (b"version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS"),
        (b"anything", "is no checkpoint that is read here"),
        (b"", "is empty"),
    ],
)
def test_other_files_are_told_by_their_first_bytes(content: bytes, words: str) -> None:
    assert refusal(read, content).startswith(words)


def test_a_file_that_is_read_whole_is_no_longer_than_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = io.BytesIO()
    np.save(made, np.ones(2))
    file = made.getvalue()
    monkeypatch.setattr(limits, "FILE", len(file))
    assert read(file).arrays
    monkeypatch.setattr(limits, "FILE", len(file) - 1)
    assert refusal(read, file).startswith("is larger than 2 GiB, which only safetensors and")
    named = safetensors({"w": entry(0, 4)}, bytes(4))
    monkeypatch.setattr(limits, "FILE", len(named) - 1)
    assert read(named).arrays


def test_a_plain_pickle_of_arrays_is_one() -> None:
    found = read(pickle.dumps({"w": np.ones((2, 2)), "n": 3}, protocol=4))
    assert (list(found.arrays), found.ignored) == (["w"], ("n (int)",))
    assert found.kind == "pickle of arrays"
    assert refusal(read, pickle.dumps({"w": np.ones(2)}, protocol=4) + b"x") == (
        "has bytes behind its end"
    )


def received(content: bytes) -> CheckpointContents:
    pipe = io.BytesIO()
    answer(content, pipe)
    pipe.seek(0)
    return receive(pipe, 1 << 20)


def test_a_file_without_tensors_says_what_it_holds_instead() -> None:
    few = pickle.dumps({str(n): n for n in range(5)}, protocol=4)
    assert refusal(received, few) == "holds no tensors that can be taken; it holds dict"
    assert "holds no tensors that can be taken" in refusal(received, safetensors({}, b""))


def test_what_is_left_aside_is_cut_after_two_hundred_lines() -> None:
    many = {f"k{n}": n for n in range(203)}
    found = received(pickle.dumps({"w": np.ones(1), **many}, protocol=4))
    assert len(found.ignored) == 201
    assert found.ignored[-2:] == ("k199 (int)", "and 3 more")
    exact = {f"k{n}": n for n in range(200)}
    found = received(pickle.dumps({"w": np.ones(1), **exact}, protocol=4))
    assert found.ignored[-1] == "k199 (int)"


def test_prefixes_come_off_where_all_tensors_have_them() -> None:
    def names(*given: str) -> list[str]:
        tree = InertDict([(name, tensor(1)) for name in given])
        return list(tidy(tree_of(tree)).arrays)

    assert names("module.a", "module.b") == ["a", "b"]
    assert names("module.a", "b") == ["module.a", "b"]
    assert names("module._orig_mod.a.w", "module._orig_mod.b") == ["a.w", "b"]
    assert names("module.") == ["module."]
    twins = InertDict([("a\n", tensor(1)), ("a\\n", tensor(1))])
    assert "cannot be told apart" in refusal(tidy, tree_of(twins))


# the layers that a module states


def test_nested_sequences_are_flattened_and_what_follows_them_is_read() -> None:
    relu, flat = (
        layer("activation.ReLU"),
        layer("flatten.Flatten", start_dim=1, end_dim=-1),
    )
    inner = sequence(("0", layer("linear.Linear", in_features=3, out_features=2)), ("1", relu))
    found = stated_layers(sequence(("0", flat), ("body", inner), ("2", relu), ("x", 3)))
    assert [(one.name, one.kind) for one in found] == [
        ("0", "Flatten"),
        ("body.0", "Linear"),
        ("body.1", "ReLU"),
        ("2", "ReLU"),
    ]
    assert found[1].numbers == {"in_features": 3, "out_features": 2}
    linear = layer("linear.Linear", in_features=2, out_features=2, _parameters=table(w=tensor(2)))
    assert [one.name for one in tree_of(sequence(("0", linear), ("1", relu))).layers] == [
        "0",
        "1",
    ]
    two = stated_layers(sequence(("a", sequence(("b", inner))), ("c", relu)))
    assert [one.name for one in two] == ["a.b.0", "a.b.1", "c"]
    hooked = sequence(("0", relu), _forward_hooks=table(h=1))
    assert [one.kind for one in stated_layers(sequence(("0", hooked), ("1", relu)))] == [
        "torch.nn.modules.container.Sequential",
        "ReLU",
    ]
    assert stated_layers(relu) == ()
    bare = InertObject("torch.nn.modules.container.Sequential", ())
    assert [one.name for one in stated_layers(sequence(("0", bare), ("1", relu)))] == ["1"]
    wrapped = InertObject(
        "torch.nn.parallel.data_parallel.DataParallel",
        (),
        state=table(_modules=table(module=sequence(("0", relu)))),
    )
    assert [one.name for one in stated_layers(wrapped)] == ["module.0"]


def test_a_layer_whose_numbers_make_no_sense_is_named() -> None:
    bad = layer("linear.Linear", in_features=-3, out_features=2)
    pool = layer("pooling.MaxPool2d", kernel_size=2, padding=0, dilation=1, ceil_mode=False)
    (one, other) = stated_layers(sequence(("0", bad), ("1", pool)))
    assert (one.kind, one.numbers) == ("Linear whose in_features is none that is known", {})
    assert other.numbers["stride"] == (2, 2)  # the kernel's, where none is stated


# what is common


def test_text_from_outside_is_shown_plain() -> None:
    assert plain("a\tb\u200e") == "a\\tb\\u200e"
    assert plain("x" * 10, 10) == "x" * 10
    assert plain("x" * 11, 10) == "x" * 9 + "…"


def test_names_are_sorted_as_people_count() -> None:
    names = ["w.10", "w.2", "a1b20", "a1b3", "10", "9", "x"]
    assert sorted(names, key=natural) == ["9", "10", "a1b3", "a1b20", "w.2", "w.10", "x"]


def test_a_shape_is_whole_and_bounded() -> None:
    assert is_sound(())
    assert is_sound((0, 5))
    assert is_sound((limits.EXTENT,))
    assert not is_sound((limits.EXTENT + 1,))
    assert not is_sound((0, limits.EXTENT + 1))
    assert not is_sound((1.0,))
    assert not is_sound((True,))
    assert not is_sound((-1,))
    assert is_sound((1,) * 16)
    assert not is_sound((1,) * 17)


def test_every_small_type_is_decoded_as_torch_does() -> None:
    import torch

    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16):
        wide = torch.finfo(dtype).bits == 16
        bits = np.arange(1 << (16 if wide else 8), dtype=np.uint16 if wide else np.uint8)
        wanted = torch.from_numpy(bits.copy()).view(dtype).float().numpy()
        name = str(dtype).removeprefix("torch.")
        given = bits.view(np.float16) if name == "float16" else bits
        np.testing.assert_array_equal(decoded(given, name), wanted)
    assert decoded(np.array([0, 1, 7], np.uint8).view(bool), "bool").tolist() == [False, True, True]


def test_a_pickle_of_too_many_steps_or_too_long_numbers_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(content: bytes) -> Any:
        return read_pickle(content, 0, build, storage)[0]

    ones = pickle.dumps([1] * 50, protocol=2)
    monkeypatch.setattr(limits, "OPERATIONS", 60)
    assert load(ones) == [1] * 50
    monkeypatch.setattr(limits, "OPERATIONS", 50)
    assert refusal(load, ones) == "has a pickle of more than 50 instructions"
    monkeypatch.undo()
    assert load(pickle.dumps(1 << 2046, protocol=2)) == 1 << 2046  # 256 bytes
    assert "number of unreasonable length" in refusal(load, pickle.dumps(1 << 2047, protocol=2))
    monkeypatch.setattr(limits, "PICKLE", 20)
    assert load(pickle.dumps("x" * 10, protocol=4)) == "x" * 10
    long = pickle.dumps(["x" * 12, "y" * 12], protocol=4)
    assert "more text in its pickle" in refusal(load, long)
    assert refusal(load, ones[:-1]) == "is cut off within its pickle"


def test_what_a_set_holds_are_its_members() -> None:
    for made, kind in ((frozenset({"a"}), "frozenset"), ({"a"}, "set")):
        thing, _ = read_pickle(pickle.dumps(made, 4), 0, build, storage)
        assert (thing.callee, list(members(thing))) == (kind, [("0", "a")])


def test_what_an_object_is_made_with_is_no_member_of_it() -> None:
    made = b"\x80\x04ca\nThing\n(K\x01t}X\x01\0\0\0kK\x02s\x92."  # a.Thing(1, k=2)
    thing, end = read_pickle(made, 0, build, storage)
    assert (thing.callee, list(members(thing)), end) == ("a.Thing", [], len(made))
    ordered = made.replace(b"ca\nThing\n(K\x01t", b"ccollections\nOrderedDict\n(t")
    assert read_pickle(ordered, 0, build, storage)[0].pairs == []  # those are its own
