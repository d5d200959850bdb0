"""A run over a real pipeline whose memory is limited: the batch is found, shrinks, loses nothing, and is resumed."""

import shutil

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import Code, RunCorruptError, RunStorageError
from clinometer.models.batching import BatchBounds
from clinometer.models.diffusers.generator import DiffusersGenerator
from clinometer.models.diffusers.pipeline import load
from clinometer.models.encoders.transformers_clip import load as load_clip
from clinometer.models.images import decode_stored, sha256
from clinometer.pipeline.audits import settle_batch_size
from clinometer.runs import NoProgress, encode
from clinometer.runs.drawing import requests_of
from clinometer.runs.embeddings import Vectors
from tests import quick
from tests.builders import tiny_clip, tiny_stable_diffusion
from tests.memory import limited
from tests.raising import raises
from tests.toys import Eye, Notes, toy_suite


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return tiny_stable_diffusion(tmp_path_factory.mktemp("models") / "tiny-sd")


def suite():
    return toy_suite(target=5, attribute=3, concepts=2)


class Limited(DiffusersGenerator):
    """A real pipeline on a device that holds ``memory`` images; from image ``later[0]`` on, ``later[1]`` of them."""

    def __init__(self, source, memory, *, bounds=BatchBounds(2, 64), later=None, stop_after=None):  # noqa: B008
        made = load(str(source), steps=3, guidance_scale=1.0)
        super().__init__(made.pipeline, made.card, call=made._call, conditioning=made._conditioning, batch_size=bounds)
        self.asked = limited(self.pipeline.unet, memory)
        self.later, self.stop_after, self.drawn = later, stop_after, 0

    def generate(self, requests):
        for result in super().generate(requests):
            yield result
            self.drawn += 1
            if self.later and self.drawn == self.later[0]:
                self.pipeline.unet.limit = self.later[1]
            if self.drawn == self.stop_after:
                raise KeyboardInterrupt


def audit(generator, out, **options):
    return quick.audit(generator, suite(), out, encoder=Eye(), **options)


def pixels(run):
    return {key: np.asarray(decode_stored(data), int) for key, data in run.images(s.id for s in run.plan)}


@pytest.fixture(scope="module")
def plain(pipeline, whole):
    """The same images, drawn one by one."""
    generator = load(str(pipeline), steps=3, guidance_scale=1.0, batch_size=1)
    return {result.id: np.asarray(result.image, int) for result in generator.generate(requests_of(whole.plan))}


def furthest(run, images):
    found = pixels(run)
    assert found.keys() == images.keys()
    assert len(found) == 2 * 5 + 6 * 3
    return max(np.abs(found[key] - images[key]).max() for key in found)


@pytest.fixture(scope="module")
def grown(pipeline, tmp_path_factory):
    """Drawn in one go where memory holds 12 images: the run, its generator, what was said."""
    generator, notes = Limited(pipeline, 12), Notes()
    return audit(generator, tmp_path_factory.mktemp("whole") / "run", progress=notes), generator, notes.messages


@pytest.fixture(scope="module")
def whole(grown):
    return grown[0]


@pytest.mark.thorough
def test_the_batch_grows_until_memory_says_no(grown, plain):
    run, generator, notes = grown
    assert generator.asked[:7] == [2, 2, 4, 4, 8, 8, 16]  # two steps each, and one that was refused
    assert set(generator.asked[7:]) == {8, 4}
    assert run.record["batch_size"] == 8
    assert "8 images per batch: as many as memory holds" in notes
    assert furthest(run, plain) <= 1  # rounding, of 255


@pytest.mark.thorough
def test_memory_that_is_taken_away_costs_no_image(pipeline, plain, tmp_path):
    generator, notes = Limited(pipeline, 12, later=(8, 3)), Notes()
    run = audit(generator, tmp_path / "run", progress=notes)
    assert set(run.samples.status) == {"ok"}
    assert run.record["batch_size"] == generator.batch_size == 2
    assert "memory ran out: batches of 2 from here on; nothing is lost" in notes.messages
    assert furthest(run, plain) <= 1


@pytest.mark.thorough
def test_a_stopped_run_goes_on_with_the_batches_it_found(pipeline, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        audit(Limited(pipeline, 12, stop_after=13), tmp_path / "run")
    generator = Limited(pipeline, 100)  # by now there is more memory
    run = audit(generator, tmp_path / "run")
    assert set(generator.asked) == {8, 4}
    assert run.samples.sha256.equals(whole.samples.sha256)


def test_a_finished_run_tries_nothing(pipeline, whole):
    generator = Limited(pipeline, 100)
    settle_batch_size(whole.url, generator, whole.suite, NoProgress())
    assert (generator.batch_size, generator.asked) == (8, [])


class FullDisk(Eye):
    """An encoder at whose second part the disk is full."""

    def __init__(self, run, monkeypatch):
        super().__init__("other")
        self.calls, self.run, self.monkeypatch = 0, run, monkeypatch

    def encode_images(self, images):
        self.calls += 1
        if self.calls == 3:  # the first part is asked for twice

            def full(*arguments):
                raise RunStorageError("no space left")

            self.monkeypatch.setattr(Vectors, "write", full)
        return super().encode_images(images)


def test_an_error_while_embeddings_are_written_surfaces_and_keeps_the_rest(whole, monkeypatch):
    run = cm.open_run(whole.url)
    with monkeypatch.context() as patch, raises(RunStorageError, code=Code.STORAGE, match="no space"):
        encode(run, FullDisk(run, patch), NoProgress())
    done = [part for part in run.parts if run.vectors.has("other", part)]
    assert done
    assert len(done) < len(run.parts)
    encode(run, Eye("other"), NoProgress())
    ours, theirs = run.embeddings("other"), run.embeddings("eye")
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_a_run_is_embedded_as_its_images_are(whole, tmp_path):
    encoder, run = load_clip(str(tiny_clip(tmp_path / "clip"))), cm.open_run(whole.url)
    encode(run, encoder, NoProgress())
    vectors = run.embeddings(encoder.card.name)
    for samples in run.parts.values():
        images = [decode_stored(data) for _, data in run.images(each.id for each in samples)]
        assert np.array_equal(encoder.encode_images(images), [vectors[each.id] for each in samples])


def test_a_damaged_image_is_named_with_its_file(whole, tmp_path):
    run = cm.open_run(shutil.copytree(whole.url, tmp_path / "run"))
    rows = run.drawn.read(1)
    rows[2]["image"]["bytes"] = rows[2]["image"]["bytes"][:60]
    rows[2]["sha256"] = sha256(rows[2]["image"]["bytes"])
    run.drawn.write(1, rows)
    words = rf"part-00001.parquet: image {rows[2]['id']} is damaged.*Delete the file"
    with raises(RunCorruptError, code=Code.CORRUPT, match=words):
        encode(run, Eye("third"), NoProgress())
