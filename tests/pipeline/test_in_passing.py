"""Finished images are embedded as they are read: the same vectors as from what is stored, and nothing decoded twice."""

import io

import numpy as np
import pytest
from PIL import Image

import clinometer as cm
from clinometer.errors import Code, ModelError
from clinometer.models.files.source import FolderSource
from clinometer.runs.samples import Samples
from tests import quick
from tests.raising import raises
from tests.runs.stepwise import Ahead
from tests.toys import Eye, toy_suite

KINDS = (
    ("RGB", "PNG"),
    ("RGB", "JPEG"),
    ("RGBA", "PNG"),
    ("L", "JPEG"),
    ("P", "PNG"),
    ("CMYK", "JPEG"),
    ("RGB", "WEBP"),
)
SUITE = toy_suite(concepts=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    owners = ["concept 0.20,,", "concept 0.80,,", ",man,old men", ",woman,old women"]
    rows = ["file,concept,group,prompt"]
    for number in range(140):  # of more than one part
        mode, kind = KINDS[number % len(KINDS)]
        image = Image.fromarray(rng.integers(0, 255, (8, 8, 4), np.uint8), "RGBA")
        buffer = io.BytesIO()
        (image if mode == "RGBA" else image.convert("RGB").convert(mode)).save(buffer, format=kind)
        (place / f"{number}.bin").write_bytes(buffer.getvalue() if number else b"no image")
        rows.append(f"{number}.bin,{owners[number % 4]}")
    (place / "manifest.csv").write_text("\n".join(rows))
    return place


def vectors(run, name="eye"):
    return {key: vector.tobytes() for key, vector in run.embeddings(name).items()}


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    return quick.import_images(
        folder, tmp_path_factory.mktemp("out") / "run", suite=SUITE, encoder=[Eye(), Ahead("two")]
    )


@pytest.mark.thorough
def test_vectors_are_those_of_what_is_stored(finished):
    cm.score_run(finished.url, encoder=[Eye("later"), Ahead("later two")])
    run = cm.open_run(finished.url)
    assert len(run.parts) == 2
    assert len(vectors(run)) == len(run.plan) - 1
    for one, other in (("eye", "later"), ("two", "later two")):
        assert vectors(run, one) == vectors(run, other)
        for part in run.parts:
            assert list(run.vectors.of_part(one, part)) == list(run.vectors.of_part(other, part))


class Shrinking(Ahead):
    """An encoder that makes images smaller in place, as Pillow's `thumbnail` does."""

    def prepare_images(self, images):
        for image in images:
            image.thumbnail((2, 2))
        return super().prepare_images(images)


def test_what_an_encoder_does_to_an_image_no_other_sees(folder, tmp_path, finished):
    run = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=[Shrinking("small"), Eye()])
    assert vectors(run) == vectors(finished) != vectors(run, "small")
    assert list(run.images(run.samples.id)) == list(finished.images(finished.samples.id))


def test_no_image_is_decoded_twice(folder, tmp_path, monkeypatch, finished):
    monkeypatch.setattr(Samples, "decode", None)
    run = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Eye())
    assert vectors(run) == vectors(finished)


def test_vectors_stand_in_the_order_of_the_plan(folder, tmp_path, monkeypatch, finished):
    read = FolderSource.generate
    monkeypatch.setattr(FolderSource, "generate", lambda self, requests: reversed(list(read(self, requests))))
    run = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Eye())
    assert vectors(run) == vectors(finished)
    assert [key for part in run.parts for key in run.vectors.of_part("eye", part)] == list(vectors(finished))


def test_an_encoder_that_fails_leaves_every_image_read(folder, tmp_path, finished):
    with raises(ModelError, code=Code.NOT_FINITE, match="not finite"):
        quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Eye(poison="images"))
    run = cm.open_run(tmp_path / "run")
    assert len(run.samples) == len(run.plan)
    again = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Eye())
    assert vectors(again) == vectors(finished)


def test_a_device_that_is_lost_while_files_are_read_costs_nothing(folder, tmp_path, finished):
    """The parts that were in its hands are embedded from what is stored."""
    run = quick.import_images(folder, tmp_path / "run", suite=SUITE, encoder=Ahead(break_at=2))
    assert vectors(run) == vectors(finished)
