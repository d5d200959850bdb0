"""The page about downstream audits: its table has every key of a classification suite, its Python runs."""

import re

import numpy as np
import pytest

from clinometer.models.diffusers.denoiser import TOLERANCES
from clinometer.stats.skin import monk_self_test
from clinometer.studies.classification.study import SCHEMA
from clinometer.studies.editing.design import EditingDesign, Faces, PortraitGroup
from clinometer.studies.editing.faces import Alignment, average_faces
from clinometer.suites import ClassificationSuite
from clinometer.suites.base import Suite
from tests.docs.keys import keys
from tests.docs.pages import blocks, numbers, page, table_rows

PAGE = page("docs/downstream.md")


def test_the_table_of_classification_keys_is_whole():
    rows = {row[0].strip("`"): row[1] for row in table_rows(PAGE, "key of a classification suite")}
    own = {key for key in keys(ClassificationSuite) if re.split(r"[.\[]", key)[0] not in Suite.model_fields}
    assert set(rows) == own
    required = {name for name, field in ClassificationSuite.model_fields.items() if field.is_required()}
    required -= set(Suite.model_fields)
    assert {key for key, said in rows.items() if said == "yes" and "." not in key} == required


def test_the_columns_of_the_stored_errors_are_named():
    told = PAGE.split("RUN/classifications/part-*.parquet")[1].split("\n\n")[0]
    for name in SCHEMA.names:
        assert f"`{name}`" in told


def test_the_columns_of_average_faces_are_named():
    design = EditingDesign((PortraitGroup("women", "woman"),), "man", "woman", {"cook": "all"}, (1.0,))
    pixels, there = np.zeros((1, 1, 1, 64, 64, 3)), np.ones((1, 1, 1), bool)
    faces = Faces(np.zeros(1), np.zeros((1, 1, 1)), there[:, 0, 0], there, pixels[:, 0, 0], pixels)
    table = average_faces(faces, np.zeros(1, int), design, Alignment("plain"))
    told = PAGE.split("The faces are kept in `RUN/curves.parquet`")[1].split("\n\n")[0]
    assert set(re.findall(r"`([a-z]+)`", told)) == set(table.columns) | {"before"}
    assert set(table.setting) == {"before", "strength 1"}


def test_the_tolerances_are_those_of_the_code():
    assert [TOLERANCES[kind] for kind in TOLERANCES] == [1e-5, 2e-3, 1e-2]
    for said in ("10⁻⁵", "2·10⁻³", "10⁻²", "float16", "bfloat16"):
        assert said in PAGE


def test_what_is_said_of_the_monk_scale():
    assert [swatch.number for swatch in monk_self_test() if not swatch.is_skin] == [10]
    (told,) = [paragraph for paragraph in PAGE.split("\n\n") if "Monk" in paragraph and "10" in numbers(paragraph)]
    assert told


@pytest.mark.slow
def test_the_python_works():
    names: dict[str, object] = {}
    exec(compile(blocks(PAGE, "python")[0], "docs/downstream.md", "exec"), names)
    assert names["classifier"].prompts == ("a portrait of a cook", "a portrait of a pilot")
