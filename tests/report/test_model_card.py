"""A model card says what the report says, takes no name for markup, and leaves what is somebody else's alone."""

import re
from math import isfinite

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard
from huggingface_hub.repocard import REGEX_YAML_BLOCK
from huggingface_hub.repocard_data import model_index_to_eval_results
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.pipeline.results import render_html
from clinometer.report import wording
from clinometer.report.model_card import (
    BEGIN,
    END,
    CardInput,
    escaped,
    eval_results,
    fenced,
    is_ours,
    limits_of,
    listed_first,
    merged,
    one_line,
    section_of,
)
from clinometer.studies import study_of
from tests.raising import raises
from tests.report.hostile import HOSTILE, hostile_input
from tests.report.markdown import PLAIN, kinds, tables, text_of, tokens
from tests.report.page import Page
from tests.report.synthetic import small_input

USER_RESULT = EvalResult("text-to-image", "coco", "COCO", "fid", 12.5, metric_args={"n": 1})
OURS = [
    EvalResult(
        "text-to-image", "clinometer/mcas", "MCAS", "mcas", value,
        dataset_config="seed-0", dataset_args={"suite_fingerprint": "0"}, metric_name=f"MCAS, {value}",
    )
    for value in (0.1, 1e-17, -2.0)
]  # fmt: skip
CARDS = {
    "none": "",
    "text": "# A model\n\nIt draws.",
    "metadata": "---\nlicense: mit # as the paper's\ntags:   [a,  b]\n---\n# A model\n\nIt draws.\n",
    "comments": "---\n# see the docs\n{}\n---\n\n# A model\n",
    "only comments": "---\n# see the docs\n---\nIt draws.\n\n\n",
    "results": "---\nmodel-index:\n- name: mine\n  extra: kept\n  results:\n  - task: {type: text-to-image, odd: 1}\n"
    "    dataset: {type: coco, name: COCO}\n    metrics:\n    - {type: fid, value: 12.5, mine: yes}\n"
    "# about the licence\nlicense: mit\n---\nIt draws.\n",
    "several models": "---\nmodel-index:\n- {name: one, results: []}\n- {name: two, results: []}\n---\n",
    "no results yet": "---\nlicense: mit\nmodel-index:\ntags: [a]\n---\n",
    "lines of Windows": "---\r\nlicense: mit\r\n---\r\n# A model\r\n\r\nIt draws.\r\n",
    "a rule": "It draws.\n\n---\n\nIt writes.\n",
}


@pytest.fixture(params=CARDS.values(), ids=CARDS)
def card(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def run() -> CardInput:
    return of(small_input())


def of(report) -> CardInput:
    return CardInput(report, study_of(report.suite).page(report.suite), "clinometer audit")


def put(card: str, section: str = "## Ours", results=OURS) -> str:
    return merged(card, section, results, model_name="model", source="README.md")


def without_ours(text: str) -> tuple[str, object]:
    """What is left of a card without our section and results: its text, and its metadata."""
    body = ModelCard(text).text if text.startswith("---") else text
    before, _, rest = body.partition(BEGIN)
    found = REGEX_YAML_BLOCK.search(text)
    metadata = (yaml.safe_load(found[2]) or {}) if found else {}
    index = metadata.pop("model-index", None) or []
    theirs = [entry | {"results": [each for each in entry["results"] if not is_ours(each)]} for entry in index]
    return before.strip() + rest.partition(END)[2].strip(), (metadata, [each for each in theirs if each["results"]])


# algebra


@given(st.text())
def test_escaped_text_is_one_line_of_nothing_but_itself(text):
    shown = one_line(text)
    assert [text_of(token) for token in tokens(f"### {escaped(text)}\n") if token.type == "inline"] == [shown]
    if shown:
        block = tokens(f"{escaped(text)}\n")
        assert [token.type for token in block] == ["paragraph_open", "inline", "paragraph_close"]
        assert text_of(block[1]) == shown
        assert {child.type for child in block[1].children} <= PLAIN
    assert tables(f"| a | b |\n|---|---|\n| {escaped(text)} | c |") == [[["a", "b"], [shown, "c"]]]


@given(st.text(alphabet="`~<!->| \n'ab"))
def test_code_is_fenced_whatever_it_holds(text):
    (block,) = tokens(fenced(one_line(text), "sh"))
    assert (block.type, block.content) == ("fence", f"{one_line(text)}\n")


def test_writing_twice_changes_nothing(card):
    once = put(card)
    assert put(once) == once


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))


@pytest.mark.thorough
@given(
    st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda key: key != "model-index"), values, min_size=1),
    st.lists(st.sampled_from(["# A", "It draws.", "", "---", "<!-- x -->", "~~~"])).map("\n".join),
    st.sampled_from([None, "'", '"', "|"]),
    st.booleans(),
)
def test_any_metadata_and_text_stay(metadata, body, style, is_ascii):
    dumped = yaml.dump(metadata, default_style=style, default_flow_style=False, allow_unicode=not is_ascii)
    text = put(f"---\n{dumped}---\n{body}")
    assert put(text) == text
    assert dumped in text
    read, entries = without_ours(text)[1]
    assert (read, entries) == (yaml.safe_load(dumped), [])
    assert ModelCard(text).text.startswith(body)


