"""From a directory or a hub id to a diffusers pipeline that draws from a prompt: which class, which components.

What a pipeline can do is read from what it takes and holds, never from its name. Three things are put right that its
library leaves to its users: families that moved to its deprecated modules, text encoders that a repository leaves out,
and pipelines whose prior is a repository of its own.

A pipeline that is not whole is refused. Weights that a file lacks are filled by transformers with random numbers, other
ones at every start, which a log alone says; diffusers leaves them without values. A tokenizer whose vocabulary is
missing is made empty, and reads every text alike.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import logging
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import diffusers
import transformers
from diffusers.utils import BaseOutput

from clinometer._messages import first_and_more
from clinometer._torch import missing_weights_told, torch
from clinometer.errors import ModelError, ModelNotFoundError
from clinometer.models import weights

MOVED = {
    "UnCLIPPipeline": "diffusers.pipelines.deprecated.unclip",
    "UnCLIPTextProjModel": "diffusers.pipelines.deprecated.unclip",
}
"""Classes that diffusers still has and no longer finds by their names."""

IMAGES = ("images", "image")
"""The names of the field of a pipeline's output that holds its images; the second is that of Kandinsky 5."""

OWN_DOING: dict[str, str | tuple[str, ...]] = {
    "diffusers.models.modeling_utils": "There are modules in",
    "diffusers.pipelines.pipeline_utils": "Pipelines loaded with `dtype=torch.float16` cannot run with `cpu`",
    "diffusers.loaders.lora_base": "No LoRA keys associated to",
    "diffusers.loaders.peft": ("No LoRA keys associated to", "Loading lora was unsuccessful"),
    "diffusers.pipelines.stable_diffusion.safety_checker": "Potential ",
    "diffusers.pipelines.deepfloyd_if.safety_checker": "Potential ",
}
"""What diffusers warns of, by logger, where it is its own doing, or told otherwise here: at every batch of SDXL in
float16, whose VAE it casts back and forth; that the CPU has no float16, which it has; of a LoRA without a part for each
component, or that does not fit; and of images that a checker took, which count as refused.
"""

IMAGE_GUIDANCE = "image_guidance_scale"
"""The argument for how closely some pipelines keep to the image that they edit."""

CONNECTED = ("prior",)
"""Keys of a repository's README under which it names the repositories that it is incomplete without."""

NEVER_READ = ("logit_scale", "logit_bias", "mask_token")
"""Weights of training alone: features and states are computed without them."""

TEXT_ALONE = (*NEVER_READ, "pooler", "lm_head", "visual", "vision_tower", "vision_model", "multi_modal_projector")
"""Weights that are not read where a language model serves as a text encoder; some repositories leave them out."""

for _logger in OWN_DOING:
    logging.getLogger(_logger).addFilter(lambda record: not record.getMessage().startswith(OWN_DOING[record.name]))
warnings.filterwarnings("ignore", r"`upcast_vae` is deprecated", FutureWarning)  # it is diffusers that calls it


def download(repository: str, revision: str | None, variant: str | None, offline: bool) -> str:
    """Fetch a pipeline from the hub into the local cache, with those it is connected to; return its directory."""
    path: str = diffusers.DiffusionPipeline.download(
        repository,
        revision=revision,
        variant=variant,
        use_safetensors=True,
        local_files_only=offline,
        load_connected_pipeline=True,
    )
    return path


def connected_sources(checkpoint: weights.Source, offline: bool = False) -> list[weights.Source]:
    """Find the repositories that a pipeline's README connects it to: Kandinsky's decoder has its prior in another."""
    from huggingface_hub import ModelCard

    name = weights.model_index(checkpoint)["_class_name"]
    readme = checkpoint.path / "README.md"
    if not isinstance(name, str) or not readme.is_file():
        return []
    if not getattr(pipeline_class(checkpoint, name), "_load_connected_pipes", False):
        return []
    data = ModelCard.load(readme).data
    names = [name for key in CONNECTED for name in getattr(data, key, None) or []]
    return [
        weights.locate(name, lambda repository, revision: download(repository, revision, None, offline))
        for name in names
    ]


