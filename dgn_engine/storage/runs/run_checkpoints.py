"""Checkpoints of a run: step folders that are whole or absent, with a digest of each file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder, write_folder
from dgn_engine.storage.inner_path import FilePath, InnerPath, inner
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain
from dgn_engine.storage.regular_files import Digest, check_file, digest, read_regular
from dgn_engine.storage.runs import folder_layout, run_identity
from dgn_engine.storage.runs.run_ranges import is_count, is_word

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1  # of a snapshot's state
NEWEST = 2  # kept whatever they are
MOST_AT_EVENTS = 100  # of the checkpoints before events, the newest are kept


@dataclass(frozen=True)
class Snapshot:
    """A run between two steps. `tensors`: copies in main memory; `state`: plain values for JSON."""

    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        return int(self.state["step"])

    def weights_finite(self) -> bool:
        """Whether all weights are finite: a diverged state is not worth keeping."""
        weights = (t for name, t in self.tensors.items() if not name.startswith("optimiser."))
        return all(bool(t.isfinite().all()) for t in weights)

    def all_finite(self) -> bool:
        return all(bool(t.isfinite().all()) for t in self.tensors.values())


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint on disk. `order` counts the checkpoints of a run: clocks may be set back.

    `kept`: '' or why it stays: 'before FR-II', 'final', 'by the user'. `trouble`: '' or what is
    wrong with it, and `culprit` the file; then order is -1. `lines` and `frames`: how many of the
    log's lines and of the frames came before it; `line`: the checksum of the last of these lines,
    '' where it is not known. `info`: the `run.json` that it was compared with.
    """

    path: InnerPath
    step: int
    order: int
    kept: str = ""
    finished: bool = False
    lines: int = 0
    frames: int = 0
    trouble: str = ""
    culprit: str = ""
    line: str = ""
    info: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def place(self) -> InnerPath:
        """The file that is damaged, or its folder."""
        return self.path / self.culprit if self.culprit else self.path

    @property
    def sound(self) -> bool:
        """Whether its files hold what was written, under this name and by this run."""
        return not self.trouble


def write(
    folder: FilePath, snapshot: Snapshot, order: int, marks: Mapping[str, object]
) -> StoredCheckpoint:
    """A new step folder; `marks` (kept, lines, frames, and which run and line of the log it
    belongs to) go into its state. Raises `OSError`."""
    from safetensors.torch import save

    folder = inner(folder)
    make_folder(folder)
    state = {**snapshot.state, **marks, "order": order}
    again = 0
    while (path := folder / folder_layout.checkpoint_name(snapshot.step, again)).exists():
        again += 1
    files = {
        folder_layout.TENSORS: save({name: t.contiguous() for name, t in snapshot.tensors.items()}),
        folder_layout.STATE: _json(state),
    }
    digests = {name: digest(content) for name, content in files.items()}
    write_folder(path, {**files, folder_layout.MANIFEST: _json(to_plain(digests))})
    return _of_state(path, state)


def scan(folder: FilePath, thorough: bool = True) -> list[StoredCheckpoint]:
    """Every checkpoint of a run, oldest first; damaged ones come first of all. Raises `OSError`.

    `thorough`: hash every file; else only the small ones. What is not of the run in whose folder
    it lies, or not of the step that its name says, is damaged.
    """
    folder = inner(folder)
    listing = folder.listing()
    info = run_identity.info_beside(folder) if listing else {}
    found = [
        _check(folder / name, key[0], thorough, info)
        for name in listing
        if (key := folder_layout.checkpoint_key(name)) is not None
    ]
    return sorted(found, key=lambda one: (one.order, one.path.name))


def load(checkpoint: StoredCheckpoint) -> Snapshot:
    """Read it for going on; raises `UserError` naming the damaged file."""
    import torch

    from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

    checkpoint = _check(checkpoint.path, checkpoint.step, thorough=True, info=checkpoint.info)
    if not checkpoint.sound:
        why = f"{checkpoint.place} {checkpoint.trouble}."
        raise UserError(why, kind="damaged", value=checkpoint.place.within)
    try:
        listing = read_tensors(checkpoint.path / folder_layout.TENSORS)
        state = read_state(checkpoint.path)
    except OSError as error:  # its writer has just replaced it by a newer one
        raise UserError(f"{checkpoint.path} cannot be read: {error.strerror}.") from None
    # Copied, because torch's own allocation is aligned as that of a run never interrupted.
    tensors = {
        name: torch.from_numpy(array.copy()).clone() for name, array in listing.arrays.items()
    }
    return Snapshot(tensors, state)


