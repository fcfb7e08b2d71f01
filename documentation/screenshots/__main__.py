"""Takes the pictures of the docs anew: `python -m documentation.screenshots [--only NAME]`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def main() -> int:
    from documentation.screenshots.pictures import PICTURES

    parser = argparse.ArgumentParser(
        prog="python -m documentation.screenshots", description=__doc__
    )
    parser.add_argument("--only", action="append", choices=list(PICTURES), help="repeatable")
    parser.add_argument("--into", type=Path, default=IMAGES)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    given = parser.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    for name in given.only or PICTURES:
        if given.here:
            take(name, given.into)
        else:  # the scale of a screen is fixed for the life of a process
            command = [sys.executable, "-m", "documentation.screenshots", "--here", "--only", name]
            scale = {"QT_SCALE_FACTOR": str(PICTURES[name].scale), "QT_QPA_PLATFORM": "offscreen"}
            subprocess.run(
                [*command, "--into", str(given.into)], env=os.environ | scale, check=True
            )
            print(f"{given.into / name}.png: {PICTURES[name].shows}")
    return 0


def take(name: str, into: Path) -> None:
    """Take one picture in this process."""
    from dgn_viewer.application import Options, build_viewer
    from documentation.screenshots.photographer import Photographer
    from documentation.screenshots.pictures import PICTURES, without_pace

    picture = PICTURES[name]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        options = Options(
            without_pace(picture.config(home)),
            theme=picture.theme,
            size=picture.size,
            settings=home / "settings.ini",
            paused=True,
            runs_root=str(home / "runs"),
            start=picture.start,
        )
        viewer = build_viewer(options)
        try:
            shot = Photographer(viewer, home)
            viewer.start()
            picture.take(shot)
            shot.save(into / f"{name}.png")
        finally:
            viewer.close()


if __name__ == "__main__":
    sys.exit(main())
