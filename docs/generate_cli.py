"""Write docs/cli.md: the help of every command, as plain text.

    python docs/generate_cli.py

The text is click's own plain formatting at a fixed width, so that neither a terminal nor a version of rich can change it.
"""

from pathlib import Path

import typer

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 100
HEAD = """# The command line

The help of every command. Written by `python docs/generate_cli.py`; a test checks that it is up to date.

A user's mistake ends with one or two lines on stderr and exit status 2. Ctrl-C ends with status 130, and the same
command goes on from there.
"""


def plain_help(command, parent=None) -> str:
    """What ``--help`` says, without boxes and colours."""
    context = command.context_class(command, info_name=command.name, parent=parent, terminal_width=WIDTH)
    formatter = context.make_formatter()
    command.format_usage(context, formatter)
    command.format_help_text(context, formatter)
    command.format_options(context, formatter)
    return "\n".join(line.rstrip() for line in formatter.getvalue().strip().splitlines())


def render() -> str:
    """The page."""
    from clinometer.cli.app import app

    app.rich_markup_mode = None
    try:
        root = typer.main.get_command(app)
        context = root.context_class(root, info_name="clinometer", terminal_width=WIDTH)
        sections = [("clinometer", plain_help(root))]
        sections += [(f"clinometer {name}", plain_help(command, context)) for name, command in root.commands.items()]
    finally:
        app.rich_markup_mode = "rich"
    return HEAD + "".join(f"\n## {name}\n\n```text\n{text}\n```\n" for name, text in sections)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
