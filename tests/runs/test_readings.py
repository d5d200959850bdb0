"""What an encoder sees in single images, by hand and whatever the parts."""

import shutil

import numpy as np
import pytest

import clinometer as cm
from clinometer.metrics import association_scores
from clinometer.runs.browse import Reader, part_numbers, piece_of
from clinometer.studies import study_of
from tests import quick
from tests.toys import Eye, Painter, toy_suite


def words_of(run):
    return study_of(run.suite).reading_words(run.suite)


def readings(run, encoder="eye"):
    reader = Reader(run, encoder, words_of(run))
    pieces = [piece_of(run, part) for part in part_numbers(run)]
    for piece in pieces:
        reader.learn(piece)
    return {piece.columns["id"][row]: seen for piece in pieces for row, seen in reader.read(piece)}


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(), toy_suite(), encoder=Eye())


def test_sides_and_margins_are_the_association_with_the_words(run):
    vectors, texts = run.embeddings("eye"), run.texts("eye")
    a, b = (np.stack([texts[word] for word in words]) for words in words_of(run).values())
    seen = readings(run)
    assert set(seen) == set(vectors)
    for identifier, vector in vectors.items():
        (s,) = association_scores(vector[None].astype(float), a.astype(float), b.astype(float))
        assert seen[identifier].group == ("man" if s > 0 else "woman")
        assert seen[identifier].margin == pytest.approx(abs(s), abs=1e-6)


def test_typicality_is_the_cosine_with_the_mean_of_its_own(run):
    vectors, seen, samples = run.embeddings("eye"), readings(run), run.samples
    for owner in ("concept 0.20", "concept 0.80"):
        own = samples.id[samples.concept == owner].tolist()
        units = np.stack([vectors[each] / np.linalg.norm(vectors[each]) for each in own]).astype(float)
        mean = units.mean(axis=0)
        expected = units @ mean / np.linalg.norm(mean)
        assert [seen[each].typicality for each in own] == pytest.approx(expected, abs=1e-6)
        assert (expected <= 1 + 1e-12).all()


def test_parts_do_not_matter(run, tmp_path):
    other = quick.audit(Painter(batch_size=1), toy_suite(), tmp_path / "run", encoder=Eye())
    first, second = readings(run), readings(other)
    assert first.keys() == second.keys()
    for identifier, seen in first.items():
        assert second[identifier].group == seen.group
        assert second[identifier].margin == pytest.approx(seen.margin, abs=1e-12)
        assert second[identifier].typicality == pytest.approx(seen.typicality, abs=1e-12)


def test_exchanging_the_groups_exchanges_the_sides_alone(run, tmp_path):
    axis = {"a": "woman", "b": "man", "third": "other"}
    exchanged = quick.audit(Painter(), toy_suite(axis=axis), tmp_path / "run", encoder=Eye())
    assert list(words_of(exchanged)) == list(words_of(run))[::-1]
    first, second = readings(run), readings(exchanged)
    assert {key: (seen.group, seen.margin) for key, seen in first.items()} == {
        key: (seen.group, seen.margin) for key, seen in second.items()
    }


def test_refused_images_are_not_read(tmp_path):
    refusing = quick.audit(Painter(refuse="0.80"), toy_suite(), tmp_path / "run", encoder=Eye())
    samples = refusing.samples
    assert set(readings(refusing)) == set(samples.id[samples.status == "ok"])


def test_a_part_of_refusals_alone_has_no_readings(tmp_path):
    """Eight images make a part, so several of a concept of 24 hold nothing else."""
    suite = toy_suite(target=24, attribute=5, concepts=2)
    run = quick.audit(Painter(refuse="0.20"), suite, tmp_path / "run", encoder=Eye())
    drawn = set(run.samples.id[run.samples.status == "ok"])
    assert any(drawn.isdisjoint(sample.id for sample in part) for part in run.parts.values())
    assert set(readings(run)) == drawn


def test_a_run_that_changes_while_it_is_read_is_read_as_far_as_it_goes(run, tmp_path):
    shutil.copytree(run.url, tmp_path / "run")
    changing = cm.open_run(tmp_path / "run")
    whole, reader = readings(run), Reader(changing, "eye", words_of(changing))
    pieces = [piece_of(changing, part) for part in part_numbers(changing)]
    reader.learn(pieces[0])  # the vectors of the others were not there then
    (tmp_path / "run/embeddings/eye/part-00001.parquet").unlink()  # and these are no more
    seen = {piece.columns["id"][row]: reading for piece in pieces for row, reading in reader.read(piece)}
    assert seen.keys() == whole.keys() - set(pieces[1].columns["id"])
    assert all(seen[each].group == whole[each].group for each in seen)
    learnt = set(pieces[0].owners)
    for piece in pieces[2:]:
        assert all(
            np.isnan(seen[each].typicality) == (owner not in learnt)
            for each, owner in zip(piece.columns["id"], piece.owners, strict=True)
        )
