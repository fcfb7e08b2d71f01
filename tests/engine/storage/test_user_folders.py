"""Where the user's things lie, on each platform, and in one folder that can be carried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows

from dgn_engine.data._download import data_root
from dgn_engine.storage import user_folders
from dgn_engine.storage.runs.folder_layout import results_root, runs_root
from dgn_viewer.settings import default_path

ROOT = Path(__file__).parents[3]
PLACES = (
    user_folders.user_data,
    user_folders.user_config,
    user_folders.user_cache,
    user_folders.user_log,
)
SYSTEMS = {"Linux": Unix, "macOS": MacOS, "Windows": Windows}
NAMES = ("DGN_HOME", "DGN_RUNS_ROOT", "DGN_RESULTS_ROOT", "DGN_DATA_ROOT")
XDG = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, *XDG, "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_document_names_the_folders(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.PlatformDirs", SYSTEMS[system])
    # the shell's own words for it stand in the document
    monkeypatch.setattr("platformdirs.windows.get_win_folder", lambda _: "%LOCALAPPDATA%")
    text = (ROOT / "docs" / "environment.md").read_text("utf-8")
    table = text[text.index("| what |") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in table]
    written = [row[rows[0].index(system)].replace("\\", "/") for row in rows[2:]]
    found = [str(place()).replace(str(Path.home()), "~").replace("\\", "/") for place in PLACES]
    assert found == written


def test_what_0_1_kept_is_found_on_linux_and_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words for the folders, before platformdirs named them."""
    monkeypatch.setenv("HOME", "/home/someone with ü")
    kept = {
        Unix: (".local/share/dgn-viewer", ".config/dgn-viewer", ".cache/dgn-viewer"),
        MacOS: (
            "Library/Application Support/dgn-viewer",
            "Library/Preferences/dgn-viewer",
            "Library/Caches/dgn-viewer",
        ),
    }
    for system, places in kept.items():
        monkeypatch.setattr("platformdirs.PlatformDirs", system)
        found = [str(place()) for place in PLACES[:3]]
        assert found == [f"/home/someone with ü/{place}" for place in places]


def test_xdg_folders_are_followed_where_they_are_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.PlatformDirs", Unix)
    for name in XDG:
        monkeypatch.setenv(name, f"/x/{name}")
    found = [str(place()) for place in PLACES]
    assert found[:3] == [f"/x/{name}/dgn-viewer" for name in XDG[:3]]
    assert found[3] == "/x/XDG_STATE_HOME/dgn-viewer/log"
    for name in XDG:
        monkeypatch.setenv(name, "relative")
    assert all(place().is_relative_to(Path.home()) for place in PLACES)


def test_one_folder_holds_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "a stick ü"))
    places = (*(place() for place in PLACES), runs_root(), results_root(), data_root(""))
    assert all(place.is_relative_to(tmp_path / "a stick ü") for place in places)
    assert default_path() == tmp_path / "a stick ü" / "settings.ini"


def test_portable_is_beside_a_bundle_or_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGN_HOME", "")
    monkeypatch.delenv("DGN_HOME")
    assert user_folders.use_portable_folders() == tmp_path / user_folders.CARRIED
    assert user_folders.user_data() == tmp_path / user_folders.CARRIED
    monkeypatch.delenv("DGN_HOME")
    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr("sys.executable", str(tmp_path / "bundle" / "dgn-viewer"))
    assert user_folders.use_portable_folders() == tmp_path / "bundle" / user_folders.CARRIED
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "mine"))
    assert user_folders.use_portable_folders() == tmp_path / "mine"


def test_every_variable_is_in_the_document() -> None:
    sources = [*(ROOT / "dgn_engine").rglob("*.py"), *(ROOT / "app").rglob("*.py")]
    read = {
        name for path in sources for name in re.findall(r"\bDGN_[A-Z_]+\b", path.read_text("utf-8"))
    }
    text = (ROOT / "docs" / "environment.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(DGN_\w+)` \|", text, re.M)) == read
