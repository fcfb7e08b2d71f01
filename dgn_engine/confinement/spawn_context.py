"""multiprocessing processes that import nothing from their parent's current folder.

Python's own context 'spawn' starts `python -c …`, which looks for modules in the current folder
first, passes on an empty entry of `sys.path` as that folder, and runs the main script again.
"""

from __future__ import annotations

import multiprocessing.context
import multiprocessing.spawn
import multiprocessing.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from dgn_engine.confinement.start_folder import (
    distrust_start_folder,
    import_folders,
    safe_environment,
)

METHOD = "dgn_spawn"  # name under which `multiprocessing.get_context` returns `SPAWN`, for Dask
_starting = threading.Lock()


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        with _safe_start():
            return SpawnProcess._Popen(process_obj)

    def __reduce__(self) -> tuple[Any, ...]:
        # The child calls `_new_process` before it unpickles, and thereby imports, its task.
        return _new_process, (), self.__dict__


def _new_process() -> _Process:
    distrust_start_folder()
    return _Process.__new__(_Process)


class _Context(SpawnContext):
    Process = _Process


SPAWN = _Context()
multiprocessing.context._concrete_contexts[METHOD] = SPAWN  # type: ignore[attr-defined]  # see METHOD


def start_resource_tracker() -> None:
    """Start multiprocessing's resource tracker if needed: a new queue would omit our flags."""
    if sys.platform != "win32":
        with _safe_start():
            resource_tracker.ensure_running()


def end_spawned(process: SpawnProcess, grace: float) -> int | None:
    """Give a process `grace` seconds to end, or kill it; return its code for `describe_end`."""
    process.join(grace)
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode


@contextmanager
def _safe_start() -> Iterator[None]:
    """Within the block, this thread starts children and the resource tracker safely.

    They get `-s -P`, modules from absolute folders only, and no main script. Other threads start
    theirs as usual.
    """
    me = threading.get_ident()
    flags, data = (
        multiprocessing.util._args_from_interpreter_flags,  # type: ignore[attr-defined]
        multiprocessing.spawn.get_preparation_data,
    )

    def safe_flags() -> list[str]:
        arguments: list[str] = flags()
        if threading.get_ident() != me or "-I" in arguments:
            return arguments
        same = os.environ.get("PYTHONPATH", "") == safe_environment().get("PYTHONPATH", "")
        # A PYTHONPATH with relative entries is ignored: `safe_data` adds its rest to `sys.path`.
        wanted = ["-s", "-P"] if same else ["-s", "-P", "-E"]
        return [*(flag for flag in wanted if flag not in arguments), *arguments]

    def safe_data(name: str) -> dict[str, Any]:
        preparation = data(name)
        if threading.get_ident() == me:
            preparation["sys_path"] = import_folders()
            for key in ("init_main_from_name", "init_main_from_path"):
                preparation.pop(key, None)
        return preparation

    with _starting:
        _replace_spawn_hooks(safe_flags, safe_data)
        try:
            yield
        finally:
            _replace_spawn_hooks(flags, data)


def _replace_spawn_hooks(
    flags: Callable[[], list[str]], data: Callable[[str], dict[str, Any]]
) -> None:
    multiprocessing.util._args_from_interpreter_flags = flags  # type: ignore[attr-defined]
    multiprocessing.spawn.get_preparation_data = data  # type: ignore[assignment]  # of one name
