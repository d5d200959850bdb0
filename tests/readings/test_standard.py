"""A declared standard: its file, the rows of a run, and what the commands say of it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import clinometer as cm
from clinometer import api
from clinometer.cli.app import app
from clinometer.errors import Code, SuiteError
from clinometer.gates import policy_from_mapping
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, errors_elsewhere, reading_rows
from clinometer.metrics.transport import ReadPictures
from clinometer.readings.standard import compare_with_standard, read_reference, shares_of_readers
from clinometer.suites import load_suite
from clinometer.suites.base import Reference
from tests.raising import raises

OCCUPATIONS = {"nurse": 0.87, "teacher": 0.73, "engineer": 0.16, "CEO": 0.29, "lawyer": 0.4, "pilot": 0.09,
               "cashier": 0.71, "librarian": 0.83, "carpenter": 0.03, "doctor": 0.44}  # fmt: skip
HEAD = "concept,group,share,n,source,year,code\n"


def standard_text(shares=OCCUPATIONS, n=500):
    rows = [f"{name},woman,{share},{n},,,x{at}" for at, (name, share) in enumerate(shares.items())]
    return HEAD + "\n".join(rows).replace(",,,", ",A survey,2024,", 1) + "\nchef,woman,no match,,,,\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Counts that exaggerate a standard, and the standard."""
    place = tmp_path_factory.mktemp("standard")
    odds = {name: share / (1 - share) for name, share in OCCUPATIONS.items()} | {"chef": 0.1}
    counts = {name: round(60 * o**1.8 / (1 + o**1.8)) for name, o in odds.items()}
    rows = [f"{name},{group},{k}" for name, n in counts.items() for group, k in (("woman", n), ("man", 60 - n))]
    (place / "counts.csv").write_text("concept,group,n\n" + "\n".join(rows))
    (place / "standard.csv").write_text(standard_text())
    return place


@pytest.fixture(scope="module")
def run(files):
    """The counts compared with the standard."""
    return api.import_counts(files / "counts.csv", files / "run", reference=files / "standard.csv")


def test_a_file_is_read_as_it_says(files):
    found = read_reference(files / "standard.csv")
    assert found.cited == "A survey, 2024"
    assert found.shares["nurse"] == {"woman": 0.87}
    assert found.shares["chef"] == {}
    assert found.n["nurse"] == 500
    assert found.codes["CEO"] == "x3"


def test_a_standard_error_is_worth_people(tmp_path):
    (tmp_path / "s.csv").write_text("concept,group,share,se,source\nnurse,woman,0.8,0.02,S\npilot,woman,0.1,,S\n")
    found = read_reference(tmp_path / "s.csv")
    assert found.n == {"nurse": pytest.approx(0.8 * 0.2 / 0.02**2)}
    assert found.of_groups({"w": "Woman"})["pilot", "w"] == (0.1, np.inf)


