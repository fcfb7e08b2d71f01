"""Deep gated networks: training, gates and kernels, without a window.

`import dgn_engine as dgn` is quick: torch is loaded when one of these is first used.
"""

import importlib

__version__ = "0.2.0"

# The public names, and where each lives.
_PUBLIC = {
    "train": "dgn_engine.notebook.notebook_run",
    "open_run": "dgn_engine.notebook.notebook_run",
    "open_report": "dgn_engine.notebook.notebook_report",
    "figure": "dgn_engine.notebook.offered_figures",
    "RunConfig": "dgn_engine.config",
    "DataConfig": "dgn_engine.config",
    "NetConfig": "dgn_engine.config",
    "GatingConfig": "dgn_engine.config",
    "TrainingConfig": "dgn_engine.config",
    "watch": "dgn_engine.attachment.watcher",
    "prepare_torchvision": "dgn_engine.data._torchvision",
    "lightning_callback": "dgn_engine.attachment.callbacks",
    "hugging_face_callback": "dgn_engine.attachment.callbacks",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'dgn_engine' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
