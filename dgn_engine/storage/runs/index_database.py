"""Cache of what was read of listed runs: a SQLite database in the user's cache, never beside runs.

A row is identified by the folder of runs, including its inode, and the name of the run. The
database is private. Nothing here raises: if there is no database, or it is damaged, a link,
another user's or read-only, runs are listed without it.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dgn_engine.storage.user_folders import user_cache

FOLDER = "run-lists"
FILE = "index.sqlite"
_FILES = {FILE, f"{FILE}-journal"}
_FORMAT = 2  # 2: with settings and trend
# It may contain nothing but this table: a view or a trigger could run forever.
_TABLE = (
    "CREATE TABLE runs (root TEXT, name BLOB, facts BLOB, crc INTEGER, "
    "PRIMARY KEY (root, name)) WITHOUT ROWID"
)
_MOST = 256 << 20  # bytes of the database; a larger one is recreated
_ROWS = 1 << 20  # of one folder
_PATIENCE = 2.0  # seconds to wait for another writer
_PRIVATE = 0o077  # permission bits of others
_TROUBLE = (OSError, ValueError, RuntimeError, sqlite3.Error)
_PASSING = (  # temporary errors, which say nothing about what is stored
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL),
)


def database_path() -> Path:
    return user_cache() / FOLDER / FILE


def recall_entries(root: Path) -> dict[str, bytes]:
    """Return what `store_entries` stored for the runs of this folder, by name.

    A damaged row gives b''.
    """
    with suppress(*_TROUBLE):
        key = _root_key(root)
        with _open_database(make=False) as database:
            query = "SELECT name, facts, crc FROM runs WHERE root = ? LIMIT ?"
            rows = database.execute(query, (key, _ROWS)).fetchall()
        return {
            os.fsdecode(name): facts if crc == _entry_checksum(key, name, facts) else b""
            for name, facts, crc in rows
            if isinstance(name, bytes) and isinstance(facts, bytes)
        }
    return {}


def store_entries(root: Path, facts: Mapping[str, bytes], gone: Iterable[str]) -> None:
    """Store or replace the entries of these runs, and delete those in `gone`."""
    with suppress(*_TROUBLE):
        key = _root_key(root)
        names = {os.fsencode(name): content for name, content in facts.items()}
        rows = [(key, name, text, _entry_checksum(key, name, text)) for name, text in names.items()]
        with _open_database(make=True) as database, database:
            lost = ((key, os.fsencode(name)) for name in gone)
            database.executemany("DELETE FROM runs WHERE root = ? AND name = ?", lost)
            database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", rows)


def forget_root(root: Path) -> None:
    with suppress(*_TROUBLE), _open_database(make=False) as database, database:
        database.execute("DELETE FROM runs WHERE root = ?", (_root_key(root),))


def _root_key(root: Path) -> str:
    """Return a key that changes if another folder is at this path; raises `OSError`."""
    status = root.stat()
    identity = os.path.realpath(root), status.st_dev, status.st_ino
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:32]


def _entry_checksum(key: str, name: bytes, facts: bytes) -> int:
    return zlib.crc32(b"%b/%b/%b" % (key.encode(), name, facts))


@contextmanager
def _open_database(make: bool) -> Iterator[sqlite3.Connection]:
    """Open the database; with `make`, recreate it if missing, damaged or not private.

    Raises `OSError` or `sqlite3.Error`.
    """
    path = database_path()
    if make:
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(path.parent.lstat(), stat.S_ISDIR):
        raise PermissionError(None, "the folder is not private")
    if not _is_usable(path.parent):
        if not make:
            raise OSError(None, "there is no database")
        _recreate_database(path)
    try:
        # A rollback journal, not WAL, which cannot be read where nothing can be written. Not
        # synced, because nothing is lost with it; rows corrupted by power loss fail their checksum.
        with closing(sqlite3.connect(path, timeout=_PATIENCE)) as database:
            database.text_factory = bytes
            database.execute("PRAGMA synchronous = OFF")
            _check_schema(database)
            yield database
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING:
            _recreate_database(path)
        raise


def _is_private(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    if not is_kind(status.st_mode):
        return False
    if not hasattr(os, "geteuid"):
        return True  # the user's cache is private by its access list
    return status.st_uid == os.geteuid() and not status.st_mode & _PRIVATE


def _is_usable(folder: Path) -> bool:
    """Return whether the database exists, and nothing that SQLite must not open.

    Nobody else may change the private folder, so no link can be put there meanwhile.
    """
    sizes = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # a journal may disappear
                status = entry.stat(follow_symlinks=False)
                if entry.name not in _FILES or not _is_private(status, stat.S_ISREG):
                    return False
                sizes[entry.name] = status.st_size
    return FILE in sizes and sum(sizes.values()) <= _MOST


def _recreate_database(path: Path) -> None:
    """Empty the folder, including databases of older versions, and create a new database."""
    for name in os.listdir(path.parent):  # noqa: PTH208
        (path.parent / name).unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(path, timeout=_PATIENCE)) as database:
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(f"BEGIN; {_TABLE}; PRAGMA user_version = {_FORMAT}; COMMIT")


def _check_schema(database: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if someone else or another version created it."""
    version = database.execute("PRAGMA user_version").fetchone()
    schema = database.execute("SELECT type, sql FROM sqlite_master LIMIT 2").fetchall()
    if (version, schema) != ((_FORMAT,), [(b"table", _TABLE.encode())]):
        raise sqlite3.DatabaseError("another schema")
