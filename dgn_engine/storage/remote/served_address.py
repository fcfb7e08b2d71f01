"""The address of a served run and its token, as the user gives them."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from dgn_engine.errors import UserError
from dgn_engine.storage.remote import LOCAL, SCHEME

TOKEN = "DGN_TOKEN"
_LONGEST = 1024  # bytes of a token's file


class WrongTokenError(UserError):
    """Another token is needed."""


def address_of(text: str) -> int:
    """Return the port in 'dgn://127.0.0.1:PORT' or 'dgn://localhost:PORT'; raises `UserError`."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        port = None
    if "@" in text:
        raise UserError(
            "Leave the token out of the address, as other users of this machine can read it; you "
            "will be asked for it, or can set DGN_TOKEN or --token-file.",
            kind="token-in-address",
        )
    if port is None or f"{parts.scheme}://" != SCHEME or parts.hostname not in (LOCAL, "localhost"):
        raise UserError(
            f"{text} is not the address of a served run: use {SCHEME}{LOCAL}:PORT; for a run on "
            f"another machine, first run ssh -L PORT:{LOCAL}:PORT THAT_MACHINE.",
            kind="no-address",
            value=text,
        )
    return port


def given_token(file: Path | None) -> str:
    """Return the token in this file, or else in `DGN_TOKEN`; '' if neither is given.

    Raises:
        UserError: The file cannot be read.
    """
    if file is None:
        return os.environ.get(TOKEN, "").strip()
    try:
        with file.open("rb") as opened:
            return opened.read(_LONGEST).decode("ascii").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it has no token"
        raise UserError(
            f"The token cannot be read from {file}: {reason}.", kind="unreadable", value=file
        ) from None
