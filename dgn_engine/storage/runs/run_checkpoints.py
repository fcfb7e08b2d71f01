"""Checkpoints of a run: step folders, complete or absent, with a digest of each file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder, write_folder
from dgn_engine.storage.inner_path import FilePath, InnerPath, as_inner_path
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain
from dgn_engine.storage.regular_files import Digest, check_file, content_digest, read_regular
from dgn_engine.storage.runs import folder_layout, run_identity
from dgn_engine.storage.runs.run_ranges import is_count, is_word

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1  # of a snapshot's state
NEWEST = 2  # always kept
MOST_AT_EVENTS = 100  # newest checkpoints before events to keep


@dataclass(frozen=True)
class Snapshot:
    """A run between two steps: `tensors` copied to main memory, and `state` as plain values."""

    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        return int(self.state["step"])

    def weights_finite(self) -> bool:
        """Return whether all weights are finite: a diverged state is not worth keeping."""
        weights = (t for name, t in self.tensors.items() if not name.startswith("optimiser."))
        return all(bool(t.isfinite().all()) for t in weights)

    def all_finite(self) -> bool:
        return all(bool(t.isfinite().all()) for t in self.tensors.values())


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint on disk.

    Attributes:
        order: Counts the checkpoints of a run, as clocks may be set back; -1 if damaged.
        kept: '' or why it stays: 'before FR-II', 'final', 'by the user'.
        lines, frames: Number of log lines and frames before it.
        trouble: '' or what is wrong with it.
        culprit: The damaged file.
        line: Checksum of the last log line before it; '' if unknown.
        info: The `run.json` that it was compared with.
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
    def damaged_path(self) -> InnerPath:
        """The damaged file, or the folder."""
        return self.path / self.culprit if self.culprit else self.path

    @property
    def is_intact(self) -> bool:
        """True if its files are as written, under this name and by this run."""
        return not self.trouble


def write_step_folder(
    folder: FilePath, snapshot: Snapshot, order: int, marks: Mapping[str, object]
) -> StoredCheckpoint:
    """Write a new step folder; raises `OSError`.

    `marks` (kept, lines, frames, and its run and log line) become part of its state.
    """
    from safetensors.torch import save

    folder = as_inner_path(folder)
    make_folder(folder)
    state = {**snapshot.state, **marks, "order": order}
    again = 0
    while (path := folder / folder_layout.checkpoint_name(snapshot.step, again)).exists():
        again += 1
    files = {
        folder_layout.TENSORS: save({name: t.contiguous() for name, t in snapshot.tensors.items()}),
        folder_layout.STATE: _encode_json(state),
    }
    digests = {name: content_digest(content) for name, content in files.items()}
    write_folder(path, {**files, folder_layout.MANIFEST: _encode_json(to_plain(digests))})
    return _of_state(path, state)


def scan_checkpoints(folder: FilePath, thorough: bool = True) -> list[StoredCheckpoint]:
    """Return all checkpoints of a run, oldest first but damaged ones before; raises `OSError`.

    `thorough`: hash all files, not only small ones. A checkpoint of another run, or of another step
    than its name says, counts as damaged.
    """
    folder = as_inner_path(folder)
    listing = folder.list_entries()
    info = run_identity.info_beside(folder) if listing else {}
    checkpoints = [
        _check_checkpoint(folder / name, key[0], thorough, info)
        for name in listing
        if (key := folder_layout.checkpoint_key(name)) is not None
    ]
    return sorted(checkpoints, key=lambda checkpoint: (checkpoint.order, checkpoint.path.name))


def load_checkpoint(checkpoint: StoredCheckpoint) -> Snapshot:
    """Read a checkpoint to resume from; a `UserError` names the damaged file."""
    import torch

    from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

    checkpoint = _check_checkpoint(
        checkpoint.path, checkpoint.step, thorough=True, info=checkpoint.info
    )
    if not checkpoint.is_intact:
        why = f"{checkpoint.damaged_path} {checkpoint.trouble}."
        raise UserError(why, kind="damaged", value=checkpoint.damaged_path.relative_name)
    try:
        listing = read_tensors(checkpoint.path / folder_layout.TENSORS)
        state = read_state(checkpoint.path)
    except OSError as error:  # its writer has just replaced it with a newer one
        raise UserError(f"{checkpoint.path} cannot be read: {error.strerror}.") from None
    # Copied, because torch's own allocation is aligned as in a run never interrupted.
    tensors = {
        name: torch.from_numpy(array.copy()).clone() for name, array in listing.arrays.items()
    }
    return Snapshot(tensors, state)


def read_state(path: InnerPath) -> dict[str, Any]:
    """Return the state in a checkpoint's folder; raises `OSError` or `ValueError`."""
    state = parse_json(read_regular(path / folder_layout.STATE))
    if not isinstance(state, dict):
        raise ValueError("it is not a table")
    return state


