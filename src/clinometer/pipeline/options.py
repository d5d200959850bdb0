"""How an option is declared: once, beside its type, in the function or the request that takes it.

    def plan(suite: Annotated[AskedSuite | None, Option("A built-in suite or a YAML file.", short="-s")] = None, …)

The command line, ``clinometer.toml`` and docs/cli.md get its name, type, default, limits and help from there, and
``documented`` writes the help into the docstring of the function. Nothing heavy is imported here: see decision 78.
"""

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

if TYPE_CHECKING:
    from clinometer.models.protocols import Encoder, Generator
    from clinometer.models.readers import Reader
    from clinometer.pipeline.engines import Engine
    from clinometer.runs.progress import Progress
    from clinometer.runs.run import Run
    from clinometer.suites import Suite

    AskedModel: TypeAlias = str | Generator
    AskedSuite: TypeAlias = str | Path | Suite
    AskedEncoder: TypeAlias = str | Encoder
    Encoders: TypeAlias = AskedEncoder | Sequence[AskedEncoder]
    AskedReader: TypeAlias = str | Reader
    Readers: TypeAlias = AskedReader | Sequence[AskedReader]
    AskedEngine: TypeAlias = str | Engine
    AskedRun: TypeAlias = str | os.PathLike[str] | Run
    Listener: TypeAlias = Progress
else:  # objects pass as they are, and nothing that knows them is imported
    AskedModel = AskedSuite = AskedEncoder = Encoders = AskedReader = Readers = Any
    AskedEngine = AskedRun = Listener = Any

Place: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Option:
    """An option of a command: how it is given, and what becomes of it.

    Attributes
    ----------
    help : what it does; for a field of a request, the description of the field.
    name, short, metavar : where they do not follow from the name of the parameter.
    key : its name in files and variables, where that is not the name of the parameter.
    default : what applies where it is not given, in words. The function's own default then applies.
    panel : the heading of ``--help`` that it is listed under.
    least, most : its limits.
    kind : how the command line reads it, where that does not follow from the type.
    several : how each of several values is read, which are a sweep.
    many : whether it may be repeated.
    typed : whether the command line has it.
    kept : whether run.json keeps it: what changes the numbers and is in no card and no suite.
    alike : whether the cells of a sweep must agree on it, because it changes an image.
    of_suite : whether it changes what the suite asks.
    """

    help: str = ""
    name: str = ""
    short: str = ""
    metavar: str | None = None
    key: str = ""
    default: str = ""
    panel: str | None = None
    least: float | None = None
    most: float | None = None
    kind: Any = None
    several: type | None = None
    many: bool = False
    typed: bool = True
    kept: bool = False
    alike: bool = False
    of_suite: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether the option may be given again."""
        return self.many or self.several is not None


class Argument(Option):
    """An argument of a command, which has no name there."""


RUN: Final = Argument("A run directory.", metavar="RUN")

Function = TypeVar("Function", bound=Callable[..., Any])
HEADING: Final = "Parameters\n----------\n"


def parts_of(annotation: Any) -> Iterator[Any]:
    """Yield a type and every part of it, the metadata of annotations too."""
    yield annotation
    for part in get_args(annotation) if get_origin(annotation) is not Literal else ():
        yield from parts_of(part)


def option_in(annotation: Any) -> Option | None:
    """Return the option that an annotation declares; None where it declares none."""
    found = get_args(annotation) if get_origin(annotation) is Annotated else ()
    return next((each for each in found if isinstance(each, Option)), None)


def default_in_words(option: Option, default: Any) -> str:
    """Return what applies where an option is not given, as ``--help`` ends; empty where nothing is to be said."""
    words = option.default or ("" if default is None else str(default))
    return f" [default: {words}]" if words else ""


def documented(function: Function) -> Function:
    """Decorate a function that declares options: its docstring describes those that it does not describe itself.

    The signature that people see has the plain types.
    """
    signature, document = inspect.signature(function), inspect.getdoc(function) or ""
    if HEADING not in document:
        section = re.search("^(Returns|Raises)\n---", document, re.MULTILINE)
        place = section.start() if section else len(document)
        document = f"{document[:place].rstrip()}\n\n{HEADING}\n\n{document[place:]}"
    opening, _, rest = document.partition(HEADING)
    described, _, rest = rest.partition("\n\n")
    own = {
        name.lstrip("*"): entry
        for entry in re.split(r"\n(?=\S)", described)
        for name in entry.partition(" : ")[0].split(", ")
    }
    parameters, entries = [], dict[str, None]()  # an entry may describe several parameters
    for name, parameter in signature.parameters.items():
        option = option_in(parameter.annotation)
        if option is None:
            parameters.append(parameter)
        else:
            parameters.append(parameter.replace(annotation=get_args(parameter.annotation)[0]))
            default = None if parameter.default in (parameter.empty, "", (), False) else parameter.default
            text = f"{name} : {option.help}{default_in_words(option, default)}"
            own.setdefault(name, textwrap.fill(text, 116, subsequent_indent="    "))
        if name in own:
            entries[own[name]] = None
    document = f"{opening}{HEADING}{chr(10).join(entries)}\n\n{rest}"
    function.__doc__ = textwrap.indent(document, "    ").strip()
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return function
