"""Portraits from folders: names of a face database, manifests, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clinometer.errors import Code, ImportManifestError, InvalidInputError
from clinometer.models import reference
from clinometer.models.files import choose_portraits, read_portraits
from tests.raising import raises

CODES = {"white woman": ("WF",), "black man": ("BM",)}


def paint(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(len(path.name)).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    for person in range(1, 5):
        for code in ("WF", "BM", "AF"):
            for expression in ("N", "HO"):
                paint(tmp_path / f"{code}-{person:03}" / f"CFD-{code}-{person:03}-001-{expression}.jpg")
    return tmp_path


def test_codes_and_expression_are_read_from_the_names(faces: Path) -> None:
    rows = read_portraits(faces, CODES)
    assert [row.group for row in rows] == ["black man"] * 4 + ["white woman"] * 4
    assert all(row.file.endswith("-N.jpg") for row in rows)
    happy = read_portraits(faces, CODES, expression="ho")
    assert len(happy) == 8
    assert all(row.file.endswith("-HO.jpg") for row in happy)


def test_a_choice_depends_on_seed_and_file_alone(faces: Path) -> None:
    rows = read_portraits(faces, CODES)
    chosen = choose_portraits(rows, 2, seed=1)
    assert len(chosen) == 4
    assert {row.file for row in choose_portraits(rows[::-1], 2, seed=1)} == {row.file for row in chosen}
    choices = {tuple(row.file for row in choose_portraits(rows, 2, seed)) for seed in range(20)}
    assert len(choices) > 1


def test_a_manifest_goes_before_names(faces: Path) -> None:
    file = "WF-001/CFD-WF-001-001-N.jpg"
    (faces / "manifest.csv").write_text(f"file,group\n{file},black man\nWF-002/CFD-WF-002-001-N.jpg,white woman\n")
    assert next((row.file, row.group) for row in read_portraits(faces, CODES)) == (file, "black man")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CFD-XX-001-001-N.jpg", r"CFD-XX-001-001-N\.jpg: .*CFD-WF-001-003-N\.jpg"),
        ("CFD-WF-001-001-Q.jpg", "its name is not of the form"),
    ],
)
def test_a_name_that_almost_fits_is_refused(faces: Path, name: str, message: str) -> None:
    paint(faces / name)
    with raises(ImportManifestError, code=Code.MALFORMED, match=message):
        read_portraits(faces, CODES)


def test_what_is_missing_is_named(faces: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with raises(ImportManifestError, code=Code.MISSING, match="'latino', codes LM"):
        read_portraits(faces, {**CODES, "latino": ("LM",)})
    with raises(ImportManifestError, code=Code.NOT_FOUND, match="neither a manifest"):
        read_portraits(tmp_path_factory.mktemp("empty"), CODES)
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="expression", match="found 'happy'"):
        read_portraits(faces, CODES, expression="happy")
    with raises(ImportManifestError, code=Code.NOT_FOUND, match="no such folder"):
        read_portraits(faces / "nowhere", CODES)


def test_the_portraits_that_ship_are_whole() -> None:
    groups = ("light woman", "light man", "dark woman", "dark man")
    rows = read_portraits(reference.portraits_path(), dict.fromkeys(groups, ()))
    counts = {group: sum(row.group == group for row in rows) for group in groups}
    assert counts == dict.fromkeys(groups, 32)
    with Image.open(reference.portraits_path() / rows[0].file) as image:
        assert image.size == (64, 64)
