"""Commands built from the functions of ``clinometer.api``, and the options that only the command line has.

A command has the options that its function declares, see :func:`with_options`. Options of adapters are passed on
unchecked, so that an adapter that lacks one names it.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, get_origin, get_type_hints

import typer

from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import SERVERS, Argument, Option, default_in_words, option_in, option_of, parts_of

PANEL = "Options of diffusers models"


_of_diffusers = partial(Option, panel=PANEL)
_of_server = partial(Option, panel=SERVERS)


def _typed_option(name: str, annotation: Any, option: Option, default: Any) -> inspect.Parameter:
    """Make of a declared option the parameter of a command that Typer reads: its names, type, default, help, limits.

    What the function reads further, such as names separated by commas, is left as text.
    """
    if option.kind is not None:
        kind = option.kind
    elif option.is_repeatable:
        kind = list[str]
    else:
        parts = list(parts_of(annotation))
        as_text = str in parts or Any in parts or any(get_origin(part) is Literal for part in parts)
        kind = str if as_text else next(each for each in (bool, int, float, Path) if each in parts)
    help = option.help
    if option.several is not None:
        help += " Repeatable." if option.several is str else " Separate several with commas."
    if default is not inspect.Parameter.empty and (option.default or option.is_repeatable):
        help += default_in_words(option, default if option.several else None)
        default = None
    if isinstance(option, Argument):
        declared = typer.Argument(help=help, metavar=option.metavar)
    else:
        names = [option.name or f"--{(option.key or name).replace('_', '-')}", *filter(None, [option.short])]
        least = None if option.is_repeatable else option.least
        declared = typer.Option(
            *names, help=help, metavar=option.metavar or ("<str>" if option.is_repeatable else None), min=least,
            max=option.most, rich_help_panel=option.panel, show_default=default is not inspect.Parameter.empty,
        )  # fmt: skip
    return inspect.Parameter(
        option.key or name, inspect.Parameter.KEYWORD_ONLY, default=default,
        annotation=Annotated[kind | None if default is None else kind, declared],
    )  # fmt: skip


def with_options(
    *functions: Callable[..., Any],
    without: Collection[str] = (),
    optional: Collection[str] = (),
    also: Mapping[str, Option] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the options that functions of ``clinometer.api`` declare.

    The command gets those that were given, by the names of the function's parameters; where one was not given, the
    function's own default applies. Parameters that the command itself annotates with an option come after these.

    Parameters
    ----------
    without : options that the command does not have.
    optional : what a function needs and the command can do without.
    also : further options by name, of type str unless they have another ``kind``; the default of each is None.
    """
    derived: dict[str, inspect.Parameter] = {}
    none_by_default = set()
    declared = [
        (name, function.__annotations__[name], parameter.default)
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
    ]
    further = [(name, Annotated[option.kind or str, option], None) for name, option in also.items()]
    for name, annotation, default in [*declared, *further]:
        option = option_in(annotation)
        if option is not None and option.typed and name not in (*derived, *without):
            derived[name] = _typed_option(name, annotation, option, None if name in optional else default)
            if default is None and name not in also:
                none_by_default.add(name)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
            if (option := option_in(hints[each.name])) is None
            else _typed_option(each.name, hints[each.name], option, each.default)
            for each in inspect.signature(command).parameters.values()
            if get_origin(hints[each.name]) is Annotated
        ]
        taken = {name: each for name, each in derived.items() if name not in {one.name for one in own}}

        @wraps(command)
        def with_values(**values: Any) -> None:
            for name, each in taken.items():
                value = values.pop(each.name)
                if value not in (None, []):
                    values[name] = value
                elif name in none_by_default:
                    values[name] = None
            command(**values)

        with_values.__signature__ = inspect.Signature([*taken.values(), *own])  # type: ignore[attr-defined]
        with_values.__annotations__ = {each.name: each.annotation for each in (*taken.values(), *own)}
        return with_values

    return decorate


