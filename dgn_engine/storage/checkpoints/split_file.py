"""A checkpoint in several files, with an index that says which tensor is in which of them.

As Hugging Face saves large networks: `model-00001-of-00003.safetensors` and so on, and beside them
`model.safetensors.index.json` with a `weight_map`. The index comes from the same stranger as the
files: it may name nothing but files in its own folder, and what it says of them must be true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    Array,
    CheckpointContents,
    common_prefix,
    natural,
    no_such_part,
)
from dgn_engine.storage.checkpoints.stated_entries import MOST
from dgn_engine.storage.inner_path import Anchor, FilePath, InnerPath
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import NotRegular, read_regular
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import plain, printable

SHARDS = 200  # files of one checkpoint
_INDEX = ".index.json"
_SHARD = re.compile(
    r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<kind>\.safetensors|\.bin)"
)
_KINDS = (".safetensors", ".bin", ".pt", ".pth")
# Reads one of the files: its path, its name, the start of the names that are wanted, and how many
# bytes of numbers may still be taken.
ReadShard = Callable[[FilePath, str, str, int], CheckpointContents]


def is_index(path: FilePath) -> bool:
    """Whether a path is called as the index of a split checkpoint."""
    return path.name.lower().endswith(_INDEX)


def check_not_shard(path: FilePath) -> None:
    """Raise `UserError` where a file is one of several by its name: 'x-00001-of-00003.bin'."""
    found = _SHARD.fullmatch(path.name)
    if found is None or int(found["count"]) < 2:
        return
    index = f"{found['stem']}{found['kind']}{_INDEX}"
    beside = path.parent / index
    there = beside.is_file()
    do = f"read {plain(index)}" if there else f"{plain(index)} is to be downloaded and read"
    where = "beside it" if there else "which is not beside it"
    raise UserError(
        f"{plain(path.name)} is part {int(found['number'])} of {int(found['count'])} of a split "
        f"checkpoint by its name: {do}, {where}.",
        kind="part-of-a-split",
    )


def read_split(path: FilePath, part: str, read_shard: ReadShard) -> CheckpointContents:
    """Read all files of an index as one, or of them the tensors whose names begin with the `part`.

    Raises `UserError` where the index is none, names anything but files in its folder, or says of a
    tensor what is not so; and what `read_shard` raises.
    """
    index = plain(path.name)
    listed = _read_index(path, index)
    prefix = common_prefix(listed)  # with which all names begin in vain
    start = f"{prefix}{part}." if part else ""
    wanted = {name: file for name, file in listed.items() if name.startswith(start)}
    if not wanted:
        first = dict.fromkeys(name.removeprefix(prefix).partition(".")[0] for name in listed)
        raise UserError(f"{index} {no_such_part(part, first)}.")
    files = sorted(set(wanted.values()), key=natural)
    paths = {file: _beside(path, file, index) for file in files}
    _check_sizes(paths, index)
    merged: list[CheckpointContents] = []
    room = limits.TAKEN
    for file in files:
        found = read_shard(paths[file], file, start.removesuffix("."), room)
        expected = {name for name, its in wanted.items() if its == file}
        _check_agreement(index, file, found, {n.removeprefix(start) for n in expected})
        room -= sum(array.nbytes for array in found.arrays.values())
        merged.append(found)
    return replace(_merged("" if part else prefix, merged), file_name=index, part=part)


def _read_index(path: FilePath, name: str) -> dict[str, str]:
    """The file of each tensor."""
    try:
        head = parse_json(read_regular(path, limits.HEADER))
    except NotRegular as error:
        raise UserError(f"{name} {error.verdict}.") from None
    except OSError as error:
        raise UserError(f"{name} cannot be opened: {error.strerror}.") from None
    except ValueError as error:
        raise UserError(f"{name} is no sound JSON ({plain(str(error))}).", kind="damaged") from None
    files = head.get("weight_map") if isinstance(head, dict) else None
    if not isinstance(files, dict) or not files:
        raise UserError(
            f"{name} is no index of a split checkpoint: it has no 'weight_map'.",
            kind="no-index",
        )
    for tensor, file in files.items():
        if not isinstance(file, str) or not _is_in_folder(file):
            shown = plain(file if isinstance(file, str) else str(file), 80)
            raise UserError(
                f"{name} has '{plain(tensor, 80)}' in '{shown}', which is no file of weights in "
                "its own folder.",
                kind="wrong-name",
            )
    if len(files) > limits.MEMBERS or len(set(files.values())) > SHARDS:
        raise UserError(
            f"{name} names more than {limits.MEMBERS:,} tensors or {SHARDS} files; so many are not "
            "read.",
            kind="too-many",
        )
    shown_names = {plain(tensor): file for tensor, file in files.items()}
    if len(shown_names) < len(files):
        raise UserError(f"{name} names tensors that cannot be told apart.", kind="named-twice")
    return shown_names


def _is_in_folder(file: str) -> bool:
    """Whether it is a plain name of a file of weights: no path, no hidden file, no stream."""
    plain_name = not set(file) & set("/\\:") and printable(file) == file and len(file) <= 255
    return plain_name and not file.startswith(".") and file.lower().endswith(_KINDS)


def _beside(path: FilePath, file: str, index: str) -> InnerPath:
    """The file in the folder of the index. A link is followed only into the folder in which the
    index itself really is: so does the cache of Hugging Face, where all are links."""
    if isinstance(path, InnerPath):
        return path.parent / file
    found = path.with_name(file)
    try:
        if not found.is_symlink():
            return InnerPath(Anchor(path.parent), (file,))
        real, own = found.resolve(strict=True), path.resolve(strict=True)
    except (OSError, RuntimeError):  # a link to nowhere, or in a circle
        raise UserError(f"{index}: {plain(file)} is a link to nothing.", kind="link") from None
    if real.parent != own.parent:
        raise UserError(
            f"{index}: {plain(file)} is a link out of its folder, which is not followed; copy the "
            "file itself there.",
            kind="link",
        )
    return InnerPath(Anchor(real.parent), (real.name,))


def _check_sizes(paths: Mapping[str, InnerPath], index: str) -> None:
    total = 0
    for file, path in paths.items():
        try:
            total += path.status().st_size
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            why = "is not beside it; download it" if missing else f"cannot be read ({error})"
            raise UserError(f"{index}: {plain(file)} {why}.") from None
    if total > limits.LARGE:
        most = binary_size_in_words(limits.LARGE)
        raise UserError(f"The files of {index} are larger than {most} together.", kind="too-large")


def _check_agreement(
    index: str, file: str, found: CheckpointContents, expected: Iterable[str]
) -> None:
    """Raise `UserError` where a file has other tensors than the index says, naming one."""
    if found.layers or found.module:
        raise UserError(
            f"{index}: {plain(file)} is a whole saved module, no part of a state dict.",
            kind="no-shard",
        )
    unread = {line.rpartition(" (")[0] for line in found.ignored}  # of types that are not read
    missing = next((n for n in expected if n not in found.arrays and n not in unread), "")
    if missing:
        raise UserError(
            f"{index} has '{plain(missing, 80)}' in {plain(file)}, where it is not.",
            kind="contradiction",
        )
    known = set(expected)
    if strange := next((name for name in found.arrays if name not in known), ""):
        raise UserError(
            f"{plain(file)} has '{plain(strange, 80)}', which {index} does not name there.",
            kind="contradiction",
        )


def _merged(prefix: str, shards: list[CheckpointContents]) -> CheckpointContents:
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    for shard in shards:
        arrays |= {name.removeprefix(prefix): a for name, a in shard.arrays.items()}
        dtypes |= {name.removeprefix(prefix): dtype for name, dtype in shard.dtypes.items()}
    if all(shard.kind == "safetensors" for shard in shards):  # which sorts '10' before '2'
        arrays = {name: arrays[name] for name in sorted(arrays, key=natural)}
    first = shards[0]
    return replace(
        first,
        arrays=arrays,
        dtypes=dtypes,
        ignored=tuple(line for shard in shards for line in shard.ignored),
        metadata={key: text for shard in reversed(shards) for key, text in shard.metadata.items()},
        kind=f"{first.kind}, {len(shards)} files",
        others=(),
        would_call=_each_once(shard.would_call for shard in shards),
        would_look_up=_each_once(shard.would_look_up for shard in shards),
        would_import=_each_once(shard.would_import for shard in shards),
        said=tuple(entry for shard in shards for entry in shard.said)[:MOST],
    )


def _each_once(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))
