"""Scoring reads one target at a time: the same numbers, and memory that does not grow with the images."""

import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from clinometer._scratch import Scratch, VectorFile
from clinometer.errors import Code, RunStorageError
from clinometer.stats.blocks import Blocks, mapped, sizes_of
from clinometer.studies.leaning import mcas_study
from clinometer.studies.leaning.scores import cosines, measuring
from tests.raising import raises
from tests.studies.leaning.studies import design, embeddings

DESIGN = design()


@cache
def made(n):
    """Some encoders, and what is scored of them as they are."""
    encoders = [embeddings(f"e{seed}", seed=seed) for seed in range(n)]
    return encoders, scored(encoders)


def scored(encoders, **options):
    return mcas_study(encoders, DESIGN, n_resamples=200, n_permutations=99, **options)


def lazily(encoder, asked):
    def make(position):
        asked.append(position)
        return encoder.target_images[position]

    return replace(encoder, target_images=Blocks(list(map(len, encoder.target_images)), make))


def same(rows, others):
    return [repr(row) for row in rows] == [repr(row) for row in others]


@pytest.mark.parametrize("n", [1, 2])
def test_vectors_that_are_read_when_needed_give_the_same_numbers(n):
    (encoders, whole), asked = made(n), []
    assert same(whole, scored([lazily(each, asked) for each in encoders]))
    assert len(asked) <= 2 * n * len(DESIGN.targets)  # to be checked, and to be measured


@pytest.mark.parametrize("n", [1, 2])
def test_replicates_that_wait_in_a_file_and_are_read_by_twos_give_the_same_bits(monkeypatch, n):
    encoders, whole = made(n)
    monkeypatch.setattr(cosines, "NUMBERS_AT_ONCE", 1)
    assert same(whole, scored(encoders, store=partial(Scratch, 1)))


@pytest.mark.parametrize("n", [1, 2])
def test_targets_that_threads_measure_side_by_side_give_the_same_bits(monkeypatch, n):
    encoders = []
    for seed in range(n):
        encoder, file = embeddings(f"e{seed}", seed=seed), VectorFile()
        for target, vectors in enumerate(encoder.target_images):
            file.add([target] * len(vectors), vectors)
        encoders.append(replace(encoder, target_images=file.blocks(range(len(DESIGN.targets)), 24)))
    rows = []
    for cores in (1, 3):
        monkeypatch.setattr(measuring, "available_cores", lambda cores=cores: cores)
        rows.append(scored(encoders))
    assert same(*rows)


@pytest.mark.parametrize("total", range(1, 12))
@pytest.mark.parametrize("at_once", [2, 3, 5])
def test_parts_hold_every_position_once_and_none_is_alone(total, at_once):
    parts = [range(total)[part] for part in cosines.parts_of(total, at_once)]
    assert [place for part in parts for place in part] == list(range(total))
    assert all(2 <= len(part) <= at_once + 1 for part in parts) or total == 1


@pytest.mark.parametrize("in_memory", [1, 2**20])
def test_a_scratch_file_gives_back_what_was_kept(in_memory):
    rng, file = np.random.default_rng(0), Scratch(in_memory)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 4), (0, 5), (7,), (2, 3, 4))]
    kept = [file.keep(array) for array in (*arrays, arrays[0].T)]
    for array, found in zip((*arrays, arrays[0].T), kept, strict=True):
        np.testing.assert_array_equal(found.read(), array)
    np.testing.assert_array_equal(kept[0].read(1, 3), arrays[0][1:3])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_folder_for_temporary_files_is_told_with_the_way_out(monkeypatch):
    def full_file(**options):
        return open("/dev/full", "r+b", buffering=0)

    monkeypatch.setattr("clinometer._scratch.SpooledTemporaryFile", full_file)
    with raises(RunStorageError, code=Code.STORAGE, match="1 MiB .*No space left.*TMPDIR"):
        Scratch().keep(np.zeros(2**17))


def test_rows_and_replicates_at_a_time_change_no_more_than_rounding(monkeypatch):
    encoders, whole = made(1)
    monkeypatch.setattr(measuring, "ROWS", 3)
    monkeypatch.setattr(measuring, "WHOLE", 1)
    monkeypatch.setattr(measuring, "PART", 64)
    for row, other in zip(whole, scored(encoders), strict=True):
        for name in ("value", "low", "high", "stimulus_low", "stimulus_high", "p", "null"):
            assert getattr(other, name) == pytest.approx(getattr(row, name), rel=1e-4, abs=1e-5, nan_ok=True)


def test_blocks_are_a_sequence_that_makes_what_is_asked_for():
    made = []

    def make(position):
        made.append(position)
        return np.full((position, 2), float(position))

    blocks = Blocks([0, 1, 2, 3], make)
    assert (len(blocks), sizes_of(blocks), sizes_of(blocks[1:])) == (4, (0, 1, 2, 3), (1, 2, 3))
    assert made == []
    assert blocks[-1].shape == (3, 2)
    assert [len(x) for x in mapped(lambda x: x + 1, blocks[2:])] == [2, 3]
    assert made == [3, 2, 3]
    assert [len(x) for x in blocks.pieces(3, 2)] == [2, 1]
    assert made == [3, 2, 3, 3]  # once, where nothing tells how to make some of its rows
    with pytest.raises(IndexError):
        blocks[4]


@pytest.mark.parametrize("in_memory", [0, 2**20])
def test_a_file_of_vectors_gives_back_what_was_added_by_key(in_memory):
    rng, file, expected = np.random.default_rng(0), VectorFile(in_memory), {}
    for _ in range(20):
        keys = rng.choice(["a", "b", "c"], size=rng.integers(1, 6)).tolist()
        vectors = rng.standard_normal((len(keys), 5)).astype(np.float32)
        file.add(keys, vectors)
        for key, vector in zip(keys, vectors, strict=True):
            expected.setdefault(key, []).append(vector)
    blocks = file.blocks(["c", "missing", "a"], 5)
    np.testing.assert_array_equal(blocks[0], expected["c"])
    np.testing.assert_array_equal(blocks[2], expected["a"])
    assert (blocks.sizes, blocks[1].shape) == ((len(expected["c"]), 0, len(expected["a"])), (0, 5))
    for rows in (1, 3, 100):
        doubled = mapped(lambda x, y: x + y, blocks, blocks[:])
        np.testing.assert_array_equal(np.concatenate(list(doubled.pieces(0, rows))), 2 * np.array(expected["c"]))
        assert [x.shape for x in blocks[1:].pieces(0, rows)] == [(0, 5)]


GROWTH = Path(__file__).parents[3] / "benchmarks" / "growth.py"


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is counted in other units")
def test_memory_hardly_grows_with_the_images():
    """Of 7,000 further images the vectors are 22 MB; cosines and weights were 43 kB an image, 300 MB."""

    def peak(images):
        sizes = f'{{"images": {images}, "concepts": 8, "encoders": 1, "resamples": 2000}}'
        command = [sys.executable, str(GROWTH), "--one", sizes]
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout
        return float(out.split('"peak": ')[1].rstrip("}\n"))

    assert peak(8_000) - peak(1_000) < 150e6  # a concept at a time, now of 1,000 images, takes the rest
