"""Where weights come from, what they hash to, and why they could not be loaded.

Only safetensors files are read. A pickle can run code when it is loaded, so a model that has nothing else is
refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from clinometer._messages import as_text, quoted
from clinometer._secrets import masked
from clinometer.errors import ModelError, ModelNotFoundError

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Source:
    """A model's files on this machine.

    Attributes
    ----------
    name : the hub id, or the directory's last name; never a path.
    path : the directory that holds the files.
    revision : the hub commit; None for a directory.
    """

    name: str
    path: Path
    revision: str | None = None


def user_path(spec: str | os.PathLike[str]) -> Path:
    """Return a path as a user wrote it, with ``~`` expanded; the home of an unknown user stays as it was written."""
    return Path(os.path.expanduser(spec))


def is_single_file(spec: str) -> bool:
    """Return whether a spec names a file of weights, there or not."""
    path = user_path(spec)
    return spec != "" and not path.is_dir() and (path.is_file() or path.suffix in (".safetensors", *PICKLES))


def locate(spec: str, download: Callable[[str, str | None], str | Path]) -> Source:
    """Find the files that a directory or a hub id ``owner/name[@revision]`` names.

    Parameters
    ----------
    spec : a directory, or a hub id.
    download : called with the hub id and the revision (None for the newest); returns the snapshot's
        directory.

    Raises
    ------
    ModelNotFoundError
        The hub knows no such model or revision, or the directory is not there.
    ModelError
        It is gated, or it is not cached and the hub cannot be reached.
    """
    directory = user_path(spec)
    if directory.is_dir():
        return Source(name=directory.resolve().name, path=directory)
    repository, _, revision = spec.partition("@")
    if repository.count("/") != 1 or directory.is_absolute() or spec.startswith("."):
        raise ModelNotFoundError(f"no model at {spec!r}: there is no such directory, and a hub id is owner/name")
    try:
        snapshot = Path(download(repository, revision or None))
    except Exception as error:  # the hub's client and its HTTP library raise many unrelated kinds
        raise _explain(spec, error) from error
    return Source(name=repository, path=snapshot, revision=snapshot.name)


def locate_files(
    spec: str, patterns: Sequence[str] | None = None, *, without: Sequence[str] | None = None, offline: bool = False
) -> Source:
    """Find a directory, or download of a hub id the files that fit ``patterns`` and none of ``without``.

    Raises
    ------
    ModelNotFoundError, ModelError
        As in `locate`.
    """

    def download(repository: str, revision: str | None) -> str:
        from huggingface_hub import snapshot_download

        path: str = snapshot_download(
            repository,
            revision=revision,
            local_files_only=offline,
            allow_patterns=None if patterns is None else list(patterns),
            ignore_patterns=None if without is None else list(without),
        )
        return path

    return locate(spec, download)


def _explain(spec: str, error: Exception) -> ModelError:
    """Explain in one line what a failed download means and what to do."""
    from huggingface_hub import errors

    chain = list(_causes(error))

    def arose(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in chain)

    if arose(errors.GatedRepoError):
        return ModelError.refused(
            f"{spec}: its owner asks for consent; accept the terms on its page, then `hf auth login`"
        )
    if arose(errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError):
        return ModelNotFoundError(
            f"{spec}: the hub has no such model or revision, or it is private; check the name, or run `hf auth login`"
        )
    unreached = arose(errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled)
    if not unreached and any("no such modeling files" in str(cause) for cause in chain):
        return ModelError.not_found(f"{spec} has no such weights; leave it out", field="variant")
    # An address that was not reached may end in .safetensors, too.
    if arose(errors.RemoteEntryNotFoundError) or (not unreached and any("safetensors" in str(c) for c in chain)):
        return ModelError.untrusted(pickle_message(spec))
    is_offline = isinstance(chain[-1], errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled)
    return ModelError.unreachable(
        f"{spec}: it is not in the local cache and cannot be downloaded "
        f"({'offline was asked for' if is_offline else in_words(chain[-1])}); "
        "connect, or download it elsewhere and give its directory"
    )


@contextmanager
def named_by(option: str) -> Iterator[None]:
    """Begin an error with the option that named what cannot be found."""
    try:
        yield
    except ModelError as error:
        raise type(error)(str(error), code=error.code, field=option) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def describe(error: BaseException) -> str:
    """Describe an error in one line: its kind and the first line of its message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {in_one_line(text[0], 300)}" if text else type(error).__name__


