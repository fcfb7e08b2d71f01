"""Names what Python would call or import to load a pickle, other than what is known to be harmless.

The list holds the makers of values that torch, numpy and the standard library pickle. What is not
on it is not known to be harmful either, but nobody here can say what it does.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertObject,
    NoCalls,
    read_pickle,
    type_name,
)
from dgn_engine.storage.checkpoints.zip_archive import START, ZipArchive, checked_zip

_MOST = 200  # names that are kept
_ARGUMENTS = 32  # that are looked at; no maker of values takes as many
_DEEPEST = 4  # pickles within each other
_PICKLES = 8  # one after the other, as a file of torch before 1.6 has five
_STARTS = (b"\x80", START)

# Modules → what each gives that only makes a value. A class whose name begins with a capital letter
# in a package of `_CLASSES` counts as well.
_HARMLESS = {
    "argparse": "Namespace",
    "_codecs": "encode",
    "builtins": (
        "bool bytearray bytes complex dict float frozenset int list object range set slice str "
        "tuple"
    ),
    "collections": "Counter OrderedDict defaultdict deque",
    "copyreg": "_reconstructor",
    "copy_reg": "_reconstructor",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "pathlib._local": "Path PosixPath PurePath PurePosixPath PureWindowsPath WindowsPath",
    "types": "SimpleNamespace",
    "uuid": "UUID",
    "numpy": (
        "dtype ndarray bool bool_ float16 float32 float64 int8 int16 int32 int64 uint8 uint16 "
        "uint32 uint64 complex64 complex128 str_ bytes_ longlong ulonglong"
    ),
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy.core.numeric": "_frombuffer",
    "numpy._core.numeric": "_frombuffer",
    "numpy.dtypes": "BoolDType Float16DType Float32DType Float64DType Int32DType Int64DType",
    "numpy.random._pickle": "__bit_generator_ctor __generator_ctor __randomstate_ctor",
    "numpy.random.bit_generator": "SeedSequence __pyx_unpickle_SeedSequence",
    "numpy.random._mt19937": "MT19937",
    "numpy.random._pcg64": "PCG64 PCG64DXSM",
    "numpy.random._philox": "Philox",
    "numpy.random._sfc64": "SFC64",
    "torch": (
        "Size Tensor device dtype bool float double half bfloat16 float16 float32 float64 "
        "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu uint8 uint16 "
        "uint32 uint64 int8 int16 int32 int64 short int long complex32 complex64 complex128 qint8 "
        "quint8 qint32 strided sparse_coo sparse_csr per_tensor_affine per_channel_affine "
        "contiguous_format channels_last preserve_format "
        "FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage IntStorage "
        "ShortStorage CharStorage ByteStorage BoolStorage UntypedStorage ComplexFloatStorage "
        "ComplexDoubleStorage QInt8Storage QUInt8Storage QInt32Storage"
    ),
    "torch.cuda": (
        "FloatTensor FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage IntStorage "
        "ShortStorage CharStorage ByteStorage BoolStorage"
    ),
    "torch.nn.parallel.data_parallel": "DataParallel",
    "torch.nn.parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
    "torch.serialization": "_get_layout",
    "torch.storage": "TypedStorage UntypedStorage _load_from_bytes",
    "torch._tensor": "Tensor _rebuild_from_type _rebuild_from_type_v2",
    "torch._utils": (
        "_rebuild_tensor _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "
        "_rebuild_parameter_with_state _rebuild_device_tensor_from_numpy "
        "_rebuild_device_tensor_from_cpu_tensor _rebuild_xla_tensor _rebuild_qtensor "
        "_rebuild_sparse_tensor _rebuild_sparse_csr_tensor _rebuild_nested_tensor "
        "_rebuild_meta_tensor_no_storage _rebuild_wrapper_subclass"
    ),
}
_NAMES = {f"{module}.{name}" for module, names in _HARMLESS.items() for name in names.split()}
_LOADED = ("torch", "numpy")  # whoever loads a file has imported them already
_CLASSES = re.compile(r"torch\.(nn\.modules|optim)(\.[a-z_]+){1,2}\.[A-Z][A-Za-z0-9_]*", re.ASCII)


def is_harmless(name: GlobalName) -> bool:
    """Whether it is a maker of values that is known here."""
    text = str(name)
    return text in _NAMES or _CLASSES.fullmatch(text) is not None


class CallRecorder(NoCalls):
    """Records the names of what loading would call, also where the result is unused, and which
    modules it would import, apart from those of torch and numpy.

    What it would hand to a call counts as called; pickles within the arguments are looked through.
    """

    def __init__(self) -> None:
        self._called: dict[str, None] = {}
        self._imported: dict[str, None] = {}
        self._modules_called: set[str] = set()
        self._depth = 0
        self._room = limits.OPERATIONS  # bytes of inner pickles that are still looked through

    @property
    def would_call(self) -> tuple[str, ...]:
        """Each name once, in the order of the pickle."""
        return _few(self._called)

    @property
    def would_import(self) -> tuple[str, ...]:
        """Modules of which nothing would be called."""
        return _few(m for m in self._imported if m not in self._modules_called)

    def named(self, name: GlobalName) -> None:
        ours = name.module.partition(".")[0] in _LOADED
        if not ours and len(self._imported) <= _MOST and not is_harmless(name):
            self._imported[name.module] = None

    def called(self, callee: Any, arguments: Any) -> None:
        if isinstance(callee, GlobalName):
            self._call(callee)
        elif isinstance(callee, InertObject):  # what a call gave
            self._add(f"{type_name(callee)}(…)")
        self.handed(arguments)
        known = isinstance(callee, GlobalName) and is_harmless(callee)
        if not known or callee.name == "_load_from_bytes":
            for argument in _first(arguments):
                self._look_into(callee, argument)

    def handed(self, arguments: Any) -> None:
        """Globals among the arguments of a call, which may call them in its turn."""
        for argument in _first(arguments):
            if isinstance(argument, GlobalName):
                self._call(argument)

    def state_set(self, target: GlobalName) -> None:
        self._add(f"{target}.__setstate__")
        self._modules_called.add(target.module)

    def look_through(self, content: bytes) -> None:
        """Record the calls of pickles one after the other, as far as they can be read."""
        place = 0
        try:
            for _ in range(_PICKLES):
                _, place = read_pickle(content, place, InertObject.of, _anything, self)
                if place >= min(len(content), limits.OPERATIONS):  # an instruction takes a byte
                    return
        except (UnreadableFile, MemoryError, RecursionError):
            return

    def look_through_members(self, archive: ZipArchive) -> None:
        """Record the calls of the pickles that lie in an archive."""
        for name in [name for name in archive.members if name.endswith(".pkl")][:_PICKLES]:
            try:
                with archive.file.open(name) as member:
                    self.look_through(member.read(limits.OPERATIONS))
            except (zipfile.BadZipFile, zlib.error, EOFError):
                continue

    def _call(self, name: GlobalName) -> None:
        if not is_harmless(name):
            self._add(str(name))
            self._modules_called.add(name.module)

    def _add(self, name: str) -> None:
        if len(self._called) <= _MOST:
            self._called[name] = None

    def _look_into(self, callee: Any, content: Any) -> None:
        if isinstance(content, str) and content[:1] == "\x80":  # protocol 2: bytes as text
            content = content.encode("latin-1", "replace")
        if not isinstance(content, bytes) or not content.startswith(_STARTS):
            return
        if self._depth >= _DEEPEST or len(content) > self._room:
            self._add(str(callee) if isinstance(callee, GlobalName) else type_name(callee))
            return
        self._room -= len(content)
        self._depth += 1
        try:
            for inner in _pickles_in(content):
                self.look_through(inner)
        finally:
            self._depth -= 1


def _first(arguments: Any) -> Iterable[Any]:
    """The arguments that a call can have; a hostile one may have millions, again and again."""
    return arguments[:_ARGUMENTS] if isinstance(arguments, (tuple, list)) else (arguments,)


def _pickles_in(content: bytes) -> list[bytes]:
    """The pickles of a torch zip; or the content itself."""
    if not content.startswith(START):
        return [content]
    try:
        archive = checked_zip(content)
        archive.require_stored()
    except UnreadableFile:
        return []
    return [bytes(archive.stored(name)) for name in archive.members if name.endswith(".pkl")]


def _anything(reference: Any) -> Any:
    """What stands for a reference out of a pickle that is only looked through."""
    return InertObject("a reference", reference if isinstance(reference, tuple) else ())


def _few(names: Iterable[str]) -> tuple[str, ...]:
    found = list(names)
    more = [f"and more than {_MOST}"] if len(found) > _MOST else []
    return (*found[:_MOST], *more)
