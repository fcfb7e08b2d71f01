"""Writes the lock files of this folder, and from them the list of parts (SBOM).

    python requirements/lock.py lock [--torch WHEEL]    # make lock: the four files
    python requirements/lock.py sbom OUT.json           # make sbom: CycloneDX 1.6
    python requirements/lock.py fits                    # are they for this Python and platform?

pip resolves the dependencies of pyproject.toml for this Python and this platform; what it would
install is written with its digests. The lock is of a CPU build of torch, which pip takes from the
index of PyTorch, or from a wheel that is there already. `cluster.txt` and `package.txt` hold what
these extras add to `lock.txt`, resolved so that they change no version there.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LOCK, TORCH = HERE / "lock.txt", HERE / "torch-cpu.txt"
EXTRAS = {name: HERE / f"{name}.txt" for name in ("cluster", "package")}
BUILT = EXTRAS["package"]  # what builds the packages: no part of the program
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_PIN = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^ ]+) \\\n    --hash=sha256:(?P<digest>\w{64})$", re.M
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    lock = verbs.add_parser("lock")
    lock.add_argument("--torch", default="torch", help="a wheel of a CPU build; else of its index")
    sbom = verbs.add_parser("sbom")
    sbom.add_argument("out", type=Path)
    verbs.add_parser("fits")
    arguments = parser.parse_args()
    if arguments.verb == "fits":
        return 0 if _made() in LOCK.read_text("utf-8").splitlines()[0] else 1
    if arguments.verb == "lock":
        write_lock(arguments.torch)
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(bill_of_materials(), indent=1) + "\n", "utf-8")
    return 0


def write_lock(torch: str) -> None:
    """Resolve torch alone, by its own index, then all else by the usual one with that torch, and
    what the cluster needs beside exactly that."""
    wanted = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    window = next(line for line in wanted["dependencies"] if line.startswith("torch>"))
    alone = [torch] if torch != "torch" else ["--index-url", CPU_INDEX, window]
    [chosen] = _resolved(["--no-deps", *alone])
    wheel = f"torch @ {chosen['download_info']['url']}"
    others = [line for line in wanted["dependencies"] if not line.startswith("torch>")]
    found = [item for item in _resolved([wheel, *others]) if _name(item) != "torch"]
    exactly = [f"{_name(item)}=={item['metadata']['version']}" for item in found]
    known = {"torch", *map(_name, found)}
    _write(TORCH, [chosen], f"--index-url {CPU_INDEX} ")
    _write(LOCK, found)
    for name, path in EXTRAS.items():
        together = _resolved([wheel, *exactly, *wanted["optional-dependencies"][name]])
        _write(path, [item for item in together if _name(item) not in known])


def _made() -> str:
    """For what a lock is made here."""
    version = ".".join(platform.python_version_tuple()[:2])
    python = f"{platform.python_implementation()} {version}"
    return f"{python} on {platform.system()} {platform.machine()}"


def _write(path: Path, items: list[dict[str, Any]], index: str = "") -> None:
    head = f"# Made by `make lock` for {_made()}.\n"
    how = f"# pip install --require-hashes --no-deps {index}-r requirements/{path.name}\n"
    pinned = sorted(map(_pin, items), key=str.lower)
    path.write_text(f"{head}{how}{''.join(pinned)}", "utf-8")


def _resolved(requirements: list[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--only-binary",
            ":all:",
            "--report",
            str(report),
            *requirements,
        ]
        subprocess.run(command, check=True)
        found: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))["install"]
    return found


def _name(item: dict[str, Any]) -> str:
    return re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()


def _pin(item: dict[str, Any]) -> str:
    digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{_name(item)}=={item['metadata']['version']} \\\n    --hash=sha256:{digest}\n"


def pins(*paths: Path) -> list[dict[str, str]]:
    """Name, version and digest of everything that the files name: those of the program, where none
    is given."""
    chosen = paths or (TORCH, LOCK, *(path for path in EXTRAS.values() if path != BUILT))
    texts = [path.read_text("utf-8") for path in chosen]
    return [found.groupdict() for text in texts for found in _PIN.finditer(text)]


def _version() -> str:
    """Of the program; it stands in its package alone, which needs no import here."""
    source = (HERE.parent / "dgn_engine" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert found is not None
    return found[1]


def bill_of_materials() -> dict[str, Any]:
    """The pins as CycloneDX 1.6; the same pins give the same text."""
    found = pins()
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    version = _version()
    content = json.dumps([found, version], sort_keys=True)
    root = f"pkg:pypi/{project['name']}@{version}"
    parts = [
        {
            "type": "library",
            "bom-ref": _purl(pin),
            "name": pin["name"],
            "version": pin["version"],
            "purl": _purl(pin),
            "hashes": [{"alg": "SHA-256", "content": pin["digest"]}],
        }
        for pin in found
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": project["name"],
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": root, "dependsOn": [part["bom-ref"] for part in parts]}],
    }


def _purl(pin: dict[str, str]) -> str:
    return f"pkg:pypi/{pin['name']}@{pin['version'].replace('+', '%2B')}"


if __name__ == "__main__":
    sys.exit(main())
