import gzip
import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.config import DataConfig
from dgn_engine.data import _cifar, load_examples
from dgn_engine.data._published_files import PUBLISHED, PublishedFile
from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.errors import UserError
from dgn_engine.session.known_plug_ins import data_entries
from dgn_engine.storage.checkpoints import limits
from tests.daily import nightly
from tests.refusals import refused

MNIST_FILES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the local address that serves it."""
    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def publish(monkeypatch: pytest.MonkeyPatch, kind: str, files: dict[str, bytes]) -> None:
    """Let these be the true contents of these files."""
    for name, content in files.items():
        true = PublishedFile(len(content), hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(PUBLISHED, (kind, name), true)


def idx(array: np.ndarray) -> bytes:
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sides + array.astype(np.uint8).tobytes()


def tiny_mnist() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    contents = [
        idx(rng.integers(0, 256, (20, 28, 28))),
        idx(np.arange(20) % 10),
        idx(rng.integers(0, 256, (10, 28, 28))),
        idx(np.arange(10)),
    ]
    return {f"{n}-ubyte": c for n, c in zip(MNIST_FILES, contents, strict=True)}


def put_mnist(root: Path, kind: str = "MNIST") -> dict[str, bytes]:
    folder = root / kind / "raw"
    folder.mkdir(parents=True)
    files = tiny_mnist()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files


def serve_mnist(
    served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, kind: str = "MNIST"
) -> dict[str, bytes]:
    folder, address = served
    files = tiny_mnist()
    packed = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    for name, content in packed.items():
        (folder / name).write_bytes(content)
    table = getattr(import_torchvision(), kind)
    monkeypatch.setattr(table, "mirrors", [address + "gone/", address])
    monkeypatch.setattr(table, "resources", [(n, md5(c)) for n, c in packed.items()])
    publish(monkeypatch, kind, packed)
    return files


def cifar_batch(examples: int, key: str = "labels") -> bytes:
    rng = np.random.default_rng(examples)
    pixels = rng.integers(0, 256, (examples, 3072)).astype(np.uint8)
    table = {"data": pixels, key: [i % 10 for i in range(examples)], "batch_label": "tiny"}
    return pickle.dumps(table, protocol=4)


def serve_cifar(
    served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, **swapped: bytes
) -> dict[str, bytes]:
    folder, address = served
    files = {"data_batch_1": cifar_batch(20), "data_batch_2": cifar_batch(10)}
    files |= {"test_batch": cifar_batch(11)}
    files |= {"batches.meta": pickle.dumps({"label_names": [f"class {i}" for i in range(10)]})}
    files |= swapped
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        evil = tarfile.TarInfo("cifar-10-batches-py/../../outside")
        evil.size = 4
        tar.addfile(evil, io.BytesIO(b"evil"))
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    (folder / "cifar.tar.gz").write_bytes(buffer.getvalue())
    table = import_torchvision().CIFAR10
    monkeypatch.setattr(table, "url", address + "cifar.tar.gz")
    publish(monkeypatch, "CIFAR10", {"cifar.tar.gz": buffer.getvalue()})
    names = ("data_batch_1", "data_batch_2")
    monkeypatch.setattr(table, "train_list", [[n, md5(files[n])] for n in names])
    monkeypatch.setattr(table, "test_list", [["test_batch", md5(files["test_batch"])]])
    meta = {"filename": "batches.meta", "key": "label_names", "md5": md5(files["batches.meta"])}
    monkeypatch.setattr(table, "meta", meta)
    return files


def test_torchvision_imports_beside_the_torch_that_is_here() -> None:
    assert import_torchvision().MNIST.resources


STRANGER = """
import torch

torch.library.register_fake("torchvision::nms", lambda dets, scores, iou_threshold: scores)
torch.library.register_fake("torchvision::qnms", lambda dets, scores, iou_threshold: scores)
"""
IMPORTS = """
import sys

import dgn_engine as dgn

if "late" in sys.argv:  # as in a notebook, where the import failed before
    try:
        import torchvision
    except RuntimeError as error:
        print(error)
