"""Which images are decoded, and that the pixels are those that Pillow and NumPy make of them."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import warnings

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dgn_engine.storage.images import decoder_child, image_records
from tests.faults import hostile_pixels

SHAPE = (3, 4, 6)


def asked(task: bytes, content: bytes, shape: tuple[int, int, int] = SHAPE) -> tuple[bytes, str]:
    """The answer for one image, and the verdict where there is none."""
    reply = io.BytesIO(decoder_child.answer_images(task, shape, [content]))
    (count,) = image_records.COUNT.unpack(reply.read(4))
    if count:
        found = reply.read()
        assert len(found) == image_records.answer_size(task, shape)
        return found, ""
    return b"", image_records.read_refusal(reply.read)


@pytest.mark.filterwarnings("ignore")
def test_a_hostile_image_is_refused_or_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    wrong: dict[str, str] = {}
    for name, (_, content, refused) in hostile_pixels.images().items():
        if "8000 × 8000" in name:  # seconds
            continue
        _, sentence = asked(image_records.MEASURE, content)
        if not sentence:
            _, sentence = asked(image_records.DECODE, content)
        if not re.search(refused or "^taken$", sentence or "taken"):
            wrong[name] = sentence
    assert wrong == {}


def reference(content: bytes, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """The levels (H, W, C) as Pillow opens images by itself, and NumPy takes their upper bytes."""
    channels, height, width = shape
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        if image.mode == "I" or image.mode.startswith("I;"):
            wide = np.asarray(image).astype(np.int64)
            image = Image.fromarray((wide >> 8).astype(np.uint8))
        plain = image.convert("L" if channels == 1 else "RGB")
        if plain.size != (width, height):
            plain = plain.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(plain, dtype=np.uint8).reshape(height, width, channels)


def drawn(mode: str, size: tuple[int, int]) -> Image.Image:
    """Noise in this mode."""
    draw = np.random.default_rng(3)
    width, height = size
    if mode in ("I", "I;16", "I;16B"):
        wide = draw.integers(0, 1 << 16, (height, width)).astype(np.uint16)
        if mode == "I":
            return Image.fromarray(wide.astype(np.int32))
        order = ">" if mode.endswith("B") else "<"
        return Image.frombytes(mode, size, wide.astype(f"{order}u2").tobytes())
    if mode == "P":
        return drawn("RGB", size).quantize(40)
    bands = len(Image.new(mode, (1, 1)).getbands())
    noise = draw.integers(0, 256, (height, width, bands)).astype(np.uint8)
    if mode == "1":
        return Image.fromarray(noise[..., 0]).convert("1")
    return Image.merge(mode, [Image.fromarray(noise[..., band]) for band in range(bands)])


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        *(("JPEG", mode) for mode in ("L", "RGB", "CMYK")),
        *(("TIFF", mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I", "I;16")),
        *(("TIFF", mode) for mode in ("I;16B", "YCbCr")),
        *(("BMP", mode) for mode in ("1", "L", "P", "RGB", "RGBA")),
        *(("GIF", mode) for mode in ("1", "L", "P", "RGB")),
        *(("WEBP", mode) for mode in ("RGB", "RGBA")),
        *(("PPM", mode) for mode in ("1", "L", "RGB", "I")),
    ],
)
@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 5, 7), (3, 9, 4)])
def test_pixels_are_those_of_pillow_bit_for_bit(
    form: str, mode: str, shape: tuple[int, int, int]
) -> None:
    content = hostile_pixels.saved(form, drawn(mode, (7, 5)))
    found, sentence = asked(image_records.DECODE, content, shape)
    assert sentence == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found == reference(content, shape).tobytes()


@pytest.mark.parametrize(
    ("mode", "grey"),
    [("1", True), ("L", True), ("LA", True), ("I;16", True), ("P", False), ("RGB", False)],
)
def test_size_and_colour_are_measured(mode: str, grey: bool) -> None:
    found, _ = asked(image_records.MEASURE, hostile_pixels.saved("PNG", drawn(mode, (7, 5))))
    assert image_records.SIZE.unpack(found) == (7, 5, grey)


def test_pixels_of_more_than_16_bits_are_refused() -> None:
    wide = Image.fromarray(np.full((4, 6), 1 << 20, np.int32))
    _, sentence = asked(image_records.DECODE, hostile_pixels.saved("TIFF", wide))
    assert "more than 16 bits" in sentence


def test_colours_of_cielab_are_refused() -> None:
    content = hostile_pixels.saved("TIFF", Image.new("LAB", (6, 4)))
    _, sentence = asked(image_records.DECODE, content)
    assert "CIELAB" in sentence


def test_the_answer_ends_with_the_first_image_that_cannot_be_taken() -> None:
    sound = hostile_pixels.saved("PNG", Image.new("RGB", (6, 4)))
    reply = bytes(decoder_child.answer_images(image_records.MEASURE, SHAPE, [sound, b"?", sound]))
    size = image_records.SIZE.size
    assert struct.unpack("<I", reply[:4]) == (1,)
    assert "its format is not supported" in reply[4 + size :].decode("utf-8", "replace")


def plugins(code: str) -> set[str]:
    """Readers of Pillow that are loaded after this code."""
    code += "\nimport sys\nprint(*(m for m in sys.modules if m.endswith('ImagePlugin')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.removeprefix("PIL.") for name in done.stdout.split()}


def test_only_the_readers_that_are_meant_are_loaded() -> None:
    code = "from dgn_engine.storage.images import decoder_child\n"
    wanted = {f"{name}ImagePlugin" for name in ("Bmp", "Gif", "Jpeg", "Png", "Ppm", "Tiff", "WebP")}
    assert plugins(code) == wanted
    images = hostile_pixels.images().values()
    foreign = [content for _, content, refused in images if "none of" in refused]
    calls = [f"decoder_child.answer_images(b'M', (3, 4, 6), [{one!r}])" for one in foreign]
    assert plugins(code + "\n".join(calls)) == wanted
