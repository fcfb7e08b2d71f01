"""Style sheet, palette, fonts and recoloured icons."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib.resources import files

from PySide6 import QtGui
from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QWidget

from dgn_engine.scene.theme import Theme
from dgn_engine.text.printable import printable
from dgn_viewer.style.chosen_numbers import with_chosen_numbers

_ICONS = files("dgn_resources") / "icons"
# The palette role that carries the colour of each token, so that one style sheet serves every
# theme. Window, Base, Button and their text roles are not used: where a rule sets a colour or a
# background, Qt overwrites these roles in the widget and its children.
PALETTE_ROLES = {
    "window": QPalette.ColorRole.AlternateBase,
    "panel": QPalette.ColorRole.ToolTipBase,
    "line": QPalette.ColorRole.Mid,
    "text": QPalette.ColorRole.ToolTipText,
    "muted": QPalette.ColorRole.LinkVisited,
    "accent": QPalette.ColorRole.Accent,
    "refused": QPalette.ColorRole.BrightText,
    "on_accent": QPalette.ColorRole.HighlightedText,
    "hover": QPalette.ColorRole.Midlight,
    "edge": QPalette.ColorRole.Dark,
    "primary_hover": QPalette.ColorRole.Shadow,
}


def on_accent(theme: Theme) -> str:
    """Return the text colour on the accent: the theme's extreme with more contrast."""
    return theme.panel if theme.name == "light" else theme.window


def mix_colours(first: str, second: str, share: float) -> str:
    """Return `first` mixed with `share` (0…1) of `second`, as '#RRGGBB'."""
    pairs = zip(_rgb_channels(first), _rgb_channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def contrast_ratio(first: str, second: str) -> float:
    """Return the WCAG 2.2 contrast ratio, 1…21."""
    bright, dark = sorted((_relative_luminance(first), _relative_luminance(second)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _relative_luminance(colour: str) -> float:
    shares = [channel / 255 for channel in _rgb_channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb_channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def text_pairs(theme: Theme) -> tuple[tuple[str, str], ...]:
    """Return every (text, background) pair used by the style sheet and painted widgets."""
    hover = mix_colours(theme.panel, theme.line, 0.5)
    return (
        *(
            (theme.text, background)
            for background in (theme.window, theme.panel, theme.line, hover)
        ),
        *((theme.muted, background) for background in (theme.window, theme.panel, hover)),
        *((theme.refused, background) for background in (theme.window, theme.panel)),
        (theme.accent, theme.panel),
        (on_accent(theme), theme.accent),
    )


@cache
def themed_icon(name: str, theme: Theme, size: int = 16, colour: str = "") -> QIcon:
    """Return an icon in the theme's text colour, of `size` pixels before the scale of type.

    It is rendered for the pixel ratios of the screens at hand, and for 1 and 2. Cached: at startup
    the window asks for 28 icons 138 times.

    Raises:
        FileNotFoundError: There is no icon with this name.
    """
    source = (_ICONS / f"{name}.svg").read_text(encoding="utf-8")
    result = QIcon()
    tones = (
        (QIcon.Mode.Normal, colour or theme.text),
        (QIcon.Mode.Disabled, mix_colours(theme.muted, theme.window, 0.5)),
    )
    screens = QGuiApplication.screens()
    ratios = sorted({1.0, 2.0, *(screen.devicePixelRatio() for screen in screens)})
    for mode, tone in tones:
        picture = QSvgRenderer(QByteArray(source.replace("currentColor", tone).encode()))
        for scale in ratios:
            result.addPixmap(_render_svg(picture, round(size * theme.scale), scale), mode)
    return result


def _render_svg(picture: QSvgRenderer, size: int, scale: float) -> QPixmap:
    pixmap = QPixmap(QSize(size, size) * scale)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    picture.render(painter)
    painter.end()
    pixmap.setDevicePixelRatio(scale)
    return pixmap


def tabular_font(widget: QWidget, size: int = 13, bold: bool = False) -> QFont:
    """Return the widget's font family at `size` pixels with tabular figures, for painted text."""
    result = QFont(widget.font())
    result.setPixelSize(size)
    result.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    result.setFeature(QFont.Tag("tnum"), 1)
    return result


def theme_palette(theme: Theme) -> QPalette:
    """Return the palette of the style sheet, including the roles that Fusion uses."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.panel,
        role.Text: theme.text,
        role.Button: theme.panel,
        role.ButtonText: theme.text,
        role.PlaceholderText: theme.muted,
        role.Highlight: theme.accent,
        role.Link: theme.accent,
        role.Light: theme.panel,
        **{of: _token_colour(name, theme) for name, of in PALETTE_ROLES.items()},
    }
    result = QPalette()
    for which, colour in colours.items():
        result.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(QPalette.ColorGroup.Disabled, which, QColor(theme.muted))
    return result


def application_stylesheet(scale: float = 1.0) -> str:
    """Return the application's style sheet; its colours come from the palette.

    Lengths above one pixel are multiplied by `scale`.

    The dynamic property `role` selects the style of a label ('muted', 'small', 'title', 'refused');
    a push button with `role` 'primary' is the default action.
    """
    sheet = (files("dgn_resources") / "style.qss").read_text(encoding="utf-8")
    for name, role in PALETTE_ROLES.items():
        role_name = re.sub(r"(?<!^)(?=[A-Z])", "-", role.name.replace("ToolTip", "Tooltip")).lower()
        sheet = sheet.replace(f"@{name}@", f"palette({role_name})")
    if scale != 1.0:
        sheet = re.sub(r"\b([2-9]|\d{2,})px", lambda px: f"{round(scale * int(px[1]))}px", sheet)
    return sheet.replace("@icons@", str(_ICONS).replace("\\", "/"))


def set_sheet(widget: QWidget, sheet: str) -> None:
    """Set the style sheet of a widget, unless it has it: Qt polishes all its children anew."""
    if widget.styleSheet() != sheet:
        widget.setStyleSheet(sheet)


def _token_colour(name: str, theme: Theme) -> str:
    """Return the colour of a style sheet token."""
    match name:
        case "on_accent":
            return on_accent(theme)
        case "hover":
            return mix_colours(theme.panel, theme.line, 0.5)
        case "edge":
            return mix_colours(theme.line, theme.muted, 0.35)
        case "primary_hover":
            return mix_colours(theme.accent, theme.text, 0.12)
    colour: str = getattr(theme, name)
    return colour


def wrapping_tip(text: str) -> str:
    """Return a wrapping tooltip that shows `text` literally: file names are not markup."""
    return f"<span>{escape(with_chosen_numbers(printable(text, lines=True)))}</span>"


def plain_tip(text: str) -> str:
    """Return a tooltip for our own text; `wrapping_tip` if Qt would take it for markup."""
    shown = with_chosen_numbers(printable(text, lines=True))
    markup = QtGui.Qt.mightBeRichText(shown)
    return wrapping_tip(shown) if markup else shown
