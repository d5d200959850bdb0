"""Defaults of the command line from a file, and ``clinometer config``, which says what every option is and why.

A folder that somebody sends must neither take a key nor run code: a ``clinometer.toml`` of the folder sets what is
harmless. All else it sets only where the user has allowed that very file, as direnv does: its place and the hash of its
content are kept in the user's own directory. See decision 73.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from clinometer._messages import did_you_mean, first_and_more, printable, quoted, shortened
from clinometer._secrets import masked_address
from clinometer.cli.tables import COMMON_OPTIONS, OUTPUT_MODE, Console, echo, plain_text, print_json, text_table
from clinometer.errors import InvalidInputError

HARMLESS: Final = frozenset(
    """
    suite images concepts seed steps guidance_scale wording device workers batch_size dtype resamples report protocol
    text_targets until expression trace trace_steps trace_latents latents height width negative_prompt scheduler
    prior_steps prior_guidance_scale edit_steps edit_guidance_scale lora_scale variant device_map offload compile
    vae_tiling concurrency requests_per_minute dry_run json quiet
    paper paper_model recompute explain rows format evidence dataset board check_skin port
    name labels template trials all_trials question threshold most sentences unit alternative ddof spread
    effect margin power alpha target gate word intervention strength loss training_steps learning_rate
    quick item_column rater_column answer_column title shown pairs strata concept answer raters items blur
    ablate phrases
""".split()  # noqa: SIM905 - words are read, a list of eighty strings is not
)
"""Options that at most change what is measured, and how fast. Every option is here or in ``GUARDED``."""

GUARDED: Final = frozenset(
    """
    out log_file log_to table junit_file summary cache database manifest counts truth portraits reference consent policy
    registration history last baseline pilot pictures new export
    base_url reader_url trusted_host trust_remote_code engine host allowed_host behind_https password_file url
    lora lora_partly mitigation model_config trace_decoder decoder method reader verdict_reader writer rewriter
    rewriter_prompt
    system_prompt send_seed quality price answer_price budget retry_failed safety_checker max_pixels max_missing
    metric component within at_least at_most four_fifths allow_undecided unchecked suite_option drop_encoder
    benchmark source by in_scope out_of_scope license public pull_request
    check_drift repeats attention warning days demo rater simulated same_pictures yes
""".split()  # noqa: SIM905 - as above
) | {"verify evidence", "suites dataset", "test images", "test labels"}
"""Options that send data, spend, run code, weaken a check, read or write any file, or speak in the user's name.

Of a command alone where the option of that name is harmless in another.
"""

MODELS: Final = frozenset({"model", "encoder"})
"""Harmless where they name the reference, or a repository or an architecture: no directory, no file, no plug-in."""

_REPOSITORY: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_harmless(command: str, option: str, value: Any) -> bool:
    """Return whether somebody else's file may set an option of a command to a value."""
    if option in MODELS:
        named = value if isinstance(value, list) else [value]
        return all(
            each == "reference" or (_REPOSITORY.fullmatch(str(each)) and not os.path.lexists(each)) for each in named
        )
    return option in HARMLESS and f"{command} {option}" not in GUARDED


def own_folder() -> Path:
    """Return the user's own directory of configuration: ``~/.config/clinometer`` on Linux."""
    return Path(typer.get_app_dir("clinometer"))