def test_the_last_one_wins_and_leaves_no_trace_of_others(card):
    assert put(put(card, "## Others", OURS[:1])) == put(card)


def test_what_is_not_ours_stays(card):
    assert without_ours(put(card)) == without_ours(card)


def lines_of(card: str) -> list[str]:
    """Lines that say something, but those of the results."""
    kept, inside = [], False
    for line in card.splitlines():
        inside = line.startswith("model-index") or (inside and line.startswith((" ", "- ")))
        if not inside and line.strip() and line not in ("---", "{}"):
            kept.append(line)
    return kept


def test_lines_of_others_stay_to_the_letter(card):
    text = put(card)
    before, _, rest = text.partition(BEGIN)
    assert lines_of(before + rest.partition(END)[2]) == lines_of(card)
    if "\r\n" in card:
        assert "\n" not in text.replace("\r\n", "")


def test_the_hub_reads_our_results_back(card):
    read = ModelCard(put(card)).data.eval_results
    assert [result for result in read if result.dataset_type.startswith("clinometer/")] == OURS


def test_every_number_is_one_of_the_scores(run):
    scores = run.report.scores
    pictures = scores[(scores.metric == "mcas") & (scores.component == "image_part") & (scores.encoder == "mean")]
    by_name = pictures.set_index("concept")
    results = eval_results([run], rows=1000)
    assert len(results) == pictures.value.notna().sum() > 0
    for result in results:
        row = by_name.loc[result.metric_name.removeprefix("Image part, ").partition(" [")[0]]
        assert result.metric_value == row.value
        for name in ("low", "high", "q"):
            assert result.metric_args.get(name) == (row[name] if isfinite(row[name]) else None)
    digits = run.view.digits
    (shown,) = [table for table in tables(section_of([run], rows=1000, version="1")) if table[0][0] == "Concept"]
    assert {name: (value, interval) for name, value, interval, *_ in shown[1:]} == {
        name: (wording.signed(row.value, digits), wording.interval(row.low, row.high, digits))
        for name, row in by_name.iterrows()
    }


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_rows_are_listed_or_counted(run, rows):
    (verdicts,) = run.verdicts
    first, rest = listed_first(verdicts, rows)
    assert len(first) == min(rows, len(verdicts.rows))
    assert sorted(row.concept for row in first + rest) == sorted(row.concept for row in verdicts.rows)
    section = section_of([run], rows=rows, version="1")
    (shown,) = [table for table in tables(section) if table[0][0] == "Concept"]
    assert [row[0] for row in shown[1:]] == [verdicts.name(row) for row in first]
    assert (f"{len(rest)} of them are not listed" in section) is bool(rest)


# what it says


@pytest.mark.thorough
def test_it_says_what_the_report_says(run):
    section, page = section_of([run], rows=20, version="1.2.3"), Page(render_html(run.report))
    finding, strongest = run.page.finding(run.view), run.page.strongest(run.view)
    plain = " ".join(text_of(token) for token in tokens(section) if token.type == "inline")
    assert finding in plain
    assert strongest in plain
    head = page.find("header")[0].text
    assert finding in head
    assert re.search(r"\[.+?\]", strongest)[0] in head  # its score, below its pictures
    limits = limits_of(run.page, run.view)
    assert len(limits) > 5
    for lead, rest in limits:
        assert f"{lead} {rest}" in plain
        assert lead in page.by_id("limits").text
    assert "clinometer 1.2.3" in plain


def test_what_is_undefined_has_its_reason_and_no_number(run):
    scores = run.report.scores.copy()
    name = scores.concept[scores.concept != ""].iloc[0]
    of_it = (scores.concept == name) & (scores.metric == "mcas")
    scores.loc[of_it, ["value", "low", "high", "q"]] = float("nan")
    scores.loc[of_it, "reason"] = "no image of the target"
    scores.loc[of_it, "verdict"] = "not measured"
    without = of(small_input(scores=scores))
    section = section_of([without], rows=1000, version="1")
    (shown,) = [table for table in tables(section) if table[0][0] == "Concept"]
    assert [name, wording.MISSING, "", "", "not measured", "no image of the target"] in shown
    assert "Not measured: no image of the target (1 concept)." in section
    results = eval_results([without], rows=1000)
    assert len(results) == len(eval_results([run], rows=1000)) - 1
    assert not [result for result in results if result.metric_name.startswith(f"Image part, {name} [")]


