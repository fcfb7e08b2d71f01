"""A folder that somebody else has filled: what is imported or run there leaves a mark."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
PROGRAMS = (
    "cc", "dvipng", "ffmpeg", "gcc", "latex", "ldconfig", "ld", "less", "nvidia-smi", "objdump",
    "pager", "pdflatex", "python", "python3", "sbatch", "scancel", "sh", "squeue", "uname",
    "xdg-open",
)  # fmt: skip
OTHERS = (
    "PIL", "PySide6", "click", "cloudpickle", "cryptography", "dask", "dask_jobqueue",
    "dgn_resources", "dgn_viewer", "distributed", "joblib", "kiwisolver", "llvmlite", "matplotlib",
    "msgpack", "numba", "numpy", "platformdirs", "psutil", "pyqtgraph", "rich", "safetensors",
    "scipy", "shiboken6", "sitecustomize", "sklearn", "sympy", "threadpoolctl", "tomli_w",
    "tomlkit", "toolz", "torch", "torchvision", "tornado", "typing_extensions", "usercustomize",
    "yaml",
)  # fmt: skip
LIBRARY = f"""\
import os, sys
sys.path += ["", os.getcwd()]
os.environ["PYTHONPATH"] = os.pathsep.join(["", ".", {str(ROOT)!r}])
"""  # what a notebook has: the folder where it stands on its path, and on that of its children


@dataclass(frozen=True)
class TrapFolder:
    """`folder` holds the traps, `safe` is beside it; `marks` lists what ran."""

    folder: Path
    safe: Path

    @property
    def marks(self) -> list[str]:
        """Return the traps that were sprung, and forget them."""
        file = self.safe / "marks.txt"
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def environment(self) -> dict[str, str]:
        """The environment of a user whose PATH has an empty entry and a dot in front."""
        return {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": os.pathsep.join(["", ".", str(BIN), os.environ["PATH"]]),
            "DGN_HOME": str(self.safe / "home"),
            "QT_QPA_PLATFORM": "offscreen",
            "OMP_NUM_THREADS": "1",
        }


def make_trap_folder(place: Path) -> TrapFolder:
    folder, safe = place / "traps", place / "safe"
    folder.mkdir(parents=True)
    safe.mkdir()
    marks = safe / "marks.txt"
    for name in (*sys.stdlib_module_names, *OTHERS):
        code = f"with open({str(marks)!r}, 'a') as _file:\n    _file.write({name!r} + '\\n')\n"
        (folder / f"{name}.py").write_text(code)
    (folder / "evil.pth").write_text("import os\n")
    offered = folder / "evil-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (offered / "entry_points.txt").write_text("[dgn.commands]\npaint = antigravity:COMMAND\n")
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho program {name} >> '{marks}'\n")
        program.chmod(0o755)
    os.mkfifo(folder / "matplotlibrc")  # who opens it waits for ever
    (folder / ".numba_config.yaml").write_bytes(b"disable_jit: 1\n\xff\xfe")
    return TrapFolder(folder, safe)
