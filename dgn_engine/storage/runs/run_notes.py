"""The user's name for a recorded run, and notes on it: `notes.json` in its folder.

The file stays on this machine: it is not part of the manifest or of a session file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.inner_path import FilePath, inner_folder
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout

NAME_LENGTH = 80  # characters
NOTES_LENGTH = 10_000
LARGEST = 1 << 17  # bytes of the file


@dataclass(frozen=True)
class RunNotes:
    """`name`: one line, '' to use the folder's name; `notes`: free text."""

    name: str = ""
    notes: str = ""


def read_notes(folder: Path) -> RunNotes:
    """Return the notes of a run; empty if there are none or they cannot be read."""
    try:
        return parse_notes(folder)
    except (OSError, ValueError, AttributeError):
        return RunNotes()


def parse_notes(folder: FilePath) -> RunNotes:
    """Read the notes; raises `OSError`, `ValueError` or `AttributeError`."""
    tree = parse_json(read_regular(inner_folder(folder) / folder_layout.NOTES, LARGEST))
    name, notes = tree.get("name", ""), tree.get("notes", "")
    if not isinstance(name, str) or not isinstance(notes, str):
        raise ValueError("notes that are not text")
    return RunNotes(_one_line(name)[:NAME_LENGTH], notes[:NOTES_LENGTH])


def write_notes(folder: Path, notes: RunNotes) -> None:
    """Replace the notes; raises `UserError`.

    The folder keeps its name, so that references to the run stay valid.
    """
    if not folder_layout.holds_run(folder):
        raise UserError(f"{folder} is not a run; no notes were saved.", kind="no-run")
    name = _one_line(notes.name)
    if len(name) > NAME_LENGTH:
        raise UserError(
            f"The name is {len(name)} characters long; the limit is {NAME_LENGTH}.",
            kind="too-long",
            value=len(name),
        )
    if len(notes.notes) > NOTES_LENGTH:
        most = f"{NOTES_LENGTH:,}"
        raise UserError(
            f"The notes are {len(notes.notes):,} characters long; the limit is {most}.",
            kind="too-long",
            value=len(notes.notes),
        )
    path = inner_folder(folder) / folder_layout.NOTES
    try:
        if not name and not notes.notes:
            path.unlink(missing_ok=True)
            return
        tree = {"name": name, "notes": notes.notes}
        write_file(path, (json.dumps(tree, ensure_ascii=False, indent=2) + "\n").encode())
    except (OSError, UnicodeEncodeError) as error:
        why = getattr(error, "strerror", None) or "it has characters that cannot be written"
        raise UserError(f"Cannot write {path}: {why}.") from None


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
