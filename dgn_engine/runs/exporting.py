"""A whole run in one file: `.dgn`, a zip of JSON and safetensors only, or its scores as `.csv`."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from dgn_engine.refusal import Refusal
from dgn_engine.runs import places
from dgn_engine.runs.durable import PART, write_file
from dgn_engine.runs.reader import RunReader

_TAKEN = (".json", ".jsonl", ".safetensors", ".toml")


def export(folder: Path, out: Path) -> str:
    """Write it, whole or not at all; what was written, in a sentence. Raises `Refusal`."""
    reader = RunReader(folder)
    try:
        if out.suffix == ".csv":
            content = _scores(reader)
            write_file(out, content.encode())
            return f"{out}: {content.count(chr(10)) - 1:,} scores."
        if out.suffix == ".dgn":
            members = sorted(_members(folder))
            write_file(out, _archive(folder, members))
            return f"{out}: {len(members):,} files."
    except OSError as error:
        raise Refusal(f"Cannot write {out}: {error.strerror}.") from None
    raise Refusal(f"{out.name} must end in .dgn (the whole run) or .csv (its scores).")


def _scores(reader: RunReader) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    names = ("step", "epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
    table.writerow(names)
    for one in reader.measured:
        values = (getattr(one, name) for name in names)
        table.writerow(["" if value is None else repr(value) for value in values])
    return text.getvalue()


def _members(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        hidden = any(part.startswith(".") or part.endswith(PART) for part in inner.parts)
        taken = path.suffix in _TAKEN or path.name == places.KEEP
        if taken and path.is_file() and not hidden and inner.parts[0] != places.DAMAGED:
            yield inner


def _archive(folder: Path, members: list[Path]) -> bytes:
    """Stored, not deflated: numbers hardly shrink, and readers need no expansion limits."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for inner in members:
            try:
                data = (folder / inner).read_bytes()
            except FileNotFoundError:
                continue  # thinned meanwhile
            archive.writestr(zipfile.ZipInfo(f"run/{inner.as_posix()}"), data)
    return content.getvalue()
