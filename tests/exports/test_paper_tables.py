"""A run beside a paper's printed tables: each cell once, the right number beside it, what is wrong in print."""

from __future__ import annotations

from io import StringIO
from math import hypot, isnan
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.cli.runs import column_table
from clinometer.errors import Code, InvalidInputError
from clinometer.papers.printed import models_of
from clinometer.published import papers, published
from clinometer.studies import study_named, study_names
from clinometer.studies.editing.study import CODES
from clinometer.studies.study import PrintedCell
from clinometer.studies.t2iat.study import MACHINE, PEOPLE, SETS, TESTS
from clinometer.suites import load_suite, suite_from_mapping
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

GOLDEN = Path(__file__).parents[1] / "golden"
SHIPPED = Path(cm.__file__).parent / "published"
SD2 = "stabilityai/stable-diffusion-2"


def audited(folder: Path, name: str, **options: object) -> cm.Run:
    """A real suite with few images, painted; by a model that calls itself Stable Diffusion 2."""
    asked = load_suite(name).model_dump()
    asked["images"] = dict.fromkeys(asked["images"], 3)
    return quick.audit(Painter(name=SD2), suite_from_mapping(asked, source=name), folder, encoder=Eye(), **options)


@pytest.fixture(scope="module")
def leaning(tmp_path_factory) -> cm.Run:
    return audited(tmp_path_factory.mktemp("tables") / "xmcas", "xmcas")


@pytest.fixture(scope="module")
def association(tmp_path_factory) -> cm.Run:
    return audited(tmp_path_factory.mktemp("tables") / "t2iat", "t2iat/career-family", protocol="paper")


@pytest.mark.parametrize("name", ["internal_bias", "mcas_categories", "t2iat_human", "xmcas"])
def test_the_shipped_tables_are_the_golden_ones(name):
    assert (SHIPPED / f"{name}.csv").read_bytes() == (GOLDEN / f"{name}.csv").read_bytes()


def test_every_paper_has_tables_models_and_suites():
    offered = [table for name in study_names() for table in study_named(name).printed_tables]
    assert sorted(offered) == sorted(table for name in papers() for table in published(name).tables)
    for name in papers():
        held = published(name)
        assert all(held.rows(table) for table in held.tables)
        assert all(load_suite(suite).protocol is not None for suite in held.suites)


@pytest.mark.parametrize("paper", ["mcas", "internal-bias", "xmcas"])
def test_every_printed_cell_is_there_once_and_the_difference_is_the_runs_less_it(leaning, paper):
    table = cm.paper_table(leaning, paper)
    held = published(paper)
    labels = {"model", "category", "target", "stereotype"}
    printed = [
        value for name in held.tables for row in held.rows(name) for key, value in row.items() if key not in labels
    ]
    own = table[table.column != "o-d, axes swapped"]
    assert sorted(own.printed) == sorted(printed)
    assert not table.duplicated(["table", "model", "column", "concept", "category", "group", "setting"]).any()
    np.testing.assert_array_equal(table.difference, table.run - table.paper)
    inside = table[table.paper_inside.notna()]
    assert ((inside.low <= inside.paper) & (inside.paper <= inside.high)).eq(inside.paper_inside.astype(bool)).all()
    assert list(table.columns) == list(PrintedCell.__dataclass_fields__)


def test_the_numbers_are_the_runs(leaning):
    scores = leaning.scores[leaning.scores.encoder == "mean"].set_index(["metric", "component", "concept"])
    table = cm.paper_table(leaning, "internal-bias", models="dalle-2")
    rows = table[table.table == "Table 3"].set_index(["column", "concept"])
    for column, metric, component in (
        ("MCAS", "mcas", "mcas"),
        ("δ", "internal_bias", "diffusion_bias"),
        ("α", "internal_bias", "bias_amplification"),
    ):
        for concept in ("CEO", "gymnastics", "car fixing"):
            row, score = rows.loc[(column, concept)], scores.loc[(metric, component, concept)]
            assert (row.run, row.low, row.high) == pytest.approx((score.value, score.low, score.high), nan_ok=True)
    assert rows.loc[("α", "gymnastics")].printed == "26.06"


def test_categories_are_those_by_sign(leaning):
    """The MCAS paper's terms "with male bias" are those whose score is positive."""
    table = cm.paper_table(leaning, "mcas").set_index(["model", "column", "category"])
    concepts = leaning.scores[(leaning.scores.metric == "mcas") & (leaning.scores.component == "mcas")]
    means = concepts[concepts.encoder == "mean"].groupby("category").value
    for category, values in means:
        male = table.loc[("dalle-2", "average, terms with male bias", category)].run
        assert male == pytest.approx(values[values > 0].mean(), nan_ok=True)
        assert table.loc[("dalle-2", "average, all terms", category)].run == pytest.approx(values.mean())


