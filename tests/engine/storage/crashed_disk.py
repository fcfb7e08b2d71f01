"""What a crash may leave of recorded operations: folders with unsynced changes dropped or kept.

The model is that of Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014): the
content of a file is safe once the file was synced, a name once its folder was. Until then each
write may be missing, and of the changes of one folder any number of the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.storage.recorded_disk import DATA, NAMES, Operation, Tree, replay


@dataclass(frozen=True)
class Crash:
    """`after`: so many operations were asked for. `how`: what of them is dropped, in words.

    `ordered`: no file misses a write while it has a later one.
    """

    after: int
    how: str
    ordered: bool
    tree: Tree
    promises: tuple[Any, ...]


def write_tree(tree: Tree, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for path, content in sorted(tree.items()):
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
    return folder


def crashes(
    before: Sequence[Operation], operations: Sequence[Operation], first: int = 0, every: int = 1
) -> Iterator[Crash]:
    """Each state that a crash may leave, once for the same promises; after `first` operations or
    more, and then after every so many."""
    seen: set[object] = set()
    for after in range(first, len(operations) + 1, every):
        done = [*before, *operations[:after]]
        promises = tuple(one.promise for one in done if one.kind == "promise")
        for how, ordered, dropped in _ways(done, len(before)):
            tree = replay(done, dropped)
            key = (frozenset(tree.items()), len(promises), ordered)
            if key not in seen:
                seen.add(key)
                yield Crash(after, how, ordered, tree, promises)


def _ways(done: Sequence[Operation], first: int) -> Iterator[tuple[str, bool, frozenset[int]]]:
    """In words, whether each file has its first writes, and the numbers of what is dropped."""
    yield "all is kept", True, frozenset()
    data, names = unsynced(done, first)
    all_data = frozenset(number for numbers in data.values() for number in numbers)
    all_names = frozenset(number for numbers in names.values() for number in numbers)
    if all_data:
        yield "all unsynced content is dropped", True, all_data
    if all_names:
        yield "all unsynced names are dropped", True, all_names
    if all_data and all_names:
        yield "all that is unsynced is dropped", True, all_data | all_names
    for numbers in data.values():
        path = done[numbers[0]].path
        yield f"the unsynced content of {path} is dropped", True, frozenset(numbers)
        for place, number in enumerate(numbers):
            last = place == len(numbers) - 1
            yield f"write {number - first} to {path} is dropped", last, frozenset([number])
    for numbers in names.values():
        for place in range(1, len(numbers)):
            path = done[numbers[place]].path
            yield f"changes of names from {path} on are dropped", True, frozenset(numbers[place:])


def unsynced(
    done: Sequence[Operation], first: int
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Numbers of unsynced operations: of each file's content, and of each folder's names."""
    data: dict[int, list[int]] = {}
    names: dict[int, list[int]] = {}
    given_up: dict[int, list[int]] = {}  # before a sync that failed; another does not save it
    for number, one in enumerate(done):
        if number < first:
            continue
        if one.kind in DATA:
            data.setdefault(one.inode, []).append(number)
        elif one.kind in NAMES:
            for folder in {one.folder, one.to_folder} - {-1}:
                names.setdefault(folder, []).append(number)
        elif one.kind == "unsynced" and one.inode in data:
            given_up.setdefault(one.inode, []).extend(data.pop(one.inode))
        elif one.kind == "fsync":
            data.pop(one.inode, None)
            names.pop(one.inode, None)
            rewritten = _rewritten(done, given_up.pop(one.inode, []), number)
            if rewritten:
                given_up[one.inode] = rewritten
    for inode, numbers in given_up.items():
        data[inode] = sorted([*numbers, *data.get(inode, [])])
    return data, names


def _rewritten(done: Sequence[Operation], given_up: list[int], synced: int) -> list[int]:
    """Of writes whose sync had failed, those that nobody wrote again before the next one."""
    left = []
    for number in given_up:
        old = done[number]
        again = any(
            new.inode == old.inode
            and new.kind == "write"
            and new.place <= old.place
            and old.place + len(old.content) <= new.place + len(new.content)
            for new in done[number + 1 : synced]
        )
        cut = any(
            new.inode == old.inode and new.kind == "truncate" and new.place <= old.place
            for new in done[number + 1 : synced]
        )
        if old.kind == "write" and not (again or cut):
            left.append(number)
    return left
