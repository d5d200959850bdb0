"""A model's folder by the digest that OpenSSF model-signing signs: the package's own values, and what is refused."""

import base64
import hashlib
import json
import os

import pytest

from clinometer.errors import Code, ModelError
from clinometer.models.weights import SIGNATURE, hash_files, model_digest
from tests.raising import raises
from tests.signed_model import DIGEST, SIGNED, WEIGHTS, write_model

CARD = {"name": "toy", "weights_sha256": WEIGHTS}


def test_the_digest_is_that_of_model_signing(tmp_path):
    folder = write_model(tmp_path / "signed")
    assert model_digest(folder, CARD) == DIGEST
    (folder / ".git/HEAD").write_bytes(b"another")  # which model-signing leaves out
    folder.rename(tmp_path / "moved")  # the name is no part of it
    assert model_digest(tmp_path / "moved", CARD) == DIGEST


def test_the_digest_is_over_the_files_in_the_order_of_their_paths(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/x.safetensors", "b-a", "a"):
        (tmp_path / name).write_bytes(name.encode())
    weights = hash_files([tmp_path / "b/x.safetensors"], tmp_path)
    (tmp_path / "model_index.json").write_text('{"_class_name": "X", "b": []}')
    order = [b"a", b"b/x.safetensors", b"b-a", (tmp_path / "model_index.json").read_bytes()]
    expected = hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in order)).hexdigest()
    assert model_digest(tmp_path, {"name": "x", "weights_sha256": weights}) == expected


def test_what_a_signer_left_out_is_left_out(tmp_path):
    folder = write_model(tmp_path / "signed", signed=True)
    assert model_digest(folder, CARD) == SIGNED
    (folder / "README.md").write_text("changed")
    assert model_digest(folder, CARD) == SIGNED
    (folder / "a/z").write_text("changed")
    with raises(
        ModelError, code=Code.CORRUPT, match=r"its files are not those that model\.sig was made for \(digest '554040b6"
    ):
        model_digest(folder, CARD)


def test_weights_of_a_variant_are_those_of_the_model_too(tmp_path):
    folder = write_model(tmp_path / "model")
    half = hash_files([folder / "unet/diffusion_pytorch_model.fp16.safetensors"], folder)
    assert model_digest(folder, CARD | {"weights_sha256": half}) == DIGEST
    with raises(ModelError, code=Code.MISMATCH):
        model_digest(folder, CARD | {"weights_sha256": "0" * 64})
    with raises(ModelError, code=Code.UNDEFINED):
        model_digest(folder, CARD | {"weights_sha256": None})


def other_method(folder):
    bundle = json.loads((folder / SIGNATURE).read_text())
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["predicate"]["serialization"]["hash_type"] = "blake3"
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    (folder / SIGNATURE).write_text(json.dumps(bundle))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda folder: (folder / "link").symlink_to(folder / "a.b"), Code.UNTRUSTED, "link"),
        (lambda folder: os.mkfifo(folder / "pipe"), Code.WRONG_TYPE, "pipe"),
        (lambda folder: (folder / SIGNATURE).write_text("{}"), Code.MALFORMED, r"model\.sig"),
        (lambda folder: (folder / SIGNATURE).write_text("[" * 100_000), Code.MALFORMED, r"model\.sig"),
        (other_method, Code.UNSUPPORTED, "'files' .*'blake3'"),
    ],
)
def test_a_folder_that_cannot_be_digested_is_a_line(tmp_path, change, code, words):
    folder = write_model(tmp_path / "model", signed=True)
    change(folder)
    with raises(ModelError, code=code, match=words) as error:
        model_digest(folder, CARD)
    assert "\n" not in str(error.value)


def test_no_folder_is_a_line(tmp_path):
    with raises(ModelError, code=Code.NOT_FOUND):
        model_digest(tmp_path / "none", CARD)
