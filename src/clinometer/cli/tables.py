"""The output of commands: text for people, one JSON document for scripts, a log, and tables in files.

Everything a command prints goes through :class:`Console`, and its result to :func:`print_json`; the options that all
commands share decide which of the two prints. See decision 60.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import rich.console
import typer
from rich.markup import escape
from rich.table import Table

from clinometer._csv import csv_text
from clinometer._messages import printable
from clinometer._secrets import masked
from clinometer.errors import InvalidInputError, RunStorageError

if TYPE_CHECKING:
    import pandas as pd

LOG: Final = logging.getLogger("clinometer.cli")


@dataclass(frozen=True)
class OutputMode:
    """How a command reports its result and its progress.

    Attributes
    ----------
    as_json : whether its result is one JSON document on stdout, and nothing else.
    quiet : whether progress and remarks on stderr are left out.
    """

    as_json: bool = False
    quiet: bool = False


OUTPUT_MODE: Final = ContextVar("OUTPUT_MODE", default=OutputMode())  # noqa: B039 - it is frozen

WIDEST: Final = 100_000
"""Columns of output that is not a terminal: no row is folded, because scripts read line by line."""


class Console(rich.console.Console):
    """Rich's console; into a pipe or a file it writes plain text: a line a row, columns aligned, no lines drawn.

    Under ``--json`` it is silent, for the findings are a document; what goes to stderr is silent under ``--quiet``.
    """

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        mode = OUTPUT_MODE.get()
        silent = mode.quiet if stderr else mode.as_json
        super().__init__(stderr=stderr, quiet=silent, emoji=False, **options)
        if not self.is_terminal and "width" not in options:
            self.width = WIDEST

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as Rich does; what is no terminal gets tables of aligned columns alone."""
        if self.is_terminal:
            super().print(*objects, **options)
            return
        for each in objects:
            if isinstance(each, Table):
                title, caption, each.title, each.caption = each.title, each.caption, None, None  # may be the wider
                each.box, each.pad_edge, each.show_lines = None, False, False
                lines = "".join(segment.text for segment in self.render(each)).splitlines()
                super().print(*filter(None, [title]), end="\n" if title else "")
                super().print("\n".join(line.rstrip() for line in lines), markup=False, highlight=False)
                super().print(*filter(None, [caption]), end="\n" if caption else "")
            else:
                super().print(each, **options)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines of plain text."""
        for line in lines:
            self.print(plain_text(line))


def print_place(what: str, place: str | Path) -> None:
    """Print where something was written, unbroken however long it is."""
    Console(soft_wrap=True).print(f"{what}: [bold]{plain_text(str(place))}[/]")


def text_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[str] | None = None
) -> Table:
    """Make a table of texts, folded and never cut; columns other than those named as ``left`` are of numbers."""
    table = Table(title=plain_text(title) or None)
    for heading in columns:
        justify: Any = "left" if left is None or heading in left else "right"
        table.add_column(plain_text(heading), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(plain_text, row))
    return table


def facts_table(title: str, facts: Mapping[str, str]) -> Table:
    """Make a table of what is known of one thing, a line a fact."""
    table = text_table(title, ("", ""), facts.items())
    table.show_header = False
    return table


def echo(text: str, *, nl: bool = True) -> None:
    """Print text as it is, unless findings are wanted as a document."""
    if not OUTPUT_MODE.get().as_json:
        typer.echo(text, nl=nl)


def print_json(result: Any, **more: Any) -> None:
    """Print the result of a command as a document of ``clinometer schema``, if ``--json`` is given.

    ``more`` : fields of the document that do not follow from the result, such as where a page was written.
    """
    if not OUTPUT_MODE.get().as_json:
        return
    from clinometer.cli.documents import document_of

    sys.stdout.write(f"{document_of(result, **more).as_json()}\n")


class _MaskedFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return masked(printable(super().format(record)))


class _LogFile(logging.FileHandler):
    """A log that ends, with a line on stderr, where its disk is full; what the command itself does goes on."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Print once why the log ends."""
        error = sys.exc_info()[1]
        logging.getLogger("clinometer").removeHandler(self)
        reason = getattr(error, "strerror", None) or error
        sys.stderr.write(f"clinometer: --log-file {printable(self.baseFilename)}: it ends here: {reason}\n")

    def close(self) -> None:
        """Close the file; a full disk, which was reported, has no room for what is left to be written."""
        with suppress(OSError):
            super().close()


