"""What users read is what was reviewed."""

from __future__ import annotations

import pytest

from tests.wording import FILE, all_texts, texts_of


@pytest.mark.check
def test_every_sentence_is_the_one_that_was_reviewed() -> None:
    assert all_texts().splitlines() == FILE.read_text("utf-8").splitlines(), (
        "run: python -m tests.wording"
    )


def test_a_text_is_read_with_holes_and_without_docstrings() -> None:
    source = '"""Not this one."""\nx = f"{a} is no file; choose\\n  another."\ny = "word"\n'
    assert list(texts_of(source)) == ["{} is no file; choose another."]
