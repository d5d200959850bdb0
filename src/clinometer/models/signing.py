"""A folder of weights by the digest that OpenSSF model-signing signs, so that a finding can refer to signed weights.

model-signing 1.x hashes every file of a model's folder, and signs an in-toto statement whose subject is one digest over
those of the files. The digest is computed here, because the package itself brings clients of transparency logs and
timestamp servers. It is that of ``model_signing.hashing.hash``, and tests hold it against what the package gave.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from clinometer._messages import as_text, quoted
from clinometer.errors import ModelError
from clinometer.models.weights import Source, component_folders, file_hash, hash_of_hashes, weight_files

SIGNATURE: Final = "model.sig"
"""The name that ``model_signing sign`` gives to a signature by default."""

IGNORED: Final = (".git", ".gitattributes", ".github", ".gitignore")
"""What model-signing leaves out by default, besides the signature itself."""

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