def test_the_swapped_distance_is_from_the_swapped_centroid(leaning):
    """Beside the definition's distance from (1/3, 0) stands the one from (0, 1/3), which the printed column fits."""
    scores = leaning.scores[leaning.scores.encoder == "mean"].set_index(["metric", "component", "concept"]).value
    table = cm.paper_table(leaning, "xmcas", models=["dalle-2"]).set_index(["column", "concept"])
    for concept in ("CEO", "dollhouse"):
        c, mcas = scores[("xmcas", "similarity", concept)], scores[("mcas", "mcas", concept)]
        assert table.loc[("o-d", concept)].run == pytest.approx(hypot(c - 1 / 3, mcas))
        assert table.loc[("o-d, axes swapped", concept)].run == pytest.approx(hypot(c, mcas - 1 / 3))
    assert "axes swapped" in table.loc[("o-d", "CEO")].note


@pytest.mark.parametrize("paper", ["mcas", "internal-bias", "xmcas"])
def test_every_known_slip_is_told_of_a_printed_cell(leaning, paper):
    notes = " ".join(cm.paper_table(leaning, paper).note)
    for slip in published(paper).slips:
        assert slip.said in notes


@pytest.mark.parametrize("name", ["DALL-E 2", "dall-e-2", "Dalle 2"])
def test_images_named_as_people_write_are_of_the_papers_model(name):
    models = load_suite("mcas").protocol.models
    assert [model.is_called(name) for model in models] == [True, False]


def test_no_digit_of_a_table_is_lost_on_a_narrow_terminal(leaning):
    """Beside two models of the paper, an interval has less room than it takes."""
    cells = cm.paper_table(leaning, "internal-bias")
    (_, column), *_ = cells.groupby("column", sort=False)
    console = Console(width=70, record=True, file=StringIO())
    console.print(column_table("column", column, models_of("internal-bias")))
    assert "\N{HORIZONTAL ELLIPSIS}" not in console.export_text()


def test_the_runs_model_is_the_papers_or_is_not(leaning, tmp_path):
    table = cm.paper_table(leaning, "internal-bias")
    assert table.groupby("model").same_model.first().to_dict() == {"dalle-2": False, "stable-diffusion-2": True}
    chosen = cm.paper_table(leaning, "internal-bias", models="stable-diffusion-2")
    assert set(chosen.model) == {"stable-diffusion-2"}


@pytest.mark.thorough
def test_a_weat_tests_row(association):
    table = cm.paper_table(association, "t2iat").set_index("column")
    table = table[table.table == "Table 1"]
    assert list(table.index) == ["S", "p", "d"]
    scores = association.scores[association.scores.encoder == "mean"].set_index("component")
    assert table.loc["S"].run == scores.loc["differential_association"].value
    assert table.loc["p"].run == scores.loc["differential_association"].p
    assert table.loc["d"].run == scores.loc["effect_size"].value
    assert table.loc["p"].printed == "<0.001"
    assert isnan(table.loc["p"].paper)
    assert isnan(table.loc["p"].difference)
    assert "the paper prints <0.001" in table.loc["p"].note


def test_each_test_has_its_row():
    rows = published("t2iat").rows("t2iat")
    assert sorted(TESTS.values()) == sorted(row["concept_x"] for row in rows)
    suites = {suite.rpartition("/")[2] for suite in published("t2iat").suites}
    assert suites == {*TESTS, "occupations"}
    assert all(test.name in TESTS for name in suites for test in load_suite(f"t2iat/{name}").tests)


def test_each_set_that_people_rated_is_one_of_the_suites():
    rows = published("t2iat").rows("t2iat_human")
    assert [row["concept"] for row in rows] == list(SETS)
    concepts = {name for test in TESTS for name in load_suite(f"t2iat/{test}").concepts}
    assert set(SETS.values()) <= concepts


def test_what_people_said_and_the_machine_stand_beside_each_other(association):
    """Nobody has rated these pictures: the machine's association of each set stands there, and the reason."""
    table = cm.paper_table(association, "t2iat")
    table = table[table.table == "Table 2"].set_index(["column", "concept"])
    assert table.loc[(PEOPLE, "career")].printed == "0.75"
    assert table.loc[(PEOPLE, "family")].note == "nobody has rated these pictures"
    scores = association.scores
    sets = scores[(scores.metric == "association") & (scores.component == "mean") & (scores.concept == "")]
    for name in ("career", "family"):
        (value,) = sets[(sets.category == name) & (sets.encoder == "mean")].value
        assert table.loc[(MACHINE, name)].run == value
        assert table.loc[(MACHINE, name)].printed == ""


