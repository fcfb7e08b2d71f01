"""Checks the finished site: every link leads somewhere, and nothing is fetched from the net."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}


@dataclass
class Page:
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag, name) == ("a", "name"):
                self.page.ids.add(value)
            elif (tag, name) in FETCHED:
                self.page.fetched.append(value)
            elif (tag, name) == ("a", "href"):
                self.page.links.append(value)


def troubles(site: Path) -> list[str]:
    """Return a sentence for each broken link and each resource that is fetched from the net."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)}: {said}"
        for path, page in pages.items()
        for said in _of_page(path, page, pages, site)
    ]


def _read(path: Path) -> Page:
    page = Page()
    _Reader(page).feed(path.read_text("utf-8"))
    return page


def _of_page(path: Path, page: Page, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    for target in page.fetched:
        if urlsplit(target).scheme in ("http", "https") or target.startswith("//"):
            yield f"{target} is fetched from the net"
    if path.name == "404.html":  # its links are from the root of a server
        return
    for target in {*page.links, *page.fetched}:
        parts = urlsplit(target)
        if parts.scheme or target.startswith("//") or (not parts.path and not parts.fragment):
            continue
        found = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if found.is_dir():
            found = found / "index.html"
        if not found.exists():
            yield f"{target} leads nowhere"
        elif parts.fragment and found in pages:
            anchor = unquote(parts.fragment)
            if anchor not in pages[found].ids and not anchor.startswith("__"):
                yield f"{target}: there is no such place in {found.relative_to(site)}"
