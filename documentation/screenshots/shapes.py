"""Images where no data set lies on the machine: circles, squares, triangles, crosses, 32×32."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle", "cross")
SIDE = 32
Colour = tuple[int, int, int]


def write_shapes(folder: Path, train: int = 400, test: int = 80) -> Path:
    """Write so many images as train/CLASS/N.png and test/CLASS/N.png; the same ones every time."""
    chance = random.Random(0)
    for part, count in (("train", train), ("test", test)):
        for place in range(count):
            name = CLASSES[place % len(CLASSES)]
            path = folder / part / name / f"{place:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            _image(name, chance).save(path)
    return folder


def _image(name: str, chance: random.Random) -> Image.Image:
    back, front = _colour(chance, 0, 110), _colour(chance, 130, 255)
    image = Image.new("RGB", (SIDE, SIDE), back)
    draw = ImageDraw.Draw(image)
    size = chance.randint(12, 22)
    x, y = (chance.randint(1, SIDE - size - 2) for _ in "xy")
    box = (x, y, x + size, y + size)
    match name:
        case "circle":
            draw.ellipse(box, front)
        case "square":
            draw.rectangle(box, front)
        case "triangle":
            draw.polygon([(x, y + size), (x + size, y + size), (x + size // 2, y)], front)
        case _:
            middle, thick = size // 2, 3
            draw.rectangle((x, y + middle - thick, x + size, y + middle + thick), front)
            draw.rectangle((x + middle - thick, y, x + middle + thick, y + size), front)
    return image


def _colour(chance: random.Random, low: int, high: int) -> Colour:
    return (chance.randint(low, high), chance.randint(low, high), chance.randint(low, high))
