"""Import and call the user's code (--model), and turn its errors into one-sentence messages."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import nn

import dgn_engine
from dgn_engine.data._torchvision import prepare_torchvision
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.storage.user_folders import user_cache

SEED = 0  # torch seed when creating a model, so that the same command gives the same kernels
_LONGEST = 300  # characters of a quoted error message


@dataclass(frozen=True)
class MadeModel:
    """A module and its title, such as 'Net of nets.py'."""

    module: nn.Module
    title: str


class RaisedError(NamedTuple):
    """An error raised by the user's code, with its location 'nets.py:7'."""

    who: str
    kind: str
    at: str
    said: str


@contextlib.contextmanager
def allow_user_imports(name: str) -> Iterator[None]:
    """Allow the module `name`, and what it imports, to be imported from the current folder.

    Installed packages take precedence. Output goes to stderr, since stdout is for results, and an
    attempt to exit raises `UserError`. Autograd mode and current folder are restored afterwards.
    `import torchvision` works with a CPU build of torch. `torch.compile` caches into this
    program's cache folder: torch's default is in the shared temporary folder, from which it would
    execute files that others may have put there.
    """
    prepare_torchvision()
    compiled = user_cache().absolute() / "torch-compile"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(compiled))
    folder, grad = str(Path.cwd()), torch.is_grad_enabled()
    finder = _FolderFinder(folder, name)
    sys.meta_path.append(finder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise exit_as_user_error(error, name) from None
    finally:
        torch.set_grad_enabled(grad)
        os.chdir(folder)
        with contextlib.suppress(ValueError):  # the user's code may have removed it
            sys.meta_path.remove(finder)


class _FolderFinder(MetaPathFinder):
    """Finds the requested module in a folder, and modules imported by modules from there.

    It does not serve imports of torch or other installed packages: many packages try to import
    optional ones, and the folder may belong to somebody else.
    """

    _found: ClassVar[set[str]] = set()  # per process, which imports each of them once

    def __init__(self, folder: str, name: str) -> None:
        self._folder = folder
        self._asked = name.partition(":")[0].partition(".")[0]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or not (
            fullname == self._asked or self._importing_package() in self._found
        ):
            return None
        spec = PathFinder.find_spec(fullname, [self._folder], target)
        if spec is not None:
            self._found.add(fullname)
        return spec

    def _importing_package(self) -> str:
        """Return the top-level package of the importing module.

        Its frame is the first one outside importlib.
        """
        frame = sys._getframe(2)
        while (module := str(frame.f_globals.get("__name__", ""))).partition(".")[0] == "importlib":
            if frame.f_back is None:
                break
            frame = frame.f_back
        return module.partition(".")[0]


@contextlib.contextmanager
def convert_errors(who: str, when: str = "") -> Iterator[None]:
    """Convert exceptions of the user's code to `UserError` with their location.

    The current folder is restored: paths typed by the user are relative to it.

    Args:
        who: subject of the message, such as 'make_net'.
        when: appended to the message, such as ' when it was called'.
    """
    folder = Path.cwd()
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise exception_as_user_error(error, who, when) from None
    except SystemExit as error:
        raise exit_as_user_error(error, who, when) from None
    finally:
        os.chdir(folder)


def exit_as_user_error(error: SystemExit, who: str, when: str = "") -> UserError:
    return UserError(
        f"{who} exited{_location_in_code(error)}{when}; put code that must not run on import under "
        'if __name__ == "__main__".',
        kind="ended-program",
        value=_location_in_code(error).removeprefix(" at "),
    )


def exception_as_user_error(error: BaseException, who: str, when: str = "") -> UserError:
    """Format as 'make_net raised ValueError at nets.py:7 when it was called: the width is 0.'"""
    message = first_line(error)
    if isinstance(error, SyntaxError) and error.msg:
        message = error.msg
    return UserError(
        f"{who} raised "
        f"{type(error).__name__}{_location_in_code(error)}{when}{': ' if message else ''}"
        f"{message.rstrip('.')}.",
        kind="raised",
        value=RaisedError(
            who, type(error).__name__, _location_in_code(error).removeprefix(" at "), message
        ),
    )


def first_line(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # __str__ of the user's exception may fail, too
        message = ""
    lines = [line.strip() for line in message.strip().splitlines()]
    text = lines[0] if lines else ""
    if text.endswith(":") and len(lines) > 1:  # e.g. 'Error(s) in loading state_dict for Net:'
        text = f"{text} {lines[1]}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def make_model(name: str) -> MadeModel:
    """Import and, if needed, call `name` to get a module.

    Args:
        name: 'package.module:attribute' of an nn.Module, or of a class or function without
            required arguments that returns one.

    Raises:
        UserError: it is not found, raises, or is something else.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        target, file = _find_object(name)
        description = f"'{name.partition(':')[2]}' of {file}"
        if isinstance(target, nn.Module):
            return MadeModel(target, _model_title(target, file))
        if not callable(target):
            raise UserError(
                f"{description} is {_type_with_article(target)}; it must be an nn.Module, "
                "or a function without "
                "required arguments that returns one.",
                kind="wrong-type",
                value=_type_with_article(target),
            )
        _check_arguments(target, description)
        torch.manual_seed(SEED)  # again: the import may have drawn numbers
        with convert_errors(description, " when it was called"):
            result = target()
        if inspect.iscoroutine(result):
            result.close()
        if not isinstance(result, nn.Module):
            raise UserError(
                f"{description} returned {_type_with_article(result)}; it must return an "
                "nn.Module.",
                kind="wrong-type",
                value=_type_with_article(result),
            )
        return MadeModel(result, _model_title(result, file))


def _find_object(name: str) -> tuple[Any, str]:
    """Return the object 'package.module:name' and the file it is defined in."""
    path, _, attribute = name.partition(":")
    module = _import_module(path)
    file = shown_path(module.__file__) if module.__file__ else path
    target: Any = module
    for part in attribute.split("."):
        with convert_errors(file, f" when '{part}' was looked up"):
            missing = not hasattr(target, part)
            attribute_value = None if missing else getattr(target, part)
        if missing:
            names = [candidate for candidate in dir(target) if not candidate.startswith("_")]
            raise UserError(
                f"There is no '{part}' in {file}."
                f"{did_you_mean(part, names)}{_hint_hidden_module(path, module)}",
                kind="unknown-name",
                value=part,
            )
        target = attribute_value
    return target, file


def _import_module(path: str) -> ModuleType:
    with convert_errors(path, " while it was imported"):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{path}.".startswith(f"{error.name}."):
                raise  # the missing module is imported by the user's module
            missing = error.name
    folder = Path.cwd()
    packages = [entry.parent.name for entry in folder.glob("*/__init__.py")]
    raise UserError(
        f"There is no module '{missing}' in {folder} or among installed packages."
        f"{did_you_mean(missing, [*(entry.stem for entry in folder.glob('*.py')), *packages])}",
        kind="unknown-name",
        value=missing,
    )


def _hint_hidden_module(path: str, module: ModuleType) -> str:
    """Return a hint if an installed module hides one of the current folder, else ''."""
    root = Path.cwd() / path.partition(".")[0]
    own = next(
        (candidate for candidate in (root.with_suffix(".py"), root) if candidate.exists()), None
    )
    if own is None or (module.__file__ and Path(module.__file__).is_relative_to(Path.cwd())):
        return ""
    return f" It hides {own.name} in this folder, which has the same name: rename yours."


def _check_arguments(found: Any, description: str) -> None:
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # a builtin without signature: calling it will tell
        return
    needed = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise UserError(
            f"{description} needs arguments ({', '.join(needed)}); use a function without required "
            "arguments that returns the module.",
            kind="needs-arguments",
            value=needed,
        )


def _model_title(module: nn.Module, file: str) -> str:
    return f"{type(module).__name__} of {file}"


def _type_with_article(found: object) -> str:
    kind = type(found)
    name = kind.__qualname__
    full = name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"
    return f"{'an' if full[0] in 'aeiou' else 'a'} {full}"


def _location_in_code(error: BaseException) -> str:
    """Return ' at nets.py:7', the innermost line of the user's code, else of a package, or ''."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" at {shown_path(error.filename)}:{error.lineno}"
    lines = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    for kind in ("theirs", "installed"):
        for file, line in reversed(lines):
            if _code_owner(Path(file)) == kind:
                return f" at {shown_path(file)}:{line}"
    return ""


def _code_owner(file: Path) -> Literal["theirs", "installed", "ours"]:
    """Return whose code a file is; 'ours' includes the engine, torch and Python."""
    own = [Path(package.__file__).parent for package in (dgn_engine, torch) if package.__file__]
    if any(file.is_relative_to(folder) for folder in own) or not file.is_file():
        return "ours"
    if {"site-packages", "dist-packages"} & set(file.parts):
        return "installed"
    return "ours" if file.is_relative_to(sysconfig.get_paths()["stdlib"]) else "theirs"


def shown_path(file: str) -> str:
    """Return a path relative to the current folder if it is inside it."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