MODEL_OPTIONS: Final[dict[str, Option]] = {
    "height": _of_diffusers("Height in pixels.", default="the model's", kind=int),
    "width": _of_diffusers("Width in pixels.", default="the model's", kind=int),
    "negative_prompt": _of_diffusers("The prompt that guidance steers away from."),
    "scheduler": _of_diffusers("A scheduler class of diffusers.", default="the model's"),
    "prior_steps": _of_diffusers("Steps of the prior, for models with one.", default="the model's", kind=int),
    "prior_guidance_scale": _of_diffusers(
        "Guidance scale of the prior, for models with one.", default="the model's", name="--prior-guidance", kind=float
    ),
    "edit_steps": _of_diffusers("Denoising steps for edits.", default="as for drawing", kind=int),
    "edit_guidance_scale": _of_diffusers(
        "Guidance scale for edits.", default="as for drawing", name="--edit-guidance", kind=float
    ),
    "model_config": _of_diffusers("For a single safetensors file: the pipeline whose configuration to use."),
    "lora": _of_diffusers(
        "A LoRA to merge: a safetensors file, a directory, a hub id, or 'none' for the model without one. Repeatable.",
        many=True,
    ),
    "mitigation": _of_diffusers(
        "For any model: a directory that `clinometer mitigate` wrote, or none. [default: the one in the "
        "pipeline's directory, if any]"
    ),
    "lora_scale": _of_diffusers("Strength at which the LoRA is merged.", default="1", kind=float),
    "lora_partly": _of_diffusers(
        "Merge a LoRA even if most of its weights have no counterpart in the model.", kind=bool
    ),
    "safety_checker": _of_diffusers(
        "The pipeline's own safety checker: keep (flagged images count as refused), mark (they are kept and "
        "marked) or off.",
        default="keep",
    ),
    "variant": _of_diffusers("A variant of the weight files, such as fp16."),
    "device_map": _of_diffusers("Distribute the model over several devices: balanced."),
    "offload": _of_diffusers("Keep parts that are not in use in CPU memory: model or sequential."),
    "compile": _of_diffusers("Compile the network; the first batch then takes minutes.", kind=bool),
    "vae_tiling": _of_diffusers("Decode large images in tiles.", kind=bool),
    "trust_remote_code": _of_diffusers("Allow code from the model's repository to run: repeat the model's name here."),
    "price": _of_server("Price of one image at these settings, from the server's price list.", kind=float),
    "base_url": _of_server("URL of the server.", default="OpenAI's, or OPENAI_BASE_URL"),
    "trusted_host": _of_server(
        "A further host, besides the server's, that redirects and private addresses may lead to. Repeatable.",
        many=True,
    ),
    "quality": _of_server("Image quality, in the server's own terms."),
    "system_prompt": _of_server("System prompt, for a model that draws within a chat."),
    "rewriter": _of_server("A chat model on the same server that rewrites every prompt.", default="none"),
    "rewriter_prompt": _of_server("Instructions for the rewriter.", default="to be vivid"),
    "send_seed": _of_server("Send each image's seed, to servers that accept one.", kind=bool),
    "concurrency": _of_server("Maximum number of requests at once.", default="4", least=1, kind=int),
    "requests_per_minute": _of_server(
        "Maximum number of requests per minute.", default="the server's limit", kind=float
    ),
}
"""Options of the adapters of models, in addition to those of every audit: by Python name, in the order of ``--help``.

``lora`` may have several values, which are a sweep.
"""

TABLE: Final = Option("Also write the table to this file: .csv, .json or .parquet.", short="-o")
TableOption = Annotated[Path | None, TABLE]
READER_OPTIONS: Final[dict[str, Option]] = {
    "batch_size": replace(option_of("batch_size"), kind=int),
    "price": Option("Price of one answer, for a reader behind a server.", kind=float),
} | {name: replace(MODEL_OPTIONS[name], panel=None) for name in ("base_url", "concurrency", "requests_per_minute")}
"""Options of the adapters of readers, by their names in Python."""


def given_options(**options: Any) -> dict[str, Any]:
    """Keep the options that the user gave."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def pop_given(options: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Remove the named options from those of a command, and return the ones that the user gave."""
    return given_options(**{name: options.pop(name) for name in names if name in options})


def _known_trackers(targets: list[str] | None) -> list[str]:
    """Refuse an unknown tracker, and one whose client is not installed, before a command begins."""
    if targets:
        from clinometer.tracking.clients import require_trackers

        require_trackers(targets)
    return targets or []


LogToOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACKER[:TARGET]",
        callback=_known_trackers,
        help="Also send numbers, pictures and the report to mlflow, wandb, trackio or tensorboard. Repeatable.",
    ),
]


def refuse_repeated(context: Any, words: Sequence[str]) -> None:
    """Refuse an option of one value that was given twice: all but the last would be dropped without a word."""
    try:
        command = context.command  # which makes its option of help once: it is to have the names that it has here
        trial = command.context_class(command, help_option_names=context.help_option_names)
        _, _, order = command.make_parser(trial).parse_args(list(words))
    except Exception:  # a mistake of another kind is told by whoever reads the words next
        return
    counted = Counter(parameter for parameter in order if parameter.param_type_name == "option")
    for option, times in counted.items():
        if times > 1 and not option.multiple and (not option.is_flag or option.secondary_opts):
            typed = max(option.opts, key=len)
            raise InvalidInputError.duplicate(f"{typed}: found {times} values, and it takes one; give it once")


def refuse_without(*, needs: str, **options: Any) -> None:
    """Refuse options that mean nothing without another, which was not given."""
    for name, value in given_options(**options).items():
        typed = name.replace("_", "-")
        raise InvalidInputError.conflict(f"--{typed}: found {value}, and no --{needs}; give --{needs}, or leave it out")