@pytest.mark.thorough
def test_editing_is_held_against_drawn_and_given_portraits(tmp_path):
    asked = load_suite("downstream/editing").model_dump()
    asked["images"] = {"group": 1}
    suite = suite_from_mapping(asked, source="toy")
    faces = tmp_path / "faces"
    faces.mkdir()
    for code in ("WF", "WM", "BF", "BM"):
        pixels = np.random.default_rng([*code.encode()]).integers(60, 220, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(faces / f"CFD-{code}-001-001-N.png")
    run = quick.audit(
        tiny_stable_diffusion(tmp_path / "stable-diffusion-2-1"), suite, tmp_path / "run",
        encoder=Eye(), portraits=faces, steps=2, device="cpu",
    )  # fmt: skip
    table = cm.paper_table(run, "downstream")
    assert set(table.table) == {"Table 1", "Section 1, edits"}  # the text prints two means of its table
    table = table[table.table == "Table 1"]
    assert len(table) == 2 * 48
    assert table.same_model.all()
    groups = {code: name for name, group in suite.groups.items() for code in group.codes}
    assert set(table.group) == set(groups.values()) == {groups[code] for code in CODES.values()}
    assert table[table.model == "CFD"].note.str.contains("portraits").sum() == 0
    assert table[table.model == "SD v2.1"].note.str.contains("the run's portraits are given").all()
    (flips,) = run.scores[
        (run.scores.component == "flip_rate_single_wording") & (run.scores.group == "African-American man")
        & (run.scores.category == "low-paid") & (run.scores.concept == "") & (run.scores.setting == "strength 0.8")
    ].value  # fmt: skip
    cell = table[
        (table.model == "CFD") & (table.column == "gender flips") & (table.group == "African-American man")
        & (table.category == "low-paid") & (table.setting == "strength 0.8")
    ]  # fmt: skip
    assert (cell.printed.item(), cell.run.item()) == ("0.42", flips)


@pytest.mark.parametrize(
    ("paper", "models", "code", "field", "said"),
    [
        ("mcsa", (), Code.UNKNOWN_NAME, "paper", "found 'mcsa'; did you mean mcas"),
        ("mcas", ("dalle-3",), Code.UNKNOWN_NAME, "paper_model", "found 'dalle-3'; did you mean dalle-2"),
        ("t2iat", (), Code.UNSUPPORTED, (), "suite xmcas: .*paper 't2iat'"),
        ("downstream", (), Code.UNSUPPORTED, (), "--suite downstream/editing"),
    ],
)
def test_what_cannot_be_compared_is_named(leaning, paper, models, code, field, said):
    with raises(InvalidInputError, code=code, field=field, match=said):
        cm.paper_table(leaning, paper, models=models)


def test_a_run_of_another_suite_is_no_reproduction(tmp_path):
    run = quick.audit(Painter(), toy_suite(), tmp_path / "run", encoder=Eye())
    with raises(InvalidInputError, code=Code.UNSUPPORTED):
        cm.paper_table(run, "mcas")


def test_the_command_prints_and_writes_it(leaning, association, tmp_path):
    shown = CliRunner().invoke(app, ["report", leaning.url, "--paper", "internal-bias"], env={"COLUMNS": "140"})
    assert shown.exit_code == 0, shown.output
    assert "Table 3: α" in shown.output
    assert "26.06" in shown.output
    assert f"The run's model is {SD2}, which is not DALL-E 2" in shown.output
    assert "The run was not made under the paper's protocol" in shown.output
    assert "above its own maximum" in shown.output
    written = pd.read_csv(Path(leaning.url) / "paper-internal-bias.csv", keep_default_na=False, dtype=str)
    assert len(written) == len(cm.paper_table(leaning, "internal-bias"))
    place = tmp_path / "table.parquet"
    shown = CliRunner().invoke(app, ["report", association.url, "--paper", "t2iat", "--out", str(place)])
    assert shown.exit_code == 0, shown.output
    assert "Departures from the protocol: model" in shown.output
    assert len(pd.read_parquet(place)) == 3 + 2 * 2
    assert models_of("t2iat") == {"stable-diffusion-2-1": "stable-diffusion-2-1"}
