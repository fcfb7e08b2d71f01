"""A page with every panel: what it shows, its formulas, its source and a picture of it."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dgn_engine.cli import main
from dgn_engine.scene.panel_spec import PanelSpec, all_panels
from documentation.generated_page import GeneratedPage, GeneratedPicture

PAGE = "panels.md"
_FORMULA = re.compile(r"\$([^$]+)\$")


def generate(run: Path) -> Iterator[GeneratedPage | GeneratedPicture]:
    """Yield the page, and the picture of each panel of `run` that has one."""
    lines = [
        "# Gallery of panels",
        "",
        "`dgn figure` drew these pictures from one run: a network of five weight layers of 32 "
        "units in the regime DL, trained for 20 epochs on scikit-learn's digits, with 64 probe "
        "examples. In the window, F1 shows the text of a panel (*About this panel*). "
        "[A figure for a column](how-to/figure.md) explains how to draw a panel of your own run.",
        "",
    ]
    pictures: dict[str, GeneratedPicture] = {}
    specs = sorted(all_panels().items(), key=lambda item: (not item[1].opened, item[1].compares))
    for name, spec in specs:
        picture, said = _picture(run, name)
        if picture is not None:
            pictures[name] = picture
        lines += [*_entry(name, spec, picture is not None, said), ""]
    yield GeneratedPage(PAGE, "\n".join(lines))
    yield from pictures.values()


def _entry(name: str, spec: PanelSpec, pictured: bool, said: str) -> Iterator[str]:
    yield f"## {spec.title}"
    yield ""
    if pictured:
        yield f"![The panel {spec.title}](images/panels/{name}.png)"
    elif spec.compares:
        yield "*Shown while a second network or run is compared with the current one.*"
    else:
        yield f"*No picture of this run: {said}*"
    yield ""
    yield spec.about.text
    for formula in spec.about.formulas:
        yield ""
        yield _FORMULA.sub(lambda found: f"${_tex(found[1])}$", formula)
        yield "{: .formula }"  # a wide one scrolls by itself, not with the page
    if spec.about.symbols:
        yield ""
        yield f"Symbols: {_FORMULA.sub(lambda found: f'${_tex(found[1])}$', spec.about.symbols)}"
    if spec.about.source:
        yield ""
        yield f"Source: {spec.about.source}"
    yield ""
    opened = "Open by default" if spec.opened and not spec.compares else "Open it in *View, Panels*"
    yield f"{opened}. On the command line: `--panel {name}`."


def _tex(text: str) -> str:
    return text.strip()


def _picture(run: Path, name: str) -> tuple[GeneratedPicture | None, str]:
    """Return the picture of a panel, or the reason why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "panel.png"
        words = ["figure", str(run), "--panel", name, "--width", "6.75", "--dpi", "150"]
        trouble = io.StringIO()
        with contextlib.redirect_stderr(trouble), contextlib.redirect_stdout(io.StringIO()):
            code = main([*words, "--no-caption", "-o", str(path)])
        if code != 0:
            return None, trouble.getvalue().strip().removeprefix("dgn figure: ")
        return GeneratedPicture(f"images/panels/{name}.png", path.read_bytes()), ""
