"""Checks for a display and for system libraries before Qt would abort without a message."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping

NEEDED: dict[str, str] = {  # library: Debian package
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
}
NEEDED_FOR_X11: dict[str, str] = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
NO_DISPLAY = (
    "There is no display: train without one with 'dgn train', take a screenshot with "
    "'dgn-viewer --offscreen --steps 500 --screenshot shot.png', or provide a display with "
    "'xvfb-run dgn-viewer' or 'ssh -X'."
)


def qt_platform(environment: Mapping[str, str], system: str = sys.platform) -> str:
    """Return the Qt platform for this environment; empty if there is no display."""
    asked = environment.get("QT_QPA_PLATFORM", "")
    if asked:
        return asked.split(";")[0].split(":")[0]
    if not system.startswith("linux"):
        return "native"
    if environment.get("WAYLAND_DISPLAY"):
        return "wayland"
    return "xcb" if environment.get("DISPLAY") else ""


def missing_packages(
    platform: str, loads: Callable[[str], bool] | None = None, system: str = sys.platform
) -> tuple[str, ...]:
    """Return the Debian packages of required libraries that cannot be loaded."""
    if not system.startswith("linux"):
        return ()
    loads = loads or _can_load
    needed = NEEDED | (NEEDED_FOR_X11 if platform == "xcb" else {})
    return tuple(package for library, package in needed.items() if not loads(library))


def missing_packages_message(packages: Iterable[str]) -> str:
    """Return one sentence with the packages to install; '' if none is missing."""
    names = " ".join(packages)
    if not names:
        return ""
    return (
        f"Some system libraries for Qt are missing; install them with: sudo apt-get install {names}"
    )


def reason_no_window(environment: Mapping[str, str]) -> str:
    """Return why no window can be opened, as one sentence; '' if one can."""
    platform = qt_platform(environment)
    if not platform:
        return NO_DISPLAY
    return missing_packages_message(missing_packages(platform))


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def main() -> int:
    """Check the libraries only (a display may come later); return 0 if complete, else 2."""
    message = missing_packages_message(missing_packages(qt_platform(os.environ) or "offscreen"))
    if message:
        print(message, file=sys.stderr)
    return 2 if message else 0


if __name__ == "__main__":
    sys.exit(main())
