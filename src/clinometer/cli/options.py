"""Options that commands share, and those of single adapters, each declared once.

What an adapter takes is passed on as it is, so that an adapter without it names it.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from clinometer.errors import InvalidInputError
from clinometer.pipeline.request import SERVERS, AuditRequest, fields_in_order, flag_of, told_default

PANEL = "Options of diffusers models"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=PANEL, **more)


def _paid(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=SERVERS, **more)


def is_repeatable(field: FieldInfo) -> bool:
    """Return whether an option may be given again and again."""
    return flag_of(field).many or flag_of(field).several is not None


def option_of(name: str) -> Any:
    """Make an option for Typer of a field of a request: its names, its help, its limit."""
    field = AuditRequest.model_fields[name]
    flag, metadata = flag_of(field), [*field.metadata]
    for part in _parts_of(field.annotation):
        metadata += part.metadata if isinstance(part, FieldInfo) else []
    least = next((limit.ge for limit in metadata if hasattr(limit, "ge")), None)
    more = {"Repeatable.": flag.several is str, "Several by commas.": flag.several in (int, float)}
    told = " ".join([str(field.description), *(words for words, said in more.items() if said)])
    if flag.default or is_repeatable(field):
        told += told_default(field)
    names = [flag.name or f"--{name.replace('_', '-')}", *filter(None, (flag.short,))]
    return typer.Option(*names, help=told, rich_help_panel=flag.panel, min=None if is_repeatable(field) else least)


def _kind_of(field: FieldInfo) -> Any:
    """Find how Typer reads an option: what a request reads further is left as text."""
    if is_repeatable(field):
        return list[str] | None
    parts = list(_parts_of(field.annotation))
    as_text = str in parts or Any in parts or any(get_origin(part) is Literal for part in parts)
    kind: Any = str if as_text else next(each for each in (bool, int, float) if each in parts)
    return kind if field.default is not None else kind | None


def _parts_of(annotation: Any) -> Iterator[Any]:
    """Go through a type and all that it is made of, limits too."""
    yield annotation
    for part in get_args(annotation) if get_origin(annotation) is not Literal else ():
        yield from _parts_of(part)


ModelConfigOption = Annotated[
    str | None, _option(help="For a single safetensors file, the pipeline whose configuration it takes.")
]
PriceOption = Annotated[float | None, _paid(help="What one image costs at these settings, by the server's list.")]
BaseUrlOption = Annotated[str | None, _paid(help="The server. [default: OpenAI's, or OPENAI_BASE_URL]")]
MODEL_OPTIONS: Final[dict[str, Any]] = {
    "height": Annotated[int | None, _option(help="Height in pixels. [default: the model's]")],
    "width": Annotated[int | None, _option(help="Width in pixels. [default: the model's]")],
    "negative_prompt": Annotated[str | None, _option(help="What guidance steers away from.")],
    "scheduler": Annotated[str | None, _option(help="A scheduler class of diffusers. [default: the model's]")],
    "prior_steps": Annotated[int | None, _option(help="Steps of a model's prior. [default: the model's]")],
    "prior_guidance_scale": Annotated[
        float | None, _option("--prior-guidance", help="Guidance of a model's prior. [default: the model's]")
    ],
    "edit_steps": Annotated[int | None, _option(help="Denoising steps of edits. [default: those of drawing]")],
    "edit_guidance_scale": Annotated[
        float | None, _option("--edit-guidance", help="Guidance of edits. [default: that of drawing]")
    ],
    "model_config": ModelConfigOption,
    "lora": Annotated[
        list[str] | None,
        _option(help="A LoRA to merge: a safetensors file, a directory or a hub id. Repeatable; none is without."),
    ],
    "mitigation": Annotated[
        str | None,
        _option(
            help="What `clinometer mitigate` wrote, for any model. [default: of the pipeline's directory]; or none."
        ),
    ],
    "lora_scale": Annotated[float | None, _option(help="How strongly. [default: 1]")],
    "lora_partly": Annotated[
        bool | None, _option("--lora-partly", help="Merge a LoRA of which few weights find a place in the model.")
    ],
    "safety_checker": Annotated[
        str | None, _option(help="keep, mark or off: the pipeline's own checker. [default: keep]")
    ],
    "variant": Annotated[str | None, _option(help="A variant of the weight files, such as fp16.")],
    "device_map": Annotated[str | None, _option(help="Share the model out over devices: balanced.")],
    "offload": Annotated[str | None, _option(help="model or sequential: keep in the CPU's memory what is not in use.")],
    "compile": Annotated[bool | None, _option("--compile", help="Compile the network; the first batch takes minutes.")],
    "vae_tiling": Annotated[bool | None, _option("--vae-tiling", help="Decode large images in tiles.")],
    "trust_remote_code": Annotated[
        str | None, _option(help="The model's own name, if the code in its repository may run.")
    ],
    "price": PriceOption,
    "base_url": BaseUrlOption,
    "trusted_host": Annotated[
        list[str] | None,
        _paid(help="A host besides the server's that redirects and private addresses may lead to. Repeatable."),
    ],
    "quality": Annotated[str | None, _paid(help="As the server names it.")],
    "system_prompt": Annotated[str | None, _paid(help="What a model that draws within a chat is told beforehand.")],
    "rewriter": Annotated[
        str | None, _paid(help="A chat model on the same server that rewrites every prompt. [default: none]")
    ],
    "rewriter_prompt": Annotated[str | None, _paid(help="What the rewriter is told. [default: to be vivid]")],
    "send_seed": Annotated[bool | None, _paid("--send-seed", help="Send each image's seed, to servers that take one.")],
    "concurrency": Annotated[int | None, _paid(min=1, help="Requests at once. [default: 4]")],
    "requests_per_minute": Annotated[float | None, _paid(help="The pace. [default: the server's]")],
}
"""What the adapters of models take beside what every audit has, by their names in Python, in the order of ``--help``.

