"""What is told of an exception that ends training."""

from __future__ import annotations

import traceback

from dgn_engine.errors import UserError
from dgn_engine.protocol.events import Failed


def failure(what: str, error: Exception) -> Failed:
    """What the user can mend is one sentence; a fault of ours keeps its traceback."""
    if isinstance(error, UserError):
        return Failed(str(error), "")
    details = "".join(traceback.format_exception(error))
    return Failed(f"{what}: {type(error).__name__}: {error}", details)
