"""The options of single adapters: passed on as they are, so that an adapter without one names it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
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


HeightOption = Annotated[int | None, _option(help="Height in pixels. [default: the model's]")]
WidthOption = Annotated[int | None, _option(help="Width in pixels. [default: the model's]")]
EditStepsOption = Annotated[int | None, _option(help="Denoising steps of edits. [default: those of drawing]")]
EditGuidanceOption = Annotated[float | None, _option(help="Guidance of edits. [default: that of drawing]")]
NegativePromptOption = Annotated[str | None, _option(help="What guidance steers away from.")]
SchedulerOption = Annotated[str | None, _option(help="A scheduler class of diffusers. [default: the model's]")]
PriorStepsOption = Annotated[int | None, _option(help="Steps of a model's prior. [default: the model's]")]
PriorGuidanceOption = Annotated[float | None, _option(help="Guidance of a model's prior. [default: the model's]")]
ModelConfigOption = Annotated[
    str | None, _option(help="For a single safetensors file, the pipeline whose configuration it takes.")
]
LorasOption = Annotated[
    list[str] | None,
    _option(
        "--lora", help="A LoRA to merge: a safetensors file, a directory or a hub id. Repeatable; none is without."
    ),
]
LoraScaleOption = Annotated[float | None, _option(help="How strongly. [default: 1]")]
SafetyCheckerOption = Annotated[str | None, _option(help="keep or off: the pipeline's own checker. [default: keep]")]
VariantOption = Annotated[str | None, _option(help="A variant of the weight files, such as fp16.")]
DeviceMapOption = Annotated[str | None, _option(help="Share the model out over devices: balanced.")]
OffloadOption = Annotated[str | None, _option(help="model or sequential: keep in the CPU's memory what is not in use.")]
CompileOption = Annotated[bool, _option("--compile", help="Compile the network; the first batch takes minutes.")]
VaeTilingOption = Annotated[bool, _option("--vae-tiling", help="Decode large images in tiles.")]
TrustRemoteCodeOption = Annotated[
    str | None, _option(help="The model's own name, if the code in its repository may run.")
]
PriceOption = Annotated[float | None, _paid(help="What one image costs at these settings, by the server's list.")]
BudgetOption = Annotated[
    float | None, _paid(help="What the missing images may cost; checked before the first request.")
]
BaseUrlOption = Annotated[str | None, _paid(help="The server. [default: OpenAI's, or OPENAI_BASE_URL]")]
TrustedHostOption = Annotated[
    list[str] | None,
    _paid(help="A host besides the server's that redirects and private addresses may lead to. Repeatable."),
]
QualityOption = Annotated[str | None, _paid(help="As the server names it.")]
ConcurrencyOption = Annotated[int | None, _paid(min=1, help="Requests at once. [default: 4]")]
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
PaceOption = Annotated[float | None, _paid(help="The pace. [default: the server's]")]


IN_PYTHON: Final = {
    "guidance": "guidance_scale",
    "prior_guidance": "prior_guidance_scale",
    "edit_guidance": "edit_guidance_scale",
}
"""Options that Python knows by another name."""

FIELDS: Final = re.compile(r"\w+((, | and )\w+)*(?=: )")
TAKEN: Final = re.compile(r"(?<=; it takes )\w+(, \w+)*$")


def as_typed(message: str, command: Any, words: Collection[str] = ()) -> str:
    """A message with the command's options in place of Python's names, where it opens with nothing but such names.

    What it says is taken has them, too, without what is Python's alone. A name among the ``words`` of the command line
    is what the user gave, such as a directory, and stays.
    """
    typed = {}
    for each in command.params:
        if each.param_type_name == "option":
            option = max(each.opts, key=len)
            name = option.lstrip("-").replace("-", "_")
            typed[IN_PYTHON.get(name, name)] = option
    fields = FIELDS.match(message)
    if fields is None or fields[0] in words or not typed.keys() >= set(re.split(", | and ", fields[0])):
        return message
    opening = re.sub(r"\w+", lambda name: typed.get(name[0], name[0]), fields[0])
    return opening + TAKEN.sub(
        lambda names: ", ".join(typed[name] for name in names[0].split(", ") if name in typed) or "none",
        message[fields.end() :],
    )


def given(**options: Any) -> dict[str, Any]:
    """Keep the options that the user gave."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def refuse_repeated(command: Any, words: Sequence[str]) -> None:
    """Refuse an option of one value that was given twice: all but the last would be dropped without a word."""
    try:
        context = command.context_class(command)
        _, _, order = command.make_parser(context).parse_args(list(words))
    except Exception:  # a mistake of another kind is told by whoever reads the words next
        return
    counted = Counter(each for each in order if each.param_type_name == "option")
    for option, times in counted.items():
        if times > 1 and not (option.multiple or option.is_flag):
            typed = max(option.opts, key=len)
            raise InvalidInputError(f"{typed}: found {times} values, and it takes one; give it once")


def refuse_without(*, needs: str, **options: Any) -> None:
    """Refuse options that mean nothing without another, which was not given."""
    for name, value in given(**options).items():
        typed = name.replace("_", "-")
        raise InvalidInputError(f"--{typed}: found {value}, and no --{needs}; give --{needs}, or leave it out")