def read_regime(checkpoint: StoredCheckpoint) -> str:
    """Return the regime of a checkpoint; '' if it cannot be read."""
    try:
        return str(read_state(checkpoint.path).get("regime", ""))
    except (OSError, ValueError):
        return ""


def choose_superfluous(checkpoints: list[StoredCheckpoint]) -> list[StoredCheckpoint]:
    """Return the scanned checkpoints that need not stay; damaged ones stay for `repair`."""
    sound = [checkpoint for checkpoint in checkpoints if checkpoint.is_intact]
    at_events = [checkpoint for checkpoint in sound if checkpoint.kept.startswith("before")]
    finals = [checkpoint for checkpoint in sound if checkpoint.kept == "final"]
    by_user = [checkpoint for checkpoint in sound if checkpoint.kept == "by the user"]
    stay = (*sound[-NEWEST:], *at_events[-MOST_AT_EVENTS:], *finals[-1:], *by_user)
    return [checkpoint for checkpoint in sound if checkpoint not in stay]


def remove_checkpoint(checkpoint: StoredCheckpoint) -> None:
    """Rename the folder before removal, so that half a checkpoint is never read after a crash."""
    hidden = checkpoint.path.parent / f".{checkpoint.path.name}.gone.part"
    checkpoint.path.replace(hidden)
    hidden.parent.sync()
    hidden.remove_tree(ignore_errors=True)


def _check_checkpoint(
    path: InnerPath, step: int, thorough: bool, info: Mapping[str, Any]
) -> StoredCheckpoint:
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
        checkpoint = replace(_of_state(path, state), info=info)
    except (OSError, ValueError, KeyError, TypeError):
        return replace(damaged, trouble="is invalid", culprit=folder_layout.STATE)
    if trouble := _reason_misplaced(checkpoint, step, state):
        return replace(damaged, trouble=trouble, culprit=folder_layout.STATE)
    return (
        replace(checkpoint, kept="by the user")
        if (path / folder_layout.KEEP).exists()
        else checkpoint
    )


def _reason_misplaced(one: StoredCheckpoint, step: int, state: Mapping[str, Any]) -> str:
    """Return why it is not the checkpoint of its name and folder; '' if it is."""
    if one.step != step:
        return f"is from step {one.step:,}, not {step:,} as its folder's name says"
    stated = state.get(run_identity.RUN, "")
    ours = run_identity.belongs_to_run(stated, run_identity.ids_of(one.info), one.order)
    if not stated and one.info:
        ours = run_identity.same_settings(one.info.get("config"), state.get("config"))
    return "" if ours else run_identity.OF_ANOTHER


def _of_state(path: InnerPath, state: Mapping[str, Any]) -> StoredCheckpoint:
    """Build it from a state; raises `KeyError` or `ValueError` if a mark is missing or wrong."""
    counts = {name: state[name] for name in ("step", "order", "lines", "frames")}
    kept, finished = state["kept"], state["finished"]
    line = state.get("line", "")
    known = is_word(kept) and is_word(line)
    known = known and isinstance(finished, bool)
    if not known or not all(map(is_count, counts.values())):
        raise ValueError("a mark")
    return StoredCheckpoint(path=path, kept=kept, finished=finished, line=line, **counts)


def _encode_json(tree: Any) -> bytes:
    return (json.dumps(to_plain(tree, "word"), indent=1, allow_nan=False) + "\n").encode()
