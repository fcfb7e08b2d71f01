"""Where data sets lie on this machine, and how a file of one is downloaded: with progress and a
checksum, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from dgn_engine.data._dataset import Report
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import replace_file
from dgn_engine.storage.user_folders import user_cache

CHUNK = 1 << 18
MOST = 2 << 30  # no archive we ask for is larger
PATIENCE = 30.0  # seconds without a byte


def data_root(chosen: str | Path | None = None) -> Path:
    """The chosen folder, else DGN_DATA_ROOT, else a folder in the user's cache."""
    named = str(chosen or "") or os.environ.get("DGN_DATA_ROOT", "")
    return Path(named).expanduser() if named else user_cache() / "data"


def missing(title: str, root: Path) -> UserError:
    """The refusal of a data set that is not in `root`."""
    return UserError(
        f"{title} is not in {root}; allow the download, or name the data root "
        "that holds it (DGN_DATA_ROOT does so for every program)."
    )


def fetch(urls: Sequence[str], target: Path, md5: str, title: str, report: Report) -> None:
    """Download `target` from the first address that serves it with this md5.

    The file appears under its name only when it is whole. Raises `UserError` with the last
    reason when no address serves.
    """
    reason = "there is no address to fetch it from"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"Cannot make the folder {target.parent}: {error.strerror}.") from None
    for url in urls:
        try:
            _fetch_one(url, target, md5, title, report)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"{url}: {error}"
        else:
            return
    raise UserError(f"{title} could not be downloaded ({reason}); nothing was kept.")


def _fetch_one(url: str, target: Path, md5: str, title: str, report: Report) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "dgn-viewer"})
    with (
        urllib.request.urlopen(request, timeout=PATIENCE) as response,
        replace_file(target) as file,
    ):
        found = _copy(response, response.length, file, title, report)
        if found != md5:
            raise ValueError(f"the checksum is {found}, {md5} was expected")


def _copy(
    response: IO[bytes], length: int | None, file: IO[bytes], title: str, report: Report
) -> str:
    digest = hashlib.md5(usedforsecurity=False)  # what torchvision publishes
    done = 0
    while chunk := response.read(CHUNK):
        done += len(chunk)
        if done > MOST:
            raise ValueError("the answer is larger than any data set we know")
        digest.update(chunk)
        file.write(chunk)
        report(f"downloading {title}", done / length if length else None)
    if length is not None and done < length:
        raise ValueError(f"the connection closed after {done:,} of {length:,} bytes")
    return digest.hexdigest()