def in_words(error: BaseException) -> str:
    """Describe an error in one line without its kind, where its message is a sentence; a ":" leads to the next line."""
    first, *others = str(error).strip().splitlines() or [""]
    text = f"{first} {others[0].strip()}" if first.endswith(":") and others else first
    return in_one_line(text, 300).rstrip(".") if " " in text else describe(error)


def in_one_line(text: str, most: int) -> str:
    """Clean text from elsewhere for storing and showing: no control characters, halves of characters, secrets."""
    spaced = masked(" ".join(text.split()))[:most]
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in spaced)


def cannot_load(name: str, library: str, error: Exception) -> ModelError:
    """Return the error of a library that cannot load a model, with the way out where its weights are damaged."""
    return ModelError.unreadable(f"{name}: {library} cannot load it: {in_words(error)}{damage(error)}")


def damage(error: BaseException) -> str:
    """Return the way out to add to an error that a missing or damaged file of weights caused; else nothing."""
    from safetensors import SafetensorError

    if any("no file named" in str(cause) for cause in _causes(error)):  # the words of diffusers and transformers
        return "; download it again"
    damaged = any(isinstance(cause, SafetensorError) for cause in _causes(error))
    return " (a file of weights is empty or damaged: download it again)" if damaged else ""


def pickle_message(name: str) -> str:
    """Explain that a model has only pickled weights, with the way out."""
    return (
        f"{name}: it has only pickled weights, which can run code when loaded; expected safetensors. "
        "Choose a revision that has them, or convert it where you trust it, with save_pretrained"
    )


def weight_files(
    name: str, folders: Iterable[Path], variant: str | None = None, without: Collection[str] = ()
) -> list[Path]:
    """List the safetensors files that the model ``name`` loads from these folders, sorted.

    A file of a variant carries it before its suffix: ``model.fp16.safetensors``. Other variants' files in the
    same folder are not loaded, so they are not listed.

    Parameters
    ----------
    without : names of folders that are not loaded: their pickles do not matter. Their safetensors are listed, for
        a model's hash is the same with its safety checker and without.

    Raises
    ------
    ModelError
        A folder holds pickled weights and no safetensors, or no folder holds any weights.
    """
    chosen: list[Path] = []
    for folder in folders:
        files = sorted(folder.iterdir())
        safe = [path for path in files if path.suffix == ".safetensors"]
        if not safe and any(path.suffix in PICKLES for path in files):
            if folder.name in without:
                continue
            is_component = (folder.parent / "model_index.json").is_file()
            raise ModelError.untrusted(pickle_message(f"{name}/{folder.name}" if is_component else name))
        plain = [path for path in safe if "." not in path.stem]
        ours = [path for path in safe if variant is not None and f".{variant}" in path.stem]
        if safe and not plain and variant is None and folder.name not in without:
            others = sorted({path.stem.partition(".")[2].partition("-")[0] for path in safe})
            raise ModelError.not_found(
                f"{name}: no safetensors file without a variant in its name in {folder.name}; there are those of "
                f"{' and '.join(others)}: give --variant {others[0]}"
            )
        chosen += ours or plain
    if not chosen:
        description = f"of variant {variant}" if variant else "without a variant in its name"
        raise ModelError.not_found(
            f"{name}: no safetensors file {description}; expected a model saved by save_pretrained"
        )
    return chosen


def require_vocabulary(name: str, tokenizer: Any) -> None:
    """Refuse a tokenizer that knows no letter: it was made without its vocabulary, and every text is alike to it."""
    beside = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
    if not any(any(map(str.isalnum, str(token))) for token in tokenizer.get_vocab() if token not in beside):
        raise ModelError.incomplete(
            f"{name}: the tokenizer has no vocabulary, and every text would be alike to it; expected tokenizer.json "
            "or what its library saves instead; download it again"
        )