def test_what_no_encoder_can_judge_has_its_reason_and_is_no_result(run):
    scores = run.report.scores.copy()
    judged = scores.verdict != ""
    scores.loc[judged, ["verdict", "side", "reason_code", "reason"]] = [Verdict.NOT_MEASURED, "", ReasonCode.DOMAIN, ""]
    unfit = of(small_input(scores=scores))
    section = section_of([unfit], rows=1000, version="1")
    (shown,) = [table for table in tables(section) if table[0][0] == "Concept"]
    assert all(
        row[4] == "not measured" and "the encoder does not fit the suite or the model" in row[5] for row in shown[1:]
    )
    assert eval_results([unfit], rows=1000) == []
    assert "model-index" not in put("", section, [])


def test_departures_refusals_and_damage_are_told(run):
    departures = [{"option": "steps", "paper": "50", "run": "20", "reason": "too slow"}]
    report = small_input(departures=departures, damage=["part-00001 is missing"])
    section = section_of([of(report)], rows=3, version="1")
    assert "Departure from the paper’s protocol: steps: the paper 50, this run 20 (too slow)." in section
    assert "part-00001 is missing" in section


def test_two_runs_of_one_suite_stay_apart(run):
    results = eval_results([run, run], rows=2)
    card = ModelCard(put("", section_of([run, run], rows=2, version="1"), results))
    assert [entry["dataset"]["config"] for entry in card.data.to_dict()["model-index"][0]["results"]] == [
        "seed-7",
        "seed-7-2",
    ]
    assert card.data.eval_results == results


# hostile names


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_adds_nothing_but_text(text):
    plain, hostile = (of(hostile_input(each)) for each in ("plain", text))
    section = section_of([hostile], rows=5, version="1")
    assert kinds(section) - PLAIN <= kinds(section_of([plain], rows=5, version="1"))
    counts = [len(table) for table in tables(section)]
    assert counts == [len(table) for table in tables(section_of([plain], rows=5, version="1"))]
    shown = " ".join(text_of(token) for token in tokens(section) if token.type == "inline")
    assert one_line(text) in shown
    card = put("# A model\n", section, eval_results([hostile], rows=5))
    assert put(card, section, eval_results([hostile], rows=5)) == card
    assert ModelCard(card).data.eval_results == eval_results([hostile], rows=5)


def test_a_name_cannot_end_our_section():
    hostile = of(hostile_input(f"a {END} {BEGIN}"))
    card = put("", section_of([hostile], rows=5, version="1"), eval_results([hostile], rows=5))
    body = ModelCard(card).text
    assert (body.count(BEGIN), body.count(END)) == (1, 1)
    assert put(card, "## Ours") == put("", "## Ours")


# cards that cannot be changed


@pytest.mark.parametrize(
    ("card", "code", "words"),
    [
        (f"# A\n{BEGIN}\n", Code.MALFORMED, f"1 of {BEGIN} and 0 of {END}"),
        (f"{END}\n{BEGIN}\n", Code.MALFORMED, f"1 of {BEGIN} and 1 of {END}"),
        (f"{BEGIN}{END}{BEGIN}{END}", Code.MALFORMED, f"2 of {BEGIN} and 2 of {END}"),
        ("---\n- a\n---\n", Code.WRONG_TYPE, "metadata is a list"),
        ("---\na: [\n---\n", Code.UNREADABLE, "line 1"),
        ("---\na: !!bool perhaps\n---\n", Code.UNREADABLE, "'perhaps'"),
        ("---\n{a: 1}\n---\n", Code.UNSUPPORTED, "braces"),
        ("---\nmodel-index: 3\n---\n", Code.WRONG_TYPE, "model-index"),
        ("---\nmodel-index:\n- name: a # mine\n  results: []\n---\n", Code.UNSUPPORTED, "comment within model-index"),
        ("---\nmodel-index: []\nmodel-index: []\n---\n", Code.DUPLICATE, "model-index 2 times"),
        ("---\nmodel-index:\n- &one {name: a, results: []}\nother: *one\n---\n", Code.UNREADABLE, "'one'"),
    ],
)
def test_what_would_lose_something_is_refused(card, code, words):
    with raises(InvalidInputError, code=code, match=f"README.md: .*{words}"):
        put(card)


def test_a_number_sign_in_a_name_is_no_comment():
    card = '---\nmodel-index:\n- name: "a #1"\n  results: []\n---\n'
    assert ModelCard(put(card)).data.model_name == "a #1"


def test_metadata_without_a_number_stay():
    card = "---\nmodel-index:\n- name: a\n  results:\n  - {task: {type: a}, loss: .nan}\nloss: .nan\n---\n"
    assert "loss: .nan\n---" in put(card)
    assert put(put(card)) == put(card)


def test_ours_are_known_by_what_only_ours_have():
    (entry,) = ModelCard(put("")).data.to_dict()["model-index"][0]["results"]
    assert is_ours(entry)
    for other in (None, {}, {"dataset": "x"}, {"dataset": {"type": "clinometer/mcas", "args": None}}):
        assert not is_ours(other)
    _, kept = model_index_to_eval_results([{"name": "a", "results": [entry]}])
    assert kept == OURS
