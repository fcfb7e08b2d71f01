"""Download data sets, with progress and verified by sha256, completely or not at all.

Also finds the folders of data sets on this machine.
"""

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
from dgn_engine.errors import UserError, Where
from dgn_engine.storage.atomic_write import replace_file
from dgn_engine.storage.user_folders import user_cache
from dgn_engine.text.written_numbers import format_duration

CHUNK = 1 << 18
_TICK = 0.1  # seconds between two reports


@dataclass(frozen=True)
class DownloadBounds:
    """Limits of a download.

    `patience`: seconds without a byte; `slowest`: bytes per second that a whole download must
    achieve after that.
    """

    patience: float = 30.0
    slowest: float = 10_000


USUAL = DownloadBounds()


def data_root(chosen: str | Path | None = None) -> Path:
    """Return the chosen folder, or else DGN_DATA_ROOT, or else a folder in the user's cache."""
    named = str(chosen or "") or os.environ.get("DGN_DATA_ROOT", "")
    return Path(named).expanduser() if named else user_cache() / "data"


def missing_data_error(title: str, root: Path) -> UserError:
    """Return the error for a data set that is not in `root`."""
    return UserError(
        f"{title} is not in {root}: use "
        + Where("data.download")
        + " to get it, or "
        + Where("data.root")
        + " to name its folder (DGN_DATA_ROOT does so for all programs).",
        kind="no-file",
    )


def download_file(
    urls: Sequence[str],
    target: Path,
    published: PublishedFile,
    title: str,
    report: Report,
    bounds: DownloadBounds = USUAL,
) -> None:
    """Download `target` from the first address that serves the published file.

    The file appears under its name only once it is complete and verified. Also raises whatever
    `report` raises.

    Raises:
        UserError: No address serves it; gives the last reason.
    """
    reason = "there is no address to download it from"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"Cannot create the folder {target.parent}: {error.strerror}.", kind="no-file"
        ) from None
    for url in urls:
        try:
            with replace_file(target) as file:
                transfer = _Transfer(url, file, published, bounds)
                transfer.wait_for_end(title, report)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"{url}: {error}"
        else:
            return
    raise UserError(
        f"{title} could not be downloaded ({reason}); nothing was kept.", kind="no-download"
    )


class _Transfer(threading.Thread):
    """One download in a thread, because a connection may be silent when a user wants to stop."""

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

    def wait_for_end(self, title: str, report: Report) -> None:
        """Wait for the end; raises the error of the download, and what `report` raises.

        The total time is limited here: a connection's timeout covers one piece, and the head of a
        reply may come in as many as the server likes.
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
                    raise TimeoutError(f"it took more than {format_duration(seconds)}")
        finally:
            self._end_connection()
        if self._error is not None:
            raise self._error

    def note_connection(self, connected: socket.socket) -> None:
        """Note the current connection, which `wait_for_end` can end."""
        self._socket = connected
        if self._stopped.is_set():
            self._end_connection()

    def _end_connection(self) -> None:
        self._stopped.set()
        if self._socket is not None:
            with suppress(OSError):  # it may be closed already; skip TLS's goodbye
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self._copy_response()
        except Exception as error:  # raised where it is waited for
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            self._error = error

    def _copy_response(self) -> None:
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
                f"the sha256 is {digest.hexdigest()}, but {wanted.sha256} was expected"
            )


class _Http(urllib.request.HTTPHandler):
    """Reports each connection that is made for a download."""

    def __init__(self, transfer: _Transfer) -> None:
        super().__init__()
        self._transfer = transfer

    def do_open(self, http_class: Any, req: Any, **http_conn_args: Any) -> Any:
        transfer = self._transfer

        class Noted(http_class):  # type: ignore[misc] # urllib decides which class
            def connect(self) -> None:
                super().connect()
                transfer.note_connection(self.sock)

        return super().do_open(Noted, req, **http_conn_args)


class _Https(_Http, urllib.request.HTTPSHandler):
    """The same with TLS."""


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects over http, but never from https to an unencrypted address."""

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
            raise ValueError(f"it redirects to {newurl[:200]}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