def test_yaml_says_the_same_and_may_have_a_margin(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "source: S\nyear: 2024\nmargin: 0.1\nshares:\n  nurse: {woman: 0.8}\nn: {nurse: 90}\n"
    )
    found = read_reference(tmp_path / "s.yaml")
    assert (found.year, found.margin, found.n["nurse"]) == ("2024", 0.1, 90)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", Code.MISSING, "line 1: .*concept"),
        (HEAD, Code.TOO_FEW, ""),
        ("concept,group,shares,source\n", Code.MISSING, "line 1: .*shares, source; share "),
        ("concept,group,share,sauce\n", Code.UNKNOWN_NAME, "line 1: .*mean source"),
        (HEAD + "nurse,woman,0.8,,,,\n", Code.MISSING, "source: "),
        (HEAD + "nurse,woman,80,,S,,\n", Code.OUT_OF_RANGE, "line 2, share: .*80, .*0 to 1"),
        (HEAD + "nurse,woman,80 %,,S,,\n", Code.WRONG_TYPE, "line 2, share: '?.*0.47 for 47 %"),
        (HEAD + "nurse,woman,nan,,S,,\nnurse,,0.4,,,,\n", Code.MISSING, "line 3, group: "),
        (HEAD + ",woman,0.8,,S,,\n", Code.MISSING, "line 2, concept: "),
        (HEAD + "nurse,woman,0.8,,S,,\nnurse,woman,0.7,,,,\n", Code.DUPLICATE, "line 3: nurse, woman"),
        (HEAD + "nurse,woman,0.8,,S,,\nnurse,man,0.7,,,,\n", Code.OUT_OF_RANGE, r"shares\.nurse: .*1\.5"),
        (HEAD + "nurse,woman,0.8,0,S,,\n", Code.OUT_OF_RANGE, "line 2, n: found 0, expected 1"),
        (HEAD + "nurse,woman,0.8,-3,S,,\n", Code.OUT_OF_RANGE, "line 2, n: found -3"),
        (HEAD + "nurse,woman,no match,,S,,\n", Code.TOO_FEW, "shares: "),
        ("concept,group,share,n,se,source\nnurse,woman,.8,5,.1,S\n", Code.CONFLICT, "line 2: n and se"),
        ("concept,group,share,se,source\nnurse,woman,1,.1,S\n", Code.UNDEFINED, "line 2, se: .*give n"),
    ],
)  # fmt: skip
def test_what_is_no_standard_is_refused_with_its_place(tmp_path, text, code, words):
    (tmp_path / "standard.csv").write_text(text)
    with raises(SuiteError, code=code, match=rf"^[^\n]*standard\.csv[:,] {words}"):
        read_reference(tmp_path / "standard.csv")


def test_a_missing_file_and_another_suites_standard_are_refused(tmp_path, files):
    with raises(SuiteError, code=Code.UNREADABLE):
        read_reference(tmp_path / "none.csv")
    suite, other = load_suite("mcas"), read_reference(files / "standard.csv")
    other = other.model_copy(update={"shares": {"nurse!": {"woman": 0.4}}, "n": {}, "codes": {}})
    with raises(SuiteError, code=Code.MISMATCH):
        suite.with_reference(other, "standard.csv")


def test_a_suite_may_declare_it_and_a_quick_look_keeps_it(tmp_path):
    declared = {"source": "S", "shares": {"nurse": {"woman": 0.8}}}
    suite = load_suite("mcas").checked(load_suite("mcas").model_dump() | {"reference": declared}, source="s")
    assert suite.with_options(concepts=["CEO"]).reference == suite.reference
    other = suite.model_dump() | {"reference": {"source": "S", "shares": {"nurses": {"woman": 0.8}}}}
    (tmp_path / "s.yaml").write_text(json.dumps(other))
    with raises(SuiteError, code=Code.MISMATCH):
        load_suite(tmp_path / "s.yaml")


def test_a_standard_changes_nothing_that_is_asked(files):
    suite = load_suite("mcas")
    concept = suite.concept_names()[0]
    reference = read_reference(files / "standard.csv").model_copy(
        update={"shares": {concept: {"woman": 0.4}}, "n": {}, "codes": {}}
    )
    declared = suite.with_reference(reference, "s")
    assert declared.fingerprint == suite.fingerprint
    assert declared.content == suite.content
    assert suite.model_dump().get("reference", "") == ""


def test_a_run_of_counts_has_both_verdicts(run):
    scores = run.scores
    rows = scores[(scores.metric == "standard") & (scores.component == "difference")].set_index("concept")
    excess = scores[(scores.component == "excess") & (scores.group == "woman")].set_index("concept")
    share = scores[(scores.metric == "share") & (scores.component == "share") & (scores.group == "woman")].set_index(
        "concept"
    )
    for name, rho in OCCUPATIONS.items():
        assert rows.value[name] == pytest.approx(share.value[name] - rho)
    assert excess.verdict["lawyer"] != rows.verdict["lawyer"] or excess.verdict["lawyer"] == "undecided"
    assert "chef" not in rows.index
    slope = scores[(scores.metric == "standard") & (scores.component == "slope")].iloc[0]
    assert slope.low > 1
    assert slope.n_a == len(OCCUPATIONS)
    others = scores[scores.metric != "standard"].reset_index(drop=True)
    assert len(others) == len(scores) - 10 * 3 - 1 - 3


