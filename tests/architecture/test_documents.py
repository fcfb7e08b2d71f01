"""The documents are true: links and paths exist, dependencies and options are as written."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

import dgn_engine
from dgn_engine import __version__, kernels
from dgn_engine.cli import main
from dgn_engine.experiments.report.papers import PAPERS, RELATED
from dgn_viewer import system_libraries

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PLACES = tuple(ROOT / name for name in (".", "app", "app/dgn_viewer", "dgn_engine", "resources"))
GENERATED = ("experiments/", "reference/", "panels.md", "images/concepts/", "images/panels/")
FOR_USERS = (
    "README.md",
    *(f"docs/{page}.md" for page in ("index", "guide", "own-network", "watch", "how-fast")),
    *(f"docs/{part}/" for part in ("start", "how-to", "guide", "concepts")),
)
MOST_WORDS, MOST_WORDS_FOR_USERS = 50_000, 22_000
MOST_BYTES_OF_IMAGES = 4_000_000
SOURCES = sorted([*(ROOT / "dgn_engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")])


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_dependency_is_explained_with_its_window() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(item for extra in extras.values() for item in extra)]
    wanted = dict(re.fullmatch(r"([\w-]+)(.*)", item).groups() for item in required)  # type: ignore[union-attr]
    wanted.pop("dgn-viewer")
    text = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    assert dict(re.findall(r"^\| `([\w-]+)` \| `(\S+)` \|", text, re.MULTILINE)) == wanted


def is_generated(path: Path) -> bool:
    """Whether `make docs` writes this page or picture, and checks that links lead to it."""
    place = Path(os.path.normpath(path))
    if not place.is_relative_to(ROOT / "docs"):
        return False
    return place.relative_to(ROOT / "docs").as_posix().startswith(GENERATED)


def names_ours(path: str) -> bool:
    """Whether a path begins with a folder of ours: 'storage/runs' in the engine, say; what
    `make` writes into `build` and `dist` is there only after it was asked for."""
    first = path.split("/")[0]
    written = first in ("build", "dist") or "NAME" in path
    return not written and any((place / first).is_dir() for place in PLACES)


def leads_somewhere(path: str) -> bool:
    return any((place / path).exists() or (place / f"{path}.py").exists() for place in PLACES)


def is_importable(dotted: str) -> bool:
    """A module, or a word of one: `dgn_engine.kernels.npk`."""
    folder = ROOT / "app" if dotted.startswith("dgn_viewer") else ROOT
    parts = dotted.split(".")
    for place in range(len(parts), 0, -1):
        module = folder.joinpath(*parts[:place])
        sources = [
            path for path in (module / "__init__.py", module.with_suffix(".py")) if path.exists()
        ]
        if sources:
            text = sources[0].read_text("utf-8")
            return all(re.search(rf"\b{part}\b", text) for part in parts[place:])
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_and_paths_in_a_document_lead_somewhere(document: Path) -> None:
    text = document.read_text("utf-8")
    links = [
        link.split("#")[0]
        for link in re.findall(r"\]\(([^)\s]+)\)", text)
        if not link.startswith(("http", "#"))
    ]
    lost = [
        link
        for link in links
        if not (document.parent / link).exists() and not is_generated(document.parent / link)
    ]
    paths = re.findall(r"`([\w.-]+(?:/[\w.-]+)+/?)`", text)
    lost += [path for path in paths if names_ours(path) and not leads_somewhere(path)]
    dotted = re.findall(r"\b((?:dgn_engine|dgn_viewer)(?:\.\w+)+)", text)
    lost += [path for path in dotted if not is_importable(path)]
    assert lost == []


def test_comments_cite_only_documents_that_ship() -> None:
    known = {path.name for path in DOCUMENTS}
    cited = {
        (name(path), document)
        for path in SOURCES
        for document in re.findall(r"[\w-]+\.md\b", path.read_text("utf-8"))
        if document not in known
    }
    assert cited == set()
    titles = re.compile(r"\b(?:KERNELS|FACTS|DESIGN|VIEWER|ARCHITECTURE)\b")
    assert [name(path) for path in SOURCES if titles.search(path.read_text("utf-8"))] == []


def test_cited_sections_of_the_theory_exist() -> None:
    sections = set(re.findall(r"^## (\d)\. ", (ROOT / "docs/theory.md").read_text("utf-8"), re.M))
    cited = {
        section
        for path in SOURCES
        for group in re.findall(r"THEORY ((?:§\d(?:–\d)?(?: and |, )?)+)", path.read_text("utf-8"))
        for section in re.findall(r"\d", group)
    }
    assert cited <= sections


def test_every_option_of_dgn_train_in_the_documents_exists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    lines = [
        line
        for document in DOCUMENTS
        for line in document.read_text("utf-8").replace("\\\n", " ").splitlines()
        if "dgn train" in line
    ]
    commands = [line.split("dgn train", 1)[1] for line in lines]
    used = {option for text in commands for option in re.findall(r"--[a-z][a-z-]+", text)}
    assert used - known == set()


def test_every_target_of_make_in_the_documents_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    assert set(re.findall(r"^([a-z-]+):(?! export)", makefile, re.MULTILINE)) <= targets
    used = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"\bmake ([a-z-]+)(?= *(?:`|$|#|,))", document.read_text("utf-8"))
    }
    assert used - targets == set()
    assert "test-all" in used


def test_every_module_that_the_documents_start_exists() -> None:
    used = {
        module
        for document in DOCUMENTS
        for module in re.findall(r"\bpython3? (?:-P )?-m ([\w.]+)", document.read_text("utf-8"))
    }
    places = [ROOT / place / module.replace(".", "/") for module in used for place in ("", "app")]
    there = {
        path.relative_to(ROOT).as_posix().removeprefix("app/").replace("/", ".")
        for path in places
        if path.with_suffix(".py").exists() or (path / "__main__.py").exists()
    }
    assert used - there <= {"pytest", "pip", "venv", "ipykernel"}
    assert "tests.wording" in there


def test_every_anchor_of_a_document_is_a_heading() -> None:
    """README is not part of the site, whose links `make docs` checks."""
    lost = []
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)\s]+#[^)\s]+)\)", document.read_text("utf-8")):
            path, _, anchor = link.partition("#")
            target = document.parent / path if path else document
            if target.suffix == ".md" and target.exists() and anchor not in anchors(target):
                lost.append((name(document), link))
    assert lost == []


def anchors(document: Path) -> set[str]:
    """Return the places of a document as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    words = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in words}


