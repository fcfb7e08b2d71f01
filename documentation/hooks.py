"""Hooks of MkDocs: adds the generated pages, sets the formulas, and checks the finished site."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from documentation import built_site, formulas
from documentation.generated_page import Generated, GeneratedPage
from documentation.generators import generate

ROOT = Path(__file__).parents[1]
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md")  # of docs/
SHIM = "https://unpkg.com/iframe-worker/shim"  # what the theme names
# In documents that the window shows, too, as plain text: there and on GitHub a comment is not seen.
_FORMULA = re.compile(r"<!-- formula: (?P<tex>.*?) -->")
_FIGURE = re.compile(r"<!-- figure: (?P<name>[\w-]+): (?P<words>.*?) -->")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_generated: dict[str, Generated] = {}


def on_startup(command: str, dirty: bool) -> None:
    """Let warnings count, which `--quiet` of `make docs` hides from `strict`."""
    logger = logging.getLogger("mkdocs")
    logger.setLevel(min(logger.level, logging.WARNING))


def on_config(config: Any) -> Any:
    """Make the generated pages, and put them into the navigation in place of `folder/*`."""
    _generated.clear()
    _generated.update((each.path, each) for each in [*generate(ROOT), *_beside()])
    config["nav"] = [_expanded(item) for item in config["nav"]]
    return config


def on_files(files: Any, config: Any) -> Any:
    for path, made in _generated.items():
        content = made.text if isinstance(made, GeneratedPage) else made.content
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn comments into formulas and figures, and links that leave the documents into names."""

    def inside(link: re.Match[str]) -> str:
        words, target = link.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return link[0]
        place = (Path("/") / page.file.src_uri).parent / path
        found = str(Path(*_normal(place.parts[1:])))
        if found in files.src_uris:
            return link[0]
        name = Path(found).name
        if name in BESIDE:
            up = "../" * page.file.src_uri.count("/")
            return f"[{words}]({up}project/{name.lower()}{'#' + anchor if anchor else ''})"
        whole = ROOT / "docs" / path if (ROOT / "docs" / path).exists() else ROOT / name
        if whole.exists() or (ROOT / "docs" / page.file.src_uri).parent.joinpath(path).exists():
            return words if words.startswith("`") else f"{words} (`{path.lstrip('./')}`)"
        return link[0]  # broken: MkDocs reports it

    up = "../" * page.file.src_uri.count("/")
    markdown = _FORMULA.sub(lambda found: f"\n$$\n{found['tex']}\n$$\n", markdown)
    markdown = _FIGURE.sub(
        lambda found: (
            f"![{found['words']}]({up}images/concepts/{found['name']}.svg)\n\n*{found['words']}*"
        ),
        markdown,
    )
    return _outside_code(markdown, lambda text: _LINK.sub(inside, text))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Use our copy of the search shim, which the theme would fetch from the net."""
    up = "../" * page.file.src_uri.count("/")
    return output.replace(SHIM, f"{up}assets/iframe-worker.js")


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    try:
        return formulas.rendered(html)
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    return output_content.replace(SHIM, "assets/iframe-worker.js")


def on_post_build(config: Any) -> None:
    troubles = built_site.troubles(Path(config["site_dir"]))
    if troubles:
        raise PluginError("The site is not sound:\n  " + "\n  ".join(troubles))


def _beside() -> list[GeneratedPage]:
    """Return the documents beside docs/ as pages, with links relative to docs/."""
    pages = []
    for name in BESIDE:
        path = ROOT / name
        if path.exists():
            text = path.read_text("utf-8").replace("](docs/", "](../")
            pages.append(GeneratedPage(f"project/{name.lower()}", text))
    return pages


def _expanded(item: Any) -> Any:
    """Return an entry of the navigation with `folder/*` replaced by its generated pages."""
    match item:
        case dict():
            return {title: _expanded_list(value) for title, value in item.items()}
        case _:
            return item


def _expanded_list(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    found: list[Any] = []
    for item in value:
        if isinstance(item, str) and item.endswith("/*"):
            folder = item.removesuffix("*")
            pages = [
                path
                for path, made in _generated.items()
                if isinstance(made, GeneratedPage) and path.startswith(folder)
            ]
            there = sorted((ROOT / "docs" / folder).glob("*.md"))
            pages += [path.relative_to(ROOT / "docs").as_posix() for path in there]
            found += [page for page in pages if page not in value]
        else:
            found.append(_expanded(item))
    return found


def _normal(parts: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    return kept


def _outside_code(markdown: str, change: Any) -> str:
    """Change the text outside blocks of code."""
    pieces = re.split(r"(^```.*?^```[ ]*$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(piece if piece.startswith("```") else change(piece) for piece in pieces)
