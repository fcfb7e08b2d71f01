"""Checkpoints in several files: read as one by their index, and never anything beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.inner_path import Anchor, InnerPath
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("no_reader_child")

torch.manual_seed(0)
STATE: dict[str, Tensor] = nn.Sequential(
    *(nn.Linear(4, 4) for _ in range(12))
).state_dict()  # '10' sorts before '2'
SORTED = [f"{number}.{name}" for number in range(12) for name in ("bias", "weight")]
INDEX = "model.safetensors.index.json"


def split(folder: Path, state: dict[str, Tensor] = STATE, kind: str = "safetensors") -> Path:
    """Three files of a state dict and their index, as Hugging Face writes them."""
    stem = "model" if kind == "safetensors" else "pytorch_model"
    write = save_file if kind == "safetensors" else torch.save
    names = list(state)
    files: dict[str, str] = {}
    for number in range(3):
        file = f"{stem}-{number + 1:05}-of-00003.{kind}"
        own = names[number * len(names) // 3 : (number + 1) * len(names) // 3]
        write({name: state[name] for name in own}, folder / file)
        files |= dict.fromkeys(own, file)
    index = folder / f"{stem}.{kind}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    return index


def changed(index: Path, **files: str | None) -> Path:
    """The index with other files for these tensors; None: without the tensor."""
    head = json.loads(index.read_text())
    head["weight_map"] |= files
    head["weight_map"] = {k: v for k, v in head["weight_map"].items() if v is not None}
    index.write_text(json.dumps(head))
    return index


def refusal(path: Path, part: str = "") -> str:
    with pytest.raises(UserError) as refused:
        read_tensors(path, part=part)
    return str(refused.value)


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_the_index_reads_all_files_as_one(kind: str, tmp_path: Path) -> None:
    found = read_tensors(split(tmp_path, kind=kind))
    assert list(found.arrays) == (SORTED if kind == "safetensors" else list(STATE))
    for name, tensor in STATE.items():
        np.testing.assert_array_equal(found.arrays[name], tensor.numpy())
    assert found.file_name.endswith(".index.json")
    assert found.kind.endswith("3 files")


def test_prefixes_that_all_files_have_come_off_and_others_stay(tmp_path: Path) -> None:
    found = read_tensors(split(tmp_path, {f"module.{k}": t for k, t in STATE.items()}))
    assert list(found.arrays) == SORTED
    some = {f"module.{k}" if n < 12 else f"x.{k}": t for n, (k, t) in enumerate(STATE.items())}
    found = read_tensors(split(tmp_path, some))
    assert found.arrays.keys() == some.keys()


@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_part_is_read_from_the_files_that_have_it(prefix: str, tmp_path: Path) -> None:
    both = {f"{prefix}a.{k}": t for k, t in STATE.items()}
    both |= {f"{prefix}b.{k}": t + 1 for k, t in STATE.items()}
    index = split(tmp_path, both)
    (tmp_path / "model-00001-of-00003.safetensors").write_bytes(b"damaged")  # it has a alone
    found = read_tensors(index, part="b")
    assert found.part == "b"
    assert list(found.arrays) == SORTED
    np.testing.assert_array_equal(found.arrays["0.weight"], STATE["0.weight"].numpy() + 1)
    assert "'a', 'b'" in refusal(index, "c")


def test_a_file_alone_is_refused_with_its_number_and_the_name_of_the_index(tmp_path: Path) -> None:
    index = split(tmp_path)
    part = tmp_path / "model-00002-of-00003.safetensors"
    assert re.search(r"part 2 of 3 .*model\.safetensors\.index\.json", refusal(part))
    index.unlink()
    assert "download and open" in refusal(part)


def test_an_index_that_disagrees_with_a_file_is_refused_with_the_tensor(tmp_path: Path) -> None:
    last = "model-00003-of-00003.safetensors"
    for tensor, file in (("made.up", last), ("11.bias", None)):
        index = changed(split(tmp_path), **{tensor: file})
        assert f"'{tensor}'" in refusal(index)


@pytest.mark.parametrize(
    "file",
    [
        *("../secret.safetensors", "/etc/secret.bin", "a/b.safetensors", "..", "", "C:x.bin"),
        *("a\\b.bin", ".hidden.bin", "notes.txt", INDEX, "a\n.bin", "x" * 300 + ".bin"),
    ],
)
def test_an_index_names_only_files_of_weights_in_its_own_folder(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    save_file({"0.weight": torch.ones(2, 2)}, tmp_path / "secret.safetensors")
    said = refusal(changed(split(folder), **{"0.weight": file}))
    assert "same folder" in said
    assert "\n" not in said


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    index = split(folder)
    file = folder / "model-00001-of-00003.safetensors"
    file.rename(tmp_path / "secret.safetensors")
    file.symlink_to("../secret.safetensors")
    assert "a link to another folder" in refusal(index)
    file.unlink()
    file.symlink_to(file.name)
    assert "a broken link" in refusal(index)


def test_a_cache_in_which_all_files_are_links_into_one_folder_is_read(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    split(blobs)
    for number, file in enumerate(sorted(blobs.iterdir())):
        file.rename(blobs / f"{number:08x}")
        (snapshot / file.name).symlink_to(f"../blobs/{number:08x}")
    assert list(read_tensors(snapshot / INDEX).arrays) == SORTED


def test_links_within_an_inner_folder_are_never_followed(tmp_path: Path) -> None:
    file = split(tmp_path).with_name("model-00001-of-00003.safetensors")
    file.rename(tmp_path / "other.safetensors")
    file.symlink_to("other.safetensors")
    assert read_tensors(tmp_path / INDEX)
    with refused("no-file"):
        read_tensors(InnerPath(Anchor(tmp_path), (INDEX,)))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        *((content, "damaged") for content in (b"", b"{", b"[" * 5000)),
        (b'{"weight_map": {"a": "a.bin", "a": "b.bin"}}', "damaged"),
        *((content, "no-index") for content in (b"[]", b"{}")),
        *((b'{"weight_map": %b}' % files, "no-index") for files in (b"{}", b"[1]")),
        (b'{"weight_map": {"a": 3}}', "wrong-name"),
        (b'{"weight_map": {"a\\n": "a.bin", "a\\\\n": "a.bin"}}', "named-twice"),
    ],
)
def test_an_index_that_is_none_is_refused(content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(content)
    with refused(kind):
        read_tensors(tmp_path / INDEX)


def test_a_whole_module_and_a_damaged_file_are_refused_by_name(tmp_path: Path) -> None:
    index = split(tmp_path, kind="bin")
    file = tmp_path / "pytorch_model-00002-of-00003.bin"
    file.write_bytes(file.read_bytes()[:-50])
    assert refusal(index).startswith(file.name)
    torch.save(nn.Linear(2, 2), file)
    assert "whole saved module" in refusal(index)


def test_nothing_that_a_file_would_call_is_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (print, ("ran",))

    index = split(tmp_path, kind="bin")
    first = torch.load(tmp_path / "pytorch_model-00001-of-00003.bin")
    torch.save({**first, "x": Evil()}, tmp_path / "pytorch_model-00001-of-00003.bin")
    assert read_tensors(index).would_call == ("builtins.print",)