def test_code_spans_name_what_the_library_has() -> None:
    """`dgn.watch`, `k.adapt`: the names by which the documents import the library."""
    libraries = {"dgn": dgn_engine, "k": kernels}
    groups = {"commands", "checks"}  # of entry points: dgn.commands
    lost = [
        (name(document), f"{short}.{word}")
        for document in DOCUMENTS
        for short, word in re.findall(r"`(dgn|k)\.(\w+)", document.read_text("utf-8"))
        if not hasattr(libraries[short], word) and word not in groups
    ]
    assert lost == []


def test_the_documents_name_no_key_that_the_window_does_not_have() -> None:
    """Nor a menu: 'View, *Panels*' or '*View, Panels*'."""
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py"))
    keys = set(re.findall(r"\b(?:(?:Ctrl|Alt|Shift)\+)+(?:[A-Za-z0-9]+|[.,])", sources))
    titles = set(re.findall(r'"([A-Z][^"\n]*)"', sources))
    titles |= {title.replace("&", "") for title in titles}
    menu = "File|Edit|Run|Gates|View|Experiments|Playground|Help"
    for document in (path for path in DOCUMENTS if path.name != "CHANGELOG.md"):
        text = " ".join(document.read_text("utf-8").split())
        named = set(re.findall(r"\b(?:(?:Ctrl|Alt)\+)(?:(?:Alt|Shift)\+)*(?:[A-Z]\w*|,)", text))
        assert named <= keys, name(document)
        entries = re.findall(rf"\b(?:{menu}), \*([^*]+)\*|\*(?:{menu}), ([^*]+)\*", text)
        words = {word for entry in entries for word in re.split(", (?=[A-Z])", "".join(entry))}
        assert words <= titles, name(document)


def test_continuous_integration_installs_every_library_that_qt_needs() -> None:
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    needed = {*system_libraries.NEEDED.values(), *system_libraries.NEEDED_FOR_X11.values()}
    assert needed - set(re.findall(r"[\w.+-]+", script)) == set()


def test_workflows_may_only_read_and_one_runs_the_script_of_continuous_integration() -> None:
    workflows = {path: path.read_text("utf-8") for path in (ROOT / ".github").rglob("*.yml")}
    texts = [text for text in workflows.values() if "\njobs:\n" in text]
    assert texts
    assert all("\npermissions:\n  contents: read\n\n" in text for text in texts)
    assert any("- run: .ci/run\n" in text for text in texts)


def test_the_navigation_of_the_site_has_every_document() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = set(re.findall(r"(?:^|[ -])([\w/-]+\.md)$", nav, re.MULTILINE))
    folders = re.findall(r"- ([\w/-]+)/\*$", nav, re.MULTILINE)
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    lost = {path for path in there - named if not path.startswith(tuple(folders))}
    assert lost == set()
    assert {path for path in named - there if not path.startswith(GENERATED)} == set()


@pytest.mark.parametrize("document", ["README.md", "CITATION.cff", "docs/cite.md"])
def test_the_five_papers_are_named_with_year_and_number(document: str) -> None:
    text = " ".join((ROOT / document).read_text("utf-8").split())
    for paper in PAPERS.values():
        assert paper.title in text
        assert re.search(rf"{paper.year}", text)
        assert not paper.arxiv or paper.arxiv in text


def test_later_papers_are_named_with_year_and_number() -> None:
    text = (ROOT / "docs/cite.md").read_text("utf-8")
    for label, paper in RELATED.items():
        where = f"[arXiv:{paper.arxiv}]" if paper.arxiv else "["
        assert f"| [{label}] | {paper.title} | {paper.year} | {where}" in text


def test_no_other_number_of_arxiv_is_named() -> None:
    known = {paper.arxiv for paper in (*PAPERS.values(), *RELATED.values())}
    for document in [*DOCUMENTS, ROOT / "CITATION.cff"]:
        assert set(re.findall(r"\b\d{4}\.\d{5}\b", document.read_text("utf-8"))) <= known


def test_the_version_stands_in_one_place_and_those_who_repeat_it_agree() -> None:
    """In the package: it is asked for at every start, and what is installed takes long to read."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "dgn_engine/__init__.py"
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert f"version = {{{__version__}}}" in (ROOT / "docs" / "cite.md").read_text("utf-8")
    log = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[(\d.*?)\]", log, re.MULTILINE)[0] == __version__


def test_the_documents_are_short_enough_to_be_read() -> None:
    """Whoever adds a page takes something out: a long manual is read by nobody."""
    words = {name(path): len(path.read_text("utf-8").split()) for path in DOCUMENTS}
    for_users = [count for page, count in words.items() if page.startswith(FOR_USERS)]
    assert sum(words.values()) <= MOST_WORDS
    assert sum(for_users) <= MOST_WORDS_FOR_USERS


def test_the_images_of_the_documents_are_small() -> None:
    images = [path for path in (ROOT / "docs" / "images").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in images) <= MOST_BYTES_OF_IMAGES
