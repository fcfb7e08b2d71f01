"""Read a checkpoint in several files with an index of which tensor is in which file.

Hugging Face saves large networks like this: `model-00001-of-00003.safetensors` and so on, and
`model.safetensors.index.json` with a `weight_map`. The index is as untrusted as the files: it may
only name files in its own folder, and what it says of them must be true.
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
    natural_key,
    no_such_part,
)
from dgn_engine.storage.checkpoints.stated_entries import MOST
from dgn_engine.storage.inner_path import Anchor, FilePath, InnerPath
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import NotRegular, read_regular
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import plain_text, printable

SHARDS = 200  # files of one checkpoint
_INDEX = ".index.json"
_SHARD = re.compile(
    r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<kind>\.safetensors|\.bin)"
)
_KINDS = (".safetensors", ".bin", ".pt", ".pth")
# Reads one of the files, given its path, name, the prefix of the wanted names, and how many bytes
# of numbers may still be read.
ReadShard = Callable[[FilePath, str, str, int], CheckpointContents]


def is_index(path: FilePath) -> bool:
    """Return whether a path is named like the index of a split checkpoint."""
    return path.name.lower().endswith(_INDEX)


def check_not_shard(path: FilePath) -> None:
    """Raise `UserError` if a file is, by name, one of several: 'x-00001-of-00003.bin'."""
    match = _SHARD.fullmatch(path.name)
    if match is None or int(match["count"]) < 2:
        return
    index = f"{match['stem']}{match['kind']}{_INDEX}"
    beside = path.parent / index
    there = beside.is_file()
    do = f"open {plain_text(index)}" if there else f"download and open {plain_text(index)}"
    where = "in the same folder" if there else "which is missing here"
    raise UserError(
        f"{plain_text(path.name)} is, judging by its name, part {int(match['number'])} of "
        f"{int(match['count'])} of a split checkpoint: {do}, {where}.",
        kind="part-of-a-split",
    )


def read_split(path: FilePath, part: str, read_shard: ReadShard) -> CheckpointContents:
    """Read all files of an index as one, or only tensors whose names begin with `part`.

    Raises:
        UserError: The index is invalid, names anything but files in its folder, or is wrong about
            a tensor; also whatever `read_shard` raises.
    """
    index = plain_text(path.name)
    file_of = _read_index(path, index)
    prefix = common_prefix(file_of)  # shared by all names, so it carries no information
    start = f"{prefix}{part}." if part else ""
    selected = {name: file for name, file in file_of.items() if name.startswith(start)}
    if not selected:
        first = dict.fromkeys(name.removeprefix(prefix).partition(".")[0] for name in file_of)
        raise UserError(f"{index} {no_such_part(part, first)}.")
    files = sorted(set(selected.values()), key=natural_key)
    paths = {file: _shard_path(path, file, index) for file in files}
    _check_sizes(paths, index)
    merged: list[CheckpointContents] = []
    room = limits.TAKEN
    for file in files:
        shard = read_shard(paths[file], file, start.removesuffix("."), room)
        expected = {name for name, its in selected.items() if its == file}
        _check_agreement(index, file, shard, {n.removeprefix(start) for n in expected})
        room -= sum(array.nbytes for array in shard.arrays.values())
        merged.append(shard)
    return replace(_merge_shards("" if part else prefix, merged), file_name=index, part=part)


def _read_index(path: FilePath, name: str) -> dict[str, str]:
    """Return the file of each tensor."""
    try:
        head = parse_json(read_regular(path, limits.HEADER))
    except NotRegular as error:
        raise UserError(f"{name} {error.verdict}.") from None
    except OSError as error:
        raise UserError(f"{name} cannot be opened: {error.strerror}.") from None
    except ValueError as error:
        raise UserError(
            f"{name} is not valid JSON ({plain_text(str(error))}).", kind="damaged"
        ) from None
    files = head.get("weight_map") if isinstance(head, dict) else None
    if not isinstance(files, dict) or not files:
        raise UserError(
            f"{name} is not the index of a split checkpoint: it has no 'weight_map'.",
            kind="no-index",
        )
    for tensor, file in files.items():
        if not isinstance(file, str) or not _is_in_folder(file):
            shown = plain_text(file if isinstance(file, str) else str(file), 80)
            raise UserError(
                f"{name} has '{plain_text(tensor, 80)}' in '{shown}', which is not a "
                "weights file in "
                "the same folder.",
                kind="wrong-name",
            )
    if len(files) > limits.MEMBERS or len(set(files.values())) > SHARDS:
        raise UserError(
            f"{name} lists more than {limits.MEMBERS:,} tensors or {SHARDS} files, which is more "
            "than the limit.",
            kind="too-many",
        )
    shown_names = {plain_text(tensor): file for tensor, file in files.items()}
    if len(shown_names) < len(files):
        raise UserError(f"{name} has tensors with indistinguishable names.", kind="named-twice")
    return shown_names


def _is_in_folder(file: str) -> bool:
    """Return whether it is the plain name of a weights file: no path, hidden file or stream."""
    plain_name = not set(file) & set("/\\:") and printable(file) == file and len(file) <= 255
    return plain_name and not file.startswith(".") and file.lower().endswith(_KINDS)


def _shard_path(path: FilePath, file: str, index: str) -> InnerPath:
    """Return the file in the folder of the index.

    A link is followed only into the folder that really contains the index: the cache of Hugging
    Face does this, where all files are links.
    """
    if isinstance(path, InnerPath):
        return path.parent / file
    beside = path.with_name(file)
    try:
        if not beside.is_symlink():
            return InnerPath(Anchor(path.parent), (file,))
        real, own = beside.resolve(strict=True), path.resolve(strict=True)
    except (OSError, RuntimeError):  # a dangling or circular link
        raise UserError(f"{index}: {plain_text(file)} is a broken link.", kind="link") from None
    if real.parent != own.parent:
        raise UserError(
            f"{index}: {plain_text(file)} is a link to another folder, which is not "
            "followed; copy the "
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
            why = (
                "is missing from its folder; download it"
                if missing
                else f"cannot be read ({error})"
            )
            raise UserError(f"{index}: {plain_text(file)} {why}.") from None
    if total > limits.LARGE:
        most = binary_size_in_words(limits.LARGE)
        raise UserError(f"The files of {index} exceed {most} in total.", kind="too-large")


def _check_agreement(
    index: str, file: str, found: CheckpointContents, expected: Iterable[str]
) -> None:
    """Raise `UserError`, naming a tensor, if a file disagrees with the index."""
    if found.layers or found.module:
        raise UserError(
            f"{index}: {plain_text(file)} is a whole saved module, not part of a state dict.",
            kind="no-shard",
        )
    unread = {line.rpartition(" (")[0] for line in found.ignored}  # of unsupported types
    missing = next((n for n in expected if n not in found.arrays and n not in unread), "")
    if missing:
        raise UserError(
            f"{index} lists '{plain_text(missing, 80)}' in {plain_text(file)}, which does "
            "not have it.",
            kind="contradiction",
        )
    known = set(expected)
    if strange := next((name for name in found.arrays if name not in known), ""):
        raise UserError(
            f"{plain_text(file)} has '{plain_text(strange, 80)}', which {index} does not "
            "list there.",
            kind="contradiction",
        )


def _merge_shards(prefix: str, shards: list[CheckpointContents]) -> CheckpointContents:
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    for shard in shards:
        arrays |= {name.removeprefix(prefix): a for name, a in shard.arrays.items()}
        dtypes |= {name.removeprefix(prefix): dtype for name, dtype in shard.dtypes.items()}
    if all(shard.kind == "safetensors" for shard in shards):  # stores '10' before '2'
        arrays = {name: arrays[name] for name in sorted(arrays, key=natural_key)}
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
