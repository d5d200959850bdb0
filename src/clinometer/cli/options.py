"""Options that commands share, and those of single adapters, each declared once.

What an adapter takes is passed on as it is, so that an adapter without it names it.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from clinometer.errors import InvalidInputError

PANEL = "Options of diffusers models"
WORK = "Where the work is done"
SERVERS = "Options of models behind OpenAI's images API"


def _option(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=PANEL, **more)


def _paid(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=SERVERS, **more)


ModelConfigOption = Annotated[
    str | None, _option(help="For a single safetensors file, the pipeline whose configuration it takes.")
]
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
    "lora_scale": Annotated[float | None, _option(help="How strongly. [default: 1]")],
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
    "price": Annotated[float | None, _paid(help="What one image costs at these settings, by the server's list.")],
    "budget": Annotated[
        float | None, _paid(help="What the missing images may cost; checked before the first request.")
    ],
    "base_url": Annotated[str | None, _paid(help="The server. [default: OpenAI's, or OPENAI_BASE_URL]")],
    "trusted_host": Annotated[
        list[str] | None,
        _paid(help="A host besides the server's that redirects and private addresses may lead to. Repeatable."),
    ],
    "quality": Annotated[str | None, _paid(help="As the server names it.")],
    "concurrency": Annotated[int | None, _paid(min=1, help="Requests at once. [default: 4]")],
    "requests_per_minute": Annotated[float | None, _paid(help="The pace. [default: the server's]")],
}
"""What the adapters of models take beside what every audit has, by their names in Python, in the order of ``--help``.

``lora`` may have several values, which are a sweep; ``budget`` is the audit's own, and stands with ``price``.
"""

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="'reference', a pipeline directory, a safetensors file, or a hub id."),
]
ENCODER_HELP = (
    "'reference', NAME/PRETRAINED of open_clip (RN50/openai), a directory, a hub id, or openai-clip-six. Repeatable."
)
EncoderOption = Annotated[
    list[str] | None, typer.Option("--encoder", "-e", help=f"{ENCODER_HELP} [default: reference]")
]
AuditEncoderOption = Annotated[
    list[str] | None, typer.Option("--encoder", "-e", help=f"{ENCODER_HELP} [default: the protocol's, or reference]")
]
AddedEncoderOption = Annotated[list[str] | None, typer.Option("--encoder", "-e", help=f"Added first: {ENCODER_HELP}")]
BatchSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Images at once; by default found. It changes an image by rounding at most.")
]
ManifestOption = Annotated[
    Path | None, typer.Option(help="The manifest. [default: manifest or metadata, .csv or .jsonl]")
]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps, or auto.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run directory.")]
EngineOption = Annotated[
    str,
    typer.Option(help="Where the work is done: local, ray, ray=ADDRESS, or a plug-in's name.", rich_help_panel=WORK),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=WORK,
        help="Processes that draw and embed. [default: this one; where there are several GPUs, one for each]",
    ),
]


IN_PYTHON: Final = {"guidance": "guidance_scale"}
"""Options of the audit itself that Python knows by another name."""

FIELDS: Final = re.compile(r"\w+((, | and )\w+)*(?=: )")
TAKEN_NAMES: Final = re.compile(r"(?<=; it takes )\w+(, \w+)*$")


def as_typed(message: str, command: Any, words: Collection[str] = ()) -> str:
    """A message with the command's options in place of Python's names, where it opens with nothing but such names.

    What it says is taken has them, too, without what is Python's alone. A name among the ``words`` of the command line
    is what the user gave, such as a directory, and stays.
    """
    typed = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            option = max(parameter.opts, key=len)
            typed[IN_PYTHON.get(parameter.name, parameter.name)] = option
    fields = FIELDS.match(message)
    if fields is None or fields[0] in words or not typed.keys() >= set(re.split(", | and ", fields[0])):
        return message
    opening = re.sub(r"\w+", lambda name: typed.get(name[0], name[0]), fields[0])
    return opening + TAKEN_NAMES.sub(
        lambda names: ", ".join(typed[name] for name in names[0].split(", ") if name in typed) or "none",
        message[fields.end() :],
    )


def given_options(**options: Any) -> dict[str, Any]:
    """Keep the options that the user gave."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of models; those that the user gave reach it as ``model_options``."""

    @wraps(command)
    def with_options(**values: Any) -> None:
        of_model = given_options(**{name: values.pop(name) for name in MODEL_OPTIONS})
        command(**values, model_options=of_model)

    own = inspect.signature(command, eval_str=True)
    parameters = [parameter for name, parameter in own.parameters.items() if name != "model_options"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)
        for name, annotation in MODEL_OPTIONS.items()
    ]
    with_options.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def refuse_repeated(command: Any, words: Sequence[str]) -> None:
    """Refuse an option of one value that was given twice: all but the last would be dropped without a word."""
    try:
        context = command.context_class(command)
        _, _, order = command.make_parser(context).parse_args(list(words))
    except Exception:  # a mistake of another kind is told by whoever reads the words next
        return
    counted = Counter(parameter for parameter in order if parameter.param_type_name == "option")
    for option, times in counted.items():
        if times > 1 and not (option.multiple or option.is_flag):
            typed = max(option.opts, key=len)
            raise InvalidInputError(f"{typed}: found {times} values, and it takes one; give it once")


def refuse_without(*, needs: str, **options: Any) -> None:
    """Refuse options that mean nothing without another, which was not given."""
    for name, value in given_options(**options).items():
        typed = name.replace("_", "-")
        raise InvalidInputError(f"--{typed}: found {value}, and no --{needs}; give --{needs}, or leave it out")
