"""What a model is and what it can do, for a person to read: loaded, looked at, and nothing drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from clinometer.errors import ModelError
from clinometer.models import registry
from clinometer.models.encoders.own_text import OWN, components_of, own_text_components
from clinometer.models.protocols import (
    Card,
    Denoises,
    Edits,
    LooksUpTexts,
    NamesStrength,
    ReadsTexts,
    SeesImages,
    TellsSettings,
    offers,
)
from clinometer.models.weights import is_single_file, locate, user_path


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a loaded model.

    Attributes
    ----------
    edit : it changes images towards a prompt; needed by suites of study editing.
    classify : it gives access to its denoising errors; needed by suites of study classification.
    text_encoders : the classes of the text encoders that guide it, in the order of its components.
    own_text : the names under which suites of study leaning read those of them that come with a tokenizer.
    prior : it draws in two stages, first an image embedding from the text, then the image from that.
    takes : the settings that a request can have, described by name; empty where unknown.
    """

    edit: bool
    classify: bool
    text_encoders: tuple[str, ...]
    own_text: tuple[str, ...]
    prior: bool
    takes: Mapping[str, str] = field(default_factory=dict)


def capabilities_of(generator: Any) -> Capabilities:
    """Ask a loaded generator what it can do; nothing is drawn.

    The model is asked by its methods ``editor`` and ``denoiser``: one that it has not, or that raises `ModelError`,
    is something that it cannot do.
    """
    components = components_of(generator)
    encoders = [encoder for name, encoder in components.items() if "text_encoder" in name and encoder is not None]
    return Capabilities(
        edit=offers(generator, Edits) and _gives(generator.editor),
        classify=offers(generator, Denoises) and _gives(generator.denoiser),
        text_encoders=tuple(type(encoder).__name__ for encoder in encoders),
        own_text=tuple(f"{OWN}{name}" for name in own_text_components(generator)),
        prior=any(name.split("_")[0] == "prior" for name in components),
        takes=_takes(generator),
    )


def _takes(generator: Any) -> Mapping[str, str]:
    """Return the settings that a request can have: a model's own list, or that of a pipeline and its editor."""
    if offers(generator, TellsSettings):
        return generator.takes
    if not hasattr(generator, "pipeline"):
        return {}
    settings, none = generator.card.settings, "not in this pipeline"
    strength = "edits no image"
    if offers(generator, Edits) and _gives(generator.editor):
        editor = generator.editor()
        named = not offers(editor, NamesStrength) or editor.names_strength
        strength = "each edit has one" if named else "none: it edits by instruction"
    return {
        "seed": "each image's own, on the CPU",
        "size": f"{settings['width']}x{settings['height']}" if "height" in settings else none,
        "steps": str(settings.get("steps", none)),
        "guidance": str(settings.get("guidance_scale", none)),
        "system prompt": none,
        "rewriter": none,
        "strength of edits": strength,
        "price": "none: it draws here",
    }


def _gives(make: Callable[[], object]) -> bool:
    try:
        make()
    except ModelError:
        return False
    return True


VECTORS = (".txt", ".vec", ".csv", ".tsv", ".parquet", ".npy", ".npz")


@dataclass(frozen=True)
class Description:
    """A loaded model, described.

    Attributes
    ----------
    card : what it is, and its settings as they are when nothing is asked for.
    capabilities : what a generator can do; None for an encoder or a reader.
    reads_text, sees_images : what an encoder embeds; False for a generator or a reader.
    dimensions : the length of an encoder's vectors of text; None where it reads none.
    licence : as its model card says it; empty where none does.
    """

    card: Card
    capabilities: Capabilities | None = None
    reads_text: bool = False
    sees_images: bool = False
    dimensions: int | None = None
    licence: str = ""


def describe_model(spec: str, **options: Any) -> Description:
    """Load the generator, encoder or reader that ``spec`` names, and say what it is.

    Parameters
    ----------
    spec : as in `load_generator`, `load_encoder` or `load_reader`. A directory with ``model_index.json`` is a
        generator; another is an encoder, or a reader if it cannot be loaded as an encoder.
    **options : of the adapter, such as ``model_config``. A price need not be given: nothing is asked of a server.

    Raises
    ------
    ModelNotFoundError, ModelError
        Nothing of that name is there, or it cannot be loaded.
    """
    if kind_of(spec) == "generator":
        if registry.takes_option(spec, "price"):
            options.setdefault("price", 0.0)
        generator = registry.load_generator(spec, **options)
        return Description(generator.card, capabilities_of(generator), licence=_licence(spec))
    if kind_of(spec) == "reader":
        return Description(registry.load_reader(spec, **options).card, licence=_licence(spec))
    try:
        encoder = registry.load_encoder(spec, **options)
    except ModelError as error:
        try:
            reader = registry.load_reader(spec, **options)
        except ModelError:
            raise error from None
        return Description(reader.card, licence=_licence(spec))
    reads = offers(encoder, ReadsTexts)
    looked_up = offers(encoder, LooksUpTexts)  # a file of vectors: which texts it has is not known before one is asked
    return Description(
        encoder.card,
        reads_text=reads,
        sees_images=offers(encoder, SeesImages),
        dimensions=encoder.encode_texts(["a person"]).shape[1] if reads and not looked_up else None,
        licence=_licence(spec),
    )


def kind_of(spec: str) -> registry.Kind:
    """Distinguish generators, encoders and readers by name or by files, without loading the model.

    Raises
    ------
    ModelNotFoundError, ModelError
        A hub id that is unknown or cannot be looked up.
    """
    name = spec.partition(":")[0]
    for group, kind in registry.KINDS.items():
        if any(point.name == name for point in entry_points(group=group)):
            return kind
    path = user_path(spec)
    if spec and path.is_dir():
        return "generator" if (path / "model_index.json").is_file() else "encoder"
    are_vectors = path.name.lower().removesuffix(".gz").endswith(VECTORS)
    if are_vectors or (spec.partition("/")[0] in registry.open_clip_architectures() and "/" in spec):
        return "encoder"
    if is_single_file(spec) or not registry.HUB_ID.fullmatch(spec):
        return "generator"
    return _kind_on_hub(spec)


def _kind_on_hub(spec: str) -> registry.Kind:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    def index(repository: str, revision: str | None) -> Path:
        return Path(hf_hub_download(repository, "model_index.json", revision=revision)).parent

    try:
        locate(spec, index)
    except ModelError as error:
        cause = error.__cause__
        if isinstance(cause, EntryNotFoundError) and not isinstance(cause, LocalEntryNotFoundError):
            return "encoder"
        raise
    return "generator"


def _licence(spec: str) -> str:
    """Return the licence in the head of a directory's README, or in the head of a safetensors file."""
    path = user_path(spec)
    if (path / "README.md").is_file():
        from huggingface_hub import ModelCard

        data = ModelCard.load(path / "README.md", ignore_metadata_errors=True).data
        return str(getattr(data, "license_name", None) or data.license or "")
    if path.is_file() and path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="pt") as opened:
            return str((opened.metadata() or {}).get("modelspec.license", ""))
    return ""