def _allowed() -> dict[str, str]:
    """Read which files the user has allowed, by their places: the hash of each; none where that cannot be read."""
    try:
        allowed = json.loads((own_folder() / "allowed.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return allowed if isinstance(allowed, dict) else {}


def is_allowed(file: Path, content: bytes) -> bool:
    """Return whether the user has allowed a file, with the content that it has now."""
    return _allowed().get(str(file.resolve())) == hashlib.sha256(content).hexdigest()


def allow(file: Path, content: bytes | None) -> None:
    """Remember that the user allows a file with its content; with None, that it is allowed no longer."""
    kept = {place: digest for place, digest in _allowed().items() if place != str(file.resolve())}
    if content is not None:
        kept[str(file.resolve())] = hashlib.sha256(content).hexdigest()
    try:
        own_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=own_folder(), delete=False, encoding="utf-8") as written:
            json.dump(kept, written, indent=2)
        os.replace(written.name, own_folder() / "allowed.json")
    except OSError as error:
        raise InvalidInputError.cannot_write(own_folder(), error) from error


def refuse_untrusted(keys: Sequence[str], instead: str, file: str = "") -> None:
    """Refuse what a file sets that is not harmless: ``keys``, which ``instead`` would set; ``file`` where it was named.

    Raises
    ------
    InvalidInputError
        There is such a key.
    """
    if keys:
        raise InvalidInputError.untrusted(
            f"{first_and_more(keys, 3)}: set by a file that is not allowed to; give {instead}, or read the file and "
            f"give: {' '.join(('clinometer config allow', file)).rstrip()}"
        )


FOLDER_FILE: Final = "clinometer.toml"
PROJECT_FILE: Final = "pyproject.toml"
OWN_FILE: Final = "config.toml"
MOST_BYTES: Final = 500_000


@dataclass(frozen=True)
class Defaults:
    """The options that a file sets.

    Attributes
    ----------
    file : the name of the file in messages. ``section`` precedes its keys.
    place : the path of the file, with the bytes that were read.
    values : by command, and within it by the option's name in Python, as in Click's ``default_map``.
    content : as in the file.
    is_trusted : whether it is the user's own, or the user has allowed it in its present state.
    """

    file: str
    section: str
    place: tuple[Path, bytes]
    values: Mapping[str, Any]
    content: Mapping[str, Any]
    is_trusted: bool

    def key(self, context: Any, option: Any) -> str:
        """Return where the file sets an option of a command: ``clinometer.toml: audit.images``."""
        content: Any = self.content
        words = words_of(context)
        for word in words:
            content = content.get(word, {})
        spellings = {_spell(option), option.name, option.name.replace("_", "-")}
        table = "".join(f"{word}." for word in words) if spellings & content.keys() else ""
        return f"{self.file}: {self.section}{table}{_spell(option)}"

    def sets(self, context: Any, option: Any) -> bool:
        """Return whether the file sets an option of a command."""
        values: Any = self.values
        for word in words_of(context):
            values = values.get(word, {})
        return option.name in values

    def refuses(self, context: Any, option: Any) -> bool:
        """Return whether the file may not set an option to its value."""
        command = " ".join(words_of(context))
        return not self.is_trusted and not is_harmless(command, option.name, context.params.get(option.name))


def words_of(context: Any) -> list[str]:
    """Return the words by which a command is typed after the program's own name."""
    words: list[str] = context.command_path.removeprefix(context.find_root().command_path).split()
    return words


def read_defaults(group: Any) -> list[Defaults]:
    """Read the defaults of the working directory and then the user's own, of which the former win.

    Those of the folder are ``clinometer.toml``, or else ``[tool.clinometer]`` of a project.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or names a command or an option that there is not.
    """
    found: list[Defaults] = []
    places = [Path(FOLDER_FILE), Path(PROJECT_FILE), own_folder() / OWN_FILE]
    for place in places:
        is_own = place is places[-1]
        is_project = place.name == PROJECT_FILE
        if is_project and found:
            continue
        name, section = str(place) if is_own else place.name, "tool.clinometer." if is_project else ""
        try:
            read = _read_content(place)
            content: Any = tomllib.loads(read.decode("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError) as error:
            if is_project:  # somebody else's file, and whoever builds with it will say so
                continue
            raise InvalidInputError.cannot_read(name, error) from error
        if is_project:
            tool = content.get("tool")
            content = tool.get("clinometer") if isinstance(tool, dict) else None
        if content is None:
            continue
        if not isinstance(content, dict):
            raise InvalidInputError.wrong_type(f"{name}: tool.clinometer: found {quoted(content)}, expected a table")
        values = _values(content, group, f"{name}: {section}")
        values.pop("config", None)  # which says what is set, and is to say so whatever is
        found.append(Defaults(name, section, (place, read), values, content, is_own or is_allowed(place, read)))
    return found


def _read_content(place: Path) -> bytes:
    if place.exists() and not place.is_file():
        raise ValueError("it is no regular file")
    with place.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    return content


def merge_defaults(found: Iterable[Defaults]) -> dict[str, Any]:
    """Return the values of several files as one ``default_map``; the first file wins."""

    def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
        both = {name: merge(low[name], high[name]) for name in low.keys() & high.keys() if isinstance(low[name], dict)}
        return {**low, **high, **both}

    merged: dict[str, Any] = {}
    for defaults in found:
        merged = merge(defaults.values, merged)
    return merged


def check_defaults(context: Any) -> None:
    """Refuse what a file sets of a command and must not, and say once what else is taken from a file.

    Raises
    ------
    InvalidInputError
        A file of the folder sets what is not harmless, and the user has not allowed it.
    """
    taken = [(option, origin) for option in context.command.params if (origin := _origin(context, option)) is not None]
    refused = [(origin.key(context, option), option) for option, origin in taken if origin.refuses(context, option)]
    refuse_untrusted([key for key, _ in refused], " ".join(f"--{_spell(option)}" for _, option in refused[:3]))
    by_user = not any(option.name == "quiet" and not origin.is_trusted for option, origin in taken)
    if context.params.get("quiet") and by_user:
        return
    for defaults in context.find_root().obj or ():
        values = [f"{_spell(option)} = {_in_words(context, option)}" for option, origin in taken if origin is defaults]
        if values:
            typer.echo(printable(f"clinometer: from {defaults.file}: {', '.join(values)}"), err=True)


def _in_words(context: Any, option: Any) -> str:
    """Return the value of an option as it may be shown."""
    value = context.params.get(option.name)
    if isinstance(value, str) and option.name.endswith("_url"):
        value = masked_address(value, keys_in_path=True)
    if isinstance(value, list | tuple):
        return shortened(" ".join(", ".join(map(str, value)).split()))
    return "" if value is None else shortened(" ".join(str(value).split()))


def _origin(context: Any, option: Any) -> Defaults | None:
    """Find the file that an option has its value from."""
    if option.param_type_name != "option" or _source(context, option) != "file":
        return None
    return next((each for each in context.find_root().obj or () if each.sets(context, option)), None)


def _values(content: Mapping[str, Any], group: Any, place: str) -> dict[str, Any]:
    """Check the tables of commands; options that all commands share may stand above them."""
    values: dict[str, Any] = {}
    for name, setting in content.items():
        command = group.commands.get(name)
        if command is None and name.replace("-", "_") in COMMON_OPTIONS:
            continue
        if command is None:
            known = [*group.commands, *(name.replace("_", "-") for name in COMMON_OPTIONS)]
            hint = did_you_mean(name, known) or f"expected a command, such as {first_and_more(known, most=3)}"
            raise InvalidInputError.unknown_name(f"{place}{name}: there is no such command; {hint}")
        if not isinstance(setting, dict):
            raise InvalidInputError.wrong_type(
                f"{place}{name}: found {quoted(setting)}, expected a table: [{name}] and its options"
            )
    shared = {name: setting for name, setting in content.items() if name not in group.commands}
    for name, command in group.commands.items():
        table = content.get(name, {})
        if hasattr(command, "commands"):
            values[name] = _values(shared | table, command, f"{place}{name}.")
            continue
        taken = {key: setting for key, setting in shared.items() if key.replace("-", "_") in _names(command).values()}
        values[name] = dict(_options(taken, command, place)) | dict(_options(table, command, f"{place}{name}."))
    return values


def _options(content: Mapping[str, Any], command: Any, place: str) -> Iterator[tuple[str, Any]]:
    names = _names(command)
    options = {option.name: option for option in command.params}
    for key, setting in content.items():
        name = names.get(key.replace("_", "-"))
        if name is None:
            hint = did_you_mean(key, names) or f"it takes {', '.join(names) or 'none'}"
            raise InvalidInputError.unknown_name(f"{place}{key}: {command.name} has no such option; {hint}")
        if isinstance(setting, dict) or (isinstance(setting, list) and not options[name].multiple):
            raise InvalidInputError.wrong_type(f"{place}{key}: found {quoted(setting)}, expected one value")
        several = options[name].multiple and not isinstance(setting, list)
        if options[name].is_flag and not isinstance(setting, bool):
            raise InvalidInputError.wrong_type(f"{place}{key}: found {quoted(setting)}, expected true or false")
        words = [str(each) for each in setting] if isinstance(setting, list) else str(setting)
        yield name, setting if options[name].is_flag else [words] if several else words


def _names(command: Any) -> dict[str, str]:
    """Return the options of a command by their names in a file: as they are typed, or as they are called in Python."""
    options = [each for each in command.params if each.param_type_name == "option" and not each.is_eager]
    return {each.name.replace("_", "-"): each.name for each in options} | {_spell(each): each.name for each in options}


def _spell(option: Any) -> str:
    return str(max(option.opts, key=len)).lstrip("-")


def words_for(context: Any) -> dict[str, str]:
    """Return how messages name the options of a command: as they are typed, or where else their value comes from."""
    words = {}
    for option in context.command.params:
        if option.param_type_name == "option":
            words[option.name] = _place_of(context, option) or max(option.opts, key=len)
            # what an audit calls --trace-steps is --steps of the command trace
            words.setdefault(f"{context.command.name}_{option.name}", words[option.name])
    return words


def _place_of(context: Any, option: Any) -> str:
    """Return the key of a file, or the variable, that an option has its value from; empty for any other."""
    if (origin := _origin(context, option)) is not None:
        return origin.key(context, option)
    if _source(context, option) != "environment":
        return ""
    return option.envvar or f"{context.auto_envvar_prefix}_{option.name.upper()}"


def _source(context: Any, option: Any) -> str:
    source = context.get_parameter_source(option.name)
    kinds = {"COMMANDLINE": "command line", "ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}
    return kinds.get(getattr(source, "name", ""), "default")


def config(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND [OPTION…]]", help="A command and its options, as you would type them."),
    ] = None,
) -> None:
    """Show the values of options, and where they come from.

    That is the command line, the environment, a file or the default; without a command, only what a file or the
    environment sets is shown. `config allow` permits this folder's file to set every option in it, until the file
    changes; `config allow FILE` does the same for a sweep's file, and `config deny` revokes it.
    """
    root = context.find_root()
    if words and "--json" in words:  # it is typed after the command that is asked about, and meant for this one
        OUTPUT_MODE.set(replace(OUTPUT_MODE.get(), as_json=True))
        words = [word for word in words if word != "--json"]
    if words and words[0] in ("allow", "deny"):
        _allow_or_deny(words[0], words[1:], root.obj)
        return
    if words:
        command, names = root.command, list[str]()
        while words and hasattr(command, "commands"):
            found = command.commands.get(words[0])
            if found is None:
                hint = did_you_mean(words[0], command.commands) or f"expected one of {', '.join(command.commands)}"
                raise InvalidInputError.unknown_name(f"config: found {words[0]!r}; {hint}")
            command, words, names = found, words[1:], [*names, words[0]]
        commands = _commands(command, tuple(names)) if hasattr(command, "commands") else [(names, command)]
        rows = [row for own, each in commands for row in _read_options(root, own, each, list(words))]
    else:
        rows = [
            row
            for names, command in _commands(root.command)
            for row in _read_options(root, names, command, [])
            if row["from"] != "default"
        ]
    console, columns = Console(), ("command", "option", "value", "from")
    if rows:
        console.print(text_table("", columns, [[str(row[name]) for name in columns] for row in rows]))
    else:
        console.print("Neither a file nor the environment sets an option; every one has its default.")
    read = [each.file + ("" if each.is_trusted else ", which may set what is harmless") for each in root.obj]
    where = (
        f"Defaults are read from {' and '.join(read)}."
        if read
        else f"There is no {FOLDER_FILE} here, no [tool.clinometer] in a {PROJECT_FILE}, no {own_folder() / OWN_FILE}."
    )
    console.print(plain_text(where))
    print_json("tables", of="config", tables={"options": rows}, remarks=[where])


def _allow_or_deny(verb: str, files: list[str], found: list[Defaults]) -> None:
    """Allow, or no longer allow, this folder's file or the files named, with the content that they have now."""
    of_folder = [each.place for each in found if each.file in (FOLDER_FILE, PROJECT_FILE)]
    try:
        places = [(Path(file), _read_content(Path(file))) for file in files] or of_folder
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError.unreadable(f"config {verb}: {', '.join(files)} cannot be read: {reason}") from error
    if not places:
        raise InvalidInputError.not_found(f"config {verb}: there is no {FOLDER_FILE} here; name the file that is meant")
    for place, content in places:
        allow(place, content if verb == "allow" else None)
        remark = "allowed as it is now; once it changes, no longer" if verb == "allow" else "allowed no longer"
        echo(f"{printable(str(place))}: {remark}.")
    print_json("files", of="config", place=str(own_folder()), files=[str(place) for place, _ in places])


def _commands(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[list[str], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*before, name))
        else:
            yield [*before, name], command


def _read_options(root: Any, names: list[str], command: Any, words: list[str]) -> Iterator[dict[str, Any]]:
    """Read words as the command itself would, and say what each of its options is then."""
    parent = root
    for name in names[:-1]:
        parent = type(root)(parent.command.commands[name], parent=parent, info_name=name)
    trial = command.context_class(command, parent=parent, info_name=names[-1])
    command.make_parser(trial).parse_args(list(words))  # which refuses an unknown option; what reads leniently does not
    context = command.make_context(names[-1], words, parent=parent, resilient_parsing=True)
    for option in command.params:
        if option.param_type_name != "option" or option.is_eager:
            continue
        origin, value = _origin(context, option), context.params.get(option.name)
        place = _place_of(context, option) or _source(context, option)
        if value in (None, [], ()) and place == "default":
            stated = re.search(r"\[default: ([^\]]*)\]", option.help or "")
            value = stated[1] if stated else ""
        elif isinstance(value, str | list | tuple | None):
            value = _in_words(context, option)
        yield {
            "command": " ".join(names),
            "option": max(option.opts, key=len),
            "value": value,
            "from": f"{place}, not allowed" if origin is not None and origin.refuses(context, option) else place,
        }
