"""The reference of the commands, written from the parsers of the programs themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from dgn_engine.cli import _build_parser, _offered_commands, _own_commands
from dgn_engine.cli._options import PLACES
from dgn_engine.config import SETTINGS
from dgn_viewer.__main__ import build_parser as viewer_parser
from documentation.generated_page import GeneratedPage, table

FOLDER = "reference/commands"
Places = Mapping[str, tuple[str, str]]  # settings by the names of their options


def generate() -> Iterator[GeneratedPage]:
    offered = {**_offered_commands(), **_own_commands()}
    whole = _build_parser({name: load() for name, load in sorted(offered.items())})
    commands = dict(_verbs(whole))
    yield GeneratedPage(f"{FOLDER}/index.md", "\n".join(_index(commands)))
    for name, parser in commands.items():
        yield GeneratedPage(f"{FOLDER}/{name}.md", "\n".join(_page(f"dgn {name}", parser)))
    text = "\n".join(_page("dgn-viewer", viewer_parser()))
    yield GeneratedPage(f"{FOLDER}/dgn-viewer.md", text)


def _index(commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    yield "# All commands\n"
    yield (
        "`dgn` works without a window and without a display; `dgn-viewer` opens the window. "
        "These pages are written from the programs' own parsers, so that every option is here. "
        "`dgn COMMAND --help` prints the same.\n"
    )
    rows = [
        (f"[`dgn {name}`]({name}.md)", parser.description or "")
        for name, parser in commands.items()
    ]
    rows.append(("[`dgn-viewer`](dgn-viewer.md)", viewer_parser().description or ""))
    yield from table(("command", "what it does"), rows)
    yield "\n## Exit codes\n"
    rows = [
        ("0", "done"),
        ("1", "something is damaged or missing: `dgn runs verify`, `dgn doctor`"),
        ("2", "refused, one sentence on stderr says why; nothing was changed"),
        ("3", "the loss diverged, or a run of a sweep failed; what there was is saved"),
        ("4", "trained, but the result could not be written"),
        ("128 + n", "stopped by the signal n, and saved: 130 is Ctrl-C"),
    ]
    yield from table(("code", "meaning"), rows)


def _page(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"# {name}\n"
    yield f"{parser.description or ''}\n"
    verbs = dict(_verbs(parser))
    if verbs:
        for verb, below in verbs.items():
            yield f"\n## {name} {verb}\n"
            yield f"{_sentence(below.description or _helps(parser).get(verb, ''))}\n"
            yield from _body(f"{name} {verb}", below, "###")
        return
    yield from _body(name, parser, "##")


def _body(name: str, parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    yield f"```\n{_usage(name, parser)}\n```\n"
    places = _settings_of(parser)
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if not isinstance(a, argparse._HelpAction)]
        if not actions:
            continue
        title = {"positional arguments": "Arguments", "options": "Options"}.get(
            group.title or "", (group.title or "").capitalize()
        )
        yield f"{level} {title}\n"
        rows = [(_named(a), _default(a, places), _about(a, places)) for a in actions]
        yield from table(("", "default", "what it does"), rows)
        yield ""


def _settings_of(parser: argparse.ArgumentParser) -> Places:
    """Return `PLACES` if a command has the options of a run; in others the names mean less."""
    return PLACES if PLACES.keys() <= {action.dest for action in parser._actions} else {}


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return what each verb of a command does, as `--help` puts it."""
    return {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def _usage(name: str, parser: argparse.ArgumentParser) -> str:
    words = [
        f"[{a.metavar or a.dest}]" if a.nargs in ("?", "*") else str(a.metavar or a.dest)
        for a in parser._actions
        if not a.option_strings
    ]
    return " ".join([name, "[options]", *words])


def _named(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = ""
    if action.nargs != 0:
        value = f" {action.metavar or action.dest.upper()}"
        if action.choices is not None and action.metavar is None:
            value = ""
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _default(action: argparse.Action, places: Places) -> str:
    if action.dest in places:  # of a setting: the configuration has the default
        part, name = places[action.dest]
        return _value(SETTINGS[part][name].default)
    if action.nargs == 0 or action.default is argparse.SUPPRESS:
        return "off" if action.default in (False, None) and action.option_strings else ""
    if not action.option_strings and action.nargs is None:
        return "needed"
    return "needed" if action.required else _value(action.default)


def _value(value: object) -> str:
    match value:
        case None | "" | () | []:
            return "–"
        case bool():
            return "on" if value else "off"
        case float():
            return f"`{value:g}`"
        case tuple() | list():
            return f"`{','.join(map(str, value))}`"
    return f"`{value}`"


def _about(action: argparse.Action, places: Places) -> str:
    text = (action.help or "").replace("%%", "%")
    if action.dest in places:
        part, name = places[action.dest]
        setting = SETTINGS[part][name]
        said = setting.tip or text or setting.label
        text = f"{said} ({text})" if text and text not in said and setting.choices else said
    if action.choices is not None:
        choices = ", ".join(f"`{choice}`" for choice in action.choices)
        text = f"{text}{'; ' if text else ''}one of {choices}"
    if action.dest in places:
        part, name = places[action.dest]
        key = f"{part}.{name}".lstrip(".")
        text = f"{text}{' · ' if text else ''}key `{key}`"
    return text


def _verbs(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()