def open_pipeline(
    checkpoint: weights.Source,
    *,
    dtype: torch.dtype,
    variant: str | None,
    device_map: str | None,
    trusted: str | None,
    without: tuple[str, ...] = (),
) -> Any:
    """Read a pipeline from its directory, ``without`` some components, and check that a prompt is all it needs.

    Raises
    ------
    ModelError
        It has pickled weights only, code of its own that was not asked for by name, lacks weights or a
        vocabulary, or diffusers cannot load it.
    """
    index = weights.model_index(checkpoint)
    _require_files(checkpoint, index, variant, without)
    if trusted not in (None, checkpoint.name):
        raise ModelError.untrusted(
            f"found {trusted!r}, expected the model's own name, {checkpoint.name!r}", field="trust_remote_code"
        )
    options: dict[str, Any] = {"dtype": dtype, "variant": variant, "use_safetensors": True, "local_files_only": True}
    if device_map is not None:
        options["device_map"] = device_map
    options |= {name: None for name in without if index.get(name) not in (None, [None, None])}
    try:
        with weights.quiet_loading(), whole_components(checkpoint.name):
            if trusted is not None:
                pipeline = diffusers.DiffusionPipeline.from_pretrained(
                    checkpoint.path, custom_pipeline=str(checkpoint.path), trust_remote_code=True, **options
                )
            else:
                kind = pipeline_class(checkpoint, index.get("_class_name"))
                if kind.__name__ in MOVED:
                    pipeline = _assemble(checkpoint, index, kind, dtype)
                else:
                    # a repository may lack text encoders that its class can do without (T5 of SD 3)
                    expected = inspect.signature(kind.__init__).parameters
                    optional = [name for name in expected if name.startswith(("text_encoder_", "tokenizer_"))]
                    left_out = {name: None for name in optional if index.get(name) in (None, [None, None])}
                    pipeline = kind.from_pretrained(checkpoint.path, **options, **left_out)
    except ModelError:
        raise
    except Exception as error:  # missing files, unknown classes, mismatched shapes: many kinds
        if "feature extractor" in str(error):
            raise ModelError.incomplete(
                f"{checkpoint.name}: it has a safety checker and no feature extractor, which the checker sees by; give "
                "--safety-checker off, or add the folder feature_extractor"
            ) from error
        raise weights.cannot_load(checkpoint.name, "diffusers", error) from error
    require_whole(pipeline, checkpoint.name, checkpoint.name, "download it again")
    require_text_to_image(checkpoint.name, pipeline)
    return pipeline


def _require_files(
    checkpoint: weights.Source, index: dict[str, Any], variant: str | None, without: tuple[str, ...]
) -> None:  # fmt: skip
    """Refuse a pipeline that lacks the folder of a component, any weights of the variant, or safetensors.

    Of a tokenizer without a folder diffusers makes an empty one. A pipeline may have a variant of some components only.
    """
    for key, declared in index.items():
        named = isinstance(declared, list) and len(declared) == 2 and all(isinstance(part, str) for part in declared)
        if named and not key.startswith("_") and key not in without and not (checkpoint.path / key).is_dir():
            raise ModelError.incomplete(
                f"{checkpoint.name}: model_index.json names {key}, and there is no such folder; download it again"
            )
    folders = weights.component_folders(checkpoint)
    if variant is not None:
        files = [file for folder in folders if folder.name not in without for file in folder.iterdir()]
        of_variant = re.compile(rf"\.{re.escape(variant)}(-\d+-of-\d+)?$")
        has_it = any(of_variant.search(file.stem) for file in files if file.suffix == ".safetensors")
        if not has_it and not any(file.suffix in weights.PICKLES for file in files):
            raise ModelError.not_found(
                f"found {variant!r}, and {checkpoint.name} has no such weights; leave it out", field="variant"
            )
    weights.weight_files(checkpoint.name, folders, variant, without)  # for its error: it names a pickle


@contextmanager
def whole_components(name: str) -> Iterator[None]:
    """Refuse a pipeline's transformers components that lack weights which are read, while diffusers loads them."""

    def require_weights(source: str, missing: Collection[str]) -> None:
        component = Path(source).name
        unread = TEXT_ALONE if "text_encoder" in component else NEVER_READ
        may_be_missing = re.compile(rf"(^|\.)({'|'.join(unread)})(\.|$)")
        if needed := sorted(weight for weight in missing if not may_be_missing.search(weight)):
            raise ModelError.incomplete(
                f"{name}/{component}: it lacks weights ({first_and_more(needed)}); download it again"
            )

    with missing_weights_told(require_weights):
        yield


def require_whole(pipeline: Any, name: str, configuration: str, way_out: str) -> None:
    """Refuse a pipeline of which some weights have no values, or a tokenizer has no vocabulary.

    Such weights are on the meta device, and nothing fills them. ``name`` and ``configuration`` are what errors call the
    source of its weights and of its vocabularies.
    """
    for component, part in pipeline.components.items():
        if not isinstance(part, torch.nn.Module) or any(hasattr(module, "_hf_hook") for module in part.modules()):
            continue  # what accelerate shares out over devices waits elsewhere
        missing = [weight for weight, values in part.named_parameters() if values.is_meta]
        if missing:
            raise ModelError.incomplete(
                f"{name}: it lacks weights of {component} ({first_and_more(missing)}); {way_out}"
            )
    for component, part in pipeline.components.items():
        tokenizer = getattr(part, "tokenizer", part)  # a processor has one
        if isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
            weights.require_vocabulary(f"{configuration}/{component}", tokenizer)


