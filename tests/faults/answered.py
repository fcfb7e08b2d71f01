"""What the parent would have of a file by its reading child, in this process."""

from __future__ import annotations

import io

from dgn_engine.storage.checkpoints import limits, reader_child, wire
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile


def read_answer(content: bytes, part: str = "") -> CheckpointContents:
    """Raises `UnreadableFile`."""
    pipe = io.BytesIO()
    reader_child.answer_tensors(content, pipe, part)
    pipe.seek(0)
    return wire.receive_contents(pipe, limits.expansion_limit(len(content)), "x")


def answer_or_reason(content: bytes) -> tuple[CheckpointContents | None, str]:
    """Or why it is refused."""
    try:
        return read_answer(content), ""
    except UnreadableFile as verdict:
        return None, str(verdict)