dgn.prepare_torchvision()
assert "torchvision" not in sys.modules
import torchvision
print(torchvision.__file__)
"""


@pytest.mark.parametrize(
    ("library", "when"), [(b"built for another torch", "first"), *nightly((None, "late"))]
)
def test_one_line_lets_a_torchvision_without_its_operators_be_imported(
    tmp_path: Path, library: bytes | None, when: str
) -> None:
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text(STRANGER)
    if library is not None:
        (package / "_C.so").write_bytes(library)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [sys.executable, "-c", IMPORTS, when]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    *before, imported = done.stdout.splitlines()
    assert imported == str(package / "__init__.py")
    assert len(before) == (when == "late")  # the import did fail


def test_mnist_is_read_from_torchvisions_layout(tmp_path: Path) -> None:
    files = put_mnist(tmp_path)
    examples = load_examples(DataConfig(name="mnist", root=str(tmp_path)))
    assert examples.train_x.shape == (20, 1, 28, 28)
    assert examples.test_y.tolist() == list(range(10))
    levels = np.frombuffer(files["train-images-idx3-ubyte"][16:], np.uint8).astype(np.float32)
    assert np.array_equal(examples.train_x.ravel(), levels / np.float32(255))


@pytest.mark.discovery
def test_the_environment_names_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_mnist(tmp_path, "FashionMNIST")
    monkeypatch.setenv("DGN_DATA_ROOT", str(tmp_path))
    assert load_examples(DataConfig(name="fashion-mnist")).class_names[0] == "T-shirt/top"
    available = {entry.id: entry.available for entry in data_entries()}
    assert available["fashion-mnist"]
    assert not available["mnist"]


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100"])
def test_a_missing_set_says_how_to_get_it(name: str, tmp_path: Path) -> None:
    with refused("no-file") as refusal:
        load_examples(DataConfig(name=name, root=str(tmp_path)))
    assert "DGN_DATA_ROOT" in str(refusal.error)
    assert not list(tmp_path.iterdir())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-1],
    "empty": lambda content: b"",
    "a page of a server": lambda content: b"<html>" + content,
    "longer": lambda content: content + b"0",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_mnist_file_is_named(damage: str, tmp_path: Path) -> None:
    put_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte"
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    with refused("damaged") as refusal:
        load_examples(DataConfig(name="mnist", root=str(tmp_path)))
    assert path.name in str(refusal.error)
    path.write_bytes(whole)
    assert len(load_examples(DataConfig(name="mnist", root=str(tmp_path))).test_y) == 10


@pytest.mark.parametrize("kind", ["MNIST", "FashionMNIST"])
def test_mnist_is_downloaded_with_progress_from_the_next_mirror(
    kind: str,
    served: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = serve_mnist(served, monkeypatch, kind)
    said: list[tuple[str, float | None]] = []
    name = {"MNIST": "mnist", "FashionMNIST": "fashion-mnist"}[kind]
    config = DataConfig(name=name, root=str(tmp_path / "new" / "root"), download=True)
    examples = load_examples(config, lambda *line: said.append(line))
    assert len(examples.train_y) == 20
    told = {what: share for what, share in said if share is not None}  # the last of each
    assert [share for what, share in told.items() if ".gz" in what] == [1.0] * 4
    folder = tmp_path / "new" / "root" / kind / "raw"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    theirs = getattr(import_torchvision(), kind)(str(tmp_path / "new" / "root"))
    assert len(theirs) == 20


def test_only_the_files_that_are_missing_are_fetched(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them are there; each request says who asks."""
    files = serve_mnist(served, monkeypatch)
    fetched: list[str] = []
    open_it = urllib.request.OpenerDirector.open

    def opened(
        opener: urllib.request.OpenerDirector, request: urllib.request.Request, **named: Any
    ) -> Any:
        assert request.get_header("User-agent") == "dgn-viewer"
        fetched.append(request.full_url.rpartition("/")[2])
        return open_it(opener, request, **named)

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", opened)
    monkeypatch.setattr(import_torchvision().MNIST, "mirrors", [served[1]])
    names = list(files)
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for name in (names[0], names[2]):
        (folder / name).write_bytes(files[name])
    load_examples(DataConfig(name="mnist", root=str(tmp_path), download=True))
    assert fetched == [f"{name}.gz" for name in (names[1], names[3])]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_a_download_with_another_checksum_leaves_nothing(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_mnist(served, monkeypatch)
    path = served[0] / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with refused("no-download"):
        load_examples(DataConfig(name="mnist", root=str(tmp_path / "root"), download=True))
    assert not list((tmp_path / "root" / "MNIST" / "raw").iterdir())


def test_no_network_and_no_place_to_write_are_one_sentence(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_mnist(served, monkeypatch)
    (tmp_path / "file").write_bytes(b"")
    with refused("no-file"):
        load_examples(DataConfig(name="mnist", root=str(tmp_path / "file"), download=True))
    monkeypatch.setattr(import_torchvision().MNIST, "mirrors", ["http://127.0.0.1:9/"])
    with refused("no-download"):
        load_examples(DataConfig(name="mnist", root=str(tmp_path), download=True))


def test_cifar_is_downloaded_and_read_and_nothing_climbs_out(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = serve_cifar(served, monkeypatch)
    first = pickle.loads(files["data_batch_1"])["data"][0].reshape(3, 32, 32)

    def forbidden(*_: object) -> None:
        raise AssertionError("something was unpickled in this process")

    for name in ("Unpickler", "_Unpickler", "load", "loads"):
        monkeypatch.setattr(pickle, name, forbidden)
    root = tmp_path / "root"
    examples = load_examples(DataConfig(name="cifar10", root=str(root), download=True))
    assert examples.train_x.shape == (30, 3, 32, 32)
    assert examples.test_x.shape == (11, 3, 32, 32)
    assert examples.class_names[3] == "class 3"
    assert np.array_equal(examples.train_x[0], first.astype(np.float32) / np.float32(255))
    assert [path.name for path in root.iterdir()] == ["cifar-10-batches-py"]
    assert not (tmp_path / "outside").exists()
    monkeypatch.setattr(import_torchvision().CIFAR10, "url", "http://127.0.0.1:9/")
    again = load_examples(DataConfig(name="cifar10", root=str(root), download=True))
    assert again.fingerprint == examples.fingerprint
    path = root / "cifar-10-batches-py" / "data_batch_2"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=path.name):  # by its checksum, before it is unpickled
        load_examples(DataConfig(name="cifar10", root=str(root)))


class Evil:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.canary),)


