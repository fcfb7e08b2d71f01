"""Writes the tables of docs/settings.md from the declared settings.

    python -m documentation.settings_page

The text above the first table is written by hand. The page is kept, because `dgn docs` and the
Help window show it without a build.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from dgn_engine.config import SETTINGS
from dgn_engine.config.setting import Setting
from dgn_engine.data import data_sets
from dgn_engine.importing.from_config import settings_of_net
from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import all_regimes
from documentation.generated_page import table

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
HEADS = ("key", "default", "accepted", "only with", "what it does")
OPTION_HEADS = ("option of", "name", "default", "accepted", "what it is")


def settings_by_place() -> dict[str, Setting]:
    """Return every setting by its key in a configuration, such as 'data.name'."""
    return {
        f"{part}.{name}".lstrip("."): setting
        for part, settings in SETTINGS.items()
        for name, setting in settings.items()
    }


def setting_row(place: str, setting: Setting) -> tuple[str, ...]:
    """Return the cells of a setting: its key, with its option unless that follows from the key."""
    derived = setting.name.replace("_", "-")
    option = derived if setting.option is None else setting.option
    note = "" if option == derived else f" (`--{option}`)" if option else " (no option)"
    return (
        f"`{place}`{note}",
        _default_in_words(setting),
        _accepted_in_words(setting),
        "; ".join(_conditions_in_words(setting)),
        _description(place, setting),
    )


def option_rows() -> Iterator[tuple[str, ...]]:
    """Yield the rows of options; networks or data sets with the same option share a row."""
    owners: dict[tuple[str, str, str, str], list[str]] = {}
    for name, settings in _options().items():
        for setting in settings:
            default, accepted = _default_in_words(setting), _accepted_in_words(setting)
            label = "" if setting.label == setting.name else setting.label
            cells = f"`{setting.name}`", default, accepted, label
            owners.setdefault(cells, []).append(f"`{name}`")
    for cells, names in owners.items():
        yield ", ".join(names), *cells


def write_tables(text: str) -> str:
    """Return the page with new tables below its introduction."""
    introduction = text.partition("\n| ")[0].rstrip("\n")
    return "\n".join((introduction, "", *_tables(), ""))


def _tables() -> Iterator[str]:
    rows = [setting_row(place, setting) for place, setting in settings_by_place().items()]
    yield from (*table(HEADS, rows), "")
    yield from ("## Options of networks and data sets", "")
    yield from ("Their keys are `net.options.width`, `data.options.rho` and so on.", "")
    yield from table(OPTION_HEADS, list(option_rows()))


def _options() -> dict[str, tuple[Setting, ...]]:
    """Return the options of each network and data set."""
    nets = {name: tuple(settings_of_net(net)) for name, net in all_nets().items()}
    return nets | {name: data_set.options for name, data_set in data_sets().items()}


def _format_number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _description(place: str, setting: Setting) -> str:
    """Return what a setting does; '' if that would only repeat its key."""
    words = setting.tip or setting.help or setting.label
    return "" if words == place.rpartition(".")[2].replace("_", " ") else words


def _default_in_words(setting: Setting) -> str:
    match setting.default:
        case bool():
            return "yes" if setting.default else "no"
        case None | "" | ():
            return ""
        case int() | float():
            return _format_number(setting.default)
    return f"`{setting.default}`"


def _accepted_in_words(setting: Setting) -> str:
    """Return choices and bounds, and what 0 or an empty value means.

    Where 0 has a meaning, it is the least.
    """
    words = [", ".join(_accepted_values(setting))]
    if setting.zero:
        words.append(f"0: {setting.zero}")
    if setting.hint and setting.default in ("", ()):
        words.append(f"empty: {setting.hint}")
    return "; ".join(filter(None, words))


def _accepted_values(setting: Setting) -> Iterator[str]:
    yield from (f"`{choice}`" for choice in setting.choices)
    if setting.share:
        yield "0 to 1"
    if setting.above is not None:
        yield f"> {_format_number(setting.above)}"
    if setting.least is not None and not (setting.zero and setting.least == 0):
        yield f"≥ {_format_number(setting.least)}"
    if setting.most is not None:
        yield f"≤ {_format_number(setting.most)}"


def _conditions_in_words(setting: Setting) -> Iterator[str]:
    """Yield the conditions under which a setting affects a run."""
    conditions: Mapping[str, object] = (
        {**setting.when, **setting.shown} if setting.effect is None else setting.effect
    )
    for place, wanted in conditions.items():
        subject, _, name = place.partition(".")
        if subject == "regime":
            yield _regimes_in_words(name, wanted)
        elif subject == "dataset":
            sets = [key for key, one in data_sets().items() if getattr(one, name) == wanted]
            yield ", ".join(sorted(sets))
        elif wanted == "":
            yield f"without {place}"
        else:
            values = wanted if isinstance(wanted, tuple) else (wanted,)
            yield f"{place} {' or '.join(map(str, values))}"


def _regimes_in_words(name: str, wanted: object) -> str:
    """Return 'FL, FL-linear' or 'not FRG', whichever is shorter; 'soft gates' if both are long."""
    if name == "soft":
        return "soft gates"
    having = [regime.name for regime in all_regimes() if getattr(regime, name) == wanted]
    lacking = [regime.name for regime in all_regimes() if getattr(regime, name) != wanted]
    return ", ".join(having) if len(having) <= len(lacking) else f"not {', '.join(lacking)}"


def main() -> int:
    PAGE.write_text(write_tables(PAGE.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
