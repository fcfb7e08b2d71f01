"""Where data sets lie on this machine, and how a file of one is downloaded: with progress, verified
by its sha256, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from dgn_engine.data._dataset import Report
from dgn_engine.data._published_files import PublishedFile
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import replace_file
from dgn_engine.storage.user_folders import user_cache
from dgn_engine.text.written_numbers import duration

CHUNK = 1 << 18
_TICK = 0.1  # seconds between two reports


@dataclass(frozen=True)
class DownloadBounds:
    """`patience`: seconds without a byte; `slowest`: bytes a second that a whole download must
    bring, after these."""

    patience: float = 30.0
    slowest: float = 10_000


USUAL = DownloadBounds()


def data_root(chosen: str | Path | None = None) -> Path:
    """The chosen folder, else DGN_DATA_ROOT, else a folder in the user's cache."""
    named = str(chosen or "") or os.environ.get("DGN_DATA_ROOT", "")
    return Path(named).expanduser() if named else user_cache() / "data"


def missing(title: str, root: Path) -> UserError:
    """The refusal of a data set that is not in `root`."""
    return UserError(
        f"{title} is not in {root}; allow the download, or name the data root "
        "that holds it (DGN_DATA_ROOT does so for every program).",
        kind="no-file",
    )


def fetch(
    urls: Sequence[str],
    target: Path,
    published: PublishedFile,
    title: str,
    report: Report,
    bounds: DownloadBounds = USUAL,
) -> None:
    """Download `target` from the first address that serves what was published.

    The file appears under its name only when it is whole and verified. Raises `UserError` with the
    last reason when no address serves, and what `report` raises.
    """
    reason = "there is no address to fetch it from"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"Cannot make the folder {target.parent}: {error.strerror}.", kind="no-file"
        ) from None
    for url in urls:
        try:
            with replace_file(target) as file:
                transfer = _Transfer(url, file, published, bounds)
                transfer.follow(title, report)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"{url}: {error}"
        else:
            return
    raise UserError(
        f"{title} could not be downloaded ({reason}); nothing was kept.", kind="no-download"
    )


class _Transfer(threading.Thread):
    """One download in a thread, because a connection may be silent while a user wants to stop."""

    def __init__(
        self, url: str, file: IO[bytes], published: PublishedFile, bounds: DownloadBounds
    ) -> None:
        super().__init__(name="dgn-download", daemon=True)
        self._bounds = bounds
        self._url = url
        self._file = file
        self._published = published
        self._done = 0
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._error: Exception | None = None

    def follow(self, title: str, report: Report) -> None:
        """Wait for the end; raises what went wrong, and what `report` raises.

        The time of the whole is bounded here: the timeout of a connection is of one piece, and the
        head of a reply may come in as many as the server likes.
        """
        seconds = self._bounds.patience + self._published.bytes / self._bounds.slowest
        until = time.monotonic() + seconds
        self.start()
        try:
            while True:
                self.join(_TICK)
                over = not self.is_alive()
                if self._done or not over:
                    report(f"downloading {title}", self._done / self._published.bytes)
                if over:
                    break
                if time.monotonic() > until:
                    raise TimeoutError(f"it took more than {duration(seconds)}")
        finally:
            self._end_connection()
        if self._error is not None:
            raise self._error

    def note_connection(self, connected: socket.socket) -> None:
        """Note on which connection it is now: that is what `follow` can end."""
        self._socket = connected
        if self._stopped.is_set():
            self._end_connection()

    def _end_connection(self) -> None:
        self._stopped.set()
        if self._socket is not None:
            with suppress(OSError):  # it may be closed already; TLS says nothing more
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self._copy()
        except Exception as error:  # raised where it is waited for
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            self._error = error

    def _copy(self) -> None:
        request = urllib.request.Request(self._url, headers={"User-Agent": "dgn-viewer"})
        wanted, digest = self._published, hashlib.sha256()
        opener = urllib.request.build_opener(_SafeRedirects, _Http(self), _Https(self))
        with opener.open(request, timeout=self._bounds.patience) as response:
            if response.length not in (None, wanted.bytes):
                raise ValueError(f"it has {response.length:,} bytes, not {wanted.bytes:,}")
            while chunk := response.read1(min(CHUNK, wanted.bytes + 1 - self._done)):
                if self._stopped.is_set():
                    return
                if self._done + len(chunk) > wanted.bytes:
                    raise ValueError(f"it has more than {wanted.bytes:,} bytes")
                digest.update(chunk)
                self._file.write(chunk)
                self._done += len(chunk)
        if self._done < wanted.bytes:
            raise ValueError(
                f"the connection closed after {self._done:,} of {wanted.bytes:,} bytes"
            )
        if digest.hexdigest() != wanted.sha256:
            raise ValueError(
                f"the checksum is {digest.hexdigest()}, {wanted.sha256} was expected (sha256)"
            )


class _Http(urllib.request.HTTPHandler):
    """Tells a download of each connection that is made for it."""

    def __init__(self, transfer: _Transfer) -> None:
        super().__init__()
        self._transfer = transfer

    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:
        transfer = self._transfer

        class Noted(http_class):  # type: ignore[misc] # which class, urllib decides
            def connect(self) -> None:
                super().connect()
                transfer.note_connection(self.sock)

        return super().do_open(Noted, req, **http_conn_args)


class _Https(_Http, urllib.request.HTTPSHandler):
    """The same with TLS."""


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows an address to others of http, and never from https to what is not encrypted."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme != "https" and (urlsplit(req.full_url).scheme == "https" or scheme != "http"):
            fp.close()
            raise ValueError(f"it leads to {newurl[:200]}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
