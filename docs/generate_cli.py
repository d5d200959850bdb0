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

A user's mistake ends with one or two lines on stderr and exit status 2. Ctrl-C ends with status 130, and the same
command goes on from there. An error of clinometer's own ends with two lines, status 70 and a file that holds the
traceback; `clinometer --debug COMMAND …` shows it.
"""
DEFAULT = "[default: "


def render() -> str:
    """The page."""
    from clinometer.cli.app import app

    root = typer.main.get_command(app)
    sections = [section("clinometer", root)]
    for name, command in root.commands.items():
        sections.append(section(f"clinometer {name}", command))
        of_group = getattr(command, "commands", {})
        sections += [section(f"clinometer {name} {sub}", each) for sub, each in of_group.items()]
    return HEAD + "".join(sections)


def section(title: str, command) -> str:
    """One command: usage, what it does, its arguments and options."""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and "completion" not in each.name]
    words = ["COMMAND"] if hasattr(command, "commands") else [placeholder(each) for each in arguments]
    usage = " ".join([title, *words, "[OPTIONS]" if options else ""]).rstrip()
    told = textwrap.fill(" ".join(str(command.help).split()), 120)
    lines = [f"\n## {title}\n", f"{told}\n", f"```text\n{usage}\n```\n"]
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