def test_a_cifar_pickle_builds_arrays_and_nothing_else_even_with_the_right_checksum(
    served: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    serve_cifar(served, monkeypatch, data_batch_1=pickle.dumps(Evil(canary)))
    with pytest.raises(UserError, match=r"data_batch_1 .* (posix|nt)\.mkdir"):
        load_examples(DataConfig(name="cifar10", root=str(tmp_path), download=True))
    assert not canary.exists()


def old_batch(pixels: np.ndarray, key: str, labels: list[int]) -> bytes:
    """As Python 2 and numpy 1 wrote the published files: protocol 2, bytes as text."""
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1J"
        + struct.pack("<i", len(pixels))
        + b"M\x00\x0c\x86cnumpy\ndtype\nU\2u1K\0K\1\x87R"
        + b"(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
        + (b"\x89T" + struct.pack("<i", pixels.nbytes) + pixels.tobytes())
        + b"tb"
    )
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    named = b"U" + bytes([len(key)]) + key.encode()
    return b"\x80\2}(U\4data" + array + named + listed + b"u."


def test_a_batch_of_python_2_with_more_text_than_a_checkpoint_is_read_to_the_bit(
    tmp_path: Path,
) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (11_000, 3072), np.uint8)
    labels = [i % 100 for i in range(len(pixels))]
    content = old_batch(pixels, "fine_labels", labels)
    assert len(content) > limits.PICKLE
    (tmp_path / "train").write_bytes(content)
    found = _cifar.read_batch(tmp_path / "train", md5(content), "fine_labels").arrays
    assert np.array_equal(found["data"], pixels)
    assert found["labels"].tolist() == labels