def read_state(path: InnerPath) -> dict[str, Any]:
    """The state of a checkpoint's folder; raises `OSError` or `ValueError`."""
    state = parse_json(read_regular(path / folder_layout.STATE))
    if not isinstance(state, dict):
        raise ValueError("it is no table")
    return state


def read_regime(checkpoint: StoredCheckpoint) -> str:
    """The regime of a checkpoint; '' where it cannot be read."""
    try:
        return str(read_state(checkpoint.path).get("regime", ""))
    except (OSError, ValueError):
        return ""


def choose_superfluous(checkpoints: list[StoredCheckpoint]) -> list[StoredCheckpoint]:
    """Those of a `scan` that need not stay; damaged ones stay for `repair`."""
    sound = [one for one in checkpoints if one.sound]
    at_events = [one for one in sound if one.kept.startswith("before")]
    finals = [one for one in sound if one.kept == "final"]
    by_user = [one for one in sound if one.kept == "by the user"]
    stay = (*sound[-NEWEST:], *at_events[-MOST_AT_EVENTS:], *finals[-1:], *by_user)
    return [one for one in sound if one not in stay]


def remove(checkpoint: StoredCheckpoint) -> None:
    """Rename the folder first, so that half a checkpoint is never read, after a crash neither."""
    hidden = checkpoint.path.parent / f".{checkpoint.path.name}.gone.part"
    checkpoint.path.replace(hidden)
    hidden.parent.sync()
    hidden.remove_tree(ignore_errors=True)


def _check(path: InnerPath, step: int, thorough: bool, info: Mapping[str, Any]) -> StoredCheckpoint:
    damaged = StoredCheckpoint(path, step, -1, info=info)
    if path.is_link():
        return replace(damaged, trouble="is a link, which is not followed")
    if not path.is_dir():
        return replace(damaged, trouble="is not a folder")
    manifest = path / folder_layout.MANIFEST
    try:
        digests: Mapping[str, Digest] = from_plain(
            Mapping[str, Digest], parse_json(read_regular(manifest))
        )
        written = {name: digests[name] for name in (folder_layout.TENSORS, folder_layout.STATE)}
    except (OSError, ValueError, KeyError, TypeError):
        trouble = "is not readable" if manifest.exists() else "is missing"
        return replace(damaged, trouble=trouble, culprit=manifest.name)
    for name, expected in written.items():
        trouble = check_file(path / name, expected, thorough or name == folder_layout.STATE)
        if trouble:
            return replace(damaged, trouble=trouble, culprit=name)
    try:
        state = read_state(path)
        one = replace(_of_state(path, state), info=info)
    except (OSError, ValueError, KeyError, TypeError):
        return replace(damaged, trouble="makes no sense", culprit=folder_layout.STATE)
    if trouble := _misplaced(one, step, state):
        return replace(damaged, trouble=trouble, culprit=folder_layout.STATE)
    return replace(one, kept="by the user") if (path / folder_layout.KEEP).exists() else one


def _misplaced(one: StoredCheckpoint, step: int, state: Mapping[str, Any]) -> str:
    """Why it is not the checkpoint that its name and folder say; '' where it is."""
    if one.step != step:
        return f"is of step {one.step:,}, not of the {step:,} that its folder's name says"
    stated = state.get(run_identity.RUN, "")
    ours = run_identity.belongs(stated, run_identity.ids_of(one.info), one.order)
    if not stated and one.info:
        ours = run_identity.same_settings(one.info.get("config"), state.get("config"))
    return "" if ours else run_identity.OF_ANOTHER


def _of_state(path: InnerPath, state: Mapping[str, Any]) -> StoredCheckpoint:
    """Raises `KeyError` or `ValueError` where a mark is missing or none."""
    counts = {name: state[name] for name in ("step", "order", "lines", "frames")}
    kept, finished = state["kept"], state["finished"]
    line = state.get("line", "")
    known = is_word(kept) and is_word(line)
    known = known and isinstance(finished, bool)
    if not known or not all(map(is_count, counts.values())):
        raise ValueError("a mark")
    return StoredCheckpoint(path=path, kept=kept, finished=finished, line=line, **counts)


def _json(tree: Any) -> bytes:
    return (json.dumps(to_plain(tree, "word"), indent=1, allow_nan=False) + "\n").encode()
