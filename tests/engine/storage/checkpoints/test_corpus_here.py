"""Hostile and honest files read in this process, without the child: the parsers by themselves.

What takes long, or more memory than a child may have, is left to `test_checkpoints_corpus`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from dgn_engine.storage.checkpoints import limits, reader_child, wire
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile
from tests.faults import honest_files, hostile_files, hostile_pickles
from tests.faults.judging import differences, misjudged

CANARY = Path("/nowhere/canary")
LONG = {
    "marks without end",
    "a tensor under a billion names",
    "a list of 10^5",
    "5,001 modules in one",
    "a long path for 100,000 names",
    "averaged weights that are one large table",
}
QUICK = {
    name: kind
    for name, kind in hostile_files.kinds(CANARY).items()
    if len(kind.content) < 1 << 20 and name not in LONG
}


def read(content: bytes) -> tuple[CheckpointContents | None, str]:
    """What the parent would have of these bytes, or its sentence."""
    pipe = io.BytesIO()
    reader_child.answer(content, pipe)
    pipe.seek(0)
    try:
        return wire.receive(pipe, limits.expanded(len(content)), "x"), ""
    except UnreadableFile as verdict:
        return None, f"x {verdict}."


@pytest.mark.parametrize("name", QUICK)
def test_a_hostile_file_gets_its_verdict(name: str) -> None:
    assert misjudged(QUICK[name], *read(QUICK[name].content)) == ""


@pytest.mark.parametrize("name", hostile_pickles.code(CANARY))
def test_no_code_is_shown_as_clean(name: str) -> None:
    contents, _ = read(QUICK[name].content)
    assert contents is not None
    assert contents.would_call + contents.would_import


@pytest.mark.parametrize("name", honest_files.KINDS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch, on sparse and quantised tensors
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_honest_file_is_taken_in_full(name: str) -> None:
    content, wanted = honest_files.KINDS[name]()
    contents, sentence = read(content)
    assert contents is not None, sentence
    assert differences(contents.arrays, wanted) == []
