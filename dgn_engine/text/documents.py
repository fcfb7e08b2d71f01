"""Find the documents that are installed with the program, and their titles."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

PARTS = ("guide", "start", "how-to", "concepts")  # folders of documents for users


def documents_folder() -> Path:
    """Return the folder of the documents: in the installed package, or else in the source tree."""
    inside = _resources_folder() / "docs"
    return inside if inside.is_dir() else inside.parents[2] / "docs"


def built_site() -> Path | None:
    """Return the first page of the documentation site, if it has been built.

    It is next to the documents of an installed program, or where `make docs` writes it.
    """
    inside = _resources_folder()
    for folder in (inside / "site", inside.parents[1] / "build" / "site"):
        page = folder / "index.html"
        if page.is_file():
            return page
    return None


def document_titles() -> Mapping[str, str]:
    """Return the title of each document by its name: 'guide' → 'User guide', 'how-to/figure' → ….

    The guide comes first, then the folders for users, then the rest.
    """
    folder = documents_folder()
    guide = folder / "guide.md"
    paths = [guide, *(path for part in PARTS for path in sorted((folder / part).glob("*.md")))]
    paths += [path for path in sorted(folder.glob("*.md")) if path != guide]
    return {
        path.relative_to(folder).with_suffix("").as_posix(): _read_title(path) for path in paths
    }


def _resources_folder() -> Path:
    return Path(str(files("dgn_resources")))


def _read_title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        heading = next((line for line in lines if line.startswith("# ")), "")
    return heading.removeprefix("# ").strip() or path.stem
