"""Ratings in a run: taken in from files, sealed, scored, reported; and what cannot be one is refused by name."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import Code, RatingsError, RunCorruptError, RunMismatchError, RunNotFoundError
from clinometer.gates.gate import require_current_scores
from clinometer.pipeline.results import score_answers_again, write_report
from clinometer.ratings import (
    DEFAULTS,
    SCHEMA,
    Rated,
    add_ratings,
    draw_items,
    human_study,
    mixed_raters,
    over_prompts,
    ratings_of,
    readings_of,
    remove_ratings,
)
from clinometer.ratings.importing import import_ratings, read_ratings
from clinometer.studies import rated_of
from clinometer.studies.reporting import report_input
from tests import quick, toy_editing
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite


@pytest.fixture(scope="module")
def finished():
    return quick.finished(Painter(), toy_suite(target=8), encoder=Eye())


@pytest.fixture
def run(tmp_path, finished):
    shutil.copytree(finished.url, tmp_path / "run")
    return cm.open_run(tmp_path / "run")


def targets(run):
    samples = run.samples
    return samples[samples.role == "target"]


def write_csv(path, rows, head=("item", "rater", "answer")):
    path.write_text("\n".join(",".join(map(str, row)) for row in [head, *rows]) + "\n")
    return path


def answered(run, raters=2):
    """Every second image of each concept, answered as the encoder reads it."""
    read = readings_of(run, rated_of(run))["mean"]
    a, b = rated_of(run).groups
    return [
        (identifier, f"worker {k}", a if read[identifier] else b)
        for identifier in targets(run).id[::2]
        for k in range(raters)
    ]


def human(run, component):
    scores = run.scores
    return scores[(scores.metric == "human") & (scores.component == component)]


def test_readings_average_to_the_share(finished):
    read = readings_of(finished, rated_of(finished))["eye"]
    shares = finished.scores.query("metric == 'share' and component == 'share' and encoder == 'eye'")
    for row in shares.itertuples():
        ids = targets(finished)[lambda held, name=row.concept: held.concept == name].id
        assert np.mean([read[identifier] for identifier in ids]) == pytest.approx(row.value)


def test_a_table_of_answers_becomes_scores_and_a_section(run, tmp_path):
    found = import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", answered(run)))
    score_answers_again(run)
    assert (found.ratings, found.raters) == (len(answered(run)), 2)
    assert human(run, "alpha").value.item() == 1
    assert (human(run, "sensitivity").value.dropna() == 1).all()
    shares = human(run, "corrected_share")
    assert (shares.n_target == 8).all()
    assert (shares.n_a == 4).all()
    assert set(human(run, "tau").setting) >= {"mcas", "share"}
    assert verify_run(run.url) > 0


def test_others_scores_stay_as_they_were(run, tmp_path):
    before = run.scores
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", answered(run)))
    after = score_answers_again(run)
    assert after[after.metric != "human"].reset_index(drop=True).equals(before)


def test_the_same_file_is_taken_in_once(run, tmp_path):
    file = write_csv(tmp_path / "r.csv", answered(run))
    for _ in range(2):
        import_ratings(run, rated_of(run), file)
    assert len(ratings_of(run)) == len(answered(run))
    import_ratings(run, rated_of(run), write_csv(tmp_path / "other.csv", answered(run)[:2]))
    assert len(run.directory.names("ratings", ".parquet")) == 2


def test_raters_become_pseudonyms(run, tmp_path):
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", answered(run)))
    names = ratings_of(run).rater.unique()
    assert len(names) == 2
    assert not any("worker" in name for name in names)


def test_a_second_answer_is_a_repeat(run, tmp_path):
    first = answered(run, raters=1)[:4]
    changed = [(item, rater, "women" if answer == "men" else "men") for item, rater, answer in first[:1]]
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", [*first, *first[1:], *changed]))
    study = human_study(run, rated_of(run), run.scores)
    assert (study.same, study.repeats) == (3, 4)


@pytest.mark.parametrize("written", ["nan", "None", "N/A", "", " ", "#REF!"])
def test_a_missing_answer_is_none_and_is_told(run, tmp_path, written):
    rows = answered(run)
    gaps = [[*row[:2], written] if number % 4 == 1 else row for number, row in enumerate(rows)]
    without = [row for row in gaps if row[2] != written]
    gaps.append(["", "", ""])
    found = import_ratings(run, rated_of(run), write_csv(tmp_path / "gaps.csv", gaps))
    assert (found.ratings, found.missing) == (len(without), len(rows) - len(without))
    assert written.strip() not in found.answers
    with raises(RatingsError, code=Code.TOO_FEW, match="every answer is missing"):
        import_ratings(run, rated_of(run), write_csv(tmp_path / "no.csv", [[*row[:2], written] for row in rows]))


def test_mturk_and_label_studio_say_the_same(run, tmp_path):
    rows = answered(run)[:6]
    mturk = write_csv(
        tmp_path / "m.csv",
        [(f"https://x.example/{i}.png", r, a, "Approved", 3) for i, r, a in rows]
        + [(rows[0][0], "cheat", "men", "Rejected", 1)],
        ("Input.image_url", "WorkerId", "Answer.label", "AssignmentStatus", "WorkTimeInSeconds"),
    )
    tasks = [
        {"data": {"image": f"/data/{i}.png"}, "annotations": [
            {"completed_by": {"email": r}, "lead_time": 3, "result": [{"value": {"choices": [a]}}]},
            {"completed_by": 9, "was_cancelled": True, "result": []},
        ]}
        for i, r, a in rows
    ]  # fmt: skip
    studio = tmp_path / "s.json"
    studio.write_text(json.dumps(tasks))
    found = []
    for file in (mturk, studio):
        import_ratings(run, rated_of(run), file)
        held = ratings_of(run)
        found.append(held[held.source == held.source.iloc[-1]][["item", "answer", "seconds"]].to_numpy().tolist())
    assert found[0] == found[1]
    assert len(found[0]) == 6


@pytest.mark.parametrize(
    ("head", "row", "code", "said"),
    [
        (("item", "rater", "answer"), ("nothing", "r", "men"), Code.UNKNOWN_NAME, "line 2: 'nothing' is no item"),
        (("item", "who", "answer"), ("x", "r", "men"), Code.MISSING, "rater; found item, who, answer"),
        (("item", "rater", "answer"), ("ITEM", "", "men"), Code.MISSING, "line 2: the rater is empty"),
        (("item", "rater", "answer"), ("ITEM", "r", "yes"), Code.UNKNOWN_NAME, "answers: found yes, expected"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_and_leaves_nothing(run, tmp_path, head, row, code, said):
    row = [targets(run).id.iloc[0] if cell == "ITEM" else cell for cell in row]
    with raises(RatingsError, code=code, match=said):
        import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", [row], head))
    assert ratings_of(run).empty


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", Code.MALFORMED), ("{", Code.MALFORMED), ("[" * 100_000, Code.MALFORMED), ('{"a": 1}', Code.WRONG_TYPE),
        ('[{"a": 1}]', Code.MISSING), ('[{"data": {"x": 1}}]', Code.MISSING),
        ('[{"data": {"id": "x"}, "annotations": 3}]', Code.WRONG_TYPE),
        ('[{"data": {"id": "x"}, "annotations": [3]}]', Code.WRONG_TYPE),
        ('[{"data": {"id": "x"}, "annotations": [{"completed_by": 1, "result": {"a": 1}}]}]', Code.WRONG_TYPE),
        ('[{"data": {"id": "x"}, "annotations": [{"completed_by": 1, "result": [{"value": [1]}]}]}]', Code.TOO_FEW),
        ('[{"data": {"id": "x"}, "annotations": [{"completed_by": 1, "result": [{"value": {"choices": {"a": 1}}}]}]}]',
         Code.TOO_FEW),
        ('[{"data": {"id": "' + "x" * 5000 + '"}, "annotations": [{"completed_by": 1, "result": [{"value": '
         '{"choices": ["a"]}}]}]}]', Code.TOO_MANY),
    ],
)  # fmt: skip
def test_what_is_no_export_is_refused(run, tmp_path, content, code):
    file = tmp_path / "s.json"
    file.write_text(content)
    with raises(RatingsError, code=code, match=r"s\.json"):
        import_ratings(run, rated_of(run), file)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"item,rater,answer\n" + b"x" * 200_000, Code.MALFORMED),
        (b"\xff\xfe\0", Code.UNREADABLE),
        (b"item,rater\0,answer\nx", Code.MISSING),
    ],
)
def test_what_is_no_table_is_refused(run, tmp_path, content, code):
    file = tmp_path / "r.csv"
    file.write_bytes(content)
    with raises(RatingsError, code=code, match=r"r\.csv"):
        import_ratings(run, rated_of(run), file)


def test_a_file_without_end_is_not_read(run, tmp_path):
    file = tmp_path / "r.csv"
    with file.open("wb") as stream:
        stream.truncate(3_000_000_000)
    with raises(RatingsError, code=Code.TOO_MANY, match="100,000,000 bytes"):
        import_ratings(run, rated_of(run), file)


def test_a_missing_part_is_said_and_taken_in_again(run, tmp_path):
    file = write_csv(tmp_path / "r.csv", answered(run))
    import_ratings(run, rated_of(run), file)
    run.directory.remove("ratings/part-00000.parquet")
    with raises(RunCorruptError, code=Code.CORRUPT):
        ratings_of(run)
    import_ratings(run, rated_of(run), file)
    assert len(ratings_of(run)) == len(answered(run))


def test_going_on_with_a_run_misses_its_ratings(run, tmp_path):
    """What is drawn is drawn again where it is gone; what people said is not, and must not leave the scores unseen."""
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", answered(run)))
    score_answers_again(run)
    run.directory.remove("ratings/part-00000.parquet")
    with raises(RunCorruptError, code=Code.CORRUPT, match=r"part-00000\.parquet: it was written and is missing"):
        quick.audit(Painter(), toy_suite(target=8), run.url, encoder=Eye())


def test_a_changed_part_is_refused(run, tmp_path):
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", answered(run)))
    path = tmp_path / "run/ratings/part-00000.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with raises(RunCorruptError, code=Code.CORRUPT):
        ratings_of(run)


@pytest.mark.parametrize("size", [0, -5])
def test_images_that_were_drawn_from_nothing_are_refused(run, size):
    rows = [{"item": run.plan[0].id, "rater": "r", "answer": "woman", "stratum": "\x1b[31mx", "stratum_size": size}]
    add_ratings(run, "task", rows)
    with raises(
        RunCorruptError, code=Code.CORRUPT, match=r"ratings/part-00000\.parquet: .*'stratum_size' is below 1"
    ) as said:
        human_study(run, rated_of(run), run.scores)
    assert str(said.value).isprintable()


def test_scoring_again_keeps_the_rows_of_people(run, tmp_path):
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", answered(run)))
    before = score_answers_again(run).query("metric == 'human'").reset_index(drop=True)
    cm.score_run(run.url)
    after = cm.open_run(run.url).scores.query("metric == 'human'").reset_index(drop=True)
    assert after.equals(before)


# --- drawing items ---------------------------------------------------------------------------------------------------


def test_items_are_drawn_within_concepts_and_readings(finished):
    read = readings_of(finished, rated_of(finished))["mean"]
    for strata, most in (("concept", 4), ("reading", 4)):
        drawn = draw_items(finished, rated_of(finished), 4, strata=strata)
        counts = {name: sum(item.concept == name for item in drawn) for name in set(targets(finished).concept)}
        assert all(0 < n <= most for n in counts.values())
    for item in draw_items(finished, rated_of(finished), 4, strata="reading"):
        group = rated_of(finished).groups[0 if read[item.name] else 1]
        assert item.stratum == f"{item.concept}, read as {group}"
        ids = targets(finished)[lambda held, name=item.concept: held.concept == name].id
        assert item.stratum_size == sum(read[identifier] == read[item.name] for identifier in ids)


def test_one_seed_draws_one_sample(finished):
    first, again, other = (draw_items(finished, rated_of(finished), 3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_attention_items_were_drawn_for_a_group(finished):
    checks = [item for item in draw_items(finished, rated_of(finished), 1, attention=3) if item.attention]
    held = finished.samples.set_index("id")
    assert [held.group[item.name] for item in checks] == [item.attention for item in checks]
    assert len(checks) == 3


def test_a_concept_can_be_shown_at_once(finished):
    for item in draw_items(finished, rated_of(finished), 0, shown=5):
        assert item.name == f"concept:{item.concept}"
        assert len(set(item.pictures)) == 5
        assert set(item.pictures) <= set(targets(finished)[lambda held, item=item: held.concept == item.concept].id)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_every_prompt_gets_its_part(sizes, shown, seed):
    """Of m of N images between the whole numbers around m · shown / N, each image once, the same for one seed."""
    images = pd.DataFrame({"prompt": np.repeat([f"prompt {k}" for k in range(len(sizes))], sizes)})
    images["id"] = [f"image {k}" for k in range(len(images))]
    chosen, again = (over_prompts(images, shown, np.random.default_rng(seed)) for _ in range(2))
    assert chosen.id.tolist() == again.id.tolist()
    assert chosen.id.is_unique
    assert len(chosen) == min(shown, len(images))
    counts = chosen.prompt.value_counts()
    for k, size in enumerate(sizes):
        assert abs(counts.get(f"prompt {k}", 0) - size * len(chosen) / len(images)) < 1


@pytest.mark.thorough
def test_every_image_is_as_likely_as_every_other():
    """In 3,000 seeds, 20 of 250 images of 25 prompts: each as often as the others, and in every place."""
    images = pd.DataFrame({"prompt": np.repeat(range(25), 10).astype(str), "id": range(250)})
    drawn = [over_prompts(images, 20, np.random.default_rng(seed)) for seed in range(3000)]
    assert all(each.prompt.is_unique for each in drawn)  # 20 of the 25 kinds, where two were seen before
    counts = np.bincount(np.concatenate([each.id for each in drawn]), minlength=250)
    first = np.bincount([each.id.iloc[0] for each in drawn], minlength=250)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
    assert scipy.stats.chisquare(first).pvalue > 1e-4


# --- simulated raters ------------------------------------------------------------------------------------------------


def rows_of(run, rater, answer, **marks):
    return [{"item": item, "rater": rater, "answer": answer, **marks} for item in targets(run).id]


def test_simulated_raters_are_scored_apart(run):
    """What people said is scored as if simulated raters had never been there."""
    add_ratings(run, "task people", rows_of(run, "a", "man") + rows_of(run, "b", "woman"))
    alone = score_answers_again(run).query("metric == 'human'").reset_index(drop=True)
    add_ratings(run, "task demo", rows_of(run, "c", "man", simulated=True) + rows_of(run, "d", "man", simulated=True))
    both = score_answers_again(run)
    assert both.query("metric == 'human'").reset_index(drop=True).equals(alone)
    assert (both.query("metric == 'simulated' and component == 'share'").value == 1).all()
    assert remove_ratings(run, "task demo", simulated=True) == 2 * len(targets(run))
    assert set(score_answers_again(run).metric) >= {"human"}
    assert not (run.scores.metric == "simulated").any()


def test_a_part_of_an_earlier_version_is_told_by_its_raters_names(run):
    rows = [
        DEFAULTS | row | {"source": "task t"} for row in rows_of(run, "skill-98", "man") + rows_of(run, "0a1b", "man")
    ]
    old = pa.schema([field for field in SCHEMA if field.name != "simulated"])
    run.ledger.write_table("ratings/part-00000.parquet", pa.Table.from_pylist(rows, schema=old))
    run.ledger.list_files(["ratings/part-00000.parquet"])
    assert ratings_of(run).groupby("rater").simulated.all().to_dict() == {"skill-98": True, "0a1b": False}
    pooled_rows = run.scores.head(1).assign(metric="human", component="share")
    run.write_scores(pd.concat([run.scores, pooled_rows], ignore_index=True), run.curves)
    assert "counted simulated raters among them" in mixed_raters(run)
    assert mixed_raters(run) in report_input(run).damage
    with raises(RunNotFoundError, code=Code.NOT_FOUND, match="counted simulated raters"):
        require_current_scores(run)
    score_answers_again(run)
    assert not mixed_raters(run)


def test_an_exported_table_stays_marked_where_it_is_taken_in(run, tmp_path):
    rows = [(*row, "True") for row in answered(run, raters=1)] + [(*row, "") for row in answered(run, raters=2)]
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", rows, ("item", "rater", "answer", "simulated")))
    assert ratings_of(run).simulated.sum() == len(answered(run, raters=1))


def test_unknown_concepts_and_strata_are_refused(finished):
    with raises(RatingsError, code=Code.UNKNOWN_NAME, field="concept"):
        draw_items(finished, rated_of(finished), 2, concepts=["gaurd"])
    with raises(RatingsError, code=Code.UNKNOWN_NAME, field="strata"):
        draw_items(finished, rated_of(finished), 2, strata="gender")


def test_items_drawn_either_way_are_put_into_the_strata_of_the_readings(run):
    simple = draw_items(run, rated_of(run), 3, seed=1)
    by_reading = draw_items(run, rated_of(run), 4, strata="reading", seed=2)
    items = {"simple": simple, "strata": by_reading}
    read = readings_of(run, rated_of(run))["mean"]
    a, b = rated_of(run).groups
    for source, drawn in items.items():
        rows = [
            {"item": i.name, "rater": "r", "answer": a if read[i.name] else b, "stratum": i.stratum,
             "stratum_size": i.stratum_size}
            for i in drawn
        ]  # fmt: skip
        add_ratings(run, source, rows)
    for concept in human_study(run, rated_of(run), run.scores).concepts:
        assert concept.sizes.sum() == 8 or set(concept.sizes) <= set(range(1, 9))
        assert len(concept.strata) == concept.answers.shape[1]


def test_a_suite_of_no_two_groups_is_refused():
    with raises(RunMismatchError, code=Code.MISMATCH):
        _ = Rated("nothing").groups


# --- edits -----------------------------------------------------------------------------------------------------------


@pytest.mark.pages
def test_edits_are_rated_and_held_against_the_reader(tmp_path):
    suite = toy_editing.toy_suite()
    run = quick.audit(toy_editing.Recolourer(), suite, tmp_path / "run", encoder=toy_editing.Reader())
    items = draw_items(run, rated_of(run), 4, attention=2)
    edits = run.samples[run.samples.role == "edit"]
    assert {item.name for item in items if not item.attention} <= set(edits.id)
    assert {item.attention for item in items if item.attention} == {"man", "woman"}
    read = readings_of(run, rated_of(run))["mean"]
    assert set(read) == set(edits.id)
    rows = [(i, f"worker {k}", "Man" if read[i] else "woman") for i in edits.id[::2] for k in range(2)]
    import_ratings(run, rated_of(run), write_csv(tmp_path / "r.csv", rows))
    score_answers_again(run)
    assert (human(run, "sensitivity").value.dropna() == 1).all()
    shares = human(run, "corrected_share").query("encoder == 'mean'").set_index("concept").value
    for concept, held in edits.groupby("concept"):  # people see what the reader does, so the reader is right of all
        assert shares[concept] == pytest.approx(np.mean([read[i] for i in held.id]))
    write_report(run)
    assert "People and the machine" in run.directory.read_bytes("report.html").decode()


@pytest.mark.parametrize(
    ("head", "entries"),
    [
        (("Answer.gender.man", "Answer.gender.woman"), {"man": ("true", "false"), "woman": ("false", "true")}),
        (("Answer.man.on", "Answer.woman.on"), {"man": ("on", ""), "woman": ("", "on")}),
        (("Answer.taskAnswers",), {name: (json.dumps([{"gender": {"man": name == "man", "woman": name == "woman"}}]),)
                                   for name in ("man", "woman")}),
        (("choice",), {name: (json.dumps({"choices": [name]}),) for name in ("man", "woman")}),
    ],
)  # fmt: skip
def test_a_column_an_option_and_answers_as_json_are_read(run, tmp_path, head, entries):
    rows = [[item, rater, *entries[answer]] for item, rater, answer in answered(run)]
    pd.DataFrame(rows, columns=["item", "WorkerId", *head]).to_csv(tmp_path / "batch.csv", index=False)
    found = import_ratings(run, rated_of(run), tmp_path / "batch.csv")
    assert found.ratings == len(rows)
    assert set(found.answers) == {row[2] for row in answered(run)}


FORMS = {
    "Google Forms": ("Timestamp", "picture 1"), "Qualtrics": ("StartDate", "Finished", "ResponseId", "Q1"),
    "SurveyMonkey": ("Respondent ID", "Collector ID", "picture 1"), "Typeform": ("#", "picture 1", "Network ID"),
    "Microsoft Forms": ("ID", "Start time", "Completion time", "picture 1"),
    "LimeSurvey": ("id", "submitdate", "lastpage", "picture 1"), "REDCap": ("record_id", "picture 1"),
}  # fmt: skip


def test_a_row_of_several_options_or_questions_and_a_form_are_named(run, tmp_path):
    item = answered(run)[0][0]

    def refused(code, said, head, *cells):
        with raises(RatingsError, code=code) as caught:
            import_ratings(run, rated_of(run), write_csv(tmp_path / "batch.csv", [cells], head))
        assert said in str(caught.value)

    options = ("item", "WorkerId", "Answer.man", "Answer.woman")
    refused(Code.CONFLICT, "line 2: found man, woman chosen", options, item, "w", 1, 1)
    several = "found several answers, of Answer.gender, Answer.age; say which: --answer-column"
    refused(Code.CONFLICT, several, ("item", "WorkerId", "Answer.gender", "Answer.age"), item, "w", "man", "old")
    for form, head in FORMS.items():
        said = f"an export of {form}, which has a column a picture: make a row of each answer"
        refused(Code.MISSING, said, head, *head)
    columns = ("item", "rater", "answer")
    refused(Code.MISSING, "the rater is '#N/A'", columns, item, "#N/A", "man")
    refused(Code.DUPLICATE, "'answer' is there twice", (*columns, "answer"), item, "r", "man", "woman")
    refused(Code.MALFORMED, "more values than columns", columns, item, "r", "man", "x")
    (tmp_path / "open.csv").write_text(f'item,rater,answer\n{item},r,"man\n{item},s,woman\n')
    with raises(RatingsError, code=Code.MALFORMED, match="not CSV: unexpected end of data"):
        read_ratings(tmp_path / "open.csv")


def test_answers_in_a_column_of_mturk_in_json_and_in_several_controls_are_read(run, tmp_path):
    rows = answered(run)
    whole = read_ratings(write_csv(tmp_path / "a.csv", rows))
    head = ("Input.image", "WorkerId", "Answer.gender", "WorkTimeInSeconds")
    mturk = read_ratings(write_csv(tmp_path / "m.csv", [[*row, '"1,5"'] for row in rows], head))
    assert {each.seconds for each in mturk} == {1.5}
    own = [dict(zip(("item", "rater", "answer"), row, strict=True)) for row in rows]
    (tmp_path / "r.json").write_text(json.dumps(own))
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, own)))
    results = [{"from_name": "age", "value": {"choices": ["old"]}}, {"from_name": "g", "value": {"choices": ["men"]}}]
    tasks = [{"data": {"id": i}, "annotations": [{"completed_by": r, "result": results}]} for i, r, _ in rows]
    (tmp_path / "s.json").write_text(json.dumps(tasks))
    for found in (mturk, read_ratings(tmp_path / "r.json"), read_ratings(tmp_path / "r.jsonl")):
        assert [(e.item, e.rater, e.answer) for e in found] == [(e.item, e.rater, e.answer) for e in whole]
    with raises(RatingsError, code=Code.CONFLICT, match="task 1: .*age, g; .*--answer-column NAME"):
        read_ratings(tmp_path / "s.json")
    assert {each.answer for each in read_ratings(tmp_path / "s.json", {"answer": "g"})} == {"men"}


def test_ratings_are_read_as_spreadsheets_save_them(run, tmp_path):
    rows = [("item", "rater", "answer"), *answered(run)]
    text = "".join(";".join(row) + "\r\n" for row in rows)
    kinds = {"wide": text.encode("utf-16"), "named": b"sep=;\r\n" + text.encode(), "bare": text.encode("utf-16-le"),
             "marked": ("\ufeff" * 2 + text).encode(), "pipes": text.replace(";", "|").encode()}  # fmt: skip
    for name, content in kinds.items():
        (tmp_path / f"{name}.csv").write_bytes(content)
        assert len(read_ratings(tmp_path / f"{name}.csv")) == len(rows) - 1
    (tmp_path / "book.csv").write_bytes(b"PK\x03\x04")
    with raises(RatingsError, code=Code.NOT_TEXT, match="save the table as CSV"):
        read_ratings(tmp_path / "book.csv")


PAIR_HEAD = ("left", "right", "rater", "answer", "question")


def compared(run, raters=4):
    """Every rater compares pictures of concepts whose names are further on in the alphabet as larger."""
    ids = targets(run)[["id", "concept"]].itertuples(index=False)
    rows, every, rng = [], list(ids), np.random.default_rng(2)
    for k in range(raters):
        for _ in range(40):
            one, other = (every[at] for at in rng.permutation(len(every))[:2])
            larger = "tie" if one.concept == other.concept else "left" if one.concept > other.concept else "right"
            answer = rng.choice(["left", "right"]) if rng.random() < 0.3 else larger
            rows.append((one.id, other.id, f"worker {k}", answer, "Which is the larger?"))
    return rows


@pytest.mark.thorough
def test_pairs_become_strengths_and_a_section_and_are_taken_in_again(run, tmp_path):
    file = write_csv(tmp_path / "pairs.csv", compared(run), PAIR_HEAD)
    found = import_ratings(run, rated_of(run), file)
    score_answers_again(run)
    assert (found.raters, set(found.answers)) == (4, {"left", "right", "tie"})
    preferred = human(run, "preferred").set_index("concept").value
    assert list(preferred.sort_values().index) == sorted(preferred.index)
    assert (human(run, "preferred").setting == "Which is the larger?").all()
    assert human(run, "share").empty  # nobody rated a picture by itself
    assert len(human(run, "left")) == len(human(run, "tied")) == 1
    assert verify_run(run.url) > 0
    write_report(run)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Two pictures compared" in page
    assert f"Most often preferred: <bdi>{preferred.idxmax()}</bdi>" in page
    before = ratings_of(run)
    again = tmp_path / "again.csv"
    before.to_csv(again, index=False)
    remove_ratings(run, before.source[0])
    assert import_ratings(run, rated_of(run), again).ratings == found.ratings


@pytest.mark.parametrize(
    ("row", "code", "said"),
    [
        (("ONE", "OTHER", "me", "better"), Code.UNKNOWN_NAME, "line 2, answer: found 'better'"),
        (("ONE", "ONE", "me", "left"), Code.DUPLICATE, "line 2: .*the same picture"),
        (("ONE", "CONCEPT", "me", "left"), Code.TOO_MANY, "line 2, right: .*one picture"),
        (("ONE", "gone.png", "me", "left"), Code.UNKNOWN_NAME, r"line 2: 'gone.png' is no item of"),
        (("ONE", "", "me", "left"), Code.MISSING, "line 2: the right is empty"),
    ],
)
def test_a_pair_that_cannot_be_used_is_refused_and_leaves_nothing(run, tmp_path, row, code, said):
    names = {"ONE": targets(run).id.iloc[0], "OTHER": targets(run).id.iloc[1], "CONCEPT": targets(run).concept.iloc[0]}
    file = write_csv(tmp_path / "pairs.csv", [[names.get(each, each) for each in row]], PAIR_HEAD[:4])
    with raises(RatingsError, code=code, match=said):
        import_ratings(run, rated_of(run), file)
    assert ratings_of(run).empty
