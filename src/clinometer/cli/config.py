"""Defaults of the command line from a file, and ``clinometer config``, which says what every option is and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer._secrets import masked_address
from clinometer.cli.tables import COMMON_OPTIONS, Console, plain_text, tell
from clinometer.errors import InvalidInputError

OWN_FILE: Final = "clinometer.toml"
PROJECT_FILE: Final = "pyproject.toml"


@dataclass(frozen=True)
class Defaults:
    """What a file says options are.

    Attributes
    ----------
    file : its name; empty where there is none. ``section`` stands before its keys.
    values : by command, and within it by the option's name in Python, as Click's ``default_map`` has them.
    content : as they stand in the file.
    """

    file: str = ""
    section: str = ""
    values: Mapping[str, Any] | None = None
    content: Mapping[str, Any] | None = None

    def key(self, context: Any, option: Any) -> str:
        """Return where the file says what an option of a command is: ``clinometer.toml: audit.images``."""
        words = [context.info_name]
        while context.parent is not None and context.parent.parent is not None:
            context = context.parent
            words.insert(0, context.info_name)
        own: Any = self.content or {}
        for word in words:
            own = own.get(word, {})
        spellings = {_spell(option), option.name, option.name.replace("_", "-")}
        table = "".join(f"{word}." for word in words) if spellings & own.keys() else ""
        return f"{self.file}: {self.section}{table}{_spell(option)}"


def read_defaults(group: Any, folder: Path | None = None) -> Defaults:
    """Read the defaults that lie in the folder: ``clinometer.toml``, or else ``[tool.clinometer]`` of a project.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or names a command or an option that there is not.
    """
    for name in (OWN_FILE, PROJECT_FILE):
        file = (folder or Path()) / name
        try:
            content: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            if name == PROJECT_FILE:  # somebody else's file, and whoever builds with it will say so
                continue
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInputError(f"{name}: cannot be read: {reason}") from error
        section = "" if name == OWN_FILE else "tool.clinometer."
        if section:
            tool = content.get("tool")
            content = tool.get("clinometer") if isinstance(tool, dict) else None
        if content is None:
            continue
        if not isinstance(content, dict):
            raise InvalidInputError(f"{name}: tool.clinometer: found {quoted(content)}, expected a table")
        return Defaults(name, section, _values(content, group, f"{name}: {section}"), content)
    return Defaults()


def _values(content: Mapping[str, Any], group: Any, place: str) -> dict[str, Any]:
    """Check the tables of commands; options that all commands share may stand above them."""
    values: dict[str, Any] = {}
    for name, held in content.items():
        command = group.commands.get(name)
        if command is None and name.replace("-", "_") in COMMON_OPTIONS:
            continue
        if command is None:
            known = [*group.commands, *(name.replace("_", "-") for name in COMMON_OPTIONS)]
            hint = did_you_mean(name, known) or f"expected a command, such as {first_and_more(known, most=3)}"
            raise InvalidInputError(f"{place}{name}: there is no such command; {hint}")
        if not isinstance(held, dict):
            raise InvalidInputError(f"{place}{name}: found {quoted(held)}, expected a table: [{name}] and its options")
    shared = {name: held for name, held in content.items() if name not in group.commands}
    for name, command in group.commands.items():
        own = content.get(name, {})
        if hasattr(command, "commands"):
            values[name] = _values(shared | own, command, f"{place}{name}.")
            continue
        taken = {key: held for key, held in shared.items() if key.replace("-", "_") in _names(command).values()}
        values[name] = dict(_options(taken, command, place)) | dict(_options(own, command, f"{place}{name}."))
    return values


def _options(content: Mapping[str, Any], command: Any, place: str) -> Iterator[tuple[str, Any]]:
    names = _names(command)
    options = {option.name: option for option in command.params}
    for key, held in content.items():
        name = names.get(key.replace("_", "-"))
        if name is None:
            hint = did_you_mean(key, names) or f"it takes {', '.join(names) or 'none'}"
            raise InvalidInputError(f"{place}{key}: {command.name} has no such option; {hint}")
        if isinstance(held, dict) or (isinstance(held, list) and not options[name].multiple):
            raise InvalidInputError(f"{place}{key}: found {quoted(held)}, expected one value")
        several = options[name].multiple and not isinstance(held, list)
        if options[name].is_flag and not isinstance(held, bool):
            raise InvalidInputError(f"{place}{key}: found {quoted(held)}, expected true or false")
        words = [str(each) for each in held] if isinstance(held, list) else str(held)
        yield name, held if options[name].is_flag else [words] if several else words


def _names(command: Any) -> dict[str, str]:
    """Return the options of a command by their names in a file: as they are typed, or as they are called in Python."""
    options = [each for each in command.params if each.param_type_name == "option" and not each.is_eager]
    return {each.name.replace("_", "-"): each.name for each in options} | {_spell(each): each.name for each in options}


def _spell(option: Any) -> str:
    return str(max(option.opts, key=len)).lstrip("-")


def words_for(context: Any) -> dict[str, str]:
    """Return how messages name the options of a command: as they are typed, or where else their value comes from."""
    words, defaults = {}, context.find_root().obj or Defaults()
    for option in context.command.params:
        if option.param_type_name == "option":
            source = _source(context, option)
            elsewhere = {"file": defaults.key(context, option), "environment": _variable(context, option)}
            words[option.name] = elsewhere.get(source, max(option.opts, key=len))
    return words


def _source(context: Any, option: Any) -> str:
    source = context.get_parameter_source(option.name)
    kinds = {"COMMANDLINE": "command line", "ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}
    return kinds.get(getattr(source, "name", ""), "default")


def _variable(context: Any, option: Any) -> str:
    return option.envvar or f"{context.auto_envvar_prefix}_{option.name.upper()}"


def config(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND [OPTION…]]", help="A command, and options as they would be given to it."),
    ] = None,
) -> None:
    """Show what options are where none is given, and where each comes from: command line, environment, file, default.

    Without a command, what a file or the environment sets.
    """
    root = context.find_root()
    defaults = root.obj if isinstance(root.obj, Defaults) else Defaults()
    if words:
        command, names = root.command, list[str]()
        while words and hasattr(command, "commands"):
            found = command.commands.get(words[0])
            if found is None:
                hint = did_you_mean(words[0], command.commands) or f"expected one of {', '.join(command.commands)}"
                raise InvalidInputError(f"config: found {words[0]!r}; {hint}")
            command, words, names = found, words[1:], [*names, words[0]]
        rows = list(_read_options(root, names, command, list(words), defaults))
    else:
        rows = [
            row
            for names, command in _commands(root.command)
            for row in _read_options(root, names, command, [], defaults)
            if row["from"] != "default"
        ]
    console, table = Console(), Table("command", "option", "value", "from")
    for row in rows:
        table.add_row(*(plain_text(str(row[name])) for name in ("command", "option", "value", "from")))
    if rows:
        console.print(table)
    else:
        console.print("Neither a file nor the environment sets an option; every one has its default.")
    where = (
        f"Defaults are read from {defaults.file}."
        if defaults.file
        else f"There is no {OWN_FILE} here, and no [tool.clinometer] in a {PROJECT_FILE}."
    )
    console.print(plain_text(where))
    tell("tables", of="config", tables={"options": rows}, remarks=[where])


def _commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[list[str], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*before, name))
        else:
            yield [*before, name], command


def _read_options(
    root: Any, names: list[str], command: Any, words: list[str], defaults: Defaults
) -> Iterator[dict[str, Any]]:
    """Read words as the command itself would, and say what each of its options is then."""
    parent = root
    for name in names[:-1]:
        parent = type(root)(parent.command.commands[name], parent=parent, info_name=name)
    if not hasattr(command, "commands"):
        context = command.make_context(names[-1], words, parent=parent, resilient_parsing=True)
        for option in command.params:
            if option.param_type_name != "option" or option.is_eager:
                continue
            source, value = _source(context, option), context.params.get(option.name)
            if isinstance(value, str) and option.name.endswith("_url"):
                value = masked_address(value, keys_in_path=True)
            detail = {"file": defaults.key(context, option), "environment": _variable(context, option)}.get(source)
            yield {
                "command": " ".join(names),
                "option": max(option.opts, key=len),
                "value": "" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else value,
                "from": detail or source,
            }