``lora`` may have several values, which are a sweep.
"""

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="'reference', a pipeline directory, a safetensors file, or a hub id."),
]
ENCODER_HELP = (
    "'reference', NAME/PRETRAINED of open_clip (RN50/openai), a directory, a hub id, or openai-clip-six. Repeatable."
)
AddedEncoderOption = Annotated[list[str] | None, typer.Option("--encoder", "-e", help=f"Added first: {ENCODER_HELP}")]
ManifestOption = Annotated[
    Path | None, typer.Option(help="The manifest. [default: manifest or metadata, .csv or .jsonl]")
]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")]
TableOption = Annotated[Path | None, typer.Option("--out", "-o", help="Also write the table: .csv, .json, .parquet.")]
ServerOption = Annotated[str | None, typer.Option(help="The server. [default: OpenAI's, or OPENAI_BASE_URL]")]
ConcurrencyOption = Annotated[int | None, typer.Option(min=1, help="Requests at once. [default: 4]")]
BatchSizeOption = Annotated[int | None, option_of("batch_size")]
DeviceOption = Annotated[str, option_of("device")]
EngineOption = Annotated[str, option_of("engine")]
WorkersOption = Annotated[int | None, option_of("workers")]
RetryFailedOption = Annotated[bool, option_of("retry_failed")]
ResamplesOption = Annotated[int, option_of("resamples")]
ReportOption = Annotated[bool, option_of("report")]
ReferenceOption = Annotated[str | None, option_of("reference")]


def given_options(**options: Any) -> dict[str, Any]:
    """Keep the options that the user gave."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def request_parameters() -> dict[str, inspect.Parameter]:
    """Make the options of the command line that an audit has by its request."""
    return {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if is_repeatable(field) else field.default,
            annotation=Annotated[_kind_of(field), option_of(name)],
        )
        for name, field in fields_in_order().items()
        if flag_of(field).typed
    }


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
        help="Also send numbers, pictures and report to mlflow, wandb, trackio or tensorboard. Repeatable.",
    ),
]


DRY_RUN_HELP: Final = "Load the model, say what the audit asks and what it costs, show the first request, and end."
OF_AN_AUDIT: Final[dict[str, tuple[Any, Any]]] = {
    "log_to": (LogToOption, None),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help=DRY_RUN_HELP)], False),
}
"""Options of an audit that are none of its request, with their defaults."""


def with_options_of_an_audit(
    own: Mapping[str, tuple[Any, Any]], without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command with the options of an audit and of models, of which it gets what was given.

    Parameters
    ----------
    own : its own options, each with its default, by their names; the command gets them by name.
    without : options of an audit that it does not have.
    """
    parameters = request_parameters()
    for name, annotation in MODEL_OPTIONS.items():
        parameters[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    parameters = {name: each for name, each in parameters.items() if name not in without}
    for name, (annotation, default) in own.items():
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_options(**values: Any) -> None:
            of_model = given_options(**{name: values.pop(name) for name in MODEL_OPTIONS if name in values})
            more = {name: values.pop(name) for name in own}
            command(values, of_model, **more)

        with_options.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        with_options.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return with_options

    return decorate


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