def test_the_page_and_the_terminal_say_it(files, run):
    page = (files / "run/report.html").read_text()
    assert "Compared with a declared standard" in page
    assert "A survey, 2024" in page
    assert "The standard has no match for chef" in page.replace("<bdi>", "").replace("</bdi>", "")
    shown = CliRunner().invoke(app, ["score", run.url])
    assert "differences between concepts are larger than in the standard" in shown.output.replace("\n", " ")


def answered(contexts):
    """Ten concepts of 60 pictures each, as a reader with errors reads them; known pictures of these contexts."""
    odds = np.linspace(-2, 2, 10)
    shown = np.round(60 / (1 + np.exp(-odds))).astype(int)
    read = np.round(0.9 * shown + 0.2 * (60 - shown)).astype(int)
    concepts = tuple(ConceptAnswers(f"c{i}", "", np.array([k, 60 - k, 0])) for i, k in enumerate(read))
    rows = [
        (t, r, f"m{m}") for m, hits in enumerate(contexts) for t in (0, 1) for r in (0, 1) for _ in range(hits[t][r])
    ]
    truths, answers, models = (np.array(each) for each in zip(*rows, strict=True))
    known = np.zeros((2, 3), int)
    np.add.at(known, (truths, answers), 1)
    pictures = ReadPictures(answers, contexts=models.astype(str)[:, None])
    return AnsweredQuestion("r", "q", ("woman", "man"), concepts, known, "labelled", pictures, truths)


def test_a_readers_shares_are_compared_without_its_errors():
    asked = answered([((45, 5), (10, 40)), ((45, 5), (10, 40))])
    standard = {f"c{i}": {"woman": float(1 / (1 + np.exp(-odds)))} for i, odds in enumerate(np.linspace(-2, 2, 10))}
    suite = SimpleNamespace(reference=Reference(source="S", shares=standard), label_of=str)
    rows = compare_with_standard(suite, shares_of_readers([asked], reading_rows([asked])))
    found = {(row.component, row.concept): row for row in rows}
    assert all(abs(found["difference", name].value) < 0.03 for name in standard)
    assert found["slope", ""].value == pytest.approx(1, abs=0.1)
    assert all(row.encoder == "r" for row in rows)


def test_errors_that_vary_between_models_are_worth_fewer_pictures():
    alike = answered([((45, 5), (10, 40)), ((45, 5), (10, 40))])
    assert errors_elsewhere(alike).sum() <= alike.known.sum()
    unlike = answered([((49, 1), (1, 49)), ((35, 15), (20, 30))])
    assert errors_elsewhere(unlike).sum() < errors_elsewhere(alike).sum() / 3


def test_gates_hold_the_distance(run):
    near = policy_from_mapping({"rules": [{"metric": "standard", "component": "difference", "within": 0.5}]})
    beyond = {"metric": "standard", "component": "further", "concept": "teacher", "at_most": -0.05}
    far = policy_from_mapping({"rules": [beyond]})
    assert cm.gate(run.url, near).outcome == "holds"
    assert cm.gate(run.url, far).outcome == "broken"


def test_another_standard_is_declared_when_scoring_and_the_record_keeps_both(files, run):
    other = files / "other.csv"
    other.write_text(standard_text(dict.fromkeys(OCCUPATIONS, 0.5)))
    scores = api.score_run(run.url, reference=other)
    rows = scores[(scores.metric == "standard") & (scores.component == "slope")]
    assert "hardly more than their own errors" in rows.reason.iloc[0] or np.isnan(rows.value.iloc[0])
    record = json.loads((files / "run/run.json").read_text())
    assert record["suite"]["reference"]["shares"]["nurse"] == {"woman": 0.87}
    assert record["suite_options"][0]["new"]["shares"]["nurse"] == {"woman": 0.5}
    assert cm.open_run(run.url).suite.reference.shares["nurse"] == {"woman": 0.5}
    api.verify_run(run.url)