def call_parameters(pipeline: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a pipeline's call, by name."""
    return dict(inspect.signature(pipeline.__call__).parameters)


def pipeline_class(checkpoint: weights.Source, name: Any) -> Any:
    """Return the class that draws from text for a pipeline of this class: most often itself.

    A decoder whose prior lies elsewhere is drawn with as its combined pipeline.
    """
    if not isinstance(name, str):
        raise ModelError.untrusted(
            f"{checkpoint.name}: its pipeline is remote code ({name}), which is not run; look at the code, and if you "
            f"trust it give --trust-remote-code {checkpoint.name}"
        )
    kind = _find_class(name)
    if kind is None:
        raise ModelError.unsupported(
            f"{checkpoint.name}: diffusers {diffusers.__version__} has no {name}; upgrade diffusers, or choose another "
            "model"
        )
    combined = name.removesuffix("Pipeline").removesuffix("Decoder") + "CombinedPipeline"
    if not hasattr(diffusers, combined) or not (checkpoint.path / "README.md").is_file():
        return kind
    return {candidate.__name__: candidate for candidate in _text_to_image()}.get(combined, kind)


def _text_to_image() -> Collection[Any]:
    """Return diffusers' pipelines for text to image; called only where needed, as it imports all of them."""
    from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING

    return tuple(AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values())


def _find_class(name: str) -> Any:
    module = importlib.import_module(MOVED[name]) if name in MOVED else diffusers
    return getattr(module, name, None)


def _assemble(checkpoint: weights.Source, index: dict[str, Any], kind: Any, dtype: torch.dtype) -> Any:
    """Assemble a pipeline of a moved class from its components, as its library no longer does."""
    components = {}
    for component, declared in index.items():
        if component.startswith("_"):
            continue
        library, name = declared
        component_class = _find_class(name) if name in MOVED else getattr(importlib.import_module(library), name)
        loads_weights = issubclass(component_class, torch.nn.Module)
        options = {"torch_dtype": dtype, "use_safetensors": True} if loads_weights else {}
        components[component] = component_class.from_pretrained(
            checkpoint.path / component, local_files_only=True, **options
        )
    return kind(**components)


def edits_by_instruction(pipeline: Any) -> bool:
    """Return whether a pipeline changes an image as a prompt says, to no degree.

    That is one that diffusers lists for image to image, or that weighs the image as it does the prompt.
    """
    parameters = call_parameters(pipeline)
    if not {"prompt", "image", "generator"} <= set(parameters) or {"strength", "mask_image", "layers"} & set(
        parameters
    ):
        return False
    from diffusers.pipelines.auto_pipeline import AUTO_IMAGE2IMAGE_PIPELINES_MAPPING  # imports hundreds of modules

    return IMAGE_GUIDANCE in parameters or type(pipeline) in AUTO_IMAGE2IMAGE_PIPELINES_MAPPING.values()


def draws(pipeline: Any) -> bool:
    """Return whether a pipeline draws without an image to begin with."""
    return not edits_by_instruction(pipeline) or type(pipeline) in _text_to_image()


def require_text_to_image(name: str, pipeline: Any) -> None:
    """Refuse a pipeline that needs more than a prompt, unless that is an image which the prompt says how to change."""
    parameters = call_parameters(pipeline)
    needed = [
        parameter.name
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    # Pipelines that change a given image declare it optional too, and stop without it. Those that diffusers lists for
    # text to image do draw without one, unless a ControlNet or control layers want it.
    wants_image = "image" in parameters and (
        "controlnet" in pipeline.components or type(pipeline) not in _text_to_image()
    )
    wants_image = (wants_image or "control_image" in parameters) and not edits_by_instruction(pipeline)
    needed = [each for each in needed if each != "image" or not edits_by_instruction(pipeline)]
    if not {"prompt", "generator"} <= set(parameters) or set(needed) - {"prompt"} or wants_image:
        raise ModelError.unsupported(
            f"{name}: a {type(pipeline).__name__} needs more than a prompt; expected a text-to-image pipeline"
        )
    module = inspect.unwrap(type(pipeline).__call__).__globals__  # it names the classes of what the call may return
    outputs = [kind for kind in module.values() if isinstance(kind, type) and issubclass(kind, BaseOutput)]
    results = {field.name for output in outputs if is_dataclass(output) for field in fields(output)}
    if results and not results & set(IMAGES):
        raise ModelError.unsupported(
            f"{name}: a {type(pipeline).__name__} gives {', '.join(sorted(results))} and no images; expected a "
            "text-to-image pipeline"
        )


def images_of(output: Any) -> Any:
    """Return the images of a pipeline's output."""
    return next(getattr(output, name) for name in IMAGES if getattr(output, name, None) is not None)


CONVENTIONS: Final = (
    ("scheduler", "scheduler_config.json", "prediction_type"),
    ("vae", "config.json", "scaling_factor"),
)
"""Components, their configuration's file, and a key by which its weights are read otherwise."""


def unstated(folder: Path, pipeline: Any) -> dict[str, str]:
    """Find conventions that a pipeline's files do not state, of which diffusers takes its own default.

    Returns
    -------
    What a card notes of each: that it is unknown, and what was taken.
    """
    notes = {}
    for component, name, key in CONVENTIONS:
        taken = getattr(getattr(pipeline, component, None), "config", {}).get(key)
        place = folder / component / name
        if taken is not None and place.is_file() and key not in json.loads(place.read_text("utf-8")):
            notes[key.replace("_", " ")] = f"unknown; {taken} is diffusers' default, {component}/{name} does not say"
    return notes


# --- Whole models in one safetensors file, in their authors' layout --------------------------------------------------
#
# The file holds weights alone. What they are put together by (classes, sizes, scheduler, vocabularies) is in the
# configuration of a diffusers pipeline: a directory, or a repository on the hub of which only the small files are read.
# What the file leaves out (FLUX often comes without autoencoder and text encoders) is taken from that directory, where
# it has the weights.


CONFIGURATION = ("*.json", "*.txt", "*.model")
"""The files that are downloaded of a repository that serves as configuration: no weights."""

LORA_MARKS = (".lora_", "lora_unet_", "lora_te", ".lora.", "hada_w1", "lokr_w1")
DENOISER = "model.diffusion_model."
AUTOENCODERS = ("first_stage_model.", "vae.")
TEXT_ENCODERS = ("cond_stage_model.", "conditioner.embedders.", "text_encoders.clip")
T5 = "text_encoders.t5xxl."
FALLBACK = "v1"
"""The type that diffusers infers for a file that it does not know."""


def checked_file(spec: str) -> tuple[weights.Source, Path, dict[str, Any]]:
    """Look into a file without reading its weights: where it is, and its tensors by name, on the meta device.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, a pickle, damaged, a LoRA, or a part of a model.
    """
    from diffusers.loaders.single_file_utils import infer_diffusers_model_type
    from safetensors import SafetensorError, safe_open

    file = weights.user_path(spec)
    if not file.is_file():
        raise ModelNotFoundError(f"no file {spec!r}; give a safetensors file, a pipeline's directory, or a hub id")
    if file.suffix != ".safetensors":
        kind = (
            "a pickle can run code when loaded"
            if file.suffix in weights.PICKLES
            else "no model is read from such a file"
        )
        raise ModelError.untrusted(
            f"{file.name}: {kind}; expected a .safetensors file. Choose one, or convert it where you trust it, with "
            "safetensors.torch.save_file"
        )
    try:
        with safe_open(file, framework="pt") as opened:
            shapes = {name: opened.get_slice(name).get_shape() for name in sorted(opened.keys())}
            tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    except (SafetensorError, OSError) as error:
        raise ModelError.corrupt(
            f"{file.name}: not a whole safetensors file ({weights.describe(error)}); download it again"
        ) from error
    if any(mark in name for name in tensors for mark in LORA_MARKS):
        raise ModelError.unsupported(
            f"{file.name}: it is a LoRA and no model of its own; give: --model BASE --lora {file.name}"
        )
    if not any(name.startswith(DENOISER) for name in tensors) and infer_diffusers_model_type(tensors) == FALLBACK:
        first = next(iter(tensors), "none")
        raise ModelError.incomplete(
            f"{file.name}: no whole model in its authors' layout (its first weight is {first}); a part of a diffusers "
            "pipeline is loaded by the pipeline's directory"
        )
    return weights.Source(name=file.stem, path=file.parent), file, tensors


def configuration_of(file: Path, tensors: Mapping[str, Any], config: str | None, offline: bool) -> weights.Source:
    """Find the configuration: what was asked for, else the repository that diffusers knows for such weights.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there and cannot be downloaded.
    """
    if config is not None:
        with weights.named_by("model_config"):
            return weights.locate_files(config, CONFIGURATION, offline=offline)
    from diffusers.loaders.single_file_utils import fetch_diffusers_config

    repository = str(fetch_diffusers_config(tensors)["pretrained_model_name_or_path"])
    try:
        return weights.locate_files(repository, CONFIGURATION, offline=offline)
    except ModelError as error:
        raise ModelError.incomplete(
            f"{file.name}: weights alone, without the configuration of {error}; or give another as --model-config"
        ) from error


_PREDICTIONS: Final = {"v": "v_prediction", "v_prediction": "v_prediction", "v-prediction": "v_prediction",
                       "eps": "epsilon", "epsilon": "epsilon"}  # fmt: skip


def prediction_of(file: Path, tensors: Collection[str], pipeline: Any, config: weights.Source) -> str:
    """Compare a file's prediction type with the configuration; return what is known, in words.

    Drawn as if it predicted the noise, a network that predicts the velocity gives grey or burnt images. A file says it
    by a weight called ``v_pred``, or by the metadata ``modelspec.prediction_type``; most say nothing.

    Raises
    ------
    ModelError
        The two say different things.
    """
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        named = str((opened.metadata() or {}).get("modelspec.prediction_type", "")).lower()
    stated = "v_prediction" if "v_pred" in tensors else _PREDICTIONS.get(named)
    taken = getattr(pipeline, "scheduler", None) and pipeline.scheduler.config.get("prediction_type")
    if not taken:
        return ""
    if stated not in (None, taken):
        raise ModelError.mismatch(
            f"{file.name}: it says that it predicts {stated}, and the configuration {config.name} says {taken}; "
            "give --model-config with a pipeline of its kind"
        )
    return (
        f"{taken}, as the file says" if stated else f"unknown; {taken} by the configuration, and the file does not say"
    )


def open_single_file(
    file: Path, tensors: Collection[str], config: weights.Source, *, dtype: torch.dtype
) -> tuple[Any, list[Path]]:
    """Assemble a pipeline from a file and a configuration; return it and the folders that gave weights too.

    Raises
    ------
    ModelError
        The pipeline's class reads no single file, the configuration does not fit, or weights are missing in both.
    """
    index = weights.model_index(config)
    kind = pipeline_class(config, index.get("_class_name"))
    if not hasattr(kind, "from_single_file"):
        raise ModelError.unsupported(
            f"{file.name}: diffusers reads no such pipeline ({config.name}) from one file; give a pipeline's directory"
        )
    folders = _find_supplied(config, index, tensors)
    try:
        with weights.quiet_loading(), whole_components(config.name):
            components = {}
            for name, folder in folders.items():
                library, component_class = index[name]
                components[name] = getattr(importlib.import_module(library), component_class).from_pretrained(
                    folder, torch_dtype=dtype, use_safetensors=True
                )
            pipeline = kind.from_single_file(
                str(file), config=str(config.path), torch_dtype=dtype, local_files_only=True, **components
            )
    except ModelError:
        raise
    except Exception as error:  # components that are missing, shapes that differ: many kinds
        raise ModelError.mismatch(
            f"{file.name}: it does not fit the configuration {config.name}: {weights.in_words(error)}; "
            "give --model-config with a pipeline of its kind, with weights where the file has none"
        ) from error
    require_whole(pipeline, file.name, config.name, "give --model-config with a whole pipeline that has them")
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.eval()  # diffusers leaves T5 in training: its dropout would draw another image each time
    require_text_to_image(file.name, pipeline)
    return pipeline, list(folders.values())


def _find_supplied(config: weights.Source, index: Mapping[str, Any], tensors: Collection[str]) -> dict[str, Path]:
    """Find the components that the configuration has weights of and the file has not, with their folders.

    Autoencoder and text encoders are known by the names of their weights in the file; it holds all else.
    """
    supplied = {}
    for name, declared in index.items():
        folder = config.path / name
        if not isinstance(declared, list) or not folder.is_dir():
            continue
        if name == "vae":
            prefixes: str | tuple[str, ...] = AUTOENCODERS
        elif name.startswith("text_encoder"):
            prefixes = T5 if "T5" in declared[1] else TEXT_ENCODERS
        else:
            continue
        if any(tensor.startswith(prefixes) for tensor in tensors):
            continue
        if any(file.suffix in (".safetensors", *weights.PICKLES) for file in folder.iterdir()):
            weights.weight_files(config.name, [folder])  # for its error: it names a pickle
            supplied[name] = folder
    return supplied
