"""What the child makes of hostile archives, in this process; `make faults` measures it confined."""

from __future__ import annotations

import io
import re

from dgn_engine.storage.images import archive_child, image_records
from tests.faults import hostile_images

# Refused only by the limits of the real child, or by what takes seconds.
CONFINED = (
    "an xz that asks for 2 GB",
    "attributes of 60,000 digits",
    "200,000 empty members",
    "40 members in one place, 1.2 GB",
)


def unpacked(content: bytes) -> tuple[dict[str, bytes], str]:
    """Images by name, and the end of the sentence where the archive is refused."""
    pipe = io.BytesIO()
    archive_child.send_images(io.BytesIO(content), len(content), pipe)
    pipe.seek(0)
    found: dict[str, bytes] = {}
    while True:
        head = pipe.read(image_records.UNPACKED.size)
        kind, fraction, named, length = image_records.UNPACKED.unpack(head)
        assert 0.0 <= fraction <= 1.0
        name, text = pipe.read(named).decode(), pipe.read(length)
        if kind in (image_records.END, image_records.REFUSED):
            assert pipe.read() == b""
            return found, text.decode()
        if kind == image_records.FILE:
            found[name] = text


def misjudged(content: bytes, refused: str) -> str:
    found, sentence = unpacked(content)
    if sentence:
        return "" if refused and re.search(refused, sentence) else sentence
    if not refused:
        return "" if found == hostile_images.SOUND else f"{list(found)}"
    # There is nothing in it, or what a decoder refuses, or it may be as well as not be.
    odd = set(found) - set(hostile_images.SOUND)
    return "" if odd or "no images" in refused or re.search(refused, "taken") else "taken"


def test_a_hostile_archive_is_refused_or_gives_its_sound_images() -> None:
    archives = hostile_images.archives()
    assert set(CONFINED) < set(archives)
    verdicts = {
        name: misjudged(content, refused)
        for name, (content, refused) in archives.items()
        if name not in CONFINED
    }
    assert {name: wrong for name, wrong in verdicts.items() if wrong} == {}


def test_of_two_members_of_one_name_the_last_counts() -> None:
    """As where a tar is unpacked to disk."""
    old, new = hostile_images.png(1), hostile_images.png(2)
    content = hostile_images.tarred({"a/0.png": old}) + hostile_images.tarred({"a/0.png": new})
    found, _ = unpacked(content + hostile_images.END)
    assert found == {"a/0.png": new}


def test_a_long_name_is_a_name() -> None:
    name = f"a/{'b' * 300}/0.png"
    found, _ = unpacked(
        hostile_images.header("x", len(name), b"L")
        + hostile_images.blocks(name.encode())
        + hostile_images.header("a/0.png", 3)
        + hostile_images.blocks(b"png")
        + hostile_images.END
    )
    assert found == {name: b"png"}