def configuration_files(folders: Iterable[Path]) -> list[Path]:
    """List the configuration and vocabulary files of these folders, sorted by name; none that is hidden."""
    kinds = {".json", ".txt", ".model"}
    files = (path for folder in folders for path in sorted(folder.iterdir()))
    return [path for path in files if path.suffix in kinds and not path.name.startswith(".")]


def model_index(checkpoint: Source) -> dict[str, Any]:
    """Read the ``model_index.json`` of a pipeline."""
    try:
        index = json.loads((checkpoint.path / "model_index.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _no_pipeline(checkpoint, "no such file") from error
    except OSError as error:
        raise _no_pipeline(checkpoint, f"cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise _no_pipeline(checkpoint, f"not JSON ({error})") from error
    if not isinstance(index, dict) or index.get("_class_name") is None:
        raise _no_pipeline(checkpoint, "it names no pipeline (_class_name)")
    return index


def _no_pipeline(checkpoint: Source, why: str) -> ModelError:
    return ModelError.malformed(
        f"{checkpoint.name}/model_index.json: {why}; expected a diffusers pipeline, as its save_pretrained writes it"
    )


def component_folders(checkpoint: Source) -> list[Path]:
    """List the folders of the components that ``model_index.json`` names, without the schedulers'."""
    names = [
        key for key in sorted(model_index(checkpoint)) if not key.startswith("_") and not key.endswith("scheduler")
    ]
    return [checkpoint.path / key for key in names if (checkpoint.path / key).is_dir()]


def hash_files(files: Iterable[Path], root: Path) -> str:
    """Hash names (relative to ``root``) and contents of files: SHA-256, 64 hexadecimal digits.

    The files are streamed, and the result does not depend on the order in which they are given, nor on the system:
    paths of Windows sort without regard to case.
    """
    return hash_of_hashes((path.relative_to(root), file_hash(path)) for path in files)


def file_hash(path: Path) -> str:
    """Hash a file's content, streamed: SHA-256, 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_of_hashes(hashes: Iterable[tuple[Path, str]]) -> str:
    """Hash names of files, each with the hash of its content, as `hash_files` does."""
    total = hashlib.sha256()
    lines = ((name.as_posix(), digest) for name, digest in hashes)  # of a million files, paths would take much memory
    for name, digest in sorted(lines, key=lambda line: line[0].replace("/", "\0")):  # folder by folder
        total.update(f"{name} {digest}\n".encode())
    return total.hexdigest()


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence the progress bars that diffusers and transformers draw while they read weights."""
    from diffusers.utils import logging as diffusers_logging
    from transformers.utils import logging as transformers_logging

    bars = [log for log in (diffusers_logging, transformers_logging) if log.is_progress_bar_enabled()]
    for log in bars:
        log.disable_progress_bar()
    try:
        yield
    finally:
        for log in bars:
            log.enable_progress_bar()


# --- The digest of a folder that OpenSSF model-signing signs, so that a finding can refer to signed weights ----------
#
# model-signing 1.x hashes every file of a model's folder, and signs an in-toto statement whose subject is one digest
# over those of the files. The digest is computed here, because the package itself brings clients of transparency logs
# and timestamp servers. It is that of ``model_signing.hashing.hash``, and tests hold it against what the package gave.


SIGNATURE: Final = "model.sig"
"""The name that ``model_signing sign`` gives to a signature by default."""

IGNORED: Final = (".git", ".gitattributes", ".github", ".gitignore")
"""Paths that model-signing ignores by default, in addition to the signature itself."""

MOST_SIGNATURE: Final = 2**26
"""The most bytes of a signature: it lists a digest for each file."""


def model_digest(folder: Path, card: Mapping[str, Any]) -> str:
    """Return the digest of a model's folder, after making sure that it holds the weights of the model of a card.

    SHA-256 over the SHA-256 digests (32 bytes each) of all files, in the order of their paths, part by part. Where the
    folder has a ``model.sig``, what its signer left out is left out here, and the digest must be the one it signed.
    Whether the signature is genuine only its key tells: ``model_signing verify``.

    Returns
    -------
    64 hexadecimal digits.

    Raises
    ------
    ModelError
        There is no such folder; a file of it is a symbolic link or cannot be read; its weights are not those of the
        card, or the card has no hash of any; the files are not those that were signed, or another method was used.
    """
    if not folder.is_dir():
        raise ModelError.not_found(f"{folder}: no such folder; expected the files of the model, as they are signed")
    signed = _signed(folder / SIGNATURE)
    ignored = {*map(PurePosixPath, (*IGNORED, SIGNATURE)), *signed.get("ignored", ())}
    digests = {}
    for path in folder.rglob("*"):
        name = PurePosixPath(path.relative_to(folder).as_posix())
        if any(name.is_relative_to(each) for each in ignored):
            continue
        if path.is_symlink():
            raise ModelError.untrusted(
                f"{path}: a symbolic link, which model-signing refuses; give a folder of plain files, such as that of "
                "hf download --local-dir"
            )
        if not path.is_dir():
            digests[name] = _digest(path)
    _require_weights(folder, digests, card)
    total = hashlib.sha256(b"".join(bytes.fromhex(digests[name]) for name in sorted(digests, key=lambda n: n.parts)))
    if signed and signed["digest"] != total.hexdigest():
        raise ModelError.corrupt(
            f"{folder}: its files are not those that {SIGNATURE} was made for (digest {quoted(signed['digest'], 8)}, "
            f"found {total.hexdigest()[:8]}…); restore them, or sign them again"
        )
    return total.hexdigest()


def _digest(path: Path) -> str:
    try:
        if path.is_file():
            return file_hash(path)
    except OSError as error:
        raise ModelError.cannot_read(as_text(str(path)), error) from error
    raise ModelError.wrong_type(f"{as_text(str(path))}: neither a file nor a folder")


def _signed(signature: Path) -> dict[str, Any]:
    """Read what a signature is for: its digest, and the paths that it leaves out; empty where there is none."""
    if not signature.exists():
        return {}
    try:
        with signature.open("rb") as file:
            bundle = json.loads(file.read(MOST_SIGNATURE))
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"], validate=True))
        how = statement["predicate"]["serialization"]
        if (how["method"], how["hash_type"]) != ("files", "sha256") or how["allow_symlinks"]:
            raise ModelError.unsupported(
                f"{signature}: made over {quoted(how['method'])} by {quoted(how['hash_type'])}; expected the "
                "default of model_signing sign: files, sha256 and no symbolic links"
            )
        ignored = [PurePosixPath(path) for path in how.get("ignore_paths", ())]
        return {"digest": statement["subject"][0]["digest"]["sha256"], "ignored": ignored}
    except OSError as error:
        raise ModelError.cannot_read(signature, error) from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ModelError.malformed(
            f"{signature}: no signature of model-signing; sign the folder again, or move it away"
        ) from error


def _require_weights(folder: Path, digests: Mapping[PurePosixPath, str], card: Mapping[str, Any]) -> None:
    """Refuse a folder that does not hold the weights of a card, in any of the variants that it has."""
    expected = card["weights_sha256"]
    if not expected:
        raise ModelError.undefined(
            f"{folder}: the run knows no hash of the weights of {card['name']}, so nothing shows that these are they; "
            "leave the folder out"
        )
    source = Source(folder.name, folder)
    places = component_folders(source) if (folder / "model_index.json").is_file() else [folder]
    stems = [path.stem.partition(".")[2] for path in digests if path.suffix == ".safetensors"]
    hashes = set()
    for variant in {None, *(stem.partition("-")[0] for stem in stems)} - {""}:
        with suppress(ModelError, KeyError):  # there are no such weights, or they are left out of the signature
            files = [path.relative_to(folder) for path in weight_files(source.name, places, variant)]
            hashes.add(hash_of_hashes((path, digests[PurePosixPath(path.as_posix())]) for path in files))
    if expected not in hashes:
        raise ModelError.mismatch(
            f"{folder}: its weights are not those of the run's model, {card['name']} (SHA-256 {expected[:8]}…); give "
            "the folder that was audited, or audit this one"
        )
