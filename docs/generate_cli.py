"""Write docs/cli.md: every command with its arguments and options, as ``--help`` tells them.

    python docs/generate_cli.py

Made from the commands themselves and not from the rendered help, whose boxes change with the terminal and with rich.
"""

import textwrap
from pathlib import Path

import typer

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# The command line

What `--help` says of every command. Written by `python docs/generate_cli.py`; a test checks that it is up to date.

## Exit codes

| status | what it means |
|---:|---|
{exit_codes}

Only a gate ends with 1 or 3, so a pipeline may take any other status than 0 for a command that did not do its work. A
process that a signal ends has 128 and the signal's number in a shell: 143 where a scheduler stops it, and the same
command goes on from there, too.

`clinometer --debug COMMAND …` shows the traceback of what goes wrong. An option of one value that is given twice is a
mistake.

## For scripts

`--json` prints what a command found as one JSON document on stdout, and nothing else there. Documents are of the kinds
{kinds}.
`clinometer schema` prints their JSON Schema. Every document names its schema, `{schema}`, whose number changes
when a field changes its meaning or goes; fields are only added within it, and the schema that is printed is the one of
the version that prints it. A number that is not known is null, and has a
reason beside it. A mistake is no document: stdout stays empty, and stderr and the status tell.

`--quiet` leaves out progress and remarks on stderr; what goes wrong is still said. `--log-file FILE` adds to a file
what is done, stage by stage, and what went wrong, with its traceback and without passwords. Python's `logging` gets the
same from a program that calls clinometer: stages by the logger `clinometer.progress`, commands by `clinometer.cli`.

Into a pipe or a file, tables are columns of plain text, a line a row, whole.

## Defaults of your own

An option that is not given comes from the environment, then from a file, then from its default. The variable is the
command and the option, as in `CLINOMETER_AUDIT_DEVICE=cuda` or `CLINOMETER_GATE_AT_MOST=0.2`. Files are, the first
first, `clinometer.toml` in the current directory, or the tables under `[tool.clinometer]` of a `pyproject.toml` there;
and `config.toml` in your own directory, `~/.config/clinometer` on Linux. A table for each command, and above them what
all commands take:

```toml
quiet = true

[audit]
device = "cuda"
encoder = ["reference", "RN50/openai"]
guidance = 7.5

[ratings.new]
raters = 5
```

`clinometer config` shows what is set so, and `clinometer config COMMAND …` every option of a command, with where each
comes from. Every value that is taken from a file is said on stderr, once, with the file's name, unless you give
`--quiet`. A key that there is not is a mistake.

### What a folder's file may set

A folder may be somebody else's: a repository that you cloned. Its file sets what at most changes what is measured:

{harmless}.

`model` and `encoder` are among them where they name the reference, a repository of the hub or an architecture of
open_clip, and nothing of that name lies in the folder. All else sends data, spends money, runs code, weakens a check,
reads or writes a file that you did not name, or speaks in your name:

{guarded}.

Give these on the command line, in the environment or in your own `config.toml`. A folder's file that sets one is
refused by the command that it concerns, until you have read it and given `clinometer config allow` there: then that
file, as it is now, may set all. Once it changes it may no longer; `clinometer config deny` takes it back. The `options`
of a sweep's file, and an `out` elsewhere than on a disk, are held to the same: `clinometer config allow sweep.yaml`.
"""
DEFAULT = "[default: "


def render() -> str:
    """The page."""
    from clinometer.cli.app import EXIT_CODES, app
    from clinometer.cli.documents import SCHEMA, json_schema
    from clinometer.cli.trust import GUARDED, HARMLESS

    root = typer.main.get_command(app)
    sections = [section("clinometer", root)]
    for name, command in root.commands.items():
        sections.append(section(f"clinometer {name}", command))
        of_group = getattr(command, "commands", {})
        sections += [section(f"clinometer {name} {sub}", each) for sub, each in of_group.items()]
    codes = "\n".join(f"| {status} | {meaning} |" for status, meaning in EXIT_CODES.items())
    kinds = ", ".join(f"`{kind}`" for kind in json_schema()["discriminator"]["mapping"])
    harmless, guarded = (
        textwrap.fill(", ".join(f"`{name.replace('_', '-')}`" for name in sorted(names)), 119, break_on_hyphens=False)
        for names in (HARMLESS, GUARDED)
    )
    head = HEAD.format(exit_codes=codes, kinds=kinds, schema=SCHEMA, harmless=harmless, guarded=guarded)
    return head + "".join(sections)


def section(title: str, command) -> str:
    """One command: usage, what it does, its arguments and options."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and "completion" not in each.name]
    words = ["COMMAND"] if hasattr(command, "commands") else [placeholder(each) for each in arguments]
    usage = " ".join([title, *words, "[OPTIONS]" if options else ""]).rstrip()
    told = textwrap.fill(" ".join(str(command.help).split()), 120)
    lines = [f"\n## {title}\n", f"{told}\n", f"```text\n{usage}\n```\n"]
    if command.epilog:
        examples = command.epilog.split("\n\n")[1:]
        lines += ["```sh", *examples, "```\n"]
    if hasattr(command, "commands"):
        lines += ["| command | what it does |", "|---|---|"]
        lines += [f"| `{name}` | {' '.join(str(each.help).split())} |" for name, each in command.commands.items()]
        lines.append("")
    if arguments:
        lines += ["| argument | what it is |", "|---|---|"]
        lines += [f"| `{placeholder(each).strip('[]')}` | {each.help} |" for each in arguments]
        lines.append("")
    if options:
        lines += ["| option | what it does | default |", "|---|---|---|", *map(option_row, options), ""]
    return "\n".join(lines)


def placeholder(argument) -> str:
    """How an argument stands in the usage line."""
    name = (argument.metavar or argument.name).upper()
    return name if argument.required else f"[{name}]"


def option_row(option) -> str:
    """Names, help and default of an option; a default that the help tells goes into its own column."""
    told, _, default = str(option.help).partition(DEFAULT)
    default = default.rstrip("]") or ("" if option.is_flag or option.default is None else f"`{option.default}`")
    names = ", ".join(f"`{name}`" for name in sorted([*option.opts, *option.secondary_opts], key=len))
    return f"| {names} | {told.strip()} | {default} |"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