@contextmanager
def _logged_to(file: Path) -> Iterator[None]:
    """Write what is logged by clinometer into a file, after what it holds."""
    require_lines(file, "--log-file")
    try:
        handler = _LogFile(file, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InvalidInputError.storage(f"--log-file {file}: cannot be written: {error.strerror or error}") from error
    handler.setFormatter(_MaskedFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("clinometer")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.close()


JSON_OPTION: Final = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON document; see clinometer schema.")
]
COMMON_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "json": (JSON_OPTION, False),
    "quiet": (
        Annotated[bool, typer.Option("--quiet", help="Print no progress on stderr, only warnings and errors.")],
        False,
    ),
    "log_file": (Annotated[Path | None, typer.Option(help="Also append a log to this file.")], None),
}
"""Options of every command, by their names in Python."""


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command with the options that say how it prints."""
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = [each.replace(annotation=hints[each.name]) for each in signature.parameters.values()]
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in COMMON_OPTIONS.items()
    ]

    @wraps(command)
    def with_output(*, json: bool, quiet: bool, log_file: Path | None, **values: Any) -> None:
        token = OUTPUT_MODE.set(OutputMode(json, quiet))
        try:
            with _logged_to(log_file) if log_file is not None else nullcontext():
                LOG.info("clinometer %s", " ".join(sys.argv[1:]))
                try:
                    command(**values)
                except typer.Exit as end:
                    LOG.info("ended with status %s", end.exit_code)
                    raise
                except BaseException as error:
                    LOG.error("%s: %s", type(error).__name__, error)
                    LOG.debug("its traceback", exc_info=error)
                    raise
                LOG.info("ended with status 0")
        finally:
            OUTPUT_MODE.reset(token)

    with_output.__signature__ = signature.replace(parameters=[*parameters, *common])  # type: ignore[attr-defined]
    with_output.__annotations__ = {each.name: each.annotation for each in (*parameters, *common)}
    return with_output


NO_MORE_LINES: Final = frozenset({".csv", ".html", ".json", ".parquet", ".toml", ".tsv", ".xml", ".yaml", ".yml"})
"""Endings of files that lines of another kind would break."""

WRITERS: Final[dict[str, Callable[[pd.DataFrame, Path], Any]]] = {
    ".csv": lambda table, path: path.write_text(csv_text(table), encoding="utf-8", newline=""),
    ".json": lambda table, path: table.to_json(
        path, orient="records", indent=2, force_ascii=False, double_precision=15
    ),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}


def check_place(out: Path | None) -> None:
    """Refuse a file that cannot be one, or is of a kind that is not written, before anything is computed."""
    if out is None:
        return
    if out.suffix.lower() not in WRITERS or out.is_dir():
        hint = ", found a folder" if out.is_dir() else ""
        raise InvalidInputError.unsupported(f"--out {out}: expected a file of {', '.join(WRITERS)}{hint}")
    if not out.parent.is_dir():
        raise InvalidInputError.not_found(f"--out {out}: no folder {out.parent}")


def require_other_place(out: Path, *read: str | Path | None, option: str = "--out") -> None:
    """Refuse a file that is read, or lies in a run that is: writing it would destroy what was held to limits."""
    place = out.resolve()
    for file in read:
        if file is not None and Path(file).resolve() in (place, *place.parents):
            raise InvalidInputError.conflict(
                f"{option} {out}: it would overwrite, or lie in, {file}; give another file"
            )


def require_lines(file: Path, option: str) -> None:
    """Refuse to append lines to a file that they would break: one that is not text, or text of a strict form.

    Raises
    ------
    InvalidInputError
        The file is there and is such a one.
    """
    if not file.is_file():
        return
    with file.open("rb") as stream:
        beginning = stream.read(4096)
    kind = file.suffix.lower()
    if b"\0" in beginning or kind in NO_MORE_LINES:
        what = f"a {kind} file" if kind in NO_MORE_LINES else "a file that is not text"
        raise InvalidInputError.unsupported(f"{option} {file}: lines cannot be appended to {what}; give another file")


def write_file(out: Path | None, option: str, content: bytes, *, mode: str = "wb") -> None:
    """Write a file that an option names, or add to it, where one is named."""
    if out is None:
        return
    if mode == "ab":
        require_lines(out, option)
    try:
        if mode == "ab":
            with out.open(mode) as file:
                file.write(content)
        else:
            _write_whole(out, lambda place: place.write_bytes(content))
    except OSError as error:
        raise RunStorageError(f"{option} {out}: cannot be written: {error.strerror or error}") from error


def _write_whole(out: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside its place and move it there, so that a full disk leaves what was there as it was."""
    place = out.resolve()
    if place.exists() and not place.is_file():  # a pipe, a device
        write(out)
        return
    beside = place.with_name(f".{place.stem}.{os.getpid()}{place.suffix}")
    try:
        write(beside)
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


def write_table(table: pd.DataFrame, out: Path | None, mapping: Mapping[str, Any] | None = None) -> None:
    """Write the whole table, every column of it; as JSON the ``mapping`` in its place, where there is one.

    The first key of a mapping stands in the file's first line.
    """
    if out is None:
        return
    try:
        if mapping is not None and out.suffix.lower() == ".json":
            lines = json.dumps(mapping, indent=2, ensure_ascii=False, allow_nan=False).partition("\n")
            text = f"{{{lines[2].lstrip()}\n"
            _write_whole(out, lambda place: place.write_text(text, encoding="utf-8"))
        else:
            _write_whole(out, partial(WRITERS[out.suffix.lower()], table))
    except OSError as error:
        raise RunStorageError(f"{out}: cannot be written: {error.strerror or error}; give another --out") from error
    print_place("Table", out)


def plain_text(text: str) -> str:
    """Escape text for Rich: no markup is read in it, and nothing reaches the terminal but letters and lines."""
    return escape(printable(text))
